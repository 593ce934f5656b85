"""Laws of a row given its linear predictor, ``term(eta, y, size)``, log-concave in eta, with their derivatives.

`size` is a second number of each row: the trials of a binomial law, 1 of others. Constants in eta are left out of terms
and returned by `constants`.
"""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from approxmcmc.engine.compiler.compile import closure, compiled
from approxmcmc.engine.numerics import sigmoid, softplus

HALF_LOG_2_PI = 0.5 * math.log(2.0 * math.pi)
FAR = -25.0  # where erfc nears the smallest double


class RowFamily(NamedTuple):
    """Term and derivatives in eta, its constants as a function of arrays y and size, and which y there are."""

    term: Callable[..., float]
    derivatives: Callable[..., tuple[float, float]]
    constants: Callable[[np.ndarray, np.ndarray], Any]
    support: str


def _logit(eta: float, y: float, size: float) -> float:
    return y * eta - size * softplus(eta)


def _logit_derivatives(eta: float, y: float, size: float) -> tuple[float, float]:
    mean = sigmoid(eta)
    return y - size * mean, -size * mean * (1.0 - mean)


def _log_binomial(y: np.ndarray, size: np.ndarray) -> Any:
    from scipy.special import gammaln

    return gammaln(size + 1.0) - gammaln(y + 1.0) - gammaln(size - y + 1.0)


def _poisson(eta: float, y: float, size: float) -> float:
    return y * eta - math.exp(eta)


def _poisson_derivatives(eta: float, y: float, size: float) -> tuple[float, float]:
    mean = math.exp(eta)
    return y - mean, -mean


def _minus_log_factorial(y: np.ndarray, size: np.ndarray) -> Any:
    from scipy.special import gammaln

    return -gammaln(y + 1.0)


@compiled
def log_normal_cdf(x: float) -> float:
    """Return the logarithm of the standard normal distribution function."""
    if x > FAR:
        return math.log(0.5 * math.erfc(-x / math.sqrt(2.0)))
    square = x * x
    return -0.5 * square - math.log(-x) - HALF_LOG_2_PI + math.log1p((-1.0 + (3.0 - 15.0 / square) / square) / square)


def _probit(eta: float, y: float, size: float) -> float:
    return log_normal_cdf((2.0 * y - 1.0) * eta)


def _probit_derivatives(eta: float, y: float, size: float) -> tuple[float, float]:
    sign = 2.0 * y - 1.0
    x = sign * eta
    ratio = math.exp(-0.5 * x * x - HALF_LOG_2_PI - log_normal_cdf(x))
    return sign * ratio, -ratio * (ratio + x)


def _nothing(y: np.ndarray, size: np.ndarray) -> Any:
    return np.zeros_like(y)


FAMILIES = {
    "logit": RowFamily(_logit, _logit_derivatives, _nothing, "0 or 1"),
    "probit": RowFamily(_probit, _probit_derivatives, _nothing, "0 or 1"),
    "binomial": RowFamily(_logit, _logit_derivatives, _log_binomial, "integers from 0 to trials"),
    "poisson": RowFamily(_poisson, _poisson_derivatives, _minus_log_factorial, "integers from 0"),
}


def negative_binomial(shape: float) -> RowFamily:
    """Return the law of counts with mean m = exp(eta) and variance m + m^2 / shape."""
    log_shape = math.log(shape)

    def term(eta: float, y: float, size: float) -> float:
        return y * eta - (y + shape) * softplus(eta - log_shape)

    def derivatives(eta: float, y: float, size: float) -> tuple[float, float]:
        mean = sigmoid(eta - log_shape)
        return y - (y + shape) * mean, -(y + shape) * mean * (1.0 - mean)

    def constants(y: np.ndarray, size: np.ndarray) -> Any:
        from scipy.special import gammaln

        return gammaln(y + shape) - gammaln(y + 1.0) - gammaln(shape) - y * log_shape

    return RowFamily(term, derivatives, constants, "integers from 0")


def make_of_pair(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function of (eta, y) as one of (eta, y, size)."""

    def of_three(eta: float, y: float, size: float) -> Any:
        return function(eta, y)

    return of_three


def of_user(loglik_eta: Callable[..., float], derivatives_eta: Callable[..., tuple[float, float]]) -> RowFamily:
    """Return the user's functions of (eta, y) as a family."""
    term, derivatives = closure(make_of_pair, loglik_eta), closure(make_of_pair, derivatives_eta)
    return RowFamily(term, derivatives, _nothing, "any that the function accepts")
