"""Successes of `size` trials with log odds eta; one trial is a Bernoulli response.

A term is (y - size/2) eta - size log(2 cosh(eta/2)). Its lower bounds "tuned" and "untuned", those of Jaakkola and
Jordan, are quadratic in eta: (y - size/2) eta + size (a eta^2 + c) with a = -tanh(xi/2) / (4 xi) and c = -a xi^2 -
log(2 cosh(xi/2)). They touch the term at eta = xi and eta = -xi.

References: Jaakkola and Jordan (2000); Maclaurin and Adams (2014), Firefly Monte Carlo, section 3.1.
"""

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from approxmcmc.engine.numerics import exp_to_700, log1p_of_fraction, sigmoid, softplus
from approxmcmc.families.family import Family, Form, Minorant, PyMCFamily

UNTUNED = 1.5  # Maclaurin and Adams (2014), section 4: P(bright) < .02 for abs(eta) <= 1.5, < .12 for abs(eta) <= 3


def logit(eta: float, y: float, size: float, shape: float) -> float:
    """Return y eta - size log(1 + exp(eta))."""
    return y * eta - size * softplus(eta)


def logit_derivatives(eta: float, y: float, size: float, shape: float) -> tuple[float, float]:
    """Return y - size m and -size m (1 - m), m = 1 / (1 + exp(-eta))."""
    mean = sigmoid(eta)
    return y - size * mean, -size * mean * (1.0 - mean)


def log_binomial(y: np.ndarray, size: np.ndarray) -> Any:
    """Return the logarithm of the binomial coefficient."""
    from scipy.special import gammaln

    return gammaln(size + 1.0) - gammaln(y + 1.0) - gammaln(size - y + 1.0)


def is_count_of(y: np.ndarray, size: np.ndarray) -> Any:
    """Return which y are integers from 0 to size."""
    return (y >= 0.0) & (y == np.round(y)) & (y <= size)


def slope_within(eta: np.ndarray, y: np.ndarray, size: np.ndarray, shape: float, reach: np.ndarray) -> np.ndarray:
    """Return the largest abs(y - size m), which is at an end of the interval because m increases."""
    from scipy.special import expit

    return np.maximum(np.abs(y - size * expit(eta - reach)), np.abs(y - size * expit(eta + reach)))


def second_within(eta: np.ndarray, y: np.ndarray, size: np.ndarray, shape: float, reach: np.ndarray) -> np.ndarray:
    """Return the largest size m (1 - m), at the t nearest 0."""
    mean = 1.0 / (1.0 + np.exp(-np.maximum(np.abs(eta) - reach, 0.0)))
    return size * mean * (1.0 - mean)


STEEPEST = float(np.log(2.0 + np.sqrt(3.0)))  # where m (1 - m) (2 m - 1) is largest


def third_within(eta: np.ndarray, y: np.ndarray, size: np.ndarray, shape: float, reach: np.ndarray) -> np.ndarray:
    """Return the largest size m (1 - m) abs(1 - 2 m) over abs(t - eta_i) <= reach_i.

    The function of abs(t) rises from 0 at 0 to its maximum at `STEEPEST`, then falls: it is largest at the abs(t)
    nearest to `STEEPEST`.
    """
    nearest = np.maximum(np.abs(eta) - reach, 0.0)
    farthest = np.abs(eta) + reach
    at = np.clip(STEEPEST, nearest, farthest)
    mean = 1.0 / (1.0 + np.exp(-at))
    return size * mean * (1.0 - mean) * (2.0 * mean - 1.0)


def make_jaakkola(shift: float) -> tuple[Callable[..., float], Callable[..., float]]:
    """Return gap and slope of the bounds of terms in t = eta - shift; the gap is the same for all responses."""

    def gap(eta: float, a: float, c: float, size: float) -> float:
        t = eta - shift
        distance = abs(t)
        return size * (-0.5 * distance - log1p_of_fraction(exp_to_700(-distance)) - a * t * t - c)

    def slope(eta: float, a: float, c: float, size: float) -> float:
        t = eta - shift
        return size * (-0.5 * math.tanh(0.5 * t) - 2.0 * a * t)

    return gap, slope


