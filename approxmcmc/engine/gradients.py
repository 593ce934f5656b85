"""The batch boundary of gradients: a per-datum gradient becomes a kernel that adds up over many data.

``add_gradient(theta, data, order, lo, hi, out)`` adds sum of grad log p(x_i | theta), i in ``order[lo:hi]``, to `out`;
an empty order stands for the rows lo ... hi - 1. ``add_prior_gradient(theta, out)`` adds grad log p(theta).
"""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numba import types as nb

from approxmcmc.engine.batches import datum_at, linear_predictor
from approxmcmc.engine.bind import BATCH_FASTMATH, INDICES, VECTOR, bind, type_of

# Rows are read twice, for eta and for the sum: 64 rows of 50 doubles (26 kB) stay in the first-level cache in between.
ROWS = 64
# Cube root of the rounding unit: where truncation and rounding of a central difference balance.
DIFFERENCE = 6e-6

ADD_PRIOR_GRADIENT = nb.void(VECTOR, VECTOR)
ALL_ROWS = np.empty(0, dtype=np.int64)  # the empty order: data as they lie in memory


def gradient_signature(data_type: Any) -> Any:
    """Return the signature of an `add_gradient` kernel for data of this numba type."""
    return nb.void(VECTOR, data_type, INDICES, nb.int64, nb.int64, VECTOR)


def _gradient(theta, data, order, lo, hi, out):  # type: ignore[no-untyped-def]  # a template
    for place in range(lo, hi):
        GRAD_LOGLIK(theta, data, datum_at(order, place), out)  # type: ignore[name-defined]  # noqa: F821 (bound)


def _linear_gradient(theta, data, order, lo, hi, out):  # type: ignore[no-untyped-def]  # a template
    X, y = data
    slopes, responses = np.empty(ROWS), np.empty(ROWS)
    for start in range(lo, hi, ROWS):
        stop = min(start + ROWS, hi)
        linear_predictor(theta, X, order, start, stop, slopes)
        for place in range(start, stop):
            responses[place - start] = y[datum_at(order, place)]
        for i in range(stop - start):
            slopes[i] = DERIVATIVES_ETA(slopes[i], responses[i])[0]  # type: ignore[name-defined]  # noqa: F821 (bound)
        for place in range(start, stop):
            row, slope = datum_at(order, place), slopes[place - start]
            for j in range(theta.shape[0]):
                out[j] += slope * X[row, j]


def _prior_gradient(theta, out):  # type: ignore[no-untyped-def]  # a template
    GRAD_LOGPRIOR(theta, out)  # type: ignore[name-defined]  # noqa: F821 (bound)


def _prior_gradient_by_differences(theta, out):  # type: ignore[no-untyped-def]  # a template
    # One-sided where the other side lies outside the support; NaN where theta itself does.
    moved, here = theta.copy(), LOG_PRIOR(theta)  # type: ignore[name-defined]  # noqa: F821 (bound)
    for j in range(theta.shape[0]):
        h = DIFFERENCE * max(1.0, abs(theta[j]))
        above, below = theta[j] + h, theta[j] - h
        moved[j] = above
        right = LOG_PRIOR(moved)  # type: ignore[name-defined]  # noqa: F821 (bound)
        moved[j] = below
        left = LOG_PRIOR(moved)  # type: ignore[name-defined]  # noqa: F821 (bound)
        moved[j] = theta[j]
        if right == -math.inf:
            right, above = here, theta[j]
        if left == -math.inf:
            left, below = here, theta[j]
        out[j] += (right - left) / (above - below) if math.isfinite(here) else math.nan


def gradient_kernel(grad_loglik: Callable[..., None], data: tuple[np.ndarray, ...]) -> Any:
    """Return the batch kernel of ``grad_loglik(theta, data, i, out)``, which adds one term's gradient to `out`."""
    return bind(_gradient, gradient_signature(type_of(data)), fastmath=BATCH_FASTMATH, GRAD_LOGLIK=grad_loglik)


def linear_gradient_kernel(derivatives_eta: Callable[..., Any], data: tuple[np.ndarray, ...]) -> Any:
    """Return the batch kernel of a linear model; ``derivatives_eta(eta, y)[0]`` is the slope in eta, data = (X, y)."""
    signature = gradient_signature(type_of(data))
    return bind(_linear_gradient, signature, fastmath=BATCH_FASTMATH, DERIVATIVES_ETA=derivatives_eta)


def prior_gradient_kernel(grad_log_prior: Callable[..., None]) -> Any:
    """Return the kernel of ``grad_log_prior(theta, out)``, which adds the gradient to `out`."""
    return bind(_prior_gradient, ADD_PRIOR_GRADIENT, GRAD_LOGPRIOR=grad_log_prior)


def difference_prior_gradient_kernel(log_prior: Callable[..., float]) -> Any:
    """Return the kernel that differentiates ``log_prior(theta)`` by central differences, 2 dim + 1 calls."""
    return bind(_prior_gradient_by_differences, ADD_PRIOR_GRADIENT, LOG_PRIOR=log_prior)


def full_gradient(gradient: Any, theta: np.ndarray) -> np.ndarray:
    """Return grad sum_i log p(x_i | theta) over all data, without the prior, for set-up; shape (dim,)."""
    out = np.zeros_like(theta)
    gradient.add_gradient(theta, gradient.data, ALL_ROWS, 0, gradient.n_obs, out)
    return out
