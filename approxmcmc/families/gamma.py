"""Positive responses with mean m = exp(eta) and variance m^2 / shape; of shape 1 they are exponential."""

import math
from typing import Any

import numpy as np

from approxmcmc.engine.numerics import exp
from approxmcmc.families.family import Family, Form, Partials, PyMCFamily
from approxmcmc.families.polygamma import digamma, trigamma


def gamma(eta: float, y: float, size: float, shape: float) -> float:
    """Return -shape (eta + y exp(-eta))."""
    return -shape * (eta + y * exp(-eta))


def gamma_derivatives(eta: float, y: float, size: float, shape: float) -> tuple[float, float]:
    """Return shape (r - 1) and -shape r, r = y exp(-eta)."""
    ratio = y * exp(-eta)
    return shape * (ratio - 1.0), -shape * ratio


def in_shape(eta: float, y: float, size: float, shape: float) -> float:
    """Return the slope of the term in log(shape), the term itself."""
    return -shape * (eta + y * exp(-eta))


def of_row(y: float, size: float, shape: float) -> tuple[float, float]:
    """Return shape log(shape y) - log Gamma(shape), and its slope in log(shape)."""
    log_rate = math.log(shape * y)
    return shape * log_rate - math.lgamma(shape), shape * (log_rate + 1.0 - digamma(shape))


def of_response(y: float, size: float, shape: float) -> tuple[float, float]:
    """Return shape log y, which is its slope in log(shape), too."""
    scaled = shape * math.log(y)
    return scaled, scaled


def of_shape(shape: float) -> tuple[float, float]:
    """Return shape log(shape) - log Gamma(shape), and its slope in log(shape)."""
    log_shape = math.log(shape)
    return shape * log_shape - math.lgamma(shape), shape * (log_shape + 1.0 - digamma(shape))


def second_in_shape(eta: float, y: float, size: float, shape: float) -> tuple[float, float]:
    """Return the second derivatives of the log density in eta and log(shape), and twice in log(shape)."""
    ratio = y * exp(-eta)
    first = shape * (math.log(shape * y) + 1.0 - digamma(shape) - eta - ratio)
    return shape * (ratio - 1.0), first + shape * (1.0 - shape * trigamma(shape))


def minus_log(y: np.ndarray, size: np.ndarray) -> Any:
    """Return -log y."""
    return -np.log(y)


def is_positive(y: np.ndarray, size: np.ndarray) -> Any:
    """Return which y are positive and finite."""
    return (y > 0.0) & np.isfinite(y)


def _slope_within(eta: np.ndarray, y: np.ndarray, size: np.ndarray, shape: float, reach: np.ndarray) -> np.ndarray:
    """Return the largest shape abs(r - 1), at an end of the interval."""
    ends = np.abs(y * np.exp(reach - eta) - 1.0), np.abs(y * np.exp(-reach - eta) - 1.0)
    return shape * np.maximum(*ends)


def _within(eta: np.ndarray, y: np.ndarray, size: np.ndarray, shape: float, reach: np.ndarray) -> np.ndarray:
    """Return the largest shape r, at the lower end: from the second on all derivatives are shape r but for the sign."""
    return shape * y * np.exp(reach - eta)


def _partials_within(
    order: int, eta: np.ndarray, y: np.ndarray, log_shape: np.ndarray, reach: np.ndarray, reach_of_shape: np.ndarray
) -> Partials:
    """Return bounds of the partial derivatives of a (s + u - exp(u)) - log Gamma(a), a = exp(s), u = log y - eta.

    Those in eta alone are a exp(u), mixed ones of which one is in eta a (exp(u) - 1), but for signs. The derivatives in
    s are a (1 + u - exp(u)) plus a number between -1/2 and 1/2, and between -3/2 and 3/2: with psi the digamma
    function, a (log a - psi(a)) and a^2 psi'(a) - a lie between 1/2 and 1, and -a^3 psi''(a) - a between 1 and 2.
    """
    with np.errstate(over="ignore"):
        a = np.exp(log_shape + reach_of_shape)
        high = np.log(y) - eta + reach
        low = np.log(y) - eta - reach
        of_eta = a * np.exp(high)
        mixed = a * np.maximum(np.abs(np.expm1(high)), np.abs(np.expm1(low)))
        of_shape = a * np.maximum(np.expm1(high) - high, np.expm1(low) - low)  # convex in u
    if order == 2:
        return of_eta, mixed, of_shape + 0.5
    return of_eta, of_eta, mixed, of_shape + 1.5


def _mean(eta: np.ndarray, size: np.ndarray, shape: float) -> np.ndarray:
    return np.exp(eta)


def _simulate(rng: np.random.Generator, eta: np.ndarray, size: np.ndarray, shape: float) -> np.ndarray:
    return rng.gamma(shape, np.exp(eta) / shape)


def _observe(name: str, eta: Any, y: np.ndarray, size: Any, shape: Any) -> Any:
    import pymc as pm

    return pm.Gamma(name, alpha=shape, beta=shape * pm.math.exp(-eta), observed=y)


def _read(graphs: Any, alpha: Any, scale: Any) -> Any:
    shape = graphs.product(alpha)
    return graphs.of_logarithm(GAMMA, shape * graphs.product(scale), shape)


def _read_exponential(graphs: Any, scale: Any) -> Any:
    return graphs.of_logarithm(GAMMA, graphs.product(scale), graphs.one)


GAMMA = Family(
    "gamma",
    gamma,
    gamma_derivatives,
    minus_log,
    "positive numbers",
    is_positive,
    in_shape=in_shape,
    of_row=of_row,
    of_response=of_response,
    of_shape=of_shape,
    second_in_shape=second_in_shape,
    partials_within=_partials_within,
    predictor_scale=1.0,
    slope_within=_slope_within,
    second_derivative_within=_within,
    third_derivative_within=_within,
    mean=_mean,
    simulate=_simulate,
    twin=PyMCFamily("Gamma", "log", _observe),
    is_concave=True,
)

FORMS = (
    Form("Gamma", "a mean alpha / beta = exp(a linear predictor), times known positive numbers, and alpha", _read),
    Form("Exponential", "a mean 1 / lam = exp(a linear predictor), times known positive numbers", _read_exponential),
)
