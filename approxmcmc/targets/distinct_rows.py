r"""Replace identical rows of a generalised linear model by one weighted term.

.. math:: \sum_{i=1}^N \log p(y_i \mid x_i' \theta) = \sum_{d=1}^D w_d \log p(y_d \mid x_d' \theta),

where d is the index of a distinct pair (x, y) and w_d is how many rows equal this pair.
"""

import time
from collections.abc import Callable

import numpy as np

from approxmcmc.contracts import TermWork
from approxmcmc.engine.compiler.compile import compiled
from approxmcmc.engine.compiler.identity import cached_by_content
from approxmcmc.targets.equal_rows import EqualRows, equal_rows
from approxmcmc.targets.linear import LinearTarget
from approxmcmc.targets.stands_for_rows import StandsForRows


class MergedRows(StandsForRows):
    """A target with one term for each distinct row, times its number of copies; subclasses set `seconds`."""

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


class DistinctRows(MergedRows, LinearTarget):
    r"""A generalised linear model by its distinct rows: term d is w_d log p(y_d | x_d' theta), see the module.

    Parameters
    ----------
    rows
        The target of single rows.
    found
        Its distinct rows.

    Notes
    -----
    Guarantee: the posterior of `rows`, to rounding. Responses are complex numbers y + w i, so code for generalised
    linear models also works on this one. Tests draw terms uniformly, whatever their weights, so a row with a large
    weight is an outlier among the terms; `ControlVariate` with `always_read` reads such rows in every step. Bounds of
    derivatives are those of a single row times the weight, or times the largest weight if they hold for all rows.
    `ZigZag`, `BouncyParticle` and `Firefly` need the target of single rows.
    """

    _rows: LinearTarget

    def __init__(self, rows: LinearTarget, found: EqualRows) -> None:
        began = time.perf_counter()
        super().__init__(rows)
        first, counts = found
        self.n_obs = len(first)
        self.X, self.y = np.ascontiguousarray(rows.X[first]), rows.y[first] + 1j * counts
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
        """Whether derivatives are exact: they are if those of the target of single rows are."""
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
    """Return the `DistinctRows` of a target if `equal_rows` finds few distinct rows, else None."""
    found = equal_rows([target.X, target.y])
    return DistinctRows(target, found) if found else None
