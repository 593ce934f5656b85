r"""Likelihoods of a row with derivatives in closed form: normal outcomes, and the softmax.

.. math:: y_{ij} \sim N(\eta_{ij}, e^{2 \eta_{i, J + j}}), \quad j = 1 \dots J.

Known scales and weights are offsets of the log scales, so they need no special case.
"""

import math
from collections.abc import Callable

import numpy as np

from approxmcmc.engine.compiler.compile import BATCH_FASTMATH, compiled
from approxmcmc.engine.compiler.identity import content_id
from approxmcmc.engine.numerics import exp_to_700
from approxmcmc.engine.terms.batches import Data, datum_at
from approxmcmc.targets.predictors.likelihood import RowLikelihood

HALF_LOG_2_PI = 0.5 * math.log(2.0 * math.pi)


def normal_terms(eta: np.ndarray, responses: Data, order: np.ndarray, lo: int, hi: int, out: np.ndarray) -> None:
    """Write the log density of each row in ``order[lo:hi]`` to `out`, summed over the J outcomes."""
    [y] = responses
    for i in range(hi - lo):
        out[i] = -y.shape[1] * HALF_LOG_2_PI
    for j in range(y.shape[1]):
        mean, scale = eta[j], eta[y.shape[1] + j]
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


def softmax_terms(
    eta: np.ndarray, responses: tuple[np.ndarray], order: np.ndarray, lo: int, hi: int, out: np.ndarray
) -> None:
    """Write log p(y | eta) of each row in ``order[lo:hi]`` to `out`."""
    [y] = responses
    work = np.empty((2, hi - lo))
    log_sum_exp(eta, hi - lo, work[0], work[1])
    for i in range(hi - lo):
        out[i] = eta[y[datum_at(order, lo + i)], i] - work[1, i]


def softmax_slopes(
    eta: np.ndarray, responses: tuple[np.ndarray], order: np.ndarray, lo: int, hi: int, out: np.ndarray
) -> None:
    """Write the slope 1(y = k) - p_k of row ``order[lo + i]`` in predictor k to ``out[k, i]``, p_k = P(class k)."""
    [y] = responses
    work = np.empty((2, hi - lo))
    log_sum_exp(eta, hi - lo, work[0], work[1])
    for k in range(eta.shape[0]):
        for i in range(hi - lo):
            chosen = 1.0 if y[datum_at(order, lo + i)] == k else 0.0
            out[k, i] = chosen - exp_to_700(eta[k, i] - work[1, i])


def softmax_expansion(
    eta: np.ndarray, responses: tuple[np.ndarray], order: np.ndarray, lo: int, hi: int, out: np.ndarray
) -> None:
    """Write value, slopes 1(y = k) - p_k and upper triangle of -(diag p - p p') of each row in ``order[lo:hi]``."""
    [y] = responses
    n_classes = eta.shape[0]
    work, shares = np.empty((2, hi - lo)), np.empty(n_classes)
    log_sum_exp(eta, hi - lo, work[0], work[1])
    for i in range(hi - lo):
        chosen, place = y[datum_at(order, lo + i)], 1 + n_classes
        out[i, 0] = eta[chosen, i] - work[1, i]
        for k in range(n_classes):
            shares[k] = exp_to_700(eta[k, i] - work[1, i])
            out[i, 1 + k] = (1.0 if k == chosen else 0.0) - shares[k]
        for k in range(n_classes):
            out[i, place] = -shares[k] * (1.0 - shares[k])
            for m in range(k + 1, n_classes):
                out[i, place + m - k] = shares[k] * shares[m]
            place += n_classes - k


class ClosedForm(RowLikelihood):
    """A likelihood with batch functions written out: terms, slopes, and value with slopes and second derivatives."""

    def __init__(self, n_predictors: int, *functions: Callable[..., None]) -> None:
        self.n_predictors, self.functions = n_predictors, functions

    def terms(self) -> Callable[..., None]:
        """Return the batch function of the terms."""
        return self.functions[0]

    def slopes(self) -> Callable[..., None]:
        """Return the batch function of the slopes in the predictors."""
        return self.functions[1]

    def expansion(self) -> Callable[..., None]:
        """Return the batch function of value, slopes and second derivatives."""
        return self.functions[2]

    def identity(self) -> str:
        """Return a hash of the terms."""
        return content_id(self.functions[0])


class NormalLikelihood(ClosedForm):
    """J independent normal outcomes of a row, y (n, J); the predictors are J means, then J log scales."""

    def __init__(self, n_outcomes: int = 1) -> None:
        super().__init__(2 * n_outcomes, normal_terms, normal_slopes, normal_expansion)
        self.n_outcomes = n_outcomes


class SoftmaxLikelihood(ClosedForm):
    """log p(y | eta) = eta_y - log sum_k exp(eta_k), with one predictor for each class."""

    def __init__(self, n_classes: int) -> None:
        super().__init__(n_classes, softmax_terms, softmax_slopes, softmax_expansion)
