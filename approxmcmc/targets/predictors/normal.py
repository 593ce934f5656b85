r"""Normal outcomes of a row, with means and log scales that are linear predictors.

.. math:: y_{ij} \sim N(\eta_{ij}, e^{2 \eta_{i, J + j}}), \quad j = 1 \dots J.

Known scales and weights are offsets of the log scales, so they need no special case.
"""

import math
from collections.abc import Callable

import numpy as np

from approxmcmc.engine.compiler.identity import content_id
from approxmcmc.engine.terms.batches import Data, datum_at
from approxmcmc.targets.predictors.likelihood import RowLikelihood

HALF_LOG_2_PI = 0.5 * math.log(2.0 * math.pi)


def normal_terms(eta: np.ndarray, responses: Data, order: np.ndarray, lo: int, hi: int, out: np.ndarray) -> None:
    """Write the terms."""
    [y] = responses
    for i in range(hi - lo):
        out[i] = -y.shape[1] * HALF_LOG_2_PI
    for j in range(y.shape[1]):
        mean, scale = eta[j], eta[y.shape[1] + j]
        for i in range(hi - lo):
            out[i] -= scale[i] + 0.5 * ((y[datum_at(order, lo + i), j] - mean[i]) * math.exp(-scale[i])) ** 2


def normal_slopes(eta: np.ndarray, responses: Data, order: np.ndarray, lo: int, hi: int, out: np.ndarray) -> None:
    """Write the slopes: with z the standardised residual, z exp(-scale) and z^2 - 1."""
    [y] = responses
    J = y.shape[1]
    for j in range(J):
        for i in range(hi - lo):
            root = math.exp(-eta[J + j, i])
            z = (y[datum_at(order, lo + i), j] - eta[j, i]) * root
            out[j, i] = z * root
            out[J + j, i] = z * z - 1.0


def normal_expansion(eta: np.ndarray, responses: Data, order: np.ndarray, lo: int, hi: int, out: np.ndarray) -> None:
    """Write value, slopes, and the Hessian's upper triangle by rows; outcomes do not interact."""
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


class NormalLikelihood(RowLikelihood):
    """J outcomes of a row, (n, J) in one array of responses; J means, then J log scales."""

    def __init__(self, n_outcomes: int = 1) -> None:
        self.n_outcomes, self.n_predictors = n_outcomes, 2 * n_outcomes

    def terms(self) -> Callable[..., None]:
        """Return the terms."""
        return normal_terms

    def slopes(self) -> Callable[..., None]:
        """Return the slopes."""
        return normal_slopes

    def expansion(self) -> Callable[..., None]:
        """Return value, slopes and second derivatives, in closed form."""
        return normal_expansion

    def identity(self) -> str:
        """Return a hash of the terms."""
        return content_id(normal_terms)
