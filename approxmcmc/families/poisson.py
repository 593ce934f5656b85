"""Counts with mean exp(eta)."""

from typing import Any

import numpy as np

from approxmcmc.engine.numerics import exp
from approxmcmc.families.family import Family, Form, PyMCFamily


def poisson(eta: float, y: float, size: float, shape: float) -> float:
    """Return y eta - exp(eta)."""
    return y * eta - exp(eta)


def poisson_derivatives(eta: float, y: float, size: float, shape: float) -> tuple[float, float]:
    """Return y - exp(eta) and -exp(eta)."""
    mean = exp(eta)
    return y - mean, -mean


def minus_log_factorial(y: np.ndarray, size: np.ndarray) -> Any:
    """Return -log y!."""
    from scipy.special import gammaln

    return -gammaln(y + 1.0)


def is_count(y: np.ndarray, size: np.ndarray) -> Any:
    """Return which y are integers from 0."""
    return (y >= 0.0) & (y == np.round(y))


def _slope_within(eta: np.ndarray, y: np.ndarray, size: np.ndarray, shape: float, reach: np.ndarray) -> np.ndarray:
    """Return the largest abs(y - exp(t)), at an end of the interval."""
    return np.maximum(np.abs(y - np.exp(eta - reach)), np.abs(y - np.exp(eta + reach)))


def _within(eta: np.ndarray, y: np.ndarray, size: np.ndarray, shape: float, reach: np.ndarray) -> np.ndarray:
    """Return the largest exp(t), at the upper end: all derivatives from the second on are -exp(t)."""
    return np.exp(eta + reach)


def _mean(eta: np.ndarray, size: np.ndarray, shape: float) -> np.ndarray:
    return np.exp(eta)


def _simulate(rng: np.random.Generator, eta: np.ndarray, size: np.ndarray, shape: float) -> np.ndarray:
    return rng.poisson(np.exp(eta)).astype(np.float64)


def _observe(name: str, eta: Any, y: np.ndarray, size: Any = 1.0, shape: float = 1.0) -> Any:
    import pymc as pm

    return pm.Poisson(name, mu=pm.math.exp(eta), observed=y.astype(np.int64))


def _read(graphs: Any, mu: Any) -> Any:
    return graphs.of_logarithm(POISSON, graphs.product(mu))


POISSON = Family(
    "poisson",
    poisson,
    poisson_derivatives,
    minus_log_factorial,
    "integers from 0",
    is_count,
    merges_rows=True,
    slope_within=_slope_within,
    second_derivative_within=_within,
    third_derivative_within=_within,
    mean=_mean,
    simulate=_simulate,
    twin=PyMCFamily("Poisson", "log", _observe, "int64"),
    is_concave=True,
)

FORMS = (Form("Poisson", "mu = exp(a linear predictor), times known positive numbers", _read),)
