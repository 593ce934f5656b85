"""Arrays that grow by rows: old rows are not copied, and arrays that end before the new rows stay valid.

An array that has grown is the beginning of a longer buffer. More rows are written behind its end, and the result is a
longer view of the same buffer; a copy is made only when the buffer is full, and then of twice as many rows, so that a
row is copied a few times however often an array grows. If the place behind an array is taken, because the same array
has grown by other rows before, the array is copied too: no view ever changes.

A buffer of a mapped array is a mapped file. It can be a file with a name whose end is empty (`mapped_with_room`): what
is written there stays in the memory of this process, and the file is unchanged.
"""

import mmap
import threading
import weakref
from pathlib import Path
from typing import NamedTuple

import numpy as np

from approxmcmc.engine.files.mapped_files import is_mapped, nameless_array
from approxmcmc.engine.files.paths import user_cache
from approxmcmc.errors import InvalidInputError

GROWTH = 1.5  # rows of a new buffer, over the rows that it must hold
COPIED = 1 << 16  # rows copied at a time, so that arrays on disk are never in memory as a whole
_filled: dict[int, int] = {}  # number of rows in use by the identity of a buffer
_stored: dict[int, "Stored"] = {}  # the file that holds the first rows of a buffer, by its identity
_lock = threading.Lock()


class Stored(NamedTuple):
    """A file of bare numbers that holds `n_rows` rows of a buffer, from row `first` of the buffer on."""

    path: Path
    first: int
    n_rows: int


def followed_by(rows: np.ndarray, more: np.ndarray) -> np.ndarray:
    """Return an array of `rows`, then those of `more`; with the same flags as `rows`.

    Parameters
    ----------
    rows
        A C-contiguous array of shape (n, ...), which no other code may change from now on.
    more
        An array of shape (m, ...), of numbers that the type of `rows` holds exactly.

    Raises
    ------
    InvalidInputError
        If the shapes do not fit, or a number would be rounded.

    Examples
    --------
    >>> first = np.zeros((2, 3))
    >>> grown = followed_by(first, np.ones((1, 3)))
    >>> again = followed_by(grown, np.ones((1, 3)))
    >>> grown.shape, again.shape, np.shares_memory(grown, again)
    ((3, 3), (4, 3), True)
    """
    converted = exactly_as(more, rows.dtype)
    if converted.shape[1:] != rows.shape[1:]:
        raise InvalidInputError(f"rows of shape {rows.shape[1:]} are needed, found {converted.shape[1:]}")
    n = len(rows)
    end = n + len(converted)
    with _lock:
        buffer, first = _room_behind(rows, len(converted)) or (_moved(rows, end), 0)
        buffer[first + n : first + end] = converted
        _filled[id(buffer)] = first + end
    grown = np.asarray(buffer)[first : first + end]
    grown.flags.writeable = rows.flags.writeable
    return grown


