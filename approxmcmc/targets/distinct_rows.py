r"""Replace identical rows of a regression by one weighted term.

.. math:: \sum_{i=1}^N \log p(y_i \mid \eta_{i1} \dots \eta_{iK})
          = \sum_{d=1}^D w_d \log p(y_d \mid \eta_{d1} \dots \eta_{dK}),

where d is the index of a distinct row of columns, codes and responses, and w_d is how many rows equal it.
"""

import copy
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Self

import numpy as np

from approxmcmc.contracts import TermWork, content_hash
from approxmcmc.engine.compiler.compile import compiled
from approxmcmc.engine.compiler.identity import cached_by_content
from approxmcmc.engine.compiler.pinned import with_context
from approxmcmc.engine.files.grown_arrays import followed_by
from approxmcmc.engine.terms.batches import Data, datum_at
from approxmcmc.targets.blocks import Blocks
from approxmcmc.targets.equal_rows import EqualRows, KnownRows, equal_rows, merged_rows
from approxmcmc.targets.predictors.design import Design
from approxmcmc.targets.predictors.kernels import OfRows
from approxmcmc.targets.predictors.likelihood import RowLikelihood, ScalarLikelihood
from approxmcmc.targets.regression import Regression
from approxmcmc.targets.stands_for_rows import StandsForRows

Responses = tuple[np.ndarray, ...]


class WithWeights(RowLikelihood):
    """w_i times the terms of the likelihood `single`: what follows for bounds of derivatives."""

    single: RowLikelihood
    largest: float
    """The largest weight."""

    def _set_single(self, single: RowLikelihood, largest: float) -> None:
        self.single = single
        self.largest = largest
        self.knows_derivatives = single.knows_derivatives
        self.bounds_derivatives = single.bounds_derivatives
        self.predictor_scale = single.predictor_scale
        self.slope_bound, self.second_derivative_bound, self.third_derivative_bound = (
            None if bound is None else bound * largest
            for bound in (single.slope_bound, single.second_derivative_bound, single.third_derivative_bound)
        )

    def split(self, responses: Responses) -> tuple[Responses, np.ndarray]:
        """Return the responses of `single`, and the weights (rows,)."""
        return responses[:-1], responses[-1]

    def derivative_bounds(self, order: int, responses: Responses) -> np.ndarray | None:
        """Return bounds of a derivative over all eta: those of single rows, times their weights."""
        plain, weights = self.split(responses)
        bounds = self.single.derivative_bounds(order, plain)
        return None if bounds is None else weights * bounds

    def second_derivative_within(self, eta: np.ndarray, responses: Responses, reach: np.ndarray) -> np.ndarray | None:
        """Return bounds of second derivatives for abs(t - eta_d) <= reach_d: those of single rows, times weights."""
        plain, weights = self.split(responses)
        bounds = self.single.second_derivative_within(eta, plain, reach)
        return None if bounds is None else weights * bounds

    def third_derivative_within(self, eta: np.ndarray, responses: Responses, reach: np.ndarray) -> np.ndarray | None:
        """Return bounds of third derivatives for abs(t - eta_d) <= reach_d: those of single rows, times weights."""
        plain, weights = self.split(responses)
        bounds = self.single.third_derivative_within(eta, plain, reach)
        return None if bounds is None else weights * bounds


class WeightedFunction(WithWeights, ScalarLikelihood):
    """A function of one predictor and one real response, times the weight: the response is y + i w.

    So kernels that read one array of responses serve weighted rows.
    """

    def __init__(self, single: ScalarLikelihood, largest: float) -> None:
        term, derivatives = weighted(single.loglik, single.derivatives)
        super().__init__(term, 1, 1, derivatives)
        self._set_single(single, largest)

    def split(self, responses: Responses) -> tuple[Responses, np.ndarray]:
        """Return the responses of `single`, and the weights (rows,)."""
        return (responses[0].real,), responses[0].imag

    def work(self) -> TermWork:
        """Return the work of a row, without that of the weight."""
        return self.single.work()

    def identity(self) -> str:
        """Return a hash of the likelihood's code."""
        return self.single.identity()


