"""The softmax of K predictors, one for each class, with derivatives in closed form."""

import math
from collections.abc import Callable

import numpy as np

from approxmcmc.engine.compiler.compile import BATCH_FASTMATH, compiled
from approxmcmc.engine.compiler.identity import content_id
from approxmcmc.engine.numerics import exp_to_700
from approxmcmc.engine.terms.batches import datum_at
from approxmcmc.targets.predictors.likelihood import RowLikelihood


@compiled(fastmath=set(BATCH_FASTMATH))
def log_sum_exp(eta: np.ndarray, n: int, largest: np.ndarray, out: np.ndarray) -> None:
    """Write log sum_k exp(eta[k, i]) to ``out[i]``, i < n; the loops over data are inside, so that they vectorise."""
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
    """Write the terms."""
    [y] = responses
    work = np.empty((2, hi - lo))
    log_sum_exp(eta, hi - lo, work[0], work[1])
    for i in range(hi - lo):
        out[i] = eta[y[datum_at(order, lo + i)], i] - work[1, i]


def softmax_slopes(
    eta: np.ndarray, responses: tuple[np.ndarray], order: np.ndarray, lo: int, hi: int, out: np.ndarray
) -> None:
    """Write the slopes 1_k - p_k."""
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
    """Write value, slopes 1_k - p_k, and the upper triangle of -(diag p - p p'), row by row."""
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


class SoftmaxLikelihood(RowLikelihood):
    """log p(y | eta) = eta_y - log sum_k exp(eta_k): K = classes predictors that share their columns."""

    def __init__(self, n_classes: int) -> None:
        self.n_predictors = n_classes

    def terms(self) -> Callable[..., None]:
        """Return the terms."""
        return softmax_terms

    def slopes(self) -> Callable[..., None]:
        """Return the slopes, 1_k - p_k."""
        return softmax_slopes

    def expansion(self) -> Callable[..., None]:
        """Return value, slopes and second derivatives, in closed form."""
        return softmax_expansion

    def identity(self) -> str:
        """Return a hash of the terms."""
        return content_id(softmax_terms)
