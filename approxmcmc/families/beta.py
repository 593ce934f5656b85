"""Responses between 0 and 1 with mean m = 1 / (1 + exp(-eta)) and variance m (1 - m) / (1 + shape).

They follow a beta distribution with the parameters a = shape m and b = shape (1 - m). With L = log(y / (1 - y)), psi
the digamma function and D = psi(a) - psi(b), the derivatives of a term in m are shape (L - D), -shape^2 (psi'(a) +
psi'(b)) and -shape^3 (psi''(a) - psi''(b)); those in eta follow by the chain rule.
"""

import math
from typing import Any, NamedTuple

import numpy as np

from approxmcmc.engine.numerics import sigmoid
from approxmcmc.families.binomial import STEEPEST
from approxmcmc.families.family import Family, Form, Partials, PyMCFamily
from approxmcmc.families.polygamma import digamma, trigamma

# Least value of a and b, whose third power is not 0. Beyond abs(eta) = 230 + log(shape) a term is constant.
LEAST = 1e-100
LARGEST_BELOW_1 = 1.06  # above the largest -x psi(x), 1.0581 at x = 0.216


def beta(eta: float, y: float, size: float, shape: float) -> float:
    """Return a L - log Gamma(a) - log Gamma(b)."""
    a = max(shape * sigmoid(eta), LEAST)
    b = max(shape * sigmoid(-eta), LEAST)
    return a * math.log(y / (1.0 - y)) - math.lgamma(a) - math.lgamma(b)


def beta_derivatives(eta: float, y: float, size: float, shape: float) -> tuple[float, float]:
    """Return v (L - D) and (1 - 2 m) v (L - D) - v^2 (psi'(a) + psi'(b)), v = shape m (1 - m)."""
    mean = sigmoid(eta)
    rest = sigmoid(-eta)
    a = max(shape * mean, LEAST)
    b = max(shape * rest, LEAST)
    spread = shape * mean * rest
    slope = spread * (math.log(y / (1.0 - y)) - digamma(a) + digamma(b))
    return slope, (rest - mean) * slope - spread * spread * (trigamma(a) + trigamma(b))


def in_shape(eta: float, y: float, size: float, shape: float) -> float:
    """Return the slope of the term in log(shape), a (L - psi(a)) - b psi(b)."""
    a = max(shape * sigmoid(eta), LEAST)
    b = max(shape * sigmoid(-eta), LEAST)
    return a * (math.log(y / (1.0 - y)) - digamma(a)) - b * digamma(b)


def of_row(y: float, size: float, shape: float) -> tuple[float, float]:
    """Return log Gamma(shape) + shape log(1 - y), and its slope in log(shape)."""
    log_rest = math.log1p(-y)
    return math.lgamma(shape) + shape * log_rest, shape * (digamma(shape) + log_rest)


def of_response(y: float, size: float, shape: float) -> tuple[float, float]:
    """Return shape log(1 - y), which is its slope in log(shape), too."""
    scaled = shape * math.log1p(-y)
    return scaled, scaled


def of_shape(shape: float) -> tuple[float, float]:
    """Return log Gamma(shape), and its slope in log(shape)."""
    return math.lgamma(shape), shape * digamma(shape)


def second_in_shape(eta: float, y: float, size: float, shape: float) -> tuple[float, float]:
    """Return the second derivatives of the log density in eta and log(shape), and twice in log(shape)."""
    mean = sigmoid(eta)
    rest = sigmoid(-eta)
    a = max(shape * mean, LEAST)
    b = max(shape * rest, LEAST)
    spread = shape * mean * rest
    log_odds = math.log(y / (1.0 - y))
    log_rest = math.log1p(-y)
    in_eta = log_odds - digamma(a) + digamma(b)
    scaled_trigamma_a = a * trigamma(a)
    scaled_trigamma_b = b * trigamma(b)
    first = a * (log_odds - digamma(a)) - b * digamma(b) + shape * (digamma(shape) + log_rest)
    last = first - a * scaled_trigamma_a - b * scaled_trigamma_b + shape * shape * trigamma(shape)
    return spread * (in_eta - scaled_trigamma_a + scaled_trigamma_b), last


def _minus_log_of_both(y: np.ndarray, size: np.ndarray) -> Any:
    """Return -log y - log(1 - y)."""
    return -np.log(y) - np.log1p(-y)


def _is_between(y: np.ndarray, size: np.ndarray) -> Any:
    """Return which y are above 0 and below 1."""
    return (y > 0.0) & (y < 1.0)


