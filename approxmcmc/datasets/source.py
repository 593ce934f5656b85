"""Find the arrays of a data set: in the user's folder, in the user's cache, or by a download.

All places give the same arrays, verified by their checksum.
"""

import contextlib
import dataclasses
import importlib
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np

from approxmcmc.datasets.dataset import Dataset, checksum
from approxmcmc.engine.files.paths import CACHE_VARIABLE, user_cache
from approxmcmc.engine.files.whole_files import whole_file
from approxmcmc.errors import DatasetError, DatasetWarning, InvalidInputError, warn

Arrays = tuple[np.ndarray, ...]


def as_they_are(arrays: Mapping[str, np.ndarray]) -> Arrays:
    """Return the arrays of a file, given by name, in the order of `Source.arrays`."""
    return tuple(arrays.values())


@dataclasses.dataclass(frozen=True)
class Download:
    """A possible download.

    `place` is its name in `Source.find`, `fetch` the function ``module:name`` that fetches the arrays of the file, and
    `origin` their origin, for messages.
    """

    place: str
    fetch: str
    origin: str


@dataclasses.dataclass(frozen=True)
class Source:
    """The declaration of a data set's arrays.

    Attributes
    ----------
    title
        Name of the data in messages.
    file_name
        Name of the ``.npz`` file, in the user's folder or in the cache.
    arrays
        Names of the arrays in the file.
    sha256
        Checksum of the output of `decode`; see `approxmcmc.datasets.dataset.checksum`.
    decode
        Function that converts the arrays in the file, by name, to those that `find` returns.
    download
        A download of the data, if there is one.
    """

    title: str
    file_name: str
    arrays: tuple[str, ...]
    sha256: str
    decode: Callable[[Mapping[str, np.ndarray]], Arrays] = as_they_are
    download: Download | None = None

    def find(self, source: str = "auto") -> tuple[Arrays, str]:
        """Return the arrays from the first place that has them, and a text on where they come from.

        Parameters
        ----------
        source
            "folder", "cache", the `place` of the download, or "auto": all of these, in this order.

        Raises
        ------
        InvalidInputError
            When the data set has no such place.
        DatasetError
            When no place has the data, or the file in the user's folder has other content.
        """
        places = ("folder", "cache", *([self.download.place] if self.download else []))
        if source not in ("auto", *places):
            raise InvalidInputError(f"source must be one of {('auto', *places)}, found {source!r}.")
        asked = places if source == "auto" else (source,)
        folder = data_folder()
        cached = cache_folder() / self.file_name
        answer = "not asked"
        if "folder" in asked and folder is not None and (folder / self.file_name).exists():
            return self._read(folder / self.file_name), f"{self.file_name} in the folder of {DATA_VARIABLE}"
        if "cache" in asked and cached.exists():
            try:
                downloaded_from = f", from {self.download.origin}" if self.download else ""
                return self._read(cached), f"the user's cache{downloaded_from}"
            except DatasetError as error:
                warn(f"{error} This file is ignored; the next place is tried.", DatasetWarning)
        if self.download is not None and self.download.place in asked:
            try:
                download(cached, self.download.fetch, insist=source != "auto")
                return self._read(cached), f"{self.download.origin}, kept in {cached}"
            except DatasetError as error:
                answer = str(error)
        raise DatasetError(
            f"{self.title} was not found (source={source!r}). Its places: (1) the folder of {DATA_VARIABLE}: "
            f"{'the variable is not set' if folder is None else folder / self.file_name}; (2) the user's cache: "
            f"{cached}; (3) {f'{self.download.origin}: {answer}' if self.download else 'there is no download'}. "
            f"Put {self.file_name} into one of the two folders (set {DATA_VARIABLE} or {CACHE_VARIABLE})"
            f"{', or connect to the network and try again' if self.download else ''}."
        )

    def _read(self, path: Path) -> Arrays:
        arrays = self.decode(read_arrays(path, self.arrays))
        actual = checksum(*arrays)
        if actual != self.sha256:
            raise DatasetError(
                f"{path} does not hold {self.title}: the checksum of its arrays is {actual}, needed is {self.sha256}. "
                "Replace or remove the file."
            )
        return arrays


def or_stand_in(load: Callable[[], Dataset], stand_in: Callable[[], Dataset], *, allow_synthetic: bool) -> Dataset:
    """Return ``load()``; if the data are not available, warn and return ``stand_in()``, or raise if not allowed.

    Raises
    ------
    DatasetError
        When the data are not available and `allow_synthetic` is False.
    """
    try:
        return load()
    except DatasetError as error:
        if not allow_synthetic:
            raise DatasetError(f"{error} If real data are not needed, give allow_synthetic=True.") from None
        warn(f"a synthetic stand-in replaces the data. {error}", DatasetWarning)
        return stand_in()


DATA_VARIABLE = "APPROXMCMC_DATA_DIR"


def data_folder() -> Path | None:
    """Return the folder that ``APPROXMCMC_DATA_DIR`` names, or None."""
    named = os.environ.get(DATA_VARIABLE)
    return Path(named) if named else None


def cache_folder() -> Path:
    """Return the folder of downloaded data, in the user's cache."""
    return user_cache("datasets")


def read_arrays(path: Path, names: tuple[str, ...]) -> dict[str, np.ndarray]:
    """Return the arrays with these names in a ``.npz`` file; objects are never unpickled.

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
        raise DatasetError(f"{path} cannot be read as a data set with {', '.join(names)}: {error}.") from error


def write_arrays(path: Path, arrays: Mapping[str, np.ndarray]) -> None:
    """Write named arrays atomically: a reader never sees a partial file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with whole_file(path) as temporary, temporary.open("wb") as stream:
        np.savez_compressed(stream, **arrays)  # type: ignore[arg-type]  # the stub takes arrays for flags


TIME_LIMIT = 20.0  # seconds
QUIET_PERIOD = 600.0  # seconds after a failed download in which no process tries again
CHILD = "import sys; from approxmcmc.datasets.source import save; save(*sys.argv[1:])"


def download(path: Path, fetch: str, *, insist: bool = False, child: str = CHILD) -> None:
    """Download what `fetch` returns to `path`, in at most `TIME_LIMIT` seconds.

    Parameters
    ----------
    path
        The ``.npz`` file to write.
    fetch
        The function that fetches, as ``module:name``; it takes no arguments and returns arrays by name.
    insist
        Try even if an attempt has failed in the last `QUIET_PERIOD` seconds.
    child
        Python code of the process that downloads; its arguments are the path and `fetch`.

    Raises
    ------
    DatasetError
        When the time is over, the download fails, or, without `insist`, one failed in the last `QUIET_PERIOD` seconds.
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
    if 0.0 <= age < QUIET_PERIOD:  # below 0: the clock was set back, and the note does not say when the failure was
        raise DatasetError(
            f"not tried, because {age:.0f} s ago {failure.read_text(encoding='utf-8')} (the next attempt is made "
            f"{QUIET_PERIOD:g} s after that one, or as soon as {failure} is deleted)"
        )
