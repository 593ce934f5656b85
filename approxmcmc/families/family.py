"""Distributions of a row given its linear predictor: log density ``term(eta, y, size, shape)``, concave in eta.

`size` is a second number of each row: the trials of a binomial distribution, 1 otherwise. `shape` is a positive number
that all rows share and that may be a parameter: the shape of a negative binomial or the standard deviation of a normal
distribution, 1 otherwise. Terms leave out summands without eta: `constants` returns those that are known, and `of_row`
those that depend on the shape.
"""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from approxmcmc.engine.compiler.compile import closure, compiled
from approxmcmc.engine.numerics import exp, sigmoid, softplus

HALF_LOG_2_PI = 0.5 * math.log(2.0 * math.pi)
FAR = -25.0  # below it the asymptotic series of erfc is used, with a relative error below 1e-9


def _no_slope(eta: float, y: float, size: float, shape: float) -> float:
    return 0.0


def _no_share(y: float, size: float, shape: float) -> tuple[float, float]:
    return 0.0, 0.0


class RowFamily(NamedTuple):
    """The functions of one distribution, see the module, and its possible y (`support`, in words).

    `derivatives` returns the first two derivatives of `term` in eta; `constants(y, size)` takes arrays. For a family
    with a shape `in_shape` is the slope of `term` in log(shape), and `of_row(y, size, shape)` returns the summand of
    the log density without eta, and its slope in log(shape). `merges_rows` says what the rows of a group with one
    shared effect save: True if they are equivalent to one row (Poisson), False if they share exponentials (logit), None
    if nothing; see `row_sums`.
    """

    term: Callable[..., float]
    derivatives: Callable[..., tuple[float, float]]
    constants: Callable[[np.ndarray, np.ndarray], Any]
    support: str
    in_shape: Callable[..., float] = _no_slope
    of_row: Callable[..., tuple[float, float]] = _no_share
    merges_rows: bool | None = None

    @property
    def has_shape(self) -> bool:
        """Whether the distribution has a shape."""
        return self.of_row is not _no_share


def _logit(eta: float, y: float, size: float, shape: float) -> float:
    return y * eta - size * softplus(eta)


def _logit_derivatives(eta: float, y: float, size: float, shape: float) -> tuple[float, float]:
    mean = sigmoid(eta)
    return y - size * mean, -size * mean * (1.0 - mean)


def _log_binomial(y: np.ndarray, size: np.ndarray) -> Any:
    from scipy.special import gammaln

    return gammaln(size + 1.0) - gammaln(y + 1.0) - gammaln(size - y + 1.0)


def _poisson(eta: float, y: float, size: float, shape: float) -> float:
    return y * eta - exp(eta)


def _poisson_derivatives(eta: float, y: float, size: float, shape: float) -> tuple[float, float]:
    mean = exp(eta)
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


def _probit(eta: float, y: float, size: float, shape: float) -> float:
    return log_normal_cdf((2.0 * y - 1.0) * eta)


def _probit_derivatives(eta: float, y: float, size: float, shape: float) -> tuple[float, float]:
    sign = 2.0 * y - 1.0
    x = sign * eta
    ratio = math.exp(-0.5 * x * x - HALF_LOG_2_PI - log_normal_cdf(x))
    return sign * ratio, -ratio * (ratio + x)


def _nothing(y: np.ndarray, size: np.ndarray) -> Any:
    return np.zeros_like(y)


@compiled
def digamma(x: float) -> float:
    """Return the slope of lgamma at x > 0, by the recursion up to 6 and then the asymptotic series, right to 1e-12."""
    total = 0.0
    while x < 6.0:
        total -= 1.0 / x
        x += 1.0
    z = 1.0 / (x * x)
    series = z * (1 / 12 - z * (1 / 120 - z * (1 / 252 - z * (1 / 240 - z * (1 / 132 - z * (691 / 32760 - z / 12))))))
    return total + math.log(x) - 0.5 / x - series


def _negative_binomial(eta: float, y: float, size: float, shape: float) -> float:
    return y * eta - (y + shape) * softplus(eta - math.log(shape))


def _negative_binomial_derivatives(eta: float, y: float, size: float, shape: float) -> tuple[float, float]:
    mean = sigmoid(eta - math.log(shape))
    return y - (y + shape) * mean, -(y + shape) * mean * (1.0 - mean)


