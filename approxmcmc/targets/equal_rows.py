"""Find equal rows among arrays with a row for each datum.

One pass hashes every row; a second compares rows with equal hashes, number by number. Both passes go block by block,
and keep only the distinct hashes of each block, so that rows on disk are never in memory as a whole. 0.0 and -0.0 count
as equal.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from approxmcmc.engine.terms.passes import over_blocks

LARGEST_SHARE = 0.5  # largest share of distinct rows: an exact step then costs at most half as much
SAMPLE_SIZE = 1 << 15  # rows in a first sample: its number of equal pairs decides whether all rows are compared
FEWEST_PAIRS = 0.1  # least number of such pairs, in units of m^2 / N for m rows; about 0.5 if each row occurs twice


class EqualRows(NamedTuple):
    """The distinct rows, in the order of their first copies.

    `first` holds the indices of these copies, and `weights` the numbers of copies, or the sums of their weights.
    """

    first: np.ndarray
    weights: np.ndarray


def equal_rows(arrays: Sequence[np.ndarray], weights: np.ndarray | None = None) -> EqualRows | None:
    """Return the distinct rows of arrays of shape (N, ...) if at most half of the rows are distinct, else None.

    Rows may have `weights`, shape (N,), which need not be equal. None also if a sample of rows shows few equal pairs
    (`FEWEST_PAIRS`), or two different rows have the same hash.

    Examples
    --------
    >>> equal_rows([np.array([[1.0, 2.0], [0.0, 3.0], [1.0, 2.0], [-0.0, 3.0]]), np.zeros(4)])
    EqualRows(first=array([0, 1]), weights=array([2., 2.]))
    """
    N = len(arrays[0])
    m = min(N, SAMPLE_SIZE)
    sample = _hashes(arrays, np.sort(np.random.default_rng(0).choice(N, m, replace=False, shuffle=False)))
    _, counts = np.unique(sample, return_counts=True)
    n_equal_pairs = (counts * (counts - 1)).sum() / 2
    if n_equal_pairs < FEWEST_PAIRS * m * m / N:
        return None
    blocks = list(over_blocks(lambda lo, hi: _distinct_hashes(arrays, weights, lo, hi), N))
    hashes, firsts, copies = (np.concatenate(column) for column in zip(*blocks, strict=True))
    distinct_hashes, first_places, kind = np.unique(hashes, return_index=True, return_inverse=True)
    if len(distinct_hashes) > LARGEST_SHARE * N:
        return None
    first = firsts[first_places]
    totals = np.bincount(kind, copies)

    def are_equal(lo: int, hi: int) -> bool:
        first_copies = first[np.searchsorted(distinct_hashes, _hashes(arrays, slice(lo, hi)))]
        return all(np.array_equal(array[lo:hi], array[first_copies]) for array in arrays)

    order = np.argsort(first)
    return EqualRows(first[order], totals[order]) if all(over_blocks(are_equal, N)) else None


class KnownRows:
    """Distinct rows in a table by their hashes, to which more rows are added.

    Parameters
    ----------
    arrays
        The distinct rows: arrays of shape (D, ...).
    """

    def __init__(self, arrays: Sequence[np.ndarray]) -> None:
        hashes = _hashes(arrays, slice(0, len(arrays[0])))
        self._order = np.argsort(hashes, kind="stable")
        self._hashes = hashes[self._order]
        self._arrays = arrays

    def places(self, arrays: Sequence[np.ndarray]) -> np.ndarray:
        """Return the index of the known row that equals each of some rows; -1 where no row does; int64.

        A row with the hash of a known row that differs from it is taken to be new: it only costs a term.
        """
        hashes = _hashes(arrays, slice(0, len(arrays[0])))
        near = np.minimum(np.searchsorted(self._hashes, hashes), len(self._hashes) - 1)
        candidates = self._order[near]
        is_known = self._hashes[near] == hashes
        for stored, array in zip(self._arrays, arrays, strict=True):
            same = stored[candidates] == array
            is_known &= same.reshape(len(same), -1).all(axis=1)
        return np.where(is_known, candidates, -1)


def merged_rows(arrays: Sequence[np.ndarray], weights: np.ndarray | None = None) -> EqualRows:
    """Return the distinct rows of a block, whatever their share; rows of equal hashes that differ stay single.

    Rows may have `weights`, shape (N,), which are added.
    """
    n = len(arrays[0])
    hashes = _hashes(arrays, slice(0, n))
    _, first, kind = np.unique(hashes, return_index=True, return_inverse=True)
    leader = first[kind]
    equal = np.ones(n, dtype=bool)
    for array in arrays:
        same = array == array[leader]
        equal &= same.reshape(n, -1).all(axis=1)
    leader = np.where(equal, leader, np.arange(n))
    chosen, class_of_row = np.unique(leader, return_inverse=True)
    return EqualRows(chosen, np.bincount(class_of_row, weights).astype(np.float64))


def _distinct_hashes(
    arrays: Sequence[np.ndarray], weights: np.ndarray | None, lo: int, hi: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the different hashes of the rows lo ... hi - 1, and for each the first row and the sum of the weights."""
    hashes, first, kind = np.unique(_hashes(arrays, slice(lo, hi)), return_index=True, return_inverse=True)
    return hashes, lo + first, np.bincount(kind, None if weights is None else weights[lo:hi])


def _hashes(arrays: Sequence[np.ndarray], rows: slice | np.ndarray) -> np.ndarray:
    """Return a 64-bit hash of each of the given rows; -0.0 hashes like 0.0."""
    blocks = [np.asarray(array[rows], np.float64) + 0.0 for array in arrays]  # + 0.0 leaves no -0.0
    columns = [column for block in blocks for column in block.reshape(len(block), -1).T]
    factors = np.random.default_rng(1).integers(1 << 63, size=len(columns), dtype=np.uint64) * 2 + 1
    total = np.zeros(len(blocks[0]), dtype=np.uint64)
    for column, factor in zip(columns, factors, strict=True):
        total += _mixed(np.ascontiguousarray(column)) * factor
    return total


def _mixed(column: np.ndarray) -> np.ndarray:
    """Return the bits of numbers, with the exponent mixed into the lower half, which is 0 for small integers."""
    bits = column.view(np.uint64)
    return bits ^ (bits >> np.uint64(29))
