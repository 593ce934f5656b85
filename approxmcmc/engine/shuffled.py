"""A copy of the data in random order; in memory, or on disk.

Every array with a row for each of the N terms is copied row by row; others pass through. The copy is written front to
back in pieces, so that data on disk (`numpy.memmap`) are never in memory as a whole.
"""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from approxmcmc.contracts import CompiledTarget
from approxmcmc.engine.mapped_files import nameless_array
from approxmcmc.engine.passes import over_blocks
from approxmcmc.engine.paths import user_cache
from approxmcmc.errors import IncompatibleError, InvalidInputError

PLACES = ("memory", "disk")
PIECE_BYTES = 1 << 22
TERMS_COMPARED = 1000


def by_row(data: Sequence[np.ndarray], n_obs: int) -> list[bool]:
    """Return for each array of the data whether it has a row for each of the `n_obs` terms."""
    return [array.ndim > 0 and array.shape[0] == n_obs for array in data]


def word_of(data: Sequence[np.ndarray], n_obs: int) -> type[np.signedinteger]:
    """Return the integers as which rows are moved: the largest that divide every number of every array by row."""
    sizes = [array.dtype.itemsize for array, moved in zip(data, by_row(data, n_obs), strict=True) if moved]
    return np.dtype(f"i{min(sizes, default=8)}").type


def check_place(place: str, *, who: str) -> None:
    """Refuse a place that is neither a known word nor a folder."""
    if not isinstance(place, str) or (place not in PLACES and not Path(place).is_dir()):
        raise InvalidInputError(
            f"{who}: shuffled_copy must be one of {PLACES} or a folder that exists, found {place!r}"
        )


def shuffled_copy(
    data: Sequence[np.ndarray], permutation: np.ndarray, place: str
) -> tuple[tuple[np.ndarray, ...], tuple[np.ndarray, ...]]:
    """Return the data in the order of `permutation`, and what a reshuffle moves.

    Parameters
    ----------
    data
        C-contiguous arrays of numbers or truth values, of 1, 2, 4 or 8 bytes each.
    permutation
        Row numbers in their new order; shape (N,).
    place
        ``"memory"``; ``"disk"``: a nameless file below the package's cache folder; or a folder for that file.

    Returns
    -------
    copy, rows
        `copy` has the types of `data`, and is read-only where those are. `rows` are writable views of the same memory
        as integers of `word_of`, shape (N, width): moving bits is all that a shuffle does.
    """
    n_obs, word = len(permutation), word_of(data, len(permutation))
    copy: list[np.ndarray] = []
    rows: list[np.ndarray] = []
    for array, copied in zip(data, by_row(data, n_obs), strict=True):
        if not copied:
            copy.append(array)
            continue
        new = _allocate(array, place)
        piece = max(1, PIECE_BYTES * n_obs // max(array.nbytes, 1))

        def move(lo: int, hi: int, new: np.ndarray = new, array: np.ndarray = array) -> None:
            np.take(array, permutation[lo:hi], axis=0, out=new[lo:hi], mode="clip")  # "raise" makes a copy

        for _ in over_blocks(move, n_obs, piece):
            pass
        rows.append(new.view(word).reshape(n_obs, -1))
        view = new.view()
        view.flags.writeable = array.flags.writeable
        copy.append(view)
    return tuple(copy), tuple(rows)


def _allocate(array: np.ndarray, place: str) -> np.ndarray:
    if place == "memory" or array.size == 0:
        return np.empty(array.shape, array.dtype)
    folder = user_cache("shuffled_data") if place == "disk" else Path(place)
    return nameless_array(array.shape, array.dtype, folder, who="shuffled_copy")


def check_rows_are_terms(
    target: CompiledTarget, copy: tuple[np.ndarray, ...], permutation: np.ndarray, theta: np.ndarray
) -> int:
    """Compare some terms in the copy with the terms that they should be; return how many terms were evaluated.

    Raises
    ------
    IncompatibleError
        When a term depends on more than its own row: on its place, on its neighbours, or on an array that has N rows by
        chance. Shuffled, such data mean something else.
    """
    n = min(len(permutation), TERMS_COMPARED)
    point = theta + 0.1 * np.sin(1.0 + np.arange(len(theta)))  # away from a start where all terms are equal
    moved, expected = np.empty(n), np.empty(n)
    target.log_terms(point, copy, np.empty(0, dtype=np.int64), 0, n, moved)
    target.log_terms(point, target.data, permutation[:n], 0, n, expected)
    if not np.allclose(moved, expected, rtol=1e-9, atol=1e-12, equal_nan=True):
        raise IncompatibleError(
            "the terms of this target change when its rows are shuffled: a term must depend on its own row alone, in "
            "every array with n_obs rows. Give the test order='rows', which leaves the data where they are"
        )
    return 2 * n