def _negative_binomial_in_shape(eta: float, y: float, size: float, shape: float) -> float:
    shifted = eta - math.log(shape)
    return (y + shape) * sigmoid(shifted) - shape * softplus(shifted)


def _negative_binomial_of_row(y: float, size: float, shape: float) -> tuple[float, float]:
    value = math.lgamma(y + shape) - math.lgamma(shape) - y * math.log(shape)
    return value, shape * (digamma(y + shape) - digamma(shape)) - y


def _normal(eta: float, y: float, size: float, shape: float) -> float:
    return -0.5 * ((y - eta) / shape) ** 2


def _normal_derivatives(eta: float, y: float, size: float, shape: float) -> tuple[float, float]:
    return (y - eta) / shape**2, -1.0 / shape**2


def _normal_in_shape(eta: float, y: float, size: float, shape: float) -> float:
    return ((y - eta) / shape) ** 2


def _normal_of_row(y: float, size: float, shape: float) -> tuple[float, float]:
    return -math.log(shape), -1.0


def _normal_constant(y: np.ndarray, size: np.ndarray) -> Any:
    return np.full_like(y, -HALF_LOG_2_PI)


FAMILIES = {
    "logit": RowFamily(_logit, _logit_derivatives, _nothing, "0 or 1", merges_rows=False),
    "probit": RowFamily(_probit, _probit_derivatives, _nothing, "0 or 1"),
    "binomial": RowFamily(_logit, _logit_derivatives, _log_binomial, "integers from 0 to trials"),
    "poisson": RowFamily(_poisson, _poisson_derivatives, _minus_log_factorial, "integers from 0", merges_rows=True),
    # Counts with mean m = exp(eta) and variance m + m^2 / shape.
    "negative binomial": RowFamily(
        _negative_binomial,
        _negative_binomial_derivatives,
        _minus_log_factorial,
        "integers from 0",
        _negative_binomial_in_shape,
        _negative_binomial_of_row,
    ),
    # Only beside another family: alone it has a closed form. The shape is the standard deviation.
    "normal": RowFamily(_normal, _normal_derivatives, _normal_constant, "any number", _normal_in_shape, _normal_of_row),
}


def family_of(name: str) -> RowFamily:
    """Return a family by name, or two, "poisson and normal", as one."""
    first, _, second = name.partition(" and ")
    return joint_of(FAMILIES[first], FAMILIES[second]) if second else FAMILIES[first]


def joint_of(first: RowFamily, second: RowFamily) -> RowFamily:
    """Return the family of rows that follow `first` if their size is at least 0, else `second` with size -1 - size."""

    def constants(y: np.ndarray, size: np.ndarray) -> Any:
        return np.where(size >= 0.0, first.constants(y, size), second.constants(y, -1.0 - size))

    has_shape = first.has_shape or second.has_shape
    return RowFamily(
        closure(make_either, first.term, second.term),
        closure(make_either, first.derivatives, second.derivatives),
        constants,
        f"{first.support}, or {second.support}",
        closure(make_either, first.in_shape, second.in_shape),
        closure(make_either_of_row, first.of_row, second.of_row) if has_shape else _no_share,
    )


def make_either(first: Callable[..., Any], second: Callable[..., Any]) -> Callable[..., Any]:
    """Return the function that calls `first`; or, for a size below 0, `second` with the size -1 - size."""

    def either(eta: float, y: float, size: float, shape: float) -> Any:
        return first(eta, y, size, shape) if size >= 0.0 else second(eta, y, -1.0 - size, shape)

    return either


def make_either_of_row(first: Callable[..., Any], second: Callable[..., Any]) -> Callable[..., Any]:
    """Return the same as `make_either`, for functions of (y, size, shape)."""

    def either(y: float, size: float, shape: float) -> Any:
        return first(y, size, shape) if size >= 0.0 else second(y, -1.0 - size, shape)

    return either


def make_of_pair(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function of (eta, y, size, shape) that calls `function` of (eta, y)."""

    def of_four(eta: float, y: float, size: float, shape: float) -> Any:
        return function(eta, y)

    return of_four


def of_user(loglik_eta: Callable[..., float], derivatives_eta: Callable[..., tuple[float, float]]) -> RowFamily:
    """Return the family of a user's functions of (eta, y): the term, and its first two derivatives in eta."""
    term, derivatives = closure(make_of_pair, loglik_eta), closure(make_of_pair, derivatives_eta)
    return RowFamily(term, derivatives, _nothing, "any that the function accepts")
