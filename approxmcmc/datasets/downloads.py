"""Where data sets are stored on this computer, and how they are downloaded: through scikit-learn, in a child process.

A thread that waits for a socket cannot be interrupted, and a download that continues in the background would disturb
timings. So the download is a child process, killed when its time is over.
"""

import contextlib
import importlib
import os
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from approxmcmc.engine.files.paths import user_cache
from approxmcmc.engine.files.whole_files import whole_file
from approxmcmc.errors import DatasetError

DATA_VARIABLE = "APPROXMCMC_DATA_DIR"


def data_folder() -> Path | None:
    """Return the folder that ``APPROXMCMC_DATA_DIR`` names, or None."""
    named = os.environ.get(DATA_VARIABLE)
    return Path(named) if named else None


def cache_folder() -> Path:
    """Return the folder of downloaded data."""
    return user_cache("datasets")


def read_arrays(path: Path, names: tuple[str, ...]) -> dict[str, np.ndarray]:
    """Read named arrays from a ``.npz`` file; objects are never unpickled.

    Raises
    ------
    DatasetError
        When the file is damaged or lacks an array. A missing file raises FileNotFoundError.
    """
    try:
        with path.open("rb") as stream, np.load(stream, allow_pickle=False) as stored:
            return {name: stored[name] for name in names}
    except FileNotFoundError:
        raise
    except Exception as error:  # a damaged archive fails in many ways: zip, zlib, numpy's header, a missing key
        raise DatasetError(f"{path} cannot be read as a data set with {', '.join(names)}: {error}") from error


def write_arrays(path: Path, arrays: Mapping[str, np.ndarray]) -> None:
    """Write named arrays atomically: a reader never sees a partial file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with whole_file(path) as temporary, temporary.open("wb") as stream:
        np.savez_compressed(stream, **arrays)  # type: ignore[arg-type]  # the stub takes arrays for flags


TIME_LIMIT = 20.0  # seconds
QUIET_PERIOD = 600.0  # seconds after a failure in which no other process tries again
CHILD = "import sys; from approxmcmc.datasets.downloads import save; save(*sys.argv[1:])"


def download(path: Path, fetch: str, *, insist: bool = False, child: str = CHILD) -> None:
    """Download what `fetch` returns to `path`, in at most `TIME_LIMIT` seconds.

    Parameters
    ----------
    path
        The ``.npz`` file to write.
    fetch
        The function that fetches, as ``module:name``; it takes no arguments and returns arrays by name.
    insist
        Try even if another attempt has failed within `QUIET_PERIOD` seconds.
    child
        Python code of the process that downloads; its arguments are the path and `fetch`.

    Raises
    ------
    DatasetError
        When the time is over or the download fails.
    """
    failure = path.with_suffix(".failed")
    if not insist:
        _refuse_soon_after(failure)
    try:
        run_limited([sys.executable, "-c", child, str(path), fetch], TIME_LIMIT)
    except DatasetError as error:
        with contextlib.suppress(OSError):  # a read-only cache cannot store the note, which is harmless
            failure.parent.mkdir(parents=True, exist_ok=True)
            failure.write_text(str(error), encoding="utf-8")
        raise
    failure.unlink(missing_ok=True)


def run_limited(command: list[str], seconds: float) -> None:
    """Run a command, and kill it when it takes longer than `seconds`.

    Raises
    ------
    DatasetError
        When the command fails or is killed; the message has the last line of its standard error.
    """
    # The child must import this same package, however the parent found it.
    package_root = str(Path(__file__).resolve().parents[2])
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([package_root, *filter(None, sys.path)])}
    try:
        subprocess.run(command, check=True, capture_output=True, text=True, timeout=seconds, env=environment)
    except subprocess.TimeoutExpired as error:
        raise DatasetError(f"the download was stopped after {seconds:g} s") from error
    except subprocess.CalledProcessError as error:
        last_line = (error.stderr.strip().splitlines() or [f"exit status {error.returncode}"])[-1]
        raise DatasetError(f"the download failed: {last_line}") from error


def save(path: str, fetch: str) -> None:
    """Write the arrays that the function ``module:name`` returns to `path`; runs in the child process."""
    module, name = fetch.split(":")
    write_arrays(Path(path), getattr(importlib.import_module(module), name)())


def _refuse_soon_after(failure: Path) -> None:
    try:
        age = time.time() - failure.stat().st_mtime
    except FileNotFoundError:
        return
    if age < QUIET_PERIOD:
        raise DatasetError(
            f"not tried, because {age:.0f} s ago {failure.read_text(encoding='utf-8')} (the next attempt is made "
            f"{QUIET_PERIOD:g} s after that one, or as soon as {failure} is deleted)"
        )