@cached_by_content(maxsize=64)
def weighted(
    loglik: Callable[[float, float], float], derivatives: Callable[[float, float], tuple[float, float]]
) -> tuple[Callable[..., float], Callable[..., tuple[float, float]]]:
    """Return the term ``w loglik(eta, y)`` as a function of eta and y + w i, and its first two derivatives in eta."""
    at = compiled(loglik)
    slopes = compiled(derivatives)

    def term(eta: float, y: complex) -> float:
        return y.imag * at(eta, y.real)

    def both(eta: float, y: complex) -> tuple[float, float]:
        first, second = slopes(eta, y.real)
        return y.imag * first, y.imag * second

    return term, both


class WeightedLikelihood(WithWeights):
    """Any likelihood of rows, times the weight, which is the last response."""

    def __init__(self, single: RowLikelihood, largest: float) -> None:
        self.n_predictors = single.n_predictors
        self._set_single(single, largest)

    def of_one_response(self, responses: Responses) -> tuple[Callable[..., float], np.ndarray] | None:
        """Return the term as a function of eta and y + i w, if that of single rows is one of eta and a real y."""
        plain = self.single.of_one_response(responses[:-1])
        if plain is None or np.iscomplexobj(plain[1]):
            return None
        assert isinstance(self.single, ScalarLikelihood)
        return weighted(self.single.loglik, self.single.derivatives)[0], plain[1] + 1j * responses[-1]

    def work(self) -> TermWork:
        """Return the work of a row, without that of the weight."""
        return self.single.work()

    def compile(self, name: str, responses: Responses) -> Any:
        """Compile a batch function around that of the likelihood without weights."""
        single = self.single.compile(name, responses[:-1])
        likelihood_of_rows = OfRows(self.n_predictors, single)
        return with_context(getattr(self, name)(), self.signature(name, responses), likelihood_of_rows, fastmath=True)

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


class WeightsOfBlock(NamedTuple):
    """The distinct rows that a block has, by their indices, and how often it has each."""

    places: np.ndarray
    weights: np.ndarray


