"""Collapsible lower bounds of likelihood terms, as Firefly needs them.

A bound is useful when it is tight where the posterior lies, and when its sum over all data costs no pass over them.
Here every log B_i is a quadratic function of theta, so that

    sum_i log B_i(theta) = theta' Q theta + l' theta + c,

with Q, l and c formed once. For a linear model a bound is a function of eta_i = x_i' theta (sigma is the logistic
function):

- *Jaakkola-Jordan* (logistic): log B = a s^2 + s/2 + c with s = +-eta, a = -tanh(xi/2) / (4 xi) and c = -a xi^2 - log(2
  cosh(xi/2)); it touches the likelihood at s = xi and s = -xi.
- *Taylor* (logistic): log B = log sigma(s_0) + sigma(-s_0) (s - s_0) - (s - s_0)^2 / 8, since (log sigma)'' >= -1/4; it
  touches at s_0 only, and is looser elsewhere.
- *Student-t* (robust regression), r the residual in units of the scale: log B = alpha r^2 + c with alpha = -((nu + 1) /
  2) / (nu + xi^2), the tangent in r^2; it touches at r = xi and r = -xi.

References: Maclaurin and Adams (2014), Firefly Monte Carlo, sections 3.1 and 4; Jaakkola and Jordan (2000).
"""

import functools
import math
from collections.abc import Callable

import numpy as np
from numba import types as nb

from approxmcmc.contracts import CompiledBound
from approxmcmc.engine.compiler.compile import BATCH_FASTMATH, INDICES, VECTOR, closure, compiled, kernel, type_of
from approxmcmc.engine.numerics import exp_to_700, log1p_of_fraction, softplus
from approxmcmc.engine.terms.batches import Data, datum_at, linear_predictor, log_terms_type
from approxmcmc.errors import InvalidInputError

UNTUNED_LOGISTIC = 1.5  # Maclaurin and Adams (2014), section 4: P(bright) < .02 for |s| <= 1.5, < .12 for |s| <= 3
UNTUNED_STUDENT = 1.0  # in units of the scale: P(bright) < .06 for |r| <= 1
ROWS = 65_536  # rows per block when sums over all data are formed, so that no second copy of the data is made


# ---------------------------------------------------------------------------------------------- gaps of linear models


@compiled
def _copy_rows(touch: np.ndarray, order: np.ndarray, lo: int, hi: int, out: np.ndarray) -> None:
    for place in range(lo, hi):
        row = datum_at(order, place)
        for k in range(out.shape[0]):
            out[k, place - lo] = touch[row, k]


def make_linear_gaps(gap: Callable[..., float]) -> Callable[..., None]:
    """Return the batch kernel that writes ``gap(eta_i, *touch_i)``; data = (X, touch), `touch` with shape (n, 3)."""

    def linear_gaps(theta: np.ndarray, data: Data, order: np.ndarray, lo: int, hi: int, out: np.ndarray) -> None:
        # Gather first, arithmetic second, as in the batch kernel of the terms: the second loop vectorises over data.
        X, touch = data
        linear_predictor(theta, X, order, lo, hi, out)
        here = np.empty((3, hi - lo))
        _copy_rows(touch, order, lo, hi, here)
        first, second, third = here[0], here[1], here[2]
        for i in range(hi - lo):
            out[i] = gap(out[i], first[i], second[i], third[i])

    return linear_gaps


def make_add_linear_gap_gradient(slope: Callable[..., float]) -> Callable[..., None]:
    """Return the kernel `CompiledBound.add_gap_gradient`; ``slope(eta_i, *touch_i)`` is a gap's derivative in eta."""

    def add_gap_gradient(
        theta: np.ndarray, data: Data, order: np.ndarray, lo: int, hi: int, weights: np.ndarray, out: np.ndarray
    ) -> None:
        X, touch = data
        eta, here = np.empty(hi - lo), np.empty((3, hi - lo))
        linear_predictor(theta, X, order, lo, hi, eta)
        _copy_rows(touch, order, lo, hi, here)
        for place in range(lo, hi):
            i, row = place - lo, datum_at(order, place)
            weighted = weights[i] * slope(eta[i], here[0, i], here[1, i], here[2, i])
            for j in range(theta.shape[0]):
                out[j] += weighted * X[row, j]

    return add_gap_gradient


