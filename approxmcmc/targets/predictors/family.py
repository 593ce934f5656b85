"""Rows of one family with one predictor, as a likelihood of rows: terms, derivatives, their bounds, and minorants."""

import abc
import functools
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from approxmcmc.engine.compiler.compile import BATCH_FASTMATH, allocating, closure, compiled
from approxmcmc.engine.numerics import LARGEST_LOG, bounded_exp
from approxmcmc.engine.terms.batches import Data, row_reader
from approxmcmc.errors import IncompatibleError
from approxmcmc.families.curvature import KINDS, curvature_minorant
from approxmcmc.families.family import Family, Minorant, PartialBounds, Partials
from approxmcmc.targets.predictors.likelihood import ScalarLikelihood

ONE = np.ones(())  # size of a row without a size


class Sized(NamedTuple):
    """The two numbers of each row: its response y and its size, shape (n,) each."""

    y: np.ndarray
    size: np.ndarray


def sized(response: np.ndarray) -> Sized:
    """Return responses and sizes from one array of y, or of the complex numbers y + i size."""
    return Sized(response.real, response.imag) if np.iscomplexobj(response) else Sized(response, ONE)


class PredictsResponses(abc.ABC):
    """A mixin of likelihoods of a family: expected responses, and draws of responses."""

    family: Family

    def mean(self, eta: np.ndarray, size: np.ndarray) -> np.ndarray:
        """Return the expected responses of rows with the predictors `eta` (K, ...) and these sizes; shape (...)."""
        if self.family.mean is None:
            raise IncompatibleError(f"the family {self.family.name!r} has no known mean; predict kind='predictor'")
        return self.family.mean(eta[0], size, self.shape_at(eta))

    def simulate(self, rng: np.random.Generator, eta: np.ndarray, size: np.ndarray) -> np.ndarray:
        """Draw responses of rows with the predictors `eta` (K, ...) and these sizes; shape (...)."""
        if self.family.simulate is None:
            raise IncompatibleError(
                f"the family {self.family.name!r} cannot draw responses; predict kind='predictor', and compute them"
            )
        return self.family.simulate(rng, eta[0], np.broadcast_to(size, eta[0].shape), self.shape_at(eta))

    @abc.abstractmethod
    def shape_at(self, eta: np.ndarray) -> Any:
        """Return the shape of the family, one number or one for each entry of a predictor."""


class FamilyLikelihood(PredictsResponses, ScalarLikelihood):
    """log p(y_i | eta_i) of a family whose shape is known.

    Parameters
    ----------
    family
        The family.
    shape
        Its shape, if it has one.
    largest_size
        None for rows without a size. Else rows have sizes, such as trials, of this size at most, and the response of a
        row is the complex number y + i size: so kernels for one array of responses serve rows of two numbers.
    """

    bounds_derivatives = True

    def __init__(self, family: Family, shape: float = 1.0, *, largest_size: float | None = None) -> None:
        term, derivatives = family.of_pair(shape) if largest_size is None else family.of_sized(shape)
        super().__init__(term, 1, 1, derivatives)
        self.family = family
        self.shape = shape
        self.knows_derivatives = family.knows_derivatives
        self.predictor_scale = family.predictor_scale
        self.largest_size = 1.0 if largest_size is None else largest_size
        self.slope_bound, self.second_derivative_bound, self.third_derivative_bound = (
            None if bound is None else self.largest_size * bound
            for bound in (family.slope_bound, family.second_derivative_bound, family.third_derivative_bound)
        )

    def covering(self, responses: tuple[np.ndarray, ...]) -> "FamilyLikelihood":
        """Return the likelihood with bounds that also hold for rows with these responses, which may be larger."""
        largest = float(np.max(sized(responses[0]).size, initial=0.0))
        if not np.iscomplexobj(responses[0]) or largest <= self.largest_size:
            return self
        return FamilyLikelihood(self.family, self.shape, largest_size=largest)

    def derivative_bounds(self, order: int, responses: tuple[np.ndarray, ...]) -> np.ndarray | None:
        """Return an upper bound of abs(d^k log p / d eta^k), k = `order`, over all eta for each row; shape (n,).

        It is the bound of rows of size 1 times the size, or else the family's bound over an infinite interval. None if
        it is unknown, or infinite for a row.
        """
        y, size = sized(responses[0])
        bound = self.bounds[order - 1]
        if bound is not None:
            return bound / self.largest_size * np.broadcast_to(size, y.shape)
        with np.errstate(all="ignore"):
            bounds = self.derivative_within(order, np.zeros(len(y)), responses, np.full(len(y), np.inf))
        return bounds if bounds is not None and np.isfinite(bounds).all() else None

    def derivative_within(
        self, order: int, eta: np.ndarray, responses: tuple[np.ndarray, ...], reach: np.ndarray
    ) -> np.ndarray | None:
        """Return the family's bounds over abs(t - eta_i) <= reach_i, or those for all t; None if neither is known."""
        family = self.family
        within = (family.slope_within, family.second_derivative_within, family.third_derivative_within)[order - 1]
        if within is None:
            return super().derivative_within(order, eta, responses, reach)
        return within(eta, *sized(responses[0]), self.shape, reach)

    def shape_at(self, eta: np.ndarray) -> float:
        """Return the known shape."""
        return self.shape

    def bound_kinds(self, responses: tuple[np.ndarray, ...]) -> tuple[str, ...]:
        """Return the names of the family's minorants, or of those that follow from bounded second derivatives."""
        if self.family.minorants or np.iscomplexobj(responses[0]):
            return tuple(self.family.minorants)
        is_known = self.knows_derivatives and self.derivative_bounds(2, responses) is not None
        return KINDS if is_known else ()

    def minorant(self, kind: str, responses: tuple[np.ndarray, ...], eta_0: np.ndarray) -> Minorant:
        """Return the minorant `kind`, one of `bound_kinds`; a tuned one touches the terms at eta_0 (n,)."""
        if kind in self.family.minorants:
            return self.family.minorants[kind](*sized(responses[0]), self.shape, eta_0)
        [y] = responses
        largest = self.derivative_bounds(2, responses)
        assert largest is not None
        touch = np.zeros(len(y)) if kind == "untuned" else eta_0
        rows = np.empty((len(y), self.n_numbers))
        memory_order = np.empty(0, dtype=np.int64)
        self.compile("expansion", responses)(touch[None], responses, memory_order, 0, len(y), rows)
        return curvature_minorant(self.loglik, self.derivatives, y, touch, largest, (rows[:, 0], rows[:, 1]))


