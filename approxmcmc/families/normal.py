r"""A normal response with mean eta; its shape is the standard deviation.

Rows of J independent outcomes have 2 J predictors, the means and the log scales:

.. math:: y_{ij} \sim N(\eta_{ij}, e^{2 \eta_{i, J + j}}), \quad j = 1 \dots J.

Known scales and weights are offsets of the log scales, so they need no special case.
"""

import math
from typing import Any

import numpy as np

from approxmcmc.engine.terms.batches import Data, datum_at
from approxmcmc.families.family import Family, Form, Pair, Partials, PyMCFamily

HALF_LOG_2_PI = 0.5 * math.log(2.0 * math.pi)


def log_standard_normal(values: np.ndarray) -> Any:
    """Return the log density of independent standard normals; the last axis, shape (..., K), is summed."""
    return -0.5 * (values**2 + 2.0 * HALF_LOG_2_PI).sum(axis=-1)


def unit_normal(eta: float, y: float) -> float:
    """Return log p(y | eta) of a normal distribution with standard deviation 1, up to its constant."""
    return -0.5 * (y - eta) ** 2


def unit_normal_derivatives(eta: float, y: float) -> tuple[float, float]:
    """Return the first two derivatives of log p(y | eta) in eta, for standard deviation 1."""
    return y - eta, -1.0


def normal(eta: float, y: float, size: float, shape: float) -> float:
    """Return -((y - eta) / shape)^2 / 2."""
    return -0.5 * ((y - eta) / shape) ** 2


def normal_derivatives(eta: float, y: float, size: float, shape: float) -> tuple[float, float]:
    """Return the first two derivatives in eta."""
    return (y - eta) / shape**2, -1.0 / shape**2


def in_shape(eta: float, y: float, size: float, shape: float) -> float:
    """Return the slope of the term in log(shape)."""
    return ((y - eta) / shape) ** 2


def second_in_shape(eta: float, y: float, size: float, shape: float) -> tuple[float, float]:
    """Return the second derivatives of the log density in eta and log(shape), and twice in log(shape)."""
    residual = (y - eta) / shape
    return -2.0 * residual / shape, -2.0 * residual * residual


def partials_within(
    order: int, eta: np.ndarray, y: np.ndarray, log_shape: np.ndarray, reach: np.ndarray, reach_of_shape: np.ndarray
) -> Partials:
    """Return bounds of the partial derivatives of -s - r^2 / 2, r = (y - eta) exp(-s).

    With k = exp(-s) they are k^2, 2 k r and 2 r^2, but for signs; of third order 0, 2 k^2, 4 k r and 4 r^2.
    """
    with np.errstate(over="ignore"):
        k = np.exp(reach_of_shape - log_shape)
        r = k * (np.abs(y - eta) + reach)
    if order == 2:
        return k**2, 2.0 * k * r, 2.0 * r**2
    return np.zeros(np.shape(eta)), 2.0 * k**2, 4.0 * k * r, 4.0 * r**2


def of_row(y: float, size: float, shape: float) -> tuple[float, float]:
    """Return -log(shape), and its slope in log(shape)."""
    return -math.log(shape), -1.0


def _constants(y: np.ndarray, size: np.ndarray) -> Any:
    return np.full_like(y, -HALF_LOG_2_PI)


def _any_number(y: np.ndarray, size: np.ndarray) -> Any:
    return np.isfinite(y)


def _slope_within(eta: np.ndarray, y: np.ndarray, size: np.ndarray, shape: float, reach: np.ndarray) -> np.ndarray:
    return (np.abs(y - eta) + reach) / shape**2


def _second_within(eta: np.ndarray, y: np.ndarray, size: np.ndarray, shape: float, reach: np.ndarray) -> np.ndarray:
    return np.full(np.shape(eta), 1.0 / shape**2)


def _third_within(eta: np.ndarray, y: np.ndarray, size: np.ndarray, shape: float, reach: np.ndarray) -> np.ndarray:
    return np.zeros(np.shape(eta))


