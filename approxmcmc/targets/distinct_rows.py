r"""Replace identical rows of a generalised linear model by one weighted term.

.. math:: \sum_{i=1}^N \log p(y_i \mid x_i' \theta) = \sum_{d=1}^D w_d \log p(y_d \mid x_d' \theta),

where d numbers the distinct pairs (x, y) and w_d is how many rows equal pair d. One pass hashes every row; a second
compares rows with equal hashes, number by number. Both passes go block by block, and keep only the distinct hashes of
each block, so that rows on disk are never in memory as a whole. 0.0 and -0.0 count as equal.
"""

import time
from collections.abc import Callable

import numpy as np

from approxmcmc.contracts import TermWork
from approxmcmc.engine.compiler.compile import compiled
from approxmcmc.engine.compiler.identity import cached_by_content
from approxmcmc.engine.terms.passes import over_blocks
from approxmcmc.targets.linear import LinearTarget
from approxmcmc.targets.stands_for_rows import StandsForRows

LARGEST_SHARE = 0.5  # largest share of distinct rows: an exact step is then at least twice as cheap
LOOKED_AT = 1 << 15  # rows in a first sample: its number of equal pairs decides whether all rows are compared
FEWEST_PAIRS = 0.1  # share of the pairs expected in the sample if each of N / 2 distinct rows occurred twice


class DistinctRows(StandsForRows, LinearTarget):
    r"""A generalised linear model by its distinct rows: term d is w_d log p(y_d | x_d' theta), see the module.

    Parameters
    ----------
    rows
        The target of single rows.
    first, counts
        Index of one copy of each distinct row, and the number of copies; shape (D,) each.

    Notes
    -----
    Guarantee: the posterior of `rows`, to rounding. Responses are complex numbers y + w i, so code for generalised
    linear models also works on this one. Tests draw terms uniformly, whatever their weights, so a row with a large
    weight is an outlier among the terms; `CoreRows` reads such rows in every step. A bound of a term, its slope or its
    derivatives is the bound of a single row times the weight. `ZigZag`, `BouncyParticle` and `Firefly` need the target
    of single rows.
    """

    _rows: LinearTarget

    def __init__(self, rows: LinearTarget, first: np.ndarray, counts: np.ndarray) -> None:
        began = time.perf_counter()
        super().__init__(rows)
        order = np.argsort(first)
        first, self.n_obs = first[order], len(first)
        self.X, self.y = np.ascontiguousarray(rows.X[first]), rows.y[first] + 1j * counts[order]
        self.data, self.predictor_scale = (self.X, self.y), rows.predictor_scale
        self._loglik_eta, self._derivatives_eta = weighted(rows._loglik_eta, rows.derivatives_eta)
        largest = float(counts.max())
        self.slope_bound, self.second_derivative_bound, self.third_derivative_bound = (
            None if bound is None else bound * largest
            for bound in (rows.slope_bound, rows.second_derivative_bound, rows.third_derivative_bound)
        )
        self.seconds = time.perf_counter() - began

    @property
    def weights(self) -> np.ndarray:
        """How many rows equal each distinct row; shape (D,)."""
        return self.y.imag

    @property
    def knows_derivatives(self) -> bool:
        """Whether derivatives are exact, as for the target of single rows."""
        return self._rows.knows_derivatives

    def longest_gradients(self) -> np.ndarray:
        """Return upper bounds of the lengths of the terms' gradients: bounds of single rows, times their weights."""
        return self.weights * (self._rows.slope_bound * self.row_norms())

    def second_derivative_within(self, eta: np.ndarray, y: np.ndarray, reach: np.ndarray) -> np.ndarray:
        """Return bounds of second derivatives for abs(t - eta_d) <= reach_d: those of single rows, times weights."""
        return y.imag * self._rows.second_derivative_within(eta, y.real, reach)

    def third_derivative_within(self, eta: np.ndarray, y: np.ndarray, reach: np.ndarray) -> np.ndarray:
        """Return bounds of third derivatives for abs(t - eta_d) <= reach_d: those of single rows, times weights."""
        return y.imag * self._rows.third_derivative_within(eta, y.real, reach)

    @property
    def term_work(self) -> TermWork:
        """The work of a term, taken to be that of a single row."""
        return self._rows.term_work

    @property
    def found(self) -> str:
        """Return a sentence: how many distinct rows represent all."""
        return (
            f"identical rows are merged: {self.n_obs:,} distinct rows with weights replace {self.n_rows:,}, so a step "
            f"with all data reads {self.n_obs:,}"
        )


