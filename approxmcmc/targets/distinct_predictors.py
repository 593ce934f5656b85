r"""Replace identical rows of a likelihood of K linear predictors by one weighted term.

.. math:: \sum_{i=1}^N \log p(y_i \mid \eta_{i1} \dots \eta_{iK})
          = \sum_{d=1}^D w_d \log p(y_d \mid \eta_{d1} \dots \eta_{dK}),

where d is the index of a distinct row of predictors, codes and responses, and w_d is how many rows equal it. The
weights are stored as the last response.
"""

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from approxmcmc.contracts import TermWork, content_hash
from approxmcmc.engine.compiler.pinned import with_context
from approxmcmc.engine.terms.batches import Data, datum_at
from approxmcmc.targets.distinct_rows import MergedRows
from approxmcmc.targets.equal_rows import EqualRows, equal_rows
from approxmcmc.targets.predictors.base import PredictorsTarget
from approxmcmc.targets.predictors.design import Design
from approxmcmc.targets.predictors.kernels import OfRows
from approxmcmc.targets.predictors.likelihood import RowLikelihood


def weighted_terms(
    eta: np.ndarray, responses: Data, order: np.ndarray, lo: int, hi: int, out: np.ndarray, known: OfRows
) -> None:
    """Write the terms of the rows ``order[lo:hi]`` times their weights, which are the last response."""
    known.function(eta, responses[:-1], order, lo, hi, out)
    weights = responses[-1]
    for i in range(hi - lo):
        out[i] *= weights[datum_at(order, lo + i)]


def weighted_slopes(
    eta: np.ndarray, responses: Data, order: np.ndarray, lo: int, hi: int, out: np.ndarray, known: OfRows
) -> None:
    """Write the slopes of the rows ``order[lo:hi]`` times their weights; `out` has shape (K, rows)."""
    known.function(eta, responses[:-1], order, lo, hi, out)
    weights = responses[-1]
    for k in range(known.n_predictors):
        for i in range(hi - lo):
            out[k, i] *= weights[datum_at(order, lo + i)]


def weighted_expansion(
    eta: np.ndarray, responses: Data, order: np.ndarray, lo: int, hi: int, out: np.ndarray, known: OfRows
) -> None:
    """Write the expansions of the rows ``order[lo:hi]`` times their weights; `out` has one row for each."""
    known.function(eta, responses[:-1], order, lo, hi, out)
    weights = responses[-1]
    for i in range(hi - lo):
        for k in range(out.shape[1]):
            out[i, k] *= weights[datum_at(order, lo + i)]


class WeightedLikelihood(RowLikelihood):
    """w_i times another likelihood; the weights are the last response."""

    def __init__(self, single: RowLikelihood) -> None:
        self.single, self.n_predictors = single, single.n_predictors

    def work(self) -> TermWork:
        """Return the work of a row, without that of the weight."""
        return self.single.work()

    def compile(self, name: str, responses: tuple[np.ndarray, ...]) -> Any:
        """Compile a batch function around that of the likelihood without weights."""
        single = self.single.compile(name, responses[:-1])
        known = OfRows(self.n_predictors, single)
        return with_context(getattr(self, name)(), self.signature(name, responses), known, fastmath=True)

    def terms(self) -> Callable[..., None]:
        """Return the batch function of the weighted terms, which calls that without weights."""
        return weighted_terms

    def slopes(self) -> Callable[..., None]:
        """Return the batch function of the weighted slopes, which calls that without weights."""
        return weighted_slopes

    def expansion(self) -> Callable[..., None]:
        """Return the batch function of the weighted expansions, which calls that without weights."""
        return weighted_expansion

    def identity(self) -> str:
        """Return a hash of the likelihood's code."""
        return content_hash("weighted", self.single.identity())


class DistinctPredictors(MergedRows, PredictorsTarget):
    """A likelihood of K linear predictors by its distinct rows, see the module.

    Parameters
    ----------
    rows
        The target of single rows.
    found
        Its distinct rows.

    Notes
    -----
    Guarantee: the posterior of `rows`, to rounding. Tests draw terms uniformly, whatever their weights, so a row with a
    large weight is an outlier among the terms; `ControlVariate` with `always_read` reads such rows in every step. As
    for single rows, the terms have no bounds.
    """

    def __init__(self, rows: PredictorsTarget, found: EqualRows) -> None:
        began = time.perf_counter()
        super().__init__(rows)
        first, self.n_obs, design = found.first, len(found.first), rows.design
        taken = [_taken(array, first) for array in (design.X, design.codes, *rows.responses)]
        self.design = Design(design.dim, taken[0], taken[1], design.weights, design.predictors)
        self.responses = (*taken[2:], found.counts.astype(np.float64))
        self.likelihood = WeightedLikelihood(rows.likelihood)
        self.data = (*self.design.arrays, *self.responses)
        self.seconds = time.perf_counter() - began

    @property
    def weights(self) -> np.ndarray:
        """How many rows equal each distinct row; shape (D,)."""
        return self.responses[-1]


def _taken(array: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Return a copy of some rows that has the same type in numba: contiguous, and read-only if `array` is."""
    some = np.ascontiguousarray(array[rows])
    some.flags.writeable = array.flags.writeable
    return some


def distinct_predictors(target: PredictorsTarget) -> DistinctPredictors | None:
    """Return the `DistinctPredictors` of a target if `equal_rows` finds few distinct rows, else None.

    None also if the target stores its rows in another form.
    """
    arrays = [target.design.X, target.design.codes, *target.responses]
    if len(target.data) != len(target.design.arrays) + len(target.responses):  # it stores its rows in another form
        return None
    if any(array.shape[:1] != (target.n_obs,) for array in arrays):
        return None
    found = equal_rows([array for array in arrays if array.size])
    return DistinctPredictors(target, found) if found else None