def log_2_cosh_half(x: np.ndarray) -> np.ndarray:
    """Return log(2 cosh(x / 2)), without overflow."""
    return 0.5 * np.abs(x) + np.log1p(np.exp(-np.abs(x)))


def jaakkola_coefficients(xi: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return a and c of the bound that touches at s = xi and s = -xi; a = -1/8 at xi = 0."""
    xi = np.abs(np.asarray(xi, dtype=np.float64))
    small = xi < 1e-4  # tanh(x) / x = 1 - x^2 / 3: exact to a rounding there
    a = -np.where(small, 0.125 * (1.0 - xi * xi / 12.0), np.tanh(0.5 * xi) / np.where(small, 1.0, 4.0 * xi))
    return a, -a * xi * xi - log_2_cosh_half(xi)


def jaakkola_of(y: np.ndarray, size: np.ndarray, xi: np.ndarray, shift: float) -> Minorant:
    """Return the bounds of terms y t - size softplus(t), t = eta - shift, that touch at t = xi and t = -xi."""
    a, c = jaakkola_coefficients(xi)
    quadratic = size * a
    linear = y - 0.5 * size
    in_eta = (quadratic, linear - 2.0 * quadratic * shift, size * c + (quadratic * shift - linear) * shift)
    return Minorant(*make_jaakkola(shift), (a, c, size), in_eta)


def jaakkola(y: np.ndarray, size: np.ndarray, shape: float, eta_0: np.ndarray) -> Minorant:
    """Return the bounds of Jaakkola and Jordan that touch at eta_0 and -eta_0."""
    return jaakkola_of(y, size, eta_0, 0.0)


def untuned_jaakkola(y: np.ndarray, size: np.ndarray, shape: float, eta_0: np.ndarray) -> Minorant:
    """Return the bounds that touch at `UNTUNED` and at its negative."""
    return jaakkola_of(y, size, np.full(len(y), UNTUNED), 0.0)


def _mean(eta: np.ndarray, size: np.ndarray, shape: float) -> np.ndarray:
    from scipy.special import expit

    return size * expit(eta)  # type: ignore[no-any-return]  # SciPy has no types


def _simulate(rng: np.random.Generator, eta: np.ndarray, size: np.ndarray, shape: float) -> np.ndarray:
    from scipy.special import expit

    return rng.binomial(np.asarray(size, dtype=np.int64), expit(eta)).astype(np.float64)


def _observe(name: str, eta: Any, y: np.ndarray, size: np.ndarray, shape: float) -> Any:
    import pymc as pm

    return pm.Binomial(name, n=size.astype(np.int32), logit_p=eta, observed=y.astype(np.int32))


def _read(graphs: Any, n: Any, p: Any) -> Any:
    return graphs.of_probability(BINOMIAL, "logit", p, trials=n)


BINOMIAL = Family(
    "binomial",
    logit,
    logit_derivatives,
    log_binomial,
    "integers from 0 to trials",
    is_count_of,
    predictor_scale=1.0,
    slope_bound=1.0,  # of one trial: bounds are those of a logit
    second_derivative_bound=0.25,
    third_derivative_bound=1.0 / (6.0 * math.sqrt(3.0)),
    slope_within=slope_within,
    second_derivative_within=second_within,
    third_derivative_within=third_within,
    minorants={"tuned": jaakkola, "untuned": untuned_jaakkola},
    mean=_mean,
    simulate=_simulate,
    twin=PyMCFamily("Binomial", "logit", _observe, "int32"),
    is_concave=True,
)

FORMS = (Form("Binomial", "known trials n and p = sigmoid(a linear predictor)", _read),)
