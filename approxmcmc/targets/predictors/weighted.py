"""Likelihoods of rows times known weights: w_i log p(y_i | eta_i1 ... eta_iK)."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from approxmcmc.contracts import TermWork, content_hash
from approxmcmc.engine.compiler.compile import compiled
from approxmcmc.engine.compiler.identity import cached_by_content
from approxmcmc.engine.compiler.pinned import with_context
from approxmcmc.engine.terms.batches import Data, datum_at
from approxmcmc.families.binomial import BINOMIAL
from approxmcmc.families.family import Minorant
from approxmcmc.targets.predictors.family import FamilyLikelihood
from approxmcmc.targets.predictors.kernels import FunctionOfPredictors
from approxmcmc.targets.predictors.likelihood import RowLikelihood, ScalarLikelihood

Responses = tuple[np.ndarray, ...]


class WeightedResponses(NamedTuple):
    """A likelihood, and the responses that it reads, which include the weights of rows."""

    likelihood: RowLikelihood
    responses: Responses


def weighted_rows(single: RowLikelihood, responses: Responses, weights: np.ndarray) -> WeightedResponses:
    """Return the rows of a likelihood with so many times its terms; `weights` are positive, shape (rows,)."""
    largest = float(weights.max())
    is_function = isinstance(single, ScalarLikelihood) and single.n_predictors == single.n_responses == 1
    if is_function and not np.iscomplexobj(responses[0]):
        assert isinstance(single, ScalarLikelihood)
        return WeightedResponses(WeightedFunction(single, largest), (responses[0] + 1j * weights,))
    if isinstance(single, FamilyLikelihood) and single.family is BINOMIAL:
        scaled = weights * responses[0]
        return WeightedResponses(WeightedTrials(single, float(scaled.imag.max())), (scaled,))
    return WeightedResponses(WeightedLikelihood(single, largest), (*responses, weights))


class WithWeights(RowLikelihood):
    """w_i times the terms of the likelihood `single`: what follows for bounds of derivatives and for minorants."""

    _single: RowLikelihood

    @property
    def single(self) -> RowLikelihood:
        """The likelihood of rows without weights."""
        return self._single

    def _set_single(self, single: RowLikelihood, largest: float) -> None:
        """Take what is known of rows without weights; `largest` is the largest weight."""
        self._single = single
        self.knows_derivatives = single.knows_derivatives
        self.bounds_derivatives = single.bounds_derivatives
        self.bounds_forms = single.bounds_forms
        self.forms_are_global = single.forms_are_global
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

    def derivative_within(
        self, order: int, eta: np.ndarray, responses: Responses, reach: np.ndarray
    ) -> np.ndarray | None:
        """Return bounds of a derivative for abs(t - eta_d) <= reach_d: those of single rows, times weights."""
        plain, weights = self.split(responses)
        bounds = self.single.derivative_within(order, eta, plain, reach)
        return None if bounds is None else weights * bounds

    def forms_within(
        self, order: int, eta: np.ndarray, responses: Responses, covariances: np.ndarray, radius: float
    ) -> np.ndarray:
        """Return bounds of directional derivatives: those of single rows, times their weights."""
        plain, weights = self.split(responses)
        return weights * self.single.forms_within(order, eta, plain, covariances, radius)

    def slopes_within(
        self, eta: np.ndarray, responses: Responses, covariances: np.ndarray, radius: float
    ) -> np.ndarray | None:
        """Return bounds of slopes in a direction: those of single rows, times their weights."""
        plain, weights = self.split(responses)
        bounds = self.single.slopes_within(eta, plain, covariances, radius)
        return None if bounds is None else weights * bounds

    def bound_kinds(self, responses: Responses) -> tuple[str, ...]:
        """Return the names of the minorants of rows without weights."""
        return self.single.bound_kinds(self.split(responses)[0])

    def minorant(self, kind: str, responses: Responses, eta_0: np.ndarray) -> Minorant:
        """Return the minorants of rows without weights, times the weights."""
        plain, weights = self.split(responses)
        return self.single.minorant(kind, plain, eta_0).times(weights)


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
    plain_term = compiled(loglik)
    plain_derivatives = compiled(derivatives)

    def term(eta: float, y: complex) -> float:
        return y.imag * plain_term(eta, y.real)

    def weighted_derivatives(eta: float, y: complex) -> tuple[float, float]:
        first, second = plain_derivatives(eta, y.real)
        return y.imag * first, y.imag * second

    return term, weighted_derivatives


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
        likelihood_of_rows = FunctionOfPredictors(self.n_predictors, single)
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


class WeightedTrials(FamilyLikelihood):
    """w_i times the terms of binomial rows: those of w_i y_i successes in w_i n_i trials."""

    def __init__(self, single: FamilyLikelihood, largest_size: float) -> None:
        super().__init__(single.family, single.shape, largest_size=largest_size)
        self._single = single

    @property
    def single(self) -> RowLikelihood:
        """The likelihood of rows without weights."""
        return self._single


def weighted_terms(
    eta: np.ndarray, responses: Data, order: np.ndarray, lo: int, hi: int, out: np.ndarray, known: FunctionOfPredictors
) -> None:
    """Write the terms of the rows ``order[lo:hi]`` times their weights, which are the last response."""
    known.function(eta, responses[:-1], order, lo, hi, out)
    weights = responses[-1]
    for i in range(hi - lo):
        out[i] *= weights[datum_at(order, lo + i)]


def weighted_slopes(
    eta: np.ndarray, responses: Data, order: np.ndarray, lo: int, hi: int, out: np.ndarray, known: FunctionOfPredictors
) -> None:
    """Write the slopes of the rows ``order[lo:hi]`` times their weights; `out` has shape (K, rows)."""
    known.function(eta, responses[:-1], order, lo, hi, out)
    weights = responses[-1]
    for k in range(known.n_predictors):
        for i in range(hi - lo):
            out[k, i] *= weights[datum_at(order, lo + i)]


def weighted_expansion(
    eta: np.ndarray, responses: Data, order: np.ndarray, lo: int, hi: int, out: np.ndarray, known: FunctionOfPredictors
) -> None:
    """Write the expansions of the rows ``order[lo:hi]`` times their weights; `out` has one row for each."""
    known.function(eta, responses[:-1], order, lo, hi, out)
    weights = responses[-1]
    for i in range(hi - lo):
        for k in range(out.shape[1]):
            out[i, k] *= weights[datum_at(order, lo + i)]
