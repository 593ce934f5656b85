"""Responses 0 and 1, with the probability of 1 linked to eta: logit, probit and complementary log-log.

Lower bounds of terms that are quadratic in eta (s = eta if y is 1, -eta if it is 0; sigma is the logistic function, Phi
the normal distribution function with the density phi):

- Of a logit: those of Jaakkola and Jordan, see `families.binomial`; and *Taylor*: log sigma(s_0) + sigma(-s_0)
  (s - s_0) - (s - s_0)^2 / 8, since (log sigma)'' >= -1/4; it touches at s_0 only, and is looser elsewhere.
- Of a probit: log Phi(s_0) + h_0 (s - s_0) - (s - s_0)^2 / 2 with h_0 = phi(s_0) / Phi(s_0), since (log Phi)'' >= -1;
  it touches at s_0, "untuned" at s_0 = 0.
- Of a complementary log-log none: no quadratic lies below -exp(eta).

Reference: Maclaurin and Adams (2014), Firefly Monte Carlo, section 3.1.
"""

import math
from typing import Any

import numpy as np

from approxmcmc.engine.compiler.compile import compiled
from approxmcmc.engine.numerics import exp, log1mexp, sigmoid, softplus
from approxmcmc.families.binomial import (
    is_count_of,
    jaakkola,
    logit,
    logit_derivatives,
    second_within,
    slope_within,
    third_within,
    untuned_jaakkola,
)
from approxmcmc.families.family import Family, Form, Minorant, Pair, PyMCFamily, no_constants
from approxmcmc.families.normal import HALF_LOG_2_PI

FAR = -25.0  # below it the asymptotic series of erfc is used, with a relative error below 1e-9


# --- logit ---


def bernoulli_logit(eta: float, y: float) -> float:
    """Return log p(y | eta) = y eta - log(1 + exp(eta)), y in {0, 1}."""
    return y * eta - softplus(eta)


def bernoulli_logit_derivatives(eta: float, y: float) -> tuple[float, float]:
    """Return the first two derivatives of log p(y | eta) in eta: y - m and -m (1 - m), m = 1 / (1 + exp(-eta))."""
    mean = sigmoid(eta)
    return y - mean, -mean * (1.0 - mean)


def _taylor_gap(eta: float, eta_0: float, level: float, slope: float) -> float:
    """Return the gap of a bound that touches at eta_0, where softplus has the value `level` and the slope `slope`."""
    step = eta - eta_0
    return level + slope * step + 0.125 * step * step - softplus(eta)


def _taylor_slope(eta: float, eta_0: float, level: float, slope: float) -> float:
    return slope + 0.25 * (eta - eta_0) - 0.5 * (1.0 + math.tanh(0.5 * eta))


def _taylor(y: np.ndarray, size: np.ndarray, shape: float, eta_0: np.ndarray) -> Minorant:
    level = np.logaddexp(0.0, eta_0)
    slope = 0.5 * (1.0 + np.tanh(0.5 * eta_0))
    linear = y - slope + 0.25 * eta_0
    constant = slope * eta_0 - level - 0.125 * eta_0 * eta_0
    coefficients = (np.full(len(y), -0.125), linear, constant)
    return Minorant(_taylor_gap, _taylor_slope, (eta_0, level, slope), coefficients)


def _mean_logit(eta: np.ndarray, size: np.ndarray, shape: float) -> np.ndarray:
    from scipy.special import expit

    return expit(eta)  # type: ignore[no-any-return]  # SciPy has no types


def _simulate_logit(rng: np.random.Generator, eta: np.ndarray, size: np.ndarray, shape: float) -> np.ndarray:
    from scipy.special import expit

    return (rng.random(np.shape(eta)) < expit(eta)).astype(np.float64)


def _observe_logit(name: str, eta: Any, y: np.ndarray, size: Any = 1.0, shape: float = 1.0) -> Any:
    import pymc as pm

    return pm.Bernoulli(name, logit_p=eta, observed=y.astype(np.int32))