def _quadratic(theta: np.ndarray, sums: tuple[np.ndarray, ...]) -> float:
    Q, linear, constant = sums
    total = constant[0]
    for i in range(theta.shape[0]):
        row = linear[i]
        for j in range(theta.shape[0]):
            row += Q[i, j] * theta[j]
        total += row * theta[i]
    return total


def _add_quadratic_gradient(theta: np.ndarray, sums: tuple[np.ndarray, ...], out: np.ndarray) -> None:
    Q, linear, _ = sums
    for i in range(theta.shape[0]):
        row = 0.0
        for j in range(theta.shape[0]):
            row += Q[i, j] * theta[j]
        out[i] += 2.0 * row + linear[i]


def compile_bound(
    data: Data,
    sums: tuple[np.ndarray, ...],
    gaps: Callable[..., None],
    log_bound: Callable[..., float],
    add_gap_gradient: Callable[..., None] | None = None,
    add_bound_gradient: Callable[..., None] | None = None,
) -> CompiledBound:
    """Compile the functions of a `CompiledBound`, see there, for the types of `data` and `sums`."""
    data_type, sums_type = type_of(data), type_of(sums)
    gap_gradient = nb.void(VECTOR, data_type, INDICES, nb.int64, nb.int64, VECTOR, VECTOR)
    bound_gradient = nb.void(VECTOR, sums_type, VECTOR)
    fast = functools.partial(kernel, fastmath=BATCH_FASTMATH)
    return CompiledBound(
        fast(gaps, log_terms_type(data_type).signature),
        fast(log_bound, nb.float64(VECTOR, sums_type)),
        data,
        sums,
        None if add_gap_gradient is None else fast(add_gap_gradient, gap_gradient),
        None if add_bound_gradient is None else fast(add_bound_gradient, bound_gradient),
    )


def linear_bound(
    X: np.ndarray,
    gap: Callable[..., float],
    slope: Callable[..., float],
    touch: tuple[np.ndarray, np.ndarray, np.ndarray],
    coefficients: tuple[np.ndarray, np.ndarray, np.ndarray],
) -> CompiledBound:
    """Return the bound of a linear model.

    Parameters
    ----------
    X
        Predictors, shape (n, p).
    gap, slope
        ``gap(eta, *touch_i)`` and its derivative in eta.
    touch
        Three arrays of shape (n,), which say where and how the bound of each datum touches its likelihood.
    coefficients
        log B_i = first_i eta_i^2 + second_i eta_i + third_i, each of shape (n,).
    """
    quadratic, linear, constant = coefficients
    Q = np.zeros((X.shape[1], X.shape[1]))
    for lo in range(0, X.shape[0], ROWS):
        rows = X[lo : lo + ROWS]
        Q += (rows * quadratic[lo : lo + ROWS, None]).T @ rows
    sums = (Q, X.T @ linear, np.array([math.fsum(constant)]))
    data = (X, np.ascontiguousarray(np.stack(np.broadcast_arrays(*touch), axis=1), dtype=np.float64))
    gaps = closure(make_linear_gaps, gap, fastmath=BATCH_FASTMATH)
    add_gap_gradient = closure(make_add_linear_gap_gradient, slope, fastmath=BATCH_FASTMATH)
    return compile_bound(data, sums, gaps, _quadratic, add_gap_gradient, _add_quadratic_gradient)


def check_kind(kind: str, known: tuple[str, ...], at: np.ndarray | None, *, who: str) -> None:
    """Raise if a target does not have this kind of bound, or a tuned bound has no theta to touch at."""
    if kind not in known:
        raise InvalidInputError(f"{who}: bound must be one of {known}, found {kind!r}")
    if kind in ("tuned", "taylor") and at is None:
        raise InvalidInputError(f"{who}: the bound {kind!r} needs the theta at which it touches the likelihood")


# ------------------------------------------------------------------------------------------------- logistic regression


def _jaakkola_gap(eta: float, a: float, c: float, unused: float) -> float:
    """Return the gap -log(2 cosh(eta/2)) - a eta^2 - c, which is the same for both responses."""
    size = abs(eta)
    return -0.5 * size - log1p_of_fraction(exp_to_700(-size)) - a * eta * eta - c


def _jaakkola_slope(eta: float, a: float, c: float, unused: float) -> float:
    return -0.5 * math.tanh(0.5 * eta) - 2.0 * a * eta


