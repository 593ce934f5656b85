"""Arrays in files: mapped, never in memory as a whole, and with their room claimed beforehand."""

import errno
import mmap
import os
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from approxmcmc.errors import InvalidInputError


def is_mapped(array: np.ndarray) -> bool:
    """Return whether an array is a view of a mapped file."""
    base: Any = array
    while base is not None and not isinstance(base, (np.memmap, mmap.mmap)):
        base = getattr(base, "base", None)
    return base is not None


def nameless_array(shape: tuple[int, ...], dtype: Any, folder: Path, *, who: str) -> np.ndarray:
    """Return an empty array in a file that has no name, or loses it when closed: however the process ends, it is gone.

    Raises
    ------
    InvalidInputError
        When there is no room for it.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryFile(dir=folder) as file:
        claim_room(file.fileno(), int(np.prod(shape)) * np.dtype(dtype).itemsize, folder, who=who)
        return np.asarray(np.memmap(file, dtype, "w+", shape=shape))  # type: ignore[call-overload]


def claim_room(descriptor: int, n_bytes: int, folder: Path, *, who: str) -> None:
    """Claim the space now: a write to a mapped file that finds the disk full kills the process, a claim is refused."""
    if not hasattr(os, "posix_fallocate"):  # macOS and Windows
        return
    try:
        os.posix_fallocate(descriptor, 0, n_bytes)
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):  # a file system that takes no claims
            return
        raise InvalidInputError(
            f"{who}: no room for {n_bytes / 1e6:.0f} MB in {folder} ({error.strerror}); name a folder on a larger "
            "disk, by the variable APPROXMCMC_CACHE_DIR if it is that of caches"
        ) from error