LOGIT = Family(
    "logit",
    logit,  # of one trial
    logit_derivatives,
    no_constants,
    "0 or 1",
    is_count_of,
    Pair(bernoulli_logit, bernoulli_logit_derivatives),
    merges_rows=False,
    predictor_scale=1.0,
    slope_bound=1.0,  # y - m lies between -1 and 1
    second_derivative_bound=0.25,
    third_derivative_bound=1.0 / (6.0 * math.sqrt(3.0)),  # m (1 - m) (1 - 2 m) is largest at m = (1 + 1/sqrt(3)) / 2
    slope_within=slope_within,
    second_derivative_within=second_within,
    third_derivative_within=third_within,
    minorants={"tuned": jaakkola, "untuned": untuned_jaakkola, "taylor": _taylor},
    mean=_mean_logit,
    simulate=_simulate_logit,
    twin=PyMCFamily("Bernoulli", "logit", _observe_logit, "int32"),
    is_concave=True,
)


# --- probit ---


@compiled
def log_normal_cdf(x: float) -> float:
    """Return the logarithm of the standard normal distribution function."""
    if x > FAR:
        return math.log(0.5 * math.erfc(-x / math.sqrt(2.0)))
    square = x * x
    return -0.5 * square - math.log(-x) - HALF_LOG_2_PI + math.log1p((-1.0 + (3.0 - 15.0 / square) / square) / square)


def probit(eta: float, y: float, size: float, shape: float) -> float:
    """Return the logarithm of the normal distribution function at eta or -eta."""
    return log_normal_cdf((2.0 * y - 1.0) * eta)


def probit_derivatives(eta: float, y: float, size: float, shape: float) -> tuple[float, float]:
    """Return s h and -h (h + x), with x = s eta, s = 1 or -1, and h the ratio of density and distribution function."""
    sign = 2.0 * y - 1.0
    x = sign * eta
    ratio = math.exp(-0.5 * x * x - HALF_LOG_2_PI - log_normal_cdf(x))
    return sign * ratio, -ratio * (ratio + x)


