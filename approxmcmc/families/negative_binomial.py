"""Counts with mean m = exp(eta) and variance m + m^2 / shape."""

import math
from typing import Any

import numpy as np

from approxmcmc.engine.numerics import sigmoid, softplus
from approxmcmc.families import binomial
from approxmcmc.families.family import Family, Form, Minorant, Partials, PyMCFamily
from approxmcmc.families.poisson import is_count, minus_log_factorial
from approxmcmc.families.polygamma import digamma, trigamma


def negative_binomial(eta: float, y: float, size: float, shape: float) -> float:
    """Return y eta - (y + shape) log(1 + exp(eta - log(shape)))."""
    return y * eta - (y + shape) * softplus(eta - math.log(shape))


def negative_binomial_derivatives(eta: float, y: float, size: float, shape: float) -> tuple[float, float]:
    """Return y - (y + shape) q and -(y + shape) q (1 - q), q = 1 / (1 + shape exp(-eta))."""
    q = sigmoid(eta - math.log(shape))
    return y - (y + shape) * q, -(y + shape) * q * (1.0 - q)


def in_shape(eta: float, y: float, size: float, shape: float) -> float:
    """Return the slope of the term in log(shape)."""
    shifted = eta - math.log(shape)
    return (y + shape) * sigmoid(shifted) - shape * softplus(shifted)


def of_row(y: float, size: float, shape: float) -> tuple[float, float]:
    """Return log Gamma(y + shape) - log Gamma(shape) - y log(shape), and its slope in log(shape)."""
    value = math.lgamma(y + shape) - math.lgamma(shape) - y * math.log(shape)
    return value, shape * (digamma(y + shape) - digamma(shape)) - y


def of_response(y: float, size: float, shape: float) -> tuple[float, float]:
    """Return log Gamma(y + shape) - y log(shape), and its slope in log(shape)."""
    return math.lgamma(y + shape) - y * math.log(shape), shape * digamma(y + shape) - y


def of_shape(shape: float) -> tuple[float, float]:
    """Return -log Gamma(shape), and its slope in log(shape)."""
    return -math.lgamma(shape), -shape * digamma(shape)


def second_in_shape(eta: float, y: float, size: float, shape: float) -> tuple[float, float]:
    """Return the mixed second derivative in eta and log(shape), and the second derivative in log(shape)."""
    shifted = eta - math.log(shape)
    q = sigmoid(shifted)
    curvature = (y + shape) * q * (1.0 - q)
    of_term = shape * (2.0 * q - softplus(shifted)) - curvature
    first = shape * (digamma(y + shape) - digamma(shape))
    return curvature - shape * q, of_term + first + shape * shape * (trigamma(y + shape) - trigamma(shape))


def _partials_within(
    order: int, eta: np.ndarray, y: np.ndarray, log_shape: np.ndarray, reach: np.ndarray, reach_of_shape: np.ndarray
) -> Partials:
    """Return bounds of the partial derivatives of the log density in eta and s, term by term.

    With a = exp(s), q = sigma(eta - s), b = q (1 - q), c = b (1 - 2 q) and T(s) = sum_{j < y} log(a + j), whose
    derivatives are D2 T and D3 T, they are, but for signs,

    - (y + a) b, (y + a) b - a q and D2 T + a (log(1 - q) + 2 q) - (y + a) b;
    - of third order (y + a) c, (y + a) c - a b, (y + a) c - a q (2 q - 1) and
      D3 T + a (log(1 - q) + 3 q^2) + (y + a) c.

    The derivatives of log(a + j) are p (1 - p) and p (1 - p) (1 - 2 p), p = a / (a + j), and p (1 - p) <= a / (a + j).
    With the mean m = exp(eta), q = m / (a + m), so that a q and -a log(1 - q) are at most m, however large a is.
    """
    with np.errstate(over="ignore"):
        a = np.exp(log_shape + reach_of_shape)
        log_odds = eta - log_shape
        farthest = reach + reach_of_shape
        curvature = _largest_b(log_odds, farthest)
        third = _largest_c(log_odds, farthest)
        highest = log_odds + farthest
        q = 1.0 / (1.0 + np.exp(-highest))
        log_rest = np.logaddexp(0.0, highest)  # -log(1 - q)
        others = np.maximum(y - 1.0, 0.0)  # of j = 0 the derivatives are 0
        of_sum = np.minimum(others / 4.0, a * np.log1p(others / a))
        mean = np.exp(eta + reach)
        a_q = np.minimum(a * q, mean)
        a_log = np.minimum(a * log_rest, mean)
        curvatures = y * curvature + np.minimum(a * curvature, mean)
        thirds = y * third + np.minimum(a * third, mean)
    if order == 2:
        return curvatures, curvatures + a_q, of_sum + np.maximum(a_log, 2.0 * a_q) + curvatures
    return (
        thirds,
        thirds + np.minimum(a * curvature, mean),
        thirds + a_q,
        of_sum + np.maximum(a_log, 3.0 * a_q) + thirds,
    )


