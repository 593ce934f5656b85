"""Counts with mean m = exp(eta) and variance m + m^2 / shape."""

import math
from typing import Any

import numpy as np

from approxmcmc.engine.numerics import sigmoid, softplus
from approxmcmc.families import binomial
from approxmcmc.families.family import Family, Form, Minorant, PyMCFamily
from approxmcmc.families.poisson import is_count, minus_log_factorial
from approxmcmc.families.polygamma import digamma, trigamma


def negative_binomial(eta: float, y: float, size: float, shape: float) -> float:
    """Return y eta - (y + shape) log(1 + exp(eta - log(shape)))."""
    return y * eta - (y + shape) * softplus(eta - math.log(shape))


def negative_binomial_derivatives(eta: float, y: float, size: float, shape: float) -> tuple[float, float]:
    """Return y - (y + shape) m and -(y + shape) m (1 - m), m = 1 / (1 + shape exp(-eta))."""
    mean = sigmoid(eta - math.log(shape))
    return y - (y + shape) * mean, -(y + shape) * mean * (1.0 - mean)


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
    """Return the second derivatives of the log density in eta and log(shape), and twice in log(shape)."""
    shifted = eta - math.log(shape)
    mean = sigmoid(shifted)
    bend = (y + shape) * mean * (1.0 - mean)
    of_term = shape * (2.0 * mean - softplus(shifted)) - bend
    first = shape * (digamma(y + shape) - digamma(shape))
    return bend - shape * mean, of_term + first + shape * shape * (trigamma(y + shape) - trigamma(shape))


# As a function of eta, a term is that of a binomial response with y + shape trials and log odds eta - log(shape).


def _slope_within(eta: np.ndarray, y: np.ndarray, size: np.ndarray, shape: float, reach: np.ndarray) -> np.ndarray:
    return binomial.slope_within(eta - math.log(shape), y, y + shape, shape, reach)


def _second_within(eta: np.ndarray, y: np.ndarray, size: np.ndarray, shape: float, reach: np.ndarray) -> np.ndarray:
    return binomial.second_within(eta - math.log(shape), y, y + shape, shape, reach)


def _third_within(eta: np.ndarray, y: np.ndarray, size: np.ndarray, shape: float, reach: np.ndarray) -> np.ndarray:
    return binomial.third_within(eta - math.log(shape), y, y + shape, shape, reach)


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
    predictor_scale=1.0,
    slope_within=_slope_within,
    second_derivative_within=_second_within,
    third_derivative_within=_third_within,
    minorants={"tuned": _tuned, "untuned": _untuned},
    mean=_mean,
    simulate=_simulate,
    twin=PyMCFamily("NegBinomial", "log", _observe),
    is_concave=True,
)

FORMS = (Form("NegBinomial", "mu = exp(a linear predictor), times known positive numbers, and alpha", _read),)