def _least_x(eta: np.ndarray, y: np.ndarray, reach: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the smallest x = s t over the interval, and the ratio h there."""
    from scipy.special import log_ndtr

    x = (2.0 * y - 1.0) * eta - reach
    return x, np.exp(-0.5 * x * x - HALF_LOG_2_PI - log_ndtr(x))


def _probit_slope_within(
    eta: np.ndarray, y: np.ndarray, size: np.ndarray, shape: float, reach: np.ndarray
) -> np.ndarray:
    """Return the largest h, which decreases in x."""
    return _least_x(eta, y, reach)[1]


def _probit_second_within(
    eta: np.ndarray, y: np.ndarray, size: np.ndarray, shape: float, reach: np.ndarray
) -> np.ndarray:
    """Return the largest h (h + x): it decreases in x from 1; truncation takes this share of a normal variance."""
    x, ratio = _least_x(eta, y, reach)
    return np.minimum(ratio * (ratio + x), 1.0)


def _probit_third_within(
    eta: np.ndarray, y: np.ndarray, size: np.ndarray, shape: float, reach: np.ndarray
) -> np.ndarray:
    return np.full(np.shape(eta), LARGEST_THIRD_OF_PROBIT)


# Upper bound of abs(h ((x + h) (x + 2 h) - 1)), the third derivative in x: 0.29572 at x = 1.0024.
LARGEST_THIRD_OF_PROBIT = 0.2958


LEAST_TOUCH = -20.0  # no bound touches further out, where `log_normal_cdf` passes to its series


def _probit_gap(eta: float, sign: float, x_0: float, level: float) -> float:
    """Return log Phi(s) - level - h_0 (s - s_0) + (s - s_0)^2 / 2, level = log Phi(s_0) at x_0 = s_0."""
    x = sign * eta
    step = x - x_0
    slope = math.exp(-0.5 * x_0 * x_0 - HALF_LOG_2_PI - level)
    return log_normal_cdf(x) - level - slope * step + 0.5 * step * step  # type: ignore[no-any-return]  # of a kernel


def _probit_gap_slope(eta: float, sign: float, x_0: float, level: float) -> float:
    x = sign * eta
    ratio = math.exp(-0.5 * x * x - HALF_LOG_2_PI - log_normal_cdf(x))
    return sign * (ratio - math.exp(-0.5 * x_0 * x_0 - HALF_LOG_2_PI - level) + x - x_0)


def _tangent_to_probit(y: np.ndarray, size: np.ndarray, shape: float, eta_0: np.ndarray) -> Minorant:
    """Return the bounds that touch at eta_0, or at s = `LEAST_TOUCH` if s_0 lies below it."""
    from scipy.special import log_ndtr

    sign = 2.0 * y - 1.0
    x_0 = np.maximum(sign * eta_0, LEAST_TOUCH)
    level = log_ndtr(x_0)
    slope = np.exp(-0.5 * x_0 * x_0 - HALF_LOG_2_PI - level)
    coefficients = (np.full(len(y), -0.5), sign * (slope + x_0), level - slope * x_0 - 0.5 * x_0 * x_0)
    return Minorant(_probit_gap, _probit_gap_slope, (sign, x_0, level), coefficients)


def _untuned_probit(y: np.ndarray, size: np.ndarray, shape: float, eta_0: np.ndarray) -> Minorant:
    return _tangent_to_probit(y, size, shape, np.zeros(len(y)))


def _mean_probit(eta: np.ndarray, size: np.ndarray, shape: float) -> np.ndarray:
    from scipy.special import ndtr

    return ndtr(eta)  # type: ignore[no-any-return]  # SciPy has no types


def _simulate_probit(rng: np.random.Generator, eta: np.ndarray, size: np.ndarray, shape: float) -> np.ndarray:
    return (rng.normal(size=np.shape(eta)) < eta).astype(np.float64)


def _observe_probit(name: str, eta: Any, y: np.ndarray, size: Any = 1.0, shape: float = 1.0) -> Any:
    import pymc as pm

    # Not pm.math.invprobit, which takes the root of 2 in single precision.
    return pm.Bernoulli(name, p=0.5 * pm.math.erfc(-eta / np.sqrt(2.0)), observed=y.astype(np.int32))


PROBIT = Family(
    "probit",
    probit,
    probit_derivatives,
    no_constants,
    "0 or 1",
    is_count_of,
    predictor_scale=1.0,
    second_derivative_bound=1.0,
    third_derivative_bound=LARGEST_THIRD_OF_PROBIT,
    slope_within=_probit_slope_within,
    second_derivative_within=_probit_second_within,
    third_derivative_within=_probit_third_within,
    minorants={"tuned": _tangent_to_probit, "untuned": _untuned_probit},
    mean=_mean_probit,
    simulate=_simulate_probit,
    twin=PyMCFamily("Bernoulli", "probit", _observe_probit, "int32"),
    is_concave=True,
)


# --- complementary log-log ---

# Upper bounds of the absolute third derivative for y = 1: 0.42605 at eta = 1.4267, and exp(eta) / 2, which is sharp
# for eta below -2.
LARGEST_THIRD_OF_CLOGLOG = 0.4261
STEEPEST_OF_CLOGLOG = 0.6208260  # where the second derivative for y = 1 is largest; it falls on both sides
SMALL_HAZARD = 0.01  # below it 1 - w - r is computed by its series, with a relative error below 1e-14


def cloglog(eta: float, y: float, size: float, shape: float) -> float:
    """Return log(1 - exp(-w)) if y is 1, -w if it is 0, with w = exp(eta)."""
    hazard = exp(eta)
    return log1mexp(hazard) if y > 0.5 else -hazard  # type: ignore[no-any-return]


def cloglog_derivatives(eta: float, y: float, size: float, shape: float) -> tuple[float, float]:
    """Return r and r (1 - w - r), r = w / (exp(w) - 1), if y is 1; -w twice if it is 0."""
    hazard = exp(eta)
    if y < 0.5:
        return -hazard, -hazard
    ratio = hazard * math.exp(-hazard) / -math.expm1(-hazard)
    if hazard < SMALL_HAZARD:
        left = -hazard * (0.5 + hazard * (1.0 / 12.0 - hazard * hazard / 720.0))
    else:
        left = 1.0 - hazard - ratio
    return ratio, ratio * left


def _of_one_or_zero(y: np.ndarray, of_one: np.ndarray, highest: np.ndarray) -> np.ndarray:
    """Return bounds of rows with y = 1, or else exp(highest): every derivative of a row with y = 0 is -exp(t)."""
    with np.errstate(over="ignore"):
        return np.where(y > 0.5, of_one, np.exp(highest))


def _ratio(hazard: np.ndarray) -> np.ndarray:
    """Return r = w / (exp(w) - 1), which is 1 at w = 0."""
    with np.errstate(invalid="ignore"):
        return np.where(hazard > 0.0, hazard * np.exp(-hazard) / -np.expm1(-hazard), 1.0)


def _cloglog_slope_within(
    eta: np.ndarray, y: np.ndarray, size: np.ndarray, shape: float, reach: np.ndarray
) -> np.ndarray:
    """Return the largest r, which decreases in t, or exp(t)."""
    return _of_one_or_zero(y, _ratio(np.exp(np.minimum(eta - reach, 700.0))), eta + reach)


def _cloglog_second_within(
    eta: np.ndarray, y: np.ndarray, size: np.ndarray, shape: float, reach: np.ndarray
) -> np.ndarray:
    """Return the largest -r (1 - w - r), at the t nearest to its maximum, or exp(t)."""
    hazard = np.exp(np.clip(STEEPEST_OF_CLOGLOG, eta - reach, np.minimum(eta + reach, 700.0)))
    ratio = _ratio(hazard)
    curvature = np.where(hazard < SMALL_HAZARD, 0.5 * hazard, ratio * (hazard + ratio - 1.0))
    return _of_one_or_zero(y, curvature, eta + reach)


def _cloglog_third_within(
    eta: np.ndarray, y: np.ndarray, size: np.ndarray, shape: float, reach: np.ndarray
) -> np.ndarray:
    highest = np.minimum(eta + reach, 0.0)  # from there on the constant is the smaller bound
    return _of_one_or_zero(y, np.minimum(0.5 * np.exp(highest), LARGEST_THIRD_OF_CLOGLOG), eta + reach)


def _mean_cloglog(eta: np.ndarray, size: np.ndarray, shape: float) -> np.ndarray:
    with np.errstate(over="ignore"):
        return -np.expm1(-np.exp(eta))  # type: ignore[no-any-return]  # NumPy types it as Any


def _simulate_cloglog(rng: np.random.Generator, eta: np.ndarray, size: np.ndarray, shape: float) -> np.ndarray:
    return (rng.random(np.shape(eta)) < _mean_cloglog(eta, size, shape)).astype(np.float64)


def _observe_cloglog(name: str, eta: Any, y: np.ndarray, size: Any = 1.0, shape: float = 1.0) -> Any:
    import pymc as pm
    import pytensor.tensor as pt

    hazard = pt.exp(eta)
    log_odds = hazard + pt.log(-pt.expm1(-hazard))  # right where the probability is near 0 and where it is near 1
    return pm.Bernoulli(name, logit_p=log_odds, observed=y.astype(np.int32))


CLOGLOG = Family(
    "cloglog",
    cloglog,
    cloglog_derivatives,
    no_constants,
    "0 or 1",
    is_count_of,
    predictor_scale=1.0,
    slope_within=_cloglog_slope_within,
    second_derivative_within=_cloglog_second_within,
    third_derivative_within=_cloglog_third_within,
    mean=_mean_cloglog,
    simulate=_simulate_cloglog,
    twin=PyMCFamily("Bernoulli", "cloglog", _observe_cloglog, "int32"),
    is_concave=True,
)


# --- as PyMC models write them ---


def _read_logit(graphs: Any, p: Any) -> Any:
    return graphs.of_probability(LOGIT, "logit", p)


def _read_probit(graphs: Any, p: Any) -> Any:
    return graphs.of_probability(PROBIT, "probit", p)


def _read_cloglog(graphs: Any, p: Any) -> Any:
    return graphs.of_probability(CLOGLOG, "cloglog", p)


FORMS = (
    Form("Bernoulli", "p = sigmoid(a linear predictor)", _read_logit),
    Form("Bernoulli", "p = the normal distribution function of a linear predictor", _read_probit),
    Form("Bernoulli", "p = 1 - exp(-exp(a linear predictor))", _read_cloglog),
)
