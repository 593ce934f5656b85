"""The batch boundary of gradients: turn a per-datum gradient into a kernel that sums over many data.

``add_gradient(theta, data, order, lo, hi, out)`` adds sum of grad log p(x_i | theta), i in ``order[lo:hi]``, to `out`;
an empty order means the rows lo ... hi - 1. ``add_prior_gradient(theta, out)`` adds grad log p(theta).
"""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numba import types as nb

from approxmcmc.engine.compiler.compile import BATCH_FASTMATH, INDICES, VECTOR, bind, type_of
from approxmcmc.engine.terms.batches import Data, datum_at, linear_predictor

# Rows are read twice, for eta and for the sum: 64 rows of 50 doubles (26 kB) stay in the first-level cache in between.
ROWS = 64
# Cube root of the rounding unit: where truncation and rounding of a central difference balance.
DIFFERENCE = 6e-6

ADD_PRIOR_GRADIENT = nb.void(VECTOR, VECTOR)
ALL_ROWS = np.empty(0, dtype=np.int64)  # the empty order: data in memory order


def gradient_signature(data_type: Any) -> Any:
    """Return the signature of an `add_gradient` kernel for data of this numba type."""
    return nb.void(VECTOR, data_type, INDICES, nb.int64, nb.int64, VECTOR)


def make_add_gradient(grad_loglik: Callable[..., None]) -> Callable[..., None]:
    """Return the batch kernel of ``grad_loglik(theta, data, i, out)``, which adds one term's gradient to `out`."""

    def add_gradient(theta: np.ndarray, data: Data, order: np.ndarray, lo: int, hi: int, out: np.ndarray) -> None:
        for position in range(lo, hi):
            grad_loglik(theta, data, datum_at(order, position), out)

    return add_gradient


def make_add_linear_gradient(derivatives_eta: Callable[..., Any]) -> Callable[..., None]:
    """Return the batch kernel of a linear model with data = (X, y) and predictors eta = x_i' theta.

    ``derivatives_eta(eta, y)[0]`` is the derivative of a term in eta.
    """

    def add_linear_gradient(
        theta: np.ndarray, data: Data, order: np.ndarray, lo: int, hi: int, out: np.ndarray
    ) -> None:
        X, y = data
        slopes = np.empty(ROWS)
        responses = np.empty(ROWS, y.dtype)
        for start in range(lo, hi, ROWS):
            stop = min(start + ROWS, hi)
            linear_predictor(theta, X, order, start, stop, slopes)
            for position in range(start, stop):
                responses[position - start] = y[datum_at(order, position)]
            for i in range(stop - start):
                slopes[i] = derivatives_eta(slopes[i], responses[i])[0]
            for position in range(start, stop):
                row = datum_at(order, position)
                slope = slopes[position - start]
                for j in range(theta.shape[0]):
                    out[j] += slope * X[row, j]

    return add_linear_gradient


def make_add_differences(log_prior: Callable[[np.ndarray], float]) -> Callable[..., None]:
    """Return a function ``(theta, out)`` that adds the gradient of a log prior to `out`, by central differences.

    It calls the log prior 2 dim + 1 times.
    """

    def add_differences(theta: np.ndarray, out: np.ndarray) -> None:
        # One-sided if the other side lies outside the support; NaN if theta itself does.
        moved = theta.copy()
        log_prior_here = log_prior(theta)
        for j in range(theta.shape[0]):
            h = DIFFERENCE * max(1.0, abs(theta[j]))
            above = theta[j] + h
            below = theta[j] - h
            moved[j] = above
            right = log_prior(moved)
            moved[j] = below
            left = log_prior(moved)
            moved[j] = theta[j]
            if right == -math.inf:
                right = log_prior_here
                above = theta[j]
            if left == -math.inf:
                left = log_prior_here
                below = theta[j]
            out[j] += (right - left) / (above - below) if math.isfinite(log_prior_here) else math.nan

    return add_differences


def gradient_kernel(grad_loglik: Callable[..., None], data: Data) -> Any:
    """Return the batch kernel of ``grad_loglik(theta, data, i, out)``, which adds one term's gradient to `out`."""
    signature = gradient_signature(type_of(data))
    return bind(make_add_gradient, grad_loglik, signature=signature, fastmath=BATCH_FASTMATH)


def linear_gradient_kernel(derivatives_eta: Callable[..., Any], data: Data) -> Any:
    """Return the batch kernel of a linear model with data = (X, y) and predictors eta = x_i' theta.

    ``derivatives_eta(eta, y)[0]`` is the derivative of a term in eta.
    """
    signature = gradient_signature(type_of(data))
    return bind(make_add_linear_gradient, derivatives_eta, signature=signature, fastmath=BATCH_FASTMATH)


def prior_gradient_kernel(grad_log_prior: Callable[..., None]) -> Any:
    """Return the kernel of ``grad_log_prior(theta, out)``, which adds the gradient to `out`."""
    return bind(_returning_nothing, grad_log_prior, signature=ADD_PRIOR_GRADIENT)


def _returning_nothing(grad_log_prior: Callable[..., None]) -> Callable[..., None]:
    """Return a function that calls the user's function and ignores its result."""

    def add_prior_gradient(theta: np.ndarray, out: np.ndarray) -> None:
        grad_log_prior(theta, out)

    return add_prior_gradient


def difference_prior_gradient_kernel(log_prior: Callable[..., float]) -> Any:
    """Return the kernel that adds the gradient of ``log_prior(theta)`` to `out`, by central differences."""
    return bind(make_add_differences, log_prior, signature=ADD_PRIOR_GRADIENT)


def full_gradient(gradient: Any, theta: np.ndarray) -> np.ndarray:
    """Return grad sum_i log p(x_i | theta) over all data, without the prior, for set-up; shape (dim,)."""
    out = np.zeros_like(theta)
    gradient.add_gradient(theta, gradient.data, ALL_ROWS, 0, gradient.n_obs, out)
    return out