class _Interval(NamedTuple):
    """What bounds read of abs(t - eta_i) <= reach_i: v and abs(v'), and both a and b at each end.

    `spread` and `steepness` are the largest v = shape m (1 - m) and abs(v') = v abs(1 - 2 m). They bound v'' too:
    v'' = v (1 - 6 m (1 - m)), which is at most v.
    """

    spread: np.ndarray
    steepness: np.ndarray
    least_a: np.ndarray
    largest_a: np.ndarray
    least_b: np.ndarray
    largest_b: np.ndarray


def _interval(eta: np.ndarray, shape: float, reach: np.ndarray) -> _Interval:
    """Return what bounds read: v is largest at the t nearest to 0, and abs(v') at that nearest to `STEEPEST`."""
    from scipy.special import expit

    nearest = np.maximum(np.abs(eta) - reach, 0.0)
    steepest = np.clip(STEEPEST, nearest, np.abs(eta) + reach)
    return _Interval(
        shape * expit(nearest) * expit(-nearest),
        shape * expit(steepest) * expit(-steepest) * np.tanh(0.5 * steepest),
        np.maximum(shape * expit(eta - reach), LEAST),
        np.maximum(shape * expit(eta + reach), LEAST),
        np.maximum(shape * expit(-eta - reach), LEAST),
        np.maximum(shape * expit(reach - eta), LEAST),
    )


def _largest_distance(y: np.ndarray, within: _Interval) -> np.ndarray:
    """Return the largest abs(L - D), at an end of the interval because D increases."""
    from scipy.special import digamma

    log_odds = np.log(y) - np.log1p(-y)
    lower_end = log_odds - digamma(within.least_a) + digamma(within.largest_b)
    upper_end = log_odds - digamma(within.largest_a) + digamma(within.least_b)
    largest: np.ndarray = np.maximum(np.abs(lower_end), np.abs(upper_end))
    return largest


def _largest_part(y: np.ndarray, shape: float, within: _Interval) -> np.ndarray:
    """Return a bound of v abs(L - D) that also holds for all eta.

    v psi(a) = (1 - m) a psi(a), and a psi(a) lies between -1.06 and shape psi(shape); the same holds for b.
    """
    from scipy.special import digamma

    log_odds = np.log(y) - np.log1p(-y)
    bound: np.ndarray = within.spread * np.abs(log_odds) + max(LARGEST_BELOW_1, shape * float(digamma(shape)))
    return bound


def _largest_curvature(shape: float) -> float:
    """Return a bound of v^2 (psi'(a) + psi'(b)) for all eta.

    psi'(a) < 1 / a + 1 / a^2, so that the sum is at most (1 - m)^2 (a + 1) + m^2 (b + 1) = 1 + (shape - 2) m (1 - m).
    """
    return max(1.0, 0.5 + 0.25 * shape)


def _slope_within(eta: np.ndarray, y: np.ndarray, size: np.ndarray, shape: float, reach: np.ndarray) -> np.ndarray:
    """Return the smaller of two bounds of the slope: v times the largest abs(L - D), and one that holds for all eta."""
    within = _interval(eta, shape, reach)
    return np.minimum(within.spread * _largest_distance(y, within), _largest_part(y, shape, within))


def _second_within(eta: np.ndarray, y: np.ndarray, size: np.ndarray, shape: float, reach: np.ndarray) -> np.ndarray:
    """Return the bound abs(v') abs(L - D) + v^2 (psi'(a) + psi'(b)), each factor at its largest; psi' decreases.

    Over an infinite interval abs(v') is at most v, and bounds of the two products are used.
    """
    from scipy.special import polygamma

    within = _interval(eta, shape, reach)
    curvature = polygamma(1, within.least_a) + polygamma(1, within.least_b)
    bound: np.ndarray = within.steepness * _largest_distance(y, within) + within.spread**2 * curvature
    return np.where(np.isinf(reach), _largest_part(y, shape, within) + _largest_curvature(shape), bound)