class DistinctRows(StandsForRows, Regression):
    r"""A regression by its distinct rows: term d is w_d log p(y_d | eta_d1 ... eta_dK), see the module.

    Parameters
    ----------
    rows
        The target of single rows.
    found
        Its distinct rows.

    Notes
    -----
    Guarantee: the posterior of `rows`, to rounding. Tests draw terms uniformly, whatever their weights, so a row with a
    large weight is an outlier among the terms; `ControlVariate` with `always_read` reads such rows in every step.
    Bounds of derivatives are those of a single row times its weight, or the largest weight if they hold for all rows.
    `ZigZag`, `BouncyParticle` and `Firefly` need the target of single rows.
    """

    likelihood: WithWeights
    _rows: Regression

    def __init__(self, rows: Regression, found: EqualRows) -> None:
        super().__init__(rows)
        self._take(rows, found)
        self._of_blocks: tuple[WeightsOfBlock, ...] = (WeightsOfBlock(np.arange(self.n_obs), found.counts),)

    def _take(self, rows: Regression, found: EqualRows) -> None:
        """Store the distinct rows, with their numbers as weights."""
        began = time.perf_counter()
        design = rows.design
        X, codes, *responses = (_taken(array, found.first) for array in (design.X, design.codes, *rows.responses))
        self._set_weighted(Design(design.dim, X, codes, design.weights, design.predictors), responses, found.counts)
        self.seconds = time.perf_counter() - began

    def _set_weighted(self, design: Design, responses: Sequence[np.ndarray], weights: np.ndarray) -> None:
        """Store distinct rows with these responses and weights (D,)."""
        rows = self._rows
        largest = float(weights.max())
        if rows.is_dense and not np.iscomplexobj(rows.y):
            self.likelihood = WeightedFunction(rows.scalar, largest)
            self._set_rows(design, (responses[0] + 1j * weights,))
            return
        self.likelihood = WeightedLikelihood(rows.likelihood, largest)
        self._set_rows(design, (*responses, weights.astype(np.float64)))

    # --- blocks of rows that come and go ---

    @property
    def blocks(self) -> Blocks:
        """Blocks of rows, those of the target of single rows."""
        return self._rows.blocks

    def rows_to_append(self, *rows: Any, **columns: Any) -> Self:
        """Return the distinct rows of new rows alone; the arguments are those of the target of single rows."""
        single = self._rows.rows_to_append(*rows, **columns)
        return type(self)(single, merged_rows(arrays_of_rows(single)))

    def joined(self, more: Self, block: str | None = None) -> Self:
        """Return the distinct rows of the rows of this target and those of `more`: weights add up."""
        joined = copy.copy(self)
        joined._rows = self._rows.joined(more._rows, block)
        joined.n_rows = joined._rows.n_obs
        places = KnownRows(self._arrays()).places(more._arrays())
        is_new = places < 0
        places[is_new] = self.n_obs + np.arange(is_new.sum())
        design = self.design
        fresh = Design(design.dim, more.design.X[is_new], more.design.codes[is_new], design.weights, design.predictors)
        weights = np.concatenate([self.weights.astype(np.int64), np.zeros(is_new.sum(), np.int64)])
        weights[places] += more.weights.astype(np.int64)
        responses = [
            followed_by(mine, theirs[is_new])
            for mine, theirs in zip(self._plain_responses(), more._plain_responses(), strict=True)
        ]
        joined._of_blocks = (*self._of_blocks, WeightsOfBlock(places, more.weights.astype(np.int64)))
        joined._set_weighted(design.followed_by(fresh), responses, weights)
        return joined

    def remove(self, block: str) -> Self:
        """Return the distinct rows without those of a block: weights are integers, so their difference is exact."""
        k = self.blocks.place(block, who=f"remove from {type(self).__name__}")
        rest = copy.copy(self)
        rest._rows = self._rows.remove(block)
        rest.n_rows = rest._rows.n_obs
        weights = self.weights.astype(np.int64)
        weights[self._of_blocks[k].places] -= self._of_blocks[k].weights
        kept = np.flatnonzero(weights > 0)
        new_place = np.full(self.n_obs, -1)
        new_place[kept] = np.arange(kept.size)
        others = (*self._of_blocks[:k], *self._of_blocks[k + 1 :])
        rest._of_blocks = tuple(of_block._replace(places=new_place[of_block.places]) for of_block in others)
        design = self.design
        X, codes, *responses = (_taken(array, kept) for array in (design.X, design.codes, *self._plain_responses()))
        rest._set_weighted(Design(design.dim, X, codes, design.weights, design.predictors), responses, weights[kept])
        return rest

    def _plain_responses(self) -> tuple[np.ndarray, ...]:
        """Return the responses of the distinct rows, without weights."""
        plain = self.likelihood.split(self.responses)[0]
        return tuple(map(np.ascontiguousarray, plain))

    def _arrays(self) -> list[np.ndarray]:
        """Return the distinct rows as arrays of numbers, without weights."""
        return arrays_of(self.design, self._plain_responses())

    @property
    def weights(self) -> np.ndarray:
        """How many rows equal each distinct row; shape (D,)."""
        return self.likelihood.split(self.responses)[1]

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


def _taken(array: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Return a copy of some rows that has the same type in numba: contiguous, and read-only if `array` is."""
    chosen = np.ascontiguousarray(array[rows])
    chosen.flags.writeable = array.flags.writeable
    return chosen


def distinct_rows(target: Regression) -> DistinctRows | None:
    """Return the `DistinctRows` of a regression if `equal_rows` finds few distinct rows, else None.

    None also if a response has no entry for each row.
    """
    if any(array.shape[:1] != (target.n_obs,) for array in target.responses):
        return None
    distinct = equal_rows(arrays_of_rows(target))
    return DistinctRows(target, distinct) if distinct else None


def arrays_of_rows(target: Regression) -> list[np.ndarray]:
    """Return the arrays of real numbers that make up the rows of a regression, shape (n, ...) each."""
    return arrays_of(target.design, target.responses)


def arrays_of(design: Design, responses: Responses) -> list[np.ndarray]:
    """Return the columns, codes and responses of rows as arrays of real numbers, shape (n, ...) each."""
    arrays = [design.X, design.codes]
    for response in responses:
        arrays += [response.real, response.imag] if np.iscomplexobj(response) else [response]
    return [array for array in arrays if array.size]
