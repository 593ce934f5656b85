"""The batch boundary: a user's per-datum function becomes a kernel over many data.

``log_terms(theta, data, order, lo, hi, out)`` writes the terms of the data ``order[lo:hi]`` at one theta. Everything
above the boundary (differences, caches, moments, decisions) is the library's and is compiled once for all models
with the same types of data; everything below is the model's.
"""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numba import types as nb

from approxmcmc.engine.bind import BATCH_FASTMATH, INDICES, VECTOR, bind, compiled, type_of
from approxmcmc.engine.moments import MEAN, merge

# Data per call of a batch kernel: 512 rows of 50 doubles (200 kB) stay in the second-level cache between the two
# thetas, # and one indirect call per 512 data costs nothing that can be measured.
BATCH = 512

# What a batch of differences can hold.
FINITE, IMPOSSIBLE, CERTAIN, UNDEFINED = 0, 1, 2, 3

LOG_PRIOR = nb.FunctionType(nb.float64(VECTOR))


def log_terms_type(data_type: Any) -> Any:
    """Return the type of a `log_terms` kernel for data of this numba type."""
    return nb.FunctionType(nb.void(VECTOR, data_type, INDICES, nb.int64, nb.int64, VECTOR))


def _terms(theta, data, order, lo, hi, out):  # type: ignore[no-untyped-def]  # a template
    for place in range(lo, hi):
        out[place - lo] = LOGLIK(theta, data, order[place])  # type: ignore[name-defined]  # noqa: F821 (bound)


def _linear_terms(theta, data, order, lo, hi, out):  # type: ignore[no-untyped-def]  # a template
    # Two loops: the first gathers rows, the second vectorises over data. It does so only on contiguous arrays (3.4 ns a
    # datum against 21 with y gathered in it), hence the copy of the responses.
    X, y = data
    responses = np.empty(hi - lo)
    for place in range(lo, hi):
        row = order[place]
        eta = 0.0
        for j in range(theta.shape[0]):
            eta += X[row, j] * theta[j]
        out[place - lo] = eta
        responses[place - lo] = y[row]
    for i in range(hi - lo):
        out[i] = LOGLIK_ETA(out[i], responses[i])  # type: ignore[name-defined]  # noqa: F821 (bound)


def batch_kernel(loglik: Callable[..., float], data: tuple[np.ndarray, ...]) -> Any:
    """Return the batch kernel of a per-datum function ``loglik(theta, data, i) -> float``."""
    return _bind_terms(_terms, data, LOGLIK=loglik)


def linear_batch_kernel(loglik_eta: Callable[[float, float], float], data: tuple[np.ndarray, ...]) -> Any:
    """Return the batch kernel of a linear model, ``loglik_eta(x_i' theta, y_i) -> float``; data = (X, y)."""
    return _bind_terms(_linear_terms, data, LOGLIK_ETA=loglik_eta)


def _bind_terms(template: Callable[..., None], data: tuple[np.ndarray, ...], **parts: Any) -> Any:
    return bind(template, log_terms_type(type_of(data)).signature, fastmath=BATCH_FASTMATH, **parts)


def prior_kernel(log_prior: Callable[..., float], **parts: Any) -> Any:
    """Return a compiled ``log_prior(theta) -> float``, strict in its arithmetic."""
    return bind(log_prior, LOG_PRIOR.signature, **parts)


@compiled
def merge_differences(  # type: ignore[no-untyped-def]  # a kernel helper; types are inferred at its call
    log_terms, theta, proposed, data, order, start, stop, work
):
    """Merge l_i = log p(x_i|theta') - log p(x_i|theta), i in ``order[start:stop]``, into the moments ``work[2]``.

    Returns FINITE; or IMPOSSIBLE when a datum has probability 0 at theta' (the full ratio is then 0, whatever the rest
    says), CERTAIN when a datum has probability 0 at theta and not at theta', UNDEFINED when a term is NaN.
    """
    current, candidate, moments = work[0], work[1], work[2]
    certain = False
    for lo in range(start, stop, BATCH):
        hi = min(lo + BATCH, stop)
        log_terms(theta, data, order, lo, hi, current)
        log_terms(proposed, data, order, lo, hi, candidate)
        for i in range(hi - lo):
            if candidate[i] == -math.inf:
                return IMPOSSIBLE
            if current[i] == -math.inf and candidate[i] == candidate[i]:
                certain = True
                current[i] = candidate[i]
            candidate[i] -= current[i]
        merge(moments, candidate, hi - lo)
    if certain:
        return CERTAIN
    return FINITE if math.isfinite(moments[MEAN]) else UNDEFINED


@compiled
def sum_terms(log_terms, theta, data, order, n_obs, work):  # type: ignore[no-untyped-def]  # as above
    """Return the log-likelihood on all data; sums of 512 terms are added up: rounding stays near 1e-16 sqrt(N)."""
    total = 0.0
    for lo in range(0, n_obs, BATCH):
        hi = min(lo + BATCH, n_obs)
        log_terms(theta, data, order, lo, hi, work)
        part = 0.0
        for i in range(hi - lo):
            part += work[i]
        total += part
    return total


def full_terms(log_terms: Any, theta: np.ndarray, data: tuple[np.ndarray, ...], n_obs: int) -> np.ndarray:
    """Return all N terms at one theta; shape (n_obs,). For set-up and explanations, not for steps."""
    out = np.empty(n_obs)
    log_terms(theta, data, np.arange(n_obs), 0, n_obs, out)
    return out
