"""Arrays in files: mapped, never in memory as a whole, with their disk space reserved in advance.

A file with a name belongs to some data, is shared by chains, runs and processes, and is written atomically, with a
checksum. The first use in a process computes the checksum again, which reads the file once: .7 s of CPU time per GB,
spread over all cores. A run reads all rows once more, for the hash of its target. A file without a name is scratch, and
disappears with its process.
"""

import errno
import mmap
import os
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from approxmcmc.engine.files.checksums import why_damaged
from approxmcmc.engine.files.paths import make_private, why_not_trusted
from approxmcmc.engine.files.whole_files import remove_leftovers, whole_file
from approxmcmc.engine.messages import detail, tell
from approxmcmc.errors import CacheWarning, InvalidInputError, warn

TOLD = 10**8  # bytes; a message reports the writing of a larger file, because it takes a second or more
_checked: set[tuple[Any, ...]] = set()  # states of files whose checksum this process has found right


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
    path: Path, shape: tuple[int, ...], dtype: np.dtype, blocks: Iterable[np.ndarray], *, purpose: str, mode: str = "r"
) -> np.ndarray:
    """Return the array in the file `path`, mapped; write `blocks`, the rows in pieces, if the file is missing.

    The stem of the file's name must identify the data. `mode` as in `numpy.memmap`: "r" for a read-only array, "c" for
    a copy-on-write array. `purpose` begins messages.

    Raises
    ------
    InvalidInputError
        When there is no space for the file, another user may have written it, or the rows have another shape.

    Warns
    -----
    CacheWarning
        When the file is damaged, or holds other rows or types: it is written again.
    """
    remove_leftovers(path)
    if path.exists():
        _refuse_untrusted(path, purpose)
        if why := _why_unusable(path, shape, dtype):
            warn(f"{purpose}: {path} is not used, and is written again: {why}", CacheWarning)
            _write(path, shape, dtype, blocks, purpose=purpose)
    else:
        _write(path, shape, dtype, blocks, purpose=purpose)
    _refuse_untrusted(path, purpose)
    return np.asarray(np.load(path, mmap_mode=mode))  # type: ignore[arg-type]  # a literal there


def _write(path: Path, shape: tuple[int, ...], dtype: np.dtype, blocks: Iterable[np.ndarray], *, purpose: str) -> None:
    n_bytes = int(np.prod(shape)) * dtype.itemsize
    (tell if n_bytes >= TOLD else detail)("%s: %.3g GB are written once to %s", purpose, n_bytes / 1e9, path.parent)
    make_private(path.parent)
    with whole_file(path, checksum=True, content=path.stem, private=True) as temporary:
        with temporary.open("wb") as file:
            header = {"descr": dtype.str, "fortran_order": False, "shape": shape}
            np.lib.format.write_array_header_1_0(file, header)  # type: ignore[arg-type]  # its type asks for more
            first = file.tell()
            claim_room(file.fileno(), first + n_bytes, path.parent, purpose=purpose)
            for block in blocks:
                file.write(block.data)
            written = file.tell() - first
        if written != n_bytes:
            raise InvalidInputError(
                f"{purpose}: rows of shape {shape} and type {dtype} need {n_bytes} bytes, and the blocks had "
                f"{written}; the data have changed since they were opened: open them again"
            )
    _checked.add(_state(path))


def _refuse_untrusted(path: Path, purpose: str) -> None:
    if why := why_not_trusted(path):
        raise InvalidInputError(f"{purpose}: its file {path.name} is not read: {why}")


def _why_unusable(path: Path, shape: tuple[int, ...], dtype: np.dtype) -> str | None:
    """Return why a file is not the one that holds these rows; None if it is."""
    if _state(path) not in _checked:
        if why := why_damaged(path, content=path.stem):
            return why
        _checked.add(_state(path))
    try:
        rows = np.load(path, mmap_mode="r")
    except (ValueError, EOFError) as error:
        return f"NumPy cannot read it ({error})"
    if (rows.shape, rows.dtype) != (shape, dtype):
        return f"it holds rows of shape {rows.shape} and type {rows.dtype}, needed are {shape} and {dtype}"
    return None


def _state(path: Path) -> tuple[Any, ...]:
    status = path.stat()
    return str(path), status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns


def nameless_array(shape: tuple[int, ...], dtype: Any, folder: Path, *, purpose: str) -> np.ndarray:
    """Return an uninitialised array in a temporary file in `folder`; the file disappears however the process ends.

    Raises
    ------
    InvalidInputError
        When there is no space for it.
    """
    make_private(folder)
    with tempfile.TemporaryFile(dir=folder) as file:
        claim_room(file.fileno(), int(np.prod(shape)) * np.dtype(dtype).itemsize, folder, purpose=purpose)
        return np.asarray(np.memmap(file, dtype, "w+", shape=shape))  # type: ignore[call-overload]


def claim_room(descriptor: int, n_bytes: int, folder: Path, *, purpose: str) -> None:
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
            f"{purpose}: no room for {n_bytes / 1e6:.0f} MB in {folder} ({error.strerror}); name a folder on a larger "
            "disk, or, for the folder of caches, set the variable APPROXMCMC_CACHE_DIR"
        ) from error