class ShapeLikelihood(PredictsResponses, ScalarLikelihood):
    """log p(y_i | eta_i, shape) of a family whose shape is a parameter: the second predictor is log(shape)."""

    def __init__(self, family: Family) -> None:
        assert family.second_in_shape is not None
        parts = (family.derivatives, family.in_shape, family.of_row, family.second_in_shape)
        term = closure(make_with_shape, family.term, family.of_row, fastmath=BATCH_FASTMATH)
        super().__init__(term, 2, 1, closure(make_derivatives_with_shape, *parts, fastmath=BATCH_FASTMATH))
        self.family = family
        self.bounds_forms = family.partials_within is not None

    def forms_within(
        self, order: int, eta: np.ndarray, responses: tuple[np.ndarray, ...], covariances: np.ndarray, radius: float
    ) -> np.ndarray:
        """Return bounds of directional derivatives in the predictor and log(shape)."""
        if self.family.partials_within is None:
            return super().forms_within(order, eta, responses, covariances, radius)
        partials = functools.partial(partials_of_bounded_shape, self.family.partials_within)
        return form_of_partials(partials, order, eta, responses[0], covariances, radius)

    def terms(self) -> Callable[..., None]:
        """Return the batch function of the terms, which computes what rows share once for all rows of one shape."""
        parts = self.family.term, *self.family.split_row, allocating(row_reader(1))
        return closure(make_terms_with_shape, *parts, fastmath=BATCH_FASTMATH)

    def slopes(self) -> Callable[..., None]:
        """Return the batch function of the slopes, in the same way."""
        parts = self.family.derivatives, self.family.in_shape, *self.family.split_row, allocating(row_reader(1))
        return closure(make_slopes_with_shape, *parts, fastmath=BATCH_FASTMATH)

    def shape_at(self, eta: np.ndarray) -> np.ndarray:
        """Return the exponential of the second predictor."""
        return np.exp(np.clip(eta[1], -LARGEST_LOG, LARGEST_LOG))


def partials_of_bounded_shape(
    partials_within: PartialBounds,
    order: int,
    eta: np.ndarray,
    y: np.ndarray,
    log_shape: np.ndarray,
    reach: np.ndarray,
    reach_of_shape: np.ndarray,
) -> Partials:
    """Return the bounds of `partials_within` over the part of the interval in which log(shape) is not clipped.

    Beyond it shapes are constant (`bounded_exp`), and their exponentials would overflow.
    """
    low = np.clip(log_shape - reach_of_shape, -LARGEST_LOG, LARGEST_LOG)
    high = np.clip(log_shape + reach_of_shape, -LARGEST_LOG, LARGEST_LOG)
    return partials_within(order, eta, y, 0.5 * (low + high), reach, 0.5 * (high - low))