def _third_within(eta: np.ndarray, y: np.ndarray, size: np.ndarray, shape: float, reach: np.ndarray) -> np.ndarray:
    """Return the bound v abs(L - D) + 3 v abs(v') (psi'(a) + psi'(b)) + v^3 max(-psi''), each factor at its largest.

    psi''(a) - psi''(b) is a difference of two negative numbers, so at most the larger size of the two. Over an infinite
    interval bounds of the products are used: -psi''(a) < 1 / a^2 + 2 / a^3, so that v^3 times it is at most
    (1 - m)^3 (a + 2) <= 2 + 27 / 256 shape.
    """
    from scipy.special import polygamma

    within = _interval(eta, shape, reach)
    curvature = polygamma(1, within.least_a) + polygamma(1, within.least_b)
    third = -polygamma(2, np.minimum(within.least_a, within.least_b))
    with np.errstate(over="ignore"):  # infinity is a bound, too
        bound: np.ndarray = within.spread * (_largest_distance(y, within) + 3.0 * within.steepness * curvature)
        bound += within.spread**3 * third
    everywhere = _largest_part(y, shape, within) + 3.0 * _largest_curvature(shape) + 2.0 + 27.0 / 256.0 * shape
    return np.where(np.isinf(reach), everywhere, bound)


def _mean(eta: np.ndarray, size: np.ndarray, shape: float) -> np.ndarray:
    from scipy.special import expit

    return expit(eta)  # type: ignore[no-any-return]  # SciPy has no types


def _simulate(rng: np.random.Generator, eta: np.ndarray, size: np.ndarray, shape: Any) -> np.ndarray:
    """Draw responses; those that round to 0 or 1, of which the density is not finite, are moved to the next number."""
    from scipy.special import expit

    draws = rng.beta(np.maximum(shape * expit(eta), LEAST), np.maximum(shape * expit(-eta), LEAST))
    return np.clip(draws, np.nextafter(0.0, 1.0), np.nextafter(1.0, 0.0))


def _observe(name: str, eta: Any, y: np.ndarray, size: Any, shape: Any) -> Any:
    import pymc as pm

    return pm.Beta(name, alpha=shape * pm.math.invlogit(eta), beta=shape * pm.math.invlogit(-eta), observed=y)


def _read(graphs: Any, alpha: Any, beta: Any) -> Any:
    shares = graphs.shares(alpha, beta)
    if shares is None:
        return None
    shape, mean = shares
    return graphs.of_probability(BETA, "logit", mean, shape=shape)


def _partials_within(
    order: int, eta: np.ndarray, y: np.ndarray, log_shape: np.ndarray, reach: np.ndarray, reach_of_shape: np.ndarray
) -> Partials:
    """Return bounds of the partial derivatives of the log density in eta and s = log(shape).

    With D as in the module, u = shape m (1 - m), and k the Kullback-Leibler divergence of y from m:

    - abs(u (L - D)) <= u abs(L - eta) + 1 = U. For x (log x - psi(x)) and x^2 psi'(x) - x lie between 1/2 and 1, and
      -x^3 psi''(x) - x between 1 and 2.
    - Of second order the absolute derivatives are at most U + u + 1, U + 1 and shape k + 3/2, by the same inequalities.
    - Of third order U + 4 u + 5, U + u + 2, U + 7/2 and shape k + 9/2.
    """
    with np.errstate(over="ignore"):
        shape = np.exp(log_shape + reach_of_shape)
        mean = 1.0 / (1.0 + np.exp(-np.maximum(np.abs(eta) - reach, 0.0)))
        u = shape * mean * (1.0 - mean)
        of_slope = u * (np.abs(np.log(y / (1.0 - y)) - eta) + reach) + 1.0
        ends = [_divergence(eta + side * reach, y) for side in (-1.0, 1.0)]
        divergence = shape * np.maximum(*ends)  # convex in m
    if order == 2:
        return of_slope + u + 1.0, of_slope + 1.0, divergence + 1.5
    return of_slope + 4.0 * u + 5.0, of_slope + u + 2.0, of_slope + 3.5, divergence + 4.5


def _divergence(eta: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Return m log(m / y) + (1 - m) log((1 - m) / (1 - y)), m = 1 / (1 + exp(-eta))."""
    log_mean = -np.logaddexp(0.0, -eta)
    log_rest = -np.logaddexp(0.0, eta)
    return np.exp(log_mean) * (log_mean - np.log(y)) + np.exp(log_rest) * (log_rest - np.log1p(-y))


BETA = Family(
    "beta",
    beta,
    beta_derivatives,
    _minus_log_of_both,
    "numbers above 0 and below 1",
    _is_between,
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
    mean=_mean,
    simulate=_simulate,
    twin=PyMCFamily("Beta", "logit", _observe),
)

FORMS = (Form("Beta", "alpha = phi m and beta = phi (1 - m) with m = sigmoid(a linear predictor)", _read),)
