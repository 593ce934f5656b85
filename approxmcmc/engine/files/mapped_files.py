"""Arrays in files: mapped, never in memory as a whole, with their disk space reserved in advance.

A file with a name belongs to some data, is shared by chains, runs and processes, and is written atomically. A file
without a name is scratch, and disappears with its process.
"""

import errno
import mmap
import os
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from approxmcmc.engine.files.paths import why_not_trusted
from approxmcmc.engine.files.whole_files import remove_leftovers, whole_file
from approxmcmc.engine.messages import detail, tell
from approxmcmc.errors import InvalidInputError

TOLD = 10**8  # bytes; a message reports the writing of a larger file, because it takes a second or more
A_BLOCK_AT_MOST = 3600.0  # seconds; a file that has not grown for so long belongs to a killed writer


def is_mapped(array: np.ndarray) -> bool:
    """Return whether an array is a view of a mapped file."""
    return _mapped(array) is not None


def has_named_file(array: np.ndarray) -> bool:
    """Return whether an array is a view of a mapped file with a name."""
    return getattr(_mapped(array), "filename", None) is not None


def _mapped(array: np.ndarray) -> Any:
    base: Any = array
    while base is not None and not isinstance(base, (np.memmap, mmap.mmap)):
        base = getattr(base, "base", None)
    return base


def named_array(
    path: Path, shape: tuple[int, ...], dtype: np.dtype, blocks: Iterable[np.ndarray], *, who: str, mode: str = "r"
) -> np.ndarray:
    """Return the array in the file `path`, mapped; if the file is missing, write `blocks`, the rows in pieces, first.

    `mode` as in `numpy.memmap`: "r" for a read-only array, "c" for a copy-on-write array. `who` begins messages.

    Raises
    ------
    InvalidInputError
        When there is no space for the file, or another user may have written it.
    """
    n_bytes = int(np.prod(shape)) * dtype.itemsize
    remove_leftovers(path, untouched_for=A_BLOCK_AT_MOST)
    if not path.exists():
        (tell if n_bytes >= TOLD else detail)("%s: %.3g GB are written once to %s", who, n_bytes / 1e9, path.parent)
        path.parent.mkdir(parents=True, exist_ok=True)
        with whole_file(path) as temporary, temporary.open("wb") as file:
            header = {"descr": dtype.str, "fortran_order": False, "shape": shape}
            np.lib.format.write_array_header_1_0(file, header)  # type: ignore[arg-type]  # its type asks for more
            claim_room(file.fileno(), file.tell() + n_bytes, path.parent, who=who)
            for block in blocks:
                file.write(block.data)
    if why := why_not_trusted(path):
        raise InvalidInputError(f"{who}: its file {path.name} is not read: {why}")
    return np.asarray(np.load(path, mmap_mode=mode))  # type: ignore[arg-type]  # a literal there


def nameless_array(shape: tuple[int, ...], dtype: Any, folder: Path, *, who: str) -> np.ndarray:
    """Return an uninitialised array in a temporary file in `folder`; the file disappears however the process ends.

    Raises
    ------
    InvalidInputError
        When there is no space for it.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryFile(dir=folder) as file:
        claim_room(file.fileno(), int(np.prod(shape)) * np.dtype(dtype).itemsize, folder, who=who)
        return np.asarray(np.memmap(file, dtype, "w+", shape=shape))  # type: ignore[call-overload]


def claim_room(descriptor: int, n_bytes: int, folder: Path, *, who: str) -> None:
    """Reserve `n_bytes` for an open file now; raise InvalidInputError if the disk is full.

    Otherwise writing to a mapped file on a full disk would kill the process. Nothing is done if the system, or the file
    system, cannot reserve space.
    """
    if not hasattr(os, "posix_fallocate"):  # macOS and Windows
        return
    try:
        os.posix_fallocate(descriptor, 0, n_bytes)
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):  # a file system without reservations
            return
        raise InvalidInputError(
            f"{who}: no room for {n_bytes / 1e6:.0f} MB in {folder} ({error.strerror}); name a folder on a larger "
            "disk, or, for the folder of caches, set the variable APPROXMCMC_CACHE_DIR"
        ) from error