def form_of_partials(
    partials_within: PartialBounds,
    order: int,
    eta: np.ndarray,
    y: np.ndarray,
    covariances: np.ndarray,
    radius: float,
) -> np.ndarray:
    """Return bounds of directional derivatives from those of the partial derivatives in two predictors.

    With the standard deviations s_1 and s_2 of the predictors a direction moves them by at most these, so that the
    derivative in this direction is at most sum_j binomial(order, j) bound_j s_1^(order - j) s_2^j. A bound that is NaN,
    such as 0 times an exponential that overflows, counts as infinite. Arguments as in `RowLikelihood.forms_within`.
    """
    first, second = np.sqrt(np.maximum(np.einsum("rkk->kr", covariances), 0.0))
    total = np.zeros(len(y))
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        for j, bound in enumerate(partials_within(order, eta[0], y, eta[1], radius * first, radius * second)):
            weight = math.comb(order, j) * first ** (order - j) * second**j
            part = weight * bound
            part[np.isnan(part)] = np.inf
            part[weight == 0.0] = 0.0  # no direction moves this predictor
            total += part
    return total


@compiled
def end_of_run(values: np.ndarray, first: int, n: int) -> int:
    """Return the end of the run of entries from `first` on that have one value."""
    end = first + 1
    while end < n and values[end] == values[first]:
        end += 1
    return end


def make_terms_with_shape(
    term: Callable[..., float],
    of_response: Callable[..., tuple[float, float]],
    of_shape: Callable[[float], tuple[float, float]],
    rows: Callable[..., tuple[np.ndarray]],
) -> Callable[..., None]:
    """Return the batch function of the terms of rows with the predictors eta and log(shape)."""

    def terms(eta: np.ndarray, responses: Data, order: np.ndarray, lo: int, hi: int, out: np.ndarray) -> None:
        (y,) = rows(responses, order, lo, hi)
        log_shape = eta[1]
        n = hi - lo
        first = 0
        while first < n:
            end = end_of_run(log_shape, first, n)
            shape = bounded_exp(log_shape[first])
            share = of_shape(shape)[0]
            for i in range(first, end):
                out[i] = term(eta[0, i], y[i], 1.0, shape) + (of_response(y[i], 1.0, shape)[0] + share)
            first = end

    return terms


def make_slopes_with_shape(
    derivatives: Callable[..., tuple[float, float]],
    in_shape: Callable[..., float],
    of_response: Callable[..., tuple[float, float]],
    of_shape: Callable[[float], tuple[float, float]],
    rows: Callable[..., tuple[np.ndarray]],
) -> Callable[..., None]:
    """Return the batch function of the slopes in eta and log(shape)."""

    def slopes(eta: np.ndarray, responses: Data, order: np.ndarray, lo: int, hi: int, out: np.ndarray) -> None:
        (y,) = rows(responses, order, lo, hi)
        log_shape = eta[1]
        n = hi - lo
        first = 0
        while first < n:
            end = end_of_run(log_shape, first, n)
            shape = bounded_exp(log_shape[first])
            share = of_shape(shape)[1]
            for i in range(first, end):
                out[0, i] = derivatives(eta[0, i], y[i], 1.0, shape)[0]
                out[1, i] = in_shape(eta[0, i], y[i], 1.0, shape) + (of_response(y[i], 1.0, shape)[1] + share)
            first = end

    return slopes


def make_with_shape(term: Callable[..., float], of_row: Callable[..., tuple[float, float]]) -> Callable[..., float]:
    """Return the log density, without constants, as a function of (eta, log(shape), y)."""

    def whole(eta: float, log_shape: float, y: float) -> float:
        shape = bounded_exp(log_shape)
        return term(eta, y, 1.0, shape) + of_row(y, 1.0, shape)[0]

    return whole


def make_derivatives_with_shape(
    derivatives: Callable[..., tuple[float, float]],
    in_shape: Callable[..., float],
    of_row: Callable[..., tuple[float, float]],
    second_in_shape: Callable[..., tuple[float, float]],
) -> Callable[..., tuple[float, float, float, float, float]]:
    """Return the slopes in eta and log(shape) and the upper triangle of the Hessian, as a function of the same."""

    def both(eta: float, log_shape: float, y: float) -> tuple[float, float, float, float, float]:
        shape = bounded_exp(log_shape)
        first, second = derivatives(eta, y, 1.0, shape)
        cross, last = second_in_shape(eta, y, 1.0, shape)
        return first, in_shape(eta, y, 1.0, shape) + of_row(y, 1.0, shape)[1], second, cross, last

    return both
