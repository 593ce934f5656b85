"""Arrays in files of bare numbers that grow at their end: what a file held before stays as it is.

A file is longer than its rows: the rest is room, a hole that takes no space on most file systems, so that the file can
be mapped together with rows that come later (`grown_arrays`). What counts is written elsewhere, in a small file that is
replaced as a whole once the rows are on the disk: how many rows there are, their hashes, and the state of the file.
After a kill the small file still describes the rows before.
"""

import hashlib
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from approxmcmc.contracts.hashing import in_threads
from approxmcmc.engine.files.grown_arrays import GROWTH, mapped_with_room, note_stored, stored_rows
from approxmcmc.errors import InvalidInputError

PIECE = 1 << 24  # bytes written or hashed at a time


class RowsFile(NamedTuple):
    """An array in a file: the name of the file, the shape of a row, the type, and what was written, piece by piece.

    `ends` are the numbers of rows after each piece, `hashes` the SHA-256 of the bytes of each; `state` is the size of
    the file and its time of modification, when they were written.
    """

    name: str
    row_shape: tuple[int, ...]
    dtype: str
    ends: tuple[int, ...]
    hashes: tuple[str, ...]
    state: tuple[int, int]

    @property
    def bytes_of_row(self) -> int:
        """Bytes of a row."""
        return int(np.prod(self.row_shape, dtype=np.int64)) * np.dtype(self.dtype).itemsize

    @classmethod
    def of_json(cls, values: Sequence[Any]) -> "RowsFile":
        """Return what `json` has read."""
        name, row_shape, dtype, ends, hashes, state = values
        return cls(name, tuple(row_shape), dtype, tuple(ends), tuple(hashes), (state[0], state[1]))


def write_rows(folder: Path, name: str, rows: np.ndarray, stored: RowsFile | None) -> RowsFile:
    """Write an array to a file below `folder`; only its last rows, if the file `stored` holds the first ones.

    Otherwise a new file is written, so that a reader of the old one is not disturbed.
    """
    rows = np.ascontiguousarray(rows)
    if stored is not None:
        path = folder / stored.name
        there = stored_rows(rows, path)
        if there and there == stored.ends[-1] and stored.dtype == rows.dtype.str and path.exists():
            return stored if there == len(rows) else _written(path, rows, stored)
    number = 0 if stored is None else 1 + int(stored.name.split(".")[-2])
    while (folder / f"{name}.{number}.rows").exists():
        number += 1
    path = folder / f"{name}.{number}.rows"
    return _written(path, rows, RowsFile(path.name, rows.shape[1:], rows.dtype.str, (), (), (0, 0)))


def _written(path: Path, rows: np.ndarray, stored: RowsFile) -> RowsFile:
    first = stored.ends[-1] if stored.ends else 0
    digest = hashlib.sha256()
    step = max(1, PIECE // max(stored.bytes_of_row, 1))
    with path.open("r+b" if stored.ends else "xb") as file:
        file.seek(first * stored.bytes_of_row)
        for lo in range(first, len(rows), step):
            piece = np.ascontiguousarray(rows[lo : lo + step]).data.cast("B")
            digest.update(piece)
            file.write(piece)
        file.flush()
        if os.fstat(file.fileno()).st_size < (len(rows) + 1) * stored.bytes_of_row:
            file.truncate((int(GROWTH * len(rows)) + 1) * stored.bytes_of_row)
        os.fsync(file.fileno())
        status = os.fstat(file.fileno())
    note_stored(rows, path)
    state = (status.st_size, status.st_mtime_ns)
    return stored._replace(ends=(*stored.ends, len(rows)), hashes=(*stored.hashes, digest.hexdigest()), state=state)


def read_rows(folder: Path, stored: RowsFile, *, check: bool | None) -> np.ndarray:
    """Return the mapped array in a file, after a check.

    `check` says whether to compare the hashes of all rows, which reads them; None: only if size or time of modification
    of the file is not what it was when the rows were written.

    Raises
    ------
    InvalidInputError
        If the file is missing, cut off, or damaged.
    """
    path = folder / stored.name
    if not path.is_file():
        raise InvalidInputError(f"{path} is missing; copy the whole folder {folder} again from where it is intact")
    status = path.stat()
    if check or (check is None and (status.st_size, status.st_mtime_ns) != stored.state):
        _compare(path, stored)
    return mapped_with_room(path, stored.ends[-1], stored.row_shape, np.dtype(stored.dtype))


def _compare(path: Path, stored: RowsFile) -> None:
    """Raise if rows of a file are not as they were written."""
    starts = (0, *stored.ends[:-1])

    def hash_of(k: int) -> bytes:
        digest = hashlib.sha256()
        with path.open("rb") as file:
            file.seek(starts[k] * stored.bytes_of_row)
            left = (stored.ends[k] - starts[k]) * stored.bytes_of_row
            while left and (piece := file.read(min(PIECE, left))):
                digest.update(piece)
                left -= len(piece)
        return digest.digest()

    for k, found in enumerate(in_threads(hash_of, range(len(stored.ends)))):
        if found.hex() != stored.hashes[k]:
            raise InvalidInputError(
                f"{path} is damaged: rows {starts[k]} to {stored.ends[k] - 1} are not as they were written. Copy the "
                "folder again from where it is intact, or make the target again"
            )