def exactly_as(numbers: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """Return numbers in another type; raise if one of them would be rounded."""
    if numbers.dtype == dtype:
        return numbers
    converted = numbers.astype(dtype)
    if not np.array_equal(converted, numbers):
        raise InvalidInputError(
            f"the new rows hold {numbers.dtype} numbers that {dtype}, the type of the old rows, would round; convert "
            f"them first, rows.astype({dtype.name!r}), if that is meant"
        )
    return converted


def without_rows(rows: np.ndarray, lo: int, hi: int) -> np.ndarray:
    """Return the array without the rows lo ... hi - 1: a view if they are the first or the last, else a copy."""
    if lo == 0:
        return rows[hi:]
    if hi == len(rows):
        return rows[:lo]
    rest = _new_buffer(rows[:lo], len(rows) - (hi - lo))
    with _lock:
        for start in range(hi, len(rows), COPIED):
            piece = rows[start : start + COPIED]
            target_row = lo + start - hi
            rest[target_row : target_row + len(piece)] = piece
        _filled[id(rest)] = len(rows) - (hi - lo)
    kept = np.asarray(rest)[: len(rows) - (hi - lo)]
    kept.flags.writeable = rows.flags.writeable
    return kept


def mapped_with_room(path: Path, n_rows: int, row_shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """Return the first `n_rows` rows of a file of bare numbers, mapped; rows added to it do not change the file.

    The file may be longer, up to its room for more rows. The array is read-only.
    """
    of_row = int(np.prod(row_shape, dtype=np.int64)) * dtype.itemsize
    room = path.stat().st_size // of_row
    if room < n_rows:
        raise InvalidInputError(f"{path} holds {room} rows, and {n_rows} are needed: it was cut off")
    with path.open("rb") as file:
        memory = mmap.mmap(file.fileno(), room * of_row, access=mmap.ACCESS_COPY)
    buffer: np.ndarray = np.ndarray((room, *row_shape), dtype, buffer=memory)
    with _lock:
        _keep_count(buffer, n_rows)
    rows = buffer[:n_rows]
    note_stored(rows, path)
    rows.flags.writeable = False
    return rows


def note_stored(rows: np.ndarray, path: Path) -> None:
    """Note that a file holds all rows of an array, so that later only the rows behind them are written."""
    buffer = _owner(rows)
    if rows.size and rows.flags.c_contiguous and id(buffer) not in _stored:
        weakref.finalize(buffer, _stored.pop, id(buffer), None)
    if rows.size and rows.flags.c_contiguous:
        _stored[id(buffer)] = Stored(path, _first_row(rows, buffer), len(rows))


def stored_rows(rows: np.ndarray, path: Path) -> int:
    """Return how many of the first rows of an array a file holds; 0 if it is not known to hold them."""
    buffer = _owner(rows)
    stored = _stored.get(id(buffer))
    if stored is None or not rows.size or stored.path != path or stored.first != _first_row(rows, buffer):
        return 0
    return stored.n_rows if stored.n_rows <= len(rows) else 0


def _first_row(rows: np.ndarray, buffer: np.ndarray) -> int:
    """Return the row of its buffer at which a contiguous array begins."""
    offset = rows.__array_interface__["data"][0] - buffer.__array_interface__["data"][0]
    return int(offset // max(rows.strides[0], 1))


def _moved(rows: np.ndarray, at_least: int) -> np.ndarray:
    """Return a new buffer that begins with `rows`, which a file may hold."""
    buffer = _new_buffer(rows, at_least)
    old = _owner(rows)
    stored = _stored.get(id(old))
    if stored is not None and stored.first == _first_row(rows, old) and stored.n_rows <= len(rows):
        note_stored(buffer[: stored.n_rows], stored.path)
    return buffer


def _room_behind(rows: np.ndarray, n_more: int) -> tuple[np.ndarray, int] | None:
    """Return the buffer of which an array is a view, and the row where it begins; None without room for more rows."""
    buffer = _owner(rows)
    if id(buffer) not in _filled or not rows.flags.c_contiguous or not rows.size or rows.dtype != buffer.dtype:
        return None
    of_row = buffer.strides[0]
    offset = rows.__array_interface__["data"][0] - buffer.__array_interface__["data"][0]
    first = offset // of_row
    end = first + len(rows)
    is_last = offset % of_row == 0 and end == _filled[id(buffer)]
    return (buffer, first) if is_last and end + n_more <= len(buffer) else None


def _owner(rows: np.ndarray) -> np.ndarray:
    """Return the array that owns the memory of a view, or the first that was made on foreign memory."""
    owner = rows
    while isinstance(owner.base, np.ndarray):
        owner = owner.base
    return owner


def _new_buffer(rows: np.ndarray, at_least: int) -> np.ndarray:
    """Return a buffer that begins with `rows`, and has room for half as many rows more than `at_least`."""
    shape = (int(GROWTH * at_least) + 1, *rows.shape[1:])
    if is_mapped(rows):
        buffer = _owner(nameless_array(shape, rows.dtype, user_cache("laid_out_rows"), purpose="append"))
    else:
        buffer = np.empty(shape, rows.dtype)
    for start in range(0, len(rows), COPIED):
        piece = rows[start : start + COPIED]
        buffer[start : start + len(piece)] = piece
    _keep_count(buffer, len(rows))
    return buffer


def _keep_count(buffer: np.ndarray, n_rows: int) -> None:
    """Note how many rows of a buffer are in use; forget it when the buffer is freed."""
    _filled[id(buffer)] = n_rows
    weakref.finalize(buffer, _filled.pop, id(buffer), None)
