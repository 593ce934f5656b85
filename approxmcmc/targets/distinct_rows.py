r"""Identical rows of a generalised linear model as one term with a weight.

.. math:: \sum_{i=1}^N \log p(y_i \mid x_i' \theta) = \sum_{d=1}^D w_d \log p(y_d \mid x_d' \theta),

d the distinct pairs (x, y), w_d how many rows are that pair. Found by a hash of every row in one pass; rows of one hash
are compared, number by number, in another. A zero has no sign here.
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

LARGEST_SHARE = 0.5  # of the rows that distinct ones may be: an exact step is then at least twice as cheap
LOOKED_AT = 1 << 15  # rows: their share of equal pairs decides whether all rows are compared
FEWEST_PAIRS = 0.1  # times the pairs that N / 2 kinds of rows, equally common, would show


class DistinctRows(StandsForRows, LinearTarget):
    r"""A generalised linear model by its distinct rows: term d is w_d log p(y_d | x_d' theta), see the module.

    Parameters
    ----------
    rows
        The target of single rows.
    first, counts
        Of each distinct row the place of one that is it, and how many are; shape (D,) each.

    Notes
    -----
    Guarantee: the posterior of `rows`, to rounding. Responses are complex numbers y + w i, so that whatever reads a
    generalised linear model reads this one. A term is read as any other, once, whatever its weight: tests draw terms
    uniformly, so that rare and heavy rows are far-out terms to them; `CoreRows` reads such in every step. Bounds of a
    term, of its slope and its derivatives, are those of a row times its weight. `ZigZag` and `BouncyParticle`, and
    `Firefly`, need the target of single rows.
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
        """How many rows are each distinct one; shape (D,)."""
        return self.y.imag

    @property
    def knows_derivatives(self) -> bool:
        """Whether derivatives are exact, as those of rows are or not."""
        return self._rows.knows_derivatives

    def longest_gradients(self) -> np.ndarray:
        """Return upper bounds of the lengths of the terms' gradients: those of rows, with their weights."""
        return self.weights * (self._rows.slope_bound * self.row_norms())

    def second_derivative_within(self, eta: np.ndarray, y: np.ndarray, reach: np.ndarray) -> np.ndarray:
        """Return bounds of second derivatives near predictors: those of rows, with their weights."""
        return y.imag * self._rows.second_derivative_within(eta, y.real, reach)

    def third_derivative_within(self, eta: np.ndarray, y: np.ndarray, reach: np.ndarray) -> np.ndarray:
        """Return bounds of third derivatives near predictors: those of rows, with their weights."""
        return y.imag * self._rows.third_derivative_within(eta, y.real, reach)

    @property
    def term_work(self) -> TermWork:
        """Operations of a term, as of a row."""
        return self._rows.term_work

    @property
    def found(self) -> str:
        """Return a sentence: how many distinct rows represent all."""
        return (
            f"identical rows: {self.n_obs:,} distinct ones, with weights, represent {self.n_rows:,} rows, and a step "
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
    """Return a target's distinct rows, where they are at most half of all; None else."""
    N = target.n_obs
    m = min(N, LOOKED_AT)
    some = _hashes(target, np.sort(np.random.default_rng(0).choice(N, m, replace=False, shuffle=False)))
    pairs = np.unique(some, return_counts=True)[1]
    if (pairs * (pairs - 1)).sum() / 2 < FEWEST_PAIRS * m * m / N:
        return None
    hashes = np.concatenate(list(over_blocks(lambda lo, hi: _hashes(target, slice(lo, hi)), N)))
    _, first, inverse, counts = np.unique(hashes, return_index=True, return_inverse=True, return_counts=True)
    if len(first) > LARGEST_SHARE * N:
        return None

    def are_equal(lo: int, hi: int) -> bool:
        like = first[inverse[lo:hi]]
        return np.array_equal(target.X[lo:hi], target.X[like]) and np.array_equal(target.y[lo:hi], target.y[like])

    return DistinctRows(target, first, counts) if all(over_blocks(are_equal, N)) else None


def _hashes(target: LinearTarget, rows: slice | np.ndarray) -> np.ndarray:
    """Return a number of 64 bits for each of some rows, the same for equal ones; of -0.0 as of 0.0."""
    X = np.asarray(target.X[rows], np.float64) + 0.0  # + 0.0 leaves no -0.0
    y = np.asarray(target.y[rows], np.float64) + 0.0
    factors = np.random.default_rng(1).integers(1 << 63, size=X.shape[1] + 1, dtype=np.uint64) * 2 + 1
    total = _mixed(y) * factors[-1]
    for j, factor in enumerate(factors[:-1]):
        total += _mixed(np.ascontiguousarray(X[:, j])) * factor
    return total


def _mixed(column: np.ndarray) -> np.ndarray:
    """Return the bits of numbers, those of the exponent in the lower half as well: small integers have no others."""
    bits = column.view(np.uint64)
    return bits ^ (bits >> np.uint64(29))
