"""One of several classes, with a predictor for each: log p(y | eta) = eta_y - log sum_k exp(eta_k)."""

import math
from typing import Any

import numpy as np

from approxmcmc.engine.compiler.compile import BATCH_FASTMATH, compiled
from approxmcmc.engine.numerics import exp_to_700
from approxmcmc.engine.terms.batches import datum_at
from approxmcmc.families.family import Form


@compiled(fastmath=set(BATCH_FASTMATH))
def log_sum_exp(eta: np.ndarray, n: int, largest: np.ndarray, out: np.ndarray) -> None:
    """Write log sum_k exp(eta[k, i]) to ``out[i]``, i < n; inner loops, over i, vectorise; `largest` is scratch."""
    n_classes = eta.shape[0]
    for i in range(n):
        largest[i] = eta[0, i]
        out[i] = 0.0
    for k in range(1, n_classes):
        for i in range(n):
            largest[i] = eta[k, i] if eta[k, i] > largest[i] else largest[i]
    for k in range(n_classes):
        for i in range(n):
            out[i] += exp_to_700(eta[k, i] - largest[i])
    for i in range(n):
        out[i] = largest[i] + math.log(out[i])


@compiled(fastmath=set(BATCH_FASTMATH))
def write_terms(
    eta: np.ndarray, y: np.ndarray, order: np.ndarray, lo: int, hi: int, work: np.ndarray, out: np.ndarray
) -> None:
    """Write log p(y | eta) of each row in ``order[lo:hi]`` to `out`; `work` (2, rows) is scratch."""
    log_sum_exp(eta, hi - lo, work[0], work[1])
    for i in range(hi - lo):
        out[i] = eta[y[datum_at(order, lo + i)], i] - work[1, i]


@compiled(fastmath=set(BATCH_FASTMATH))
def write_slopes(
    eta: np.ndarray, y: np.ndarray, order: np.ndarray, lo: int, hi: int, work: np.ndarray, out: np.ndarray
) -> None:
    """Write the slope 1(y = k) - p_k of row ``order[lo + i]`` in predictor k to ``out[k, i]``; `out` may be `eta`."""
    log_sum_exp(eta, hi - lo, work[0], work[1])
    for k in range(eta.shape[0]):
        for i in range(hi - lo):
            chosen = 1.0 if y[datum_at(order, lo + i)] == k else 0.0
            out[k, i] = chosen - exp_to_700(eta[k, i] - work[1, i])


def softmax_terms(
    eta: np.ndarray, responses: tuple[np.ndarray], order: np.ndarray, lo: int, hi: int, out: np.ndarray
) -> None:
    """Write log p(y | eta) of each row in ``order[lo:hi]`` to `out`."""
    [y] = responses
    write_terms(eta, y, order, lo, hi, np.empty((2, hi - lo)), out)


def softmax_slopes(
    eta: np.ndarray, responses: tuple[np.ndarray], order: np.ndarray, lo: int, hi: int, out: np.ndarray
) -> None:
    """Write the slope 1(y = k) - p_k of row ``order[lo + i]`` in predictor k to ``out[k, i]``, p_k = P(class k)."""
    [y] = responses
    write_slopes(eta, y, order, lo, hi, np.empty((2, hi - lo)), out)


def softmax_expansion(
    eta: np.ndarray, responses: tuple[np.ndarray], order: np.ndarray, lo: int, hi: int, out: np.ndarray
) -> None:
    """Write value, slopes 1(y = k) - p_k and upper triangle of -(diag p - p p') of each row in ``order[lo:hi]``."""
    [y] = responses
    n_classes = eta.shape[0]
    work = np.empty((2, hi - lo))
    shares = np.empty(n_classes)
    log_sum_exp(eta, hi - lo, work[0], work[1])
    for i in range(hi - lo):
        chosen = y[datum_at(order, lo + i)]
        place = 1 + n_classes
        out[i, 0] = eta[chosen, i] - work[1, i]
        for k in range(n_classes):
            shares[k] = exp_to_700(eta[k, i] - work[1, i])
            out[i, 1 + k] = (1.0 if k == chosen else 0.0) - shares[k]
        for k in range(n_classes):
            out[i, place] = -shares[k] * (1.0 - shares[k])
            for m in range(k + 1, n_classes):
                out[i, place + m - k] = shares[k] * shares[m]
            place += n_classes - k


def forms_within(order: int, eta: np.ndarray, y: np.ndarray, covariances: np.ndarray, radius: float) -> np.ndarray:
    """Return bounds of the derivatives of a term in a direction, of second or third order, for all eta.

    The derivatives of log sum_k exp(eta_k) in the direction d are the second and third central moments of d_k under the
    probabilities of the classes. If the d_k lie within an interval of length R, these are at most R^2 / 4 and R^3 / (6
    sqrt(3)), the moments of two points. Directions have the `covariances` of the predictors, shape (rows, K, K), so R
    is the largest standard deviation of a difference of two predictors.
    """
    largest = largest_difference(covariances)
    return largest**2 / 4.0 if order == 2 else largest**3 / (6.0 * math.sqrt(3.0))


def largest_difference(covariances: np.ndarray) -> np.ndarray:
    """Return the largest standard deviation R of a difference of two predictors; shape (rows,).

    The slope of a term in a direction, d_y less a mean of the d_k, is at most R.
    """
    variances = np.einsum("rkk->rk", covariances)
    squares = variances[:, :, None] + variances[:, None, :] - 2.0 * covariances
    largest: np.ndarray = np.sqrt(np.maximum(squares.max(axis=(1, 2)), 0.0))
    return largest


def _read(graphs: Any, p: Any) -> Any:
    return graphs.of_classes(p)


FORMS = (Form("Categorical", "p = softmax(linear predictors, one for each class)", _read),)