def _largest_b(log_odds: np.ndarray, reach: np.ndarray) -> np.ndarray:
    """Return the largest q (1 - q) over abs(t - log_odds) <= reach, at the t nearest 0.

    Computed from exp(-t): 1 - q rounds to 0 beyond t = 37, which shapes much larger than the mean reach, and which
    multiplies them.
    """
    odds = np.exp(-np.maximum(np.abs(log_odds) - reach, 0.0))
    return odds / (1.0 + odds) ** 2


def _largest_c(log_odds: np.ndarray, reach: np.ndarray) -> np.ndarray:
    """Return the largest q (1 - q) abs(1 - 2 q) over the same t, at the one nearest to `binomial.STEEPEST`."""
    nearest = np.maximum(np.abs(log_odds) - reach, 0.0)
    odds = np.exp(-np.clip(binomial.STEEPEST, nearest, np.abs(log_odds) + reach))
    return odds * (1.0 - odds) / (1.0 + odds) ** 3


# As a function of eta, a term is that of a binomial response with y + shape trials and log odds eta - log(shape).


def _slope_within(eta: np.ndarray, y: np.ndarray, size: np.ndarray, shape: float, reach: np.ndarray) -> np.ndarray:
    return binomial.slope_within(eta - math.log(shape), y, y + shape, shape, reach)


def _second_within(eta: np.ndarray, y: np.ndarray, size: np.ndarray, shape: float, reach: np.ndarray) -> np.ndarray:
    return (y + shape) * _largest_b(eta - math.log(shape), reach)


def _third_within(eta: np.ndarray, y: np.ndarray, size: np.ndarray, shape: float, reach: np.ndarray) -> np.ndarray:
    return (y + shape) * _largest_c(eta - math.log(shape), reach)


def _of_shape(y: np.ndarray, shape: float, xi: np.ndarray) -> Minorant:
    """Return the bounds of Jaakkola and Jordan that touch at eta = log(shape) + xi and log(shape) - xi."""
    shift = math.log(shape)
    minorant = binomial.jaakkola_of(y, y + shape, xi, shift)
    quadratic, linear, constant = minorant.coefficients
    return minorant._replace(coefficients=(quadratic, linear, constant + y * shift))


def _tuned(y: np.ndarray, size: np.ndarray, shape: float, eta_0: np.ndarray) -> Minorant:
    return _of_shape(y, shape, eta_0 - math.log(shape))


def _untuned(y: np.ndarray, size: np.ndarray, shape: float, eta_0: np.ndarray) -> Minorant:
    return _of_shape(y, shape, np.full(len(y), binomial.UNTUNED))


def _mean(eta: np.ndarray, size: np.ndarray, shape: float) -> np.ndarray:
    return np.exp(eta)


def _simulate(rng: np.random.Generator, eta: np.ndarray, size: np.ndarray, shape: float) -> np.ndarray:
    return rng.poisson(rng.gamma(shape, np.exp(eta) / shape)).astype(np.float64)


def _observe(name: str, eta: Any, y: np.ndarray, size: Any, shape: Any) -> Any:
    import pymc as pm

    alpha = np.float64(shape) * np.ones(1) if isinstance(shape, float) else shape  # a float like 2.5 becomes a float32
    return pm.NegativeBinomial(name, mu=pm.math.exp(eta), alpha=alpha, observed=y.astype(np.int64))


def _read(graphs: Any, alpha: Any, p: Any) -> Any:
    """PyMC has p = alpha / (alpha + mu), so the mean mu is alpha divided by the odds of p."""
    odds = graphs.odds(p)
    shape = graphs.product(alpha)
    return None if odds is None else graphs.of_logarithm(NEGATIVE_BINOMIAL, shape / odds, shape)


NEGATIVE_BINOMIAL = Family(
    "negative binomial",
    negative_binomial,
    negative_binomial_derivatives,
    minus_log_factorial,
    "integers from 0",
    is_count,
    in_shape=in_shape,
    of_row=of_row,
    of_response=of_response,
    of_shape=of_shape,
    second_in_shape=second_in_shape,
    partials_within=_partials_within,
    predictor_scale=1.0,
    slope_within=_slope_within,
    second_derivative_within=_second_within,
    third_derivative_within=_third_within,
    minorants={"tuned": _tuned, "untuned": _untuned},
    mean=_mean,
    simulate=_simulate,
    twin=PyMCFamily("NegBinomial", "log", _observe, "int64"),
    is_concave=True,
)

FORMS = (Form("NegBinomial", "mu = exp(a linear predictor), times known positive numbers, and alpha", _read),)
