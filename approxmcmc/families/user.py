"""A family of the user's: a function of predictor and response, and its derivatives or differences in their place."""

from collections.abc import Callable
from typing import Any

import numpy as np

from approxmcmc.engine.compiler.compile import closure, compiled
from approxmcmc.engine.compiler.identity import cached_by_content
from approxmcmc.families.family import Family, Pair, make_of_pair, no_constants


@cached_by_content(maxsize=64)
def numerical_derivatives(function: Callable[[float, float], float]) -> Callable[[float, float], tuple[float, float]]:
    """Return ``derivatives(eta, y)``, the first two derivatives in eta of a function by five-point differences.

    The errors of the derivatives, about 1e-9 and 1e-8 of the scale of the function, make no exact sampler inexact: the
    expansion differs slightly from the Taylor polynomial, and the residuals correct the difference.
    """
    value = compiled(function)

    def derivatives(eta: float, y: float) -> tuple[float, float]:
        # As the rule has fourth order, so long a step errs by 1e-9; a shorter one loses digits to rounding.
        h = 5e-3 * (1.0 + abs(eta))
        near = value(eta + h, y)
        far = value(eta + 2.0 * h, y)
        near_left = value(eta - h, y)
        far_left = value(eta - 2.0 * h, y)
        first = (8.0 * (near - near_left) - (far - far_left)) / (12.0 * h)
        second = (16.0 * (near + near_left) - (far + far_left) - 30.0 * value(eta, y)) / (12.0 * h * h)
        return first, second

    return derivatives


def _any_response(y: np.ndarray, size: np.ndarray) -> Any:
    return np.ones(np.shape(y), dtype=bool)


def of_user(loglik_eta: Callable[..., float], derivatives_eta: Callable[..., tuple[float, float]] | None) -> Family:
    """Return the family of a user's functions of (eta, y): the term, and its first two derivatives in eta, or None."""
    pair = Pair(loglik_eta, derivatives_eta or numerical_derivatives(loglik_eta))
    term = closure(make_of_pair, pair.term)
    derivatives = closure(make_of_pair, pair.derivatives)
    return Family(
        loglik_eta.__name__,
        term,
        derivatives,
        no_constants,
        "any that the function accepts",
        _any_response,
        pair,
        knows_derivatives=derivatives_eta is not None,
    )