def _taylor_gap(eta: float, eta_0: float, level: float, slope: float) -> float:
    """Return the gap of a bound that touches at eta_0, where softplus has the value `level` and the slope `slope`."""
    step = eta - eta_0
    return level + slope * step + 0.125 * step * step - softplus(eta)


def _taylor_slope(eta: float, eta_0: float, level: float, slope: float) -> float:
    return slope + 0.25 * (eta - eta_0) - 0.5 * (1.0 + math.tanh(0.5 * eta))


def log_2_cosh_half(x: np.ndarray) -> np.ndarray:
    """Return log(2 cosh(x / 2)), without overflow."""
    return 0.5 * np.abs(x) + np.log1p(np.exp(-np.abs(x)))


def jaakkola_coefficients(xi: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return a and c of the bound that touches at s = xi and s = -xi; a = -1/8 at xi = 0."""
    xi = np.abs(np.asarray(xi, dtype=np.float64))
    small = xi < 1e-4  # tanh(x) / x = 1 - x^2 / 3: exact to a rounding there
    a = -np.where(small, 0.125 * (1.0 - xi * xi / 12.0), np.tanh(0.5 * xi) / np.where(small, 1.0, 4.0 * xi))
    return a, -a * xi * xi - log_2_cosh_half(xi)


def logistic_bound(X: np.ndarray, y: np.ndarray, kind: str, at: np.ndarray | None) -> CompiledBound:
    """Return the bound `kind` of logistic regression, y in {0, 1}: "tuned" or "untuned" (Jaakkola-Jordan), "taylor".

    "tuned" and "taylor" touch the likelihood at theta `at`.
    """
    check_kind(kind, ("tuned", "untuned", "taylor"), at, who="LogisticRegression")
    eta_0 = np.full(len(y), UNTUNED_LOGISTIC) if kind == "untuned" else X @ at
    if kind == "taylor":
        level, slope = np.logaddexp(0.0, eta_0), 0.5 * (1.0 + np.tanh(0.5 * eta_0))
        linear = y - slope + 0.25 * eta_0
        constant = slope * eta_0 - level - 0.125 * eta_0 * eta_0
        coefficients = (np.full(len(y), -0.125), linear, constant)
        return linear_bound(X, _taylor_gap, _taylor_slope, (eta_0, level, slope), coefficients)
    a, c = jaakkola_coefficients(eta_0)
    return linear_bound(X, _jaakkola_gap, _jaakkola_slope, (a, c, np.zeros(len(y))), (a, y - 0.5, c))


# -------------------------------------------------------------------------------------------------- robust regression


def student_coefficients(xi: np.ndarray, df: float) -> tuple[np.ndarray, np.ndarray]:
    """Return alpha and c of the bound of -((df + 1) / 2) log(1 + r^2 / df) that touches at r = xi and r = -xi."""
    half, square = 0.5 * (df + 1.0), np.asarray(xi, dtype=np.float64) ** 2
    alpha = -half / (df + square)
    return alpha, -alpha * square - half * np.log1p(square / df)


def student_bound(
    X: np.ndarray, y: np.ndarray, df: float, scale: float, constant: float, kind: str, at: np.ndarray | None
) -> CompiledBound:
    """Return the Student-t bound `kind` of robust regression: "tuned" touches the likelihood at `at`, or "untuned".

    `constant` is the log density of a residual of 0.
    """
    check_kind(kind, ("tuned", "untuned"), at, who="RobustRegression")
    xi = np.full(len(y), UNTUNED_STUDENT) if kind == "untuned" else (y - X @ at) / scale
    alpha, c = student_coefficients(xi, df)
    half, per_scale = 0.5 * (df + 1.0), 1.0 / scale

    def gap(eta: float, response: float, alpha: float, c: float) -> float:
        r = per_scale * (response - eta)
        return -half * math.log1p(r * r / df) - alpha * r * r - c

    def slope(eta: float, response: float, alpha: float, c: float) -> float:
        r = per_scale * (response - eta)
        return per_scale * 2.0 * r * (half / (df + r * r) + alpha)

    curved = alpha / scale**2
    return linear_bound(X, gap, slope, (y, alpha, c), (curved, -2.0 * curved * y, curved * y * y + c + constant))