@cached_by_content(maxsize=64)
def weighted(
    loglik: Callable[[float, float], float], derivatives: Callable[[float, float], tuple[float, float]]
) -> tuple[Callable[..., float], Callable[..., tuple[float, float]]]:
    """Return the term ``w loglik(eta, y)`` as a function of eta and y + w i, and its first two derivatives in eta."""
    at, slopes = compiled(loglik), compiled(derivatives)

    def term(eta: float, y: complex) -> float:
        return y.imag * at(eta, y.real)

    def both(eta: float, y: complex) -> tuple[float, float]:
        first, second = slopes(eta, y.real)
        return y.imag * first, y.imag * second

    return term, both


def distinct_rows(target: LinearTarget) -> DistinctRows | None:
    """Return the `DistinctRows` of a target if at most half of its rows are distinct, else None.

    None also if a sample of rows shows few equal pairs (`FEWEST_PAIRS`), or two different rows have the same hash.
    """
    N = target.n_obs
    m = min(N, LOOKED_AT)
    some = _hashes(target, np.sort(np.random.default_rng(0).choice(N, m, replace=False, shuffle=False)))
    pairs = np.unique(some, return_counts=True)[1]
    if (pairs * (pairs - 1)).sum() / 2 < FEWEST_PAIRS * m * m / N:
        return None
    hashes, firsts, copies = map(np.concatenate, zip(*over_blocks(lambda *rows: _kinds(target, *rows), N), strict=True))
    known, place, kind = np.unique(hashes, return_index=True, return_inverse=True)
    if len(known) > LARGEST_SHARE * N:
        return None
    first, counts = firsts[place], np.bincount(kind, copies).astype(np.int64)

    def are_equal(lo: int, hi: int) -> bool:
        like = first[np.searchsorted(known, _hashes(target, slice(lo, hi)))]
        return np.array_equal(target.X[lo:hi], target.X[like]) and np.array_equal(target.y[lo:hi], target.y[like])

    return DistinctRows(target, first, counts) if all(over_blocks(are_equal, N)) else None


def _kinds(target: LinearTarget, lo: int, hi: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the different hashes of the rows lo ... hi - 1, the first row with each hash, and the number of rows."""
    hashes, first, counts = np.unique(_hashes(target, slice(lo, hi)), return_index=True, return_counts=True)
    return hashes, lo + first, counts


def _hashes(target: LinearTarget, rows: slice | np.ndarray) -> np.ndarray:
    """Return a 64-bit hash of each of the given rows; -0.0 hashes like 0.0."""
    X = np.asarray(target.X[rows], np.float64) + 0.0  # + 0.0 leaves no -0.0
    y = np.asarray(target.y[rows], np.float64) + 0.0
    factors = np.random.default_rng(1).integers(1 << 63, size=X.shape[1] + 1, dtype=np.uint64) * 2 + 1
    total = _mixed(y) * factors[-1]
    for j, factor in enumerate(factors[:-1]):
        total += _mixed(np.ascontiguousarray(X[:, j])) * factor
    return total


def _mixed(column: np.ndarray) -> np.ndarray:
    """Return the bits of numbers, with the exponent mixed into the lower half, which is 0 for small integers."""
    bits = column.view(np.uint64)
    return bits ^ (bits >> np.uint64(29))