def _mean(eta: np.ndarray, size: np.ndarray, shape: float) -> np.ndarray:
    return eta


def _simulate(rng: np.random.Generator, eta: np.ndarray, size: np.ndarray, shape: float) -> np.ndarray:
    return rng.normal(eta, shape)


def _observe(name: str, eta: Any, y: np.ndarray, size: Any, shape: Any) -> Any:
    import pymc as pm

    return pm.Normal(name, eta, shape, observed=y)


def _read(graphs: Any, mu: Any, sigma: Any) -> Any:
    return graphs.of_predictor(NORMAL, mu, graphs.product(sigma))


NORMAL = Family(
    "normal",
    normal,
    normal_derivatives,
    _constants,
    "any number",
    _any_number,
    Pair(unit_normal, unit_normal_derivatives),
    in_shape=in_shape,
    of_row=of_row,
    second_in_shape=second_in_shape,
    partials_within=partials_within,
    second_derivative_bound=1.0,
    slope_within=_slope_within,
    second_derivative_within=_second_within,
    third_derivative_within=_third_within,
    mean=_mean,
    simulate=_simulate,
    twin=PyMCFamily("Normal", "identity", _observe),
    is_concave=True,
)

FORMS = (Form("Normal", "mu = a linear predictor, and sigma", _read),)


# --- rows of J outcomes, each with a mean and a log scale ---


def normal_terms(eta: np.ndarray, responses: Data, order: np.ndarray, lo: int, hi: int, out: np.ndarray) -> None:
    """Write the log density of each row in ``order[lo:hi]`` to `out`, summed over the J outcomes."""
    [y] = responses
    for i in range(hi - lo):
        out[i] = -y.shape[1] * HALF_LOG_2_PI
    for j in range(y.shape[1]):
        mean = eta[j]
        scale = eta[y.shape[1] + j]
        for i in range(hi - lo):
            out[i] -= scale[i] + 0.5 * ((y[datum_at(order, lo + i), j] - mean[i]) * math.exp(-scale[i])) ** 2


def normal_slopes(eta: np.ndarray, responses: Data, order: np.ndarray, lo: int, hi: int, out: np.ndarray) -> None:
    """Write the slopes of the rows ``order[lo:hi]`` in the predictors; `out` has shape (2 J, rows).

    They are z exp(-log scale) in a mean and z^2 - 1 in a log scale, with z the standardised residual.
    """
    [y] = responses
    J = y.shape[1]
    for j in range(J):
        for i in range(hi - lo):
            root = math.exp(-eta[J + j, i])
            z = (y[datum_at(order, lo + i), j] - eta[j, i]) * root
            out[j, i] = z * root
            out[J + j, i] = z * z - 1.0


def normal_expansion(eta: np.ndarray, responses: Data, order: np.ndarray, lo: int, hi: int, out: np.ndarray) -> None:
    """Write value, slopes and the Hessian's upper triangle of each row in ``order[lo:hi]``, one after the other.

    Second derivatives between different outcomes are 0.
    """
    [y] = responses
    J = y.shape[1]
    K = 2 * J
    for i in range(hi - lo):
        out[i, :] = 0.0
        out[i, 0] = -J * HALF_LOG_2_PI
        for j in range(J):
            root = math.exp(-eta[J + j, i])
            z = (y[datum_at(order, lo + i), j] - eta[j, i]) * root
            out[i, 0] -= eta[J + j, i] + 0.5 * z * z
            out[i, 1 + j] = z * root
            out[i, 1 + J + j] = z * z - 1.0
            of_mean = 1 + K + j * K - j * (j - 1) // 2  # where the row of mean j begins, with its own entry
            out[i, of_mean] = -root * root
            out[i, of_mean + J] = -2.0 * z * root
            k = J + j
            out[i, 1 + K + k * K - k * (k - 1) // 2] = -2.0 * z * z
