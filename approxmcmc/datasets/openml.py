"""Download from OpenML through scikit-learn, in a process of its own that can be stopped.

A socket that hangs cannot be interrupted from inside its thread, and a download that goes on in the background would
disturb what is being timed. So the download is a child process, killed when its time is over.
"""

import contextlib
import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

from approxmcmc.datasets.places import write_arrays
from approxmcmc.errors import DatasetError

TIME_LIMIT = 20.0  # seconds
QUIET_PERIOD = 600.0  # seconds after a failure in which no other process tries again
CHILD = "import sys; from approxmcmc.datasets.openml import save; save(sys.argv[1])"
N_TRAIN = 60_000  # of the 70000 images, in their original order


def download(path: Path, *, insist: bool = False, child: str | None = None) -> None:
    """Download the images of 7 and 9, or what `child` fetches, to `path`, in at most `TIME_LIMIT` seconds.

    Parameters
    ----------
    path
        The ``.npz`` file to write.
    insist
        Try even when another attempt has failed within `QUIET_PERIOD` seconds.
    child
        Python code of the process that downloads; its argument is the path.

    Raises
    ------
    DatasetError
        When the time is over or the download fails.
    """
    failure = path.with_suffix(".failed")
    if not insist:
        _refuse_soon_after(failure)
    try:
        run_limited([sys.executable, "-c", child or CHILD, str(path)], TIME_LIMIT)
    except DatasetError as error:
        with contextlib.suppress(OSError):  # a read-only cache only loses the note
            failure.parent.mkdir(parents=True, exist_ok=True)
            failure.write_text(str(error), encoding="utf-8")
        raise
    failure.unlink(missing_ok=True)


def run_limited(command: list[str], seconds: float) -> None:
    """Run a command, and kill it when it takes longer than `seconds`.

    Raises
    ------
    DatasetError
        When the command fails or is killed; with the last line that it printed to its standard error.
    """
    # The child must find this very package, however the parent found it.
    package_root = str(Path(__file__).resolve().parents[2])
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([package_root, *filter(None, sys.path)])}
    try:
        subprocess.run(command, check=True, capture_output=True, text=True, timeout=seconds, env=environment)
    except subprocess.TimeoutExpired as error:
        raise DatasetError(f"the download was stopped after {seconds:g} s") from error
    except subprocess.CalledProcessError as error:
        last_line = (error.stderr.strip().splitlines() or [f"exit status {error.returncode}"])[-1]
        raise DatasetError(f"the download failed: {last_line}") from error


def fetch_sevens_and_nines() -> dict[str, np.ndarray]:
    """Fetch all of MNIST through scikit-learn and keep the sevens and nines, in the original order."""
    from sklearn.datasets import fetch_openml

    images, labels = fetch_openml("mnist_784", version=1, return_X_y=True, as_frame=False, n_retries=1, delay=0.1)
    labels = np.asarray(labels).astype(np.uint8)
    kept = np.flatnonzero((labels == 7) | (labels == 9))
    pixels = np.asarray(images)[kept].astype(np.uint8)
    n_train = int(np.searchsorted(kept, N_TRAIN))
    return {
        "X_train": pixels[:n_train],
        "y_train": labels[kept[:n_train]],
        "X_test": pixels[n_train:],
        "y_test": labels[kept[n_train:]],
    }


def save(path: str) -> None:
    """Fetch the images and write them to `path`: what the child process does."""
    write_arrays(Path(path), fetch_sevens_and_nines())


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
