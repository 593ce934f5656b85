"""Positive responses of a Weibull distribution with scale exp(eta): (y exp(-eta))^shape is exponential."""

import math
from typing import Any

import numpy as np

from approxmcmc.engine.numerics import exp
from approxmcmc.families.family import Family, Form, Partials, PyMCFamily
from approxmcmc.families.gamma import is_positive, minus_log


def weibull(eta: float, y: float, size: float, shape: float) -> float:
    """Return -shape eta - w, w = (y exp(-eta))^shape."""
    return -shape * eta - exp(shape * (math.log(y) - eta))


def weibull_derivatives(eta: float, y: float, size: float, shape: float) -> tuple[float, float]:
    """Return shape (w - 1) and -shape^2 w."""
    power = exp(shape * (math.log(y) - eta))
    return shape * (power - 1.0), -shape * shape * power


def in_shape(eta: float, y: float, size: float, shape: float) -> float:
    """Return the slope of the term in log(shape)."""
    log_power = shape * (math.log(y) - eta)
    return -shape * eta - exp(log_power) * log_power


def of_row(y: float, size: float, shape: float) -> tuple[float, float]:
    """Return log(shape) + shape log y, and its slope in log(shape)."""
    scaled = shape * math.log(y)
    return math.log(shape) + scaled, 1.0 + scaled


def second_in_shape(eta: float, y: float, size: float, shape: float) -> tuple[float, float]:
    """Return the second derivatives of the log density in eta and log(shape), and twice in log(shape)."""
    log_power = shape * (math.log(y) - eta)
    power = exp(log_power)
    return shape * (power - 1.0 + power * log_power), log_power - power * log_power * (log_power + 1.0)


def _largest_power(eta: np.ndarray, y: np.ndarray, shape: float, reach: np.ndarray) -> np.ndarray:
    """Return the largest w over abs(t - eta_i) <= reach_i, at the lower end of the interval."""
    with np.errstate(over="ignore"):
        return np.exp(shape * (np.log(y) - eta + reach))


def _slope_within(eta: np.ndarray, y: np.ndarray, size: np.ndarray, shape: float, reach: np.ndarray) -> np.ndarray:
    """Return the largest shape abs(w - 1), at an end of the interval."""
    largest = _largest_power(eta, y, shape, reach)
    smallest = _largest_power(eta, y, shape, -reach)
    return shape * np.maximum(np.abs(largest - 1.0), np.abs(smallest - 1.0))


def _second_within(eta: np.ndarray, y: np.ndarray, size: np.ndarray, shape: float, reach: np.ndarray) -> np.ndarray:
    """Return the largest shape^2 w."""
    return shape**2 * _largest_power(eta, y, shape, reach)


def _third_within(eta: np.ndarray, y: np.ndarray, size: np.ndarray, shape: float, reach: np.ndarray) -> np.ndarray:
    """Return the largest shape^3 w."""
    return shape**3 * _largest_power(eta, y, shape, reach)


def _largest_power_exp(k: int, low: np.ndarray, high: np.ndarray) -> Any:
    """Return the largest abs(v)^k exp(v) over low <= v <= high: at the upper end, or at the point nearest to -k."""
    peak = np.clip(-float(k), low, high)
    return np.maximum(np.abs(peak) ** k * np.exp(peak), np.abs(high) ** k * np.exp(high))


def _partials_within(
    order: int, eta: np.ndarray, y: np.ndarray, log_shape: np.ndarray, reach: np.ndarray, reach_of_shape: np.ndarray
) -> Partials:
    """Return bounds of the partial derivatives of s + v - exp(v), v = exp(s) (log y - eta), term by term.

    They are a^2 w, a (w (1 + v) - 1) and v - w (v + v^2), a = exp(s), w = exp(v), but for signs; of third order
    a^3 w, a^2 w (2 + v), a (w (1 + 3 v + v^2) - 1) and v - w (v + 3 v^2 + v^3).
    """
    with np.errstate(over="ignore", invalid="ignore"):
        a = np.exp(log_shape + reach_of_shape)
        least_a = np.exp(log_shape - reach_of_shape)
        w_high = np.log(y) - eta + reach
        w_low = np.log(y) - eta - reach
        low = np.minimum(a * w_low, least_a * w_low)
        high = np.maximum(a * w_high, least_a * w_high)
        farthest = np.maximum(np.abs(low), np.abs(high))
        e0, e1, e2, e3 = (_largest_power_exp(k, low, high) for k in range(4))
        if order == 2:
            return a**2 * e0, a * (e0 + e1 + 1.0), farthest + e1 + e2
        return a**3 * e0, a**2 * (2.0 * e0 + e1), a * (e0 + 3.0 * e1 + e2 + 1.0), farthest + e1 + 3.0 * e2 + e3


def _mean(eta: np.ndarray, size: np.ndarray, shape: Any) -> np.ndarray:
    from scipy.special import gamma

    return np.exp(eta) * gamma(1.0 + 1.0 / shape)  # type: ignore[no-any-return]  # SciPy has no types


def _simulate(rng: np.random.Generator, eta: np.ndarray, size: np.ndarray, shape: float) -> np.ndarray:
    return np.exp(eta) * rng.weibull(shape, size=np.shape(eta))


def _observe(name: str, eta: Any, y: np.ndarray, size: Any, shape: Any) -> Any:
    import pymc as pm

    return pm.Weibull(name, alpha=shape, beta=pm.math.exp(eta), observed=y)


def _read(graphs: Any, alpha: Any, scale: Any) -> Any:
    return graphs.of_logarithm(WEIBULL, graphs.product(scale), graphs.product(alpha))


WEIBULL = Family(
    "weibull",
    weibull,
    weibull_derivatives,
    minus_log,
    "positive numbers",
    is_positive,
    in_shape=in_shape,
    of_row=of_row,
    second_in_shape=second_in_shape,
    partials_within=_partials_within,
    predictor_scale=1.0,
    slope_within=_slope_within,
    second_derivative_within=_second_within,
    third_derivative_within=_third_within,
    mean=_mean,
    simulate=_simulate,
    twin=PyMCFamily("WeibullBeta", "log", _observe),
    is_concave=True,
)

FORMS = (Form("WeibullBeta", "beta = exp(a linear predictor), times known positive numbers, and alpha", _read),)
