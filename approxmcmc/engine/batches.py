"""The batch boundary: a user's per-datum function becomes a kernel over many data.

``log_terms(theta, data, order, lo, hi, out)`` writes the terms of the data ``order[lo:hi]`` at one theta; an empty
order stands for the rows lo ... hi - 1 as they lie. Everything above the boundary (differences, caches, moments,
decisions) is the library's and is compiled once for all models with the same types of data; everything below is the
model's.
"""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numba import types as nb

from approxmcmc.engine.bind import BATCH_FASTMATH, INDICES, VECTOR, bind, compiled, type_of
from approxmcmc.engine.moments import MEAN, merge, total

# Data per call of a batch kernel: 512 rows of 50 doubles (200 kB) stay in the second-level cache between the two
# thetas, and one indirect call per 512 data costs nothing that can be measured.
BATCH = 512

# What a batch of differences can hold.
FINITE, IMPOSSIBLE, CERTAIN, UNDEFINED = 0, 1, 2, 3

LOG_PRIOR = nb.FunctionType(nb.float64(VECTOR))


def log_terms_type(data_type: Any) -> Any:
    """Return the type of a `log_terms` kernel for data of this numba type."""
    return nb.FunctionType(nb.void(VECTOR, data_type, INDICES, nb.int64, nb.int64, VECTOR))


def log_terms_at_both_type(data_type: Any) -> Any:
    """Return the type of a `log_terms_at_both` kernel for data of this numba type."""
    return nb.FunctionType(nb.void(VECTOR, VECTOR, data_type, nb.int64, nb.int64, VECTOR, VECTOR))


def _terms(theta, data, order, lo, hi, out):  # type: ignore[no-untyped-def]  # a template
    for place in range(lo, hi):
        out[place - lo] = LOGLIK(theta, data, datum_at(order, place))  # type: ignore[name-defined]  # noqa: F821 (bound)


@compiled
def datum_at(order, place):  # type: ignore[no-untyped-def]  # a kernel helper
    """Return which datum stands at a place of the order; an empty order stands for the data as they lie."""
    return order[place] if order.shape[0] else place


@compiled(fastmath=set(BATCH_FASTMATH))
def linear_predictor(theta, X, order, lo, hi, out):  # type: ignore[no-untyped-def]  # a kernel helper
    """Write x_i' theta to ``out[:hi - lo]`` for i in ``order[lo:hi]``; an empty order stands for the rows as they lie.

    Two rows at a time, which overlaps their horizontal sums (docs, decision record 5). A last row without a partner is
    its own: each row goes through the same arithmetic, so a term does not depend on the batch in which it is read.
    """
    for pair in range((hi - lo + 1) // 2):
        here, there = lo + 2 * pair, min(lo + 2 * pair + 1, hi - 1)
        one, other = X[datum_at(order, here)], X[datum_at(order, there)]
        eta = eta_other = 0.0
        for j in range(theta.shape[0]):
            eta += one[j] * theta[j]
            eta_other += other[j] * theta[j]
        out[here - lo] = eta
        out[there - lo] = eta_other


@compiled(fastmath=set(BATCH_FASTMATH))
def linear_predictors(theta, proposed, X, lo, hi, out, other_out):  # type: ignore[no-untyped-def]  # as above
    """Write x_i' theta and x_i' theta' for the rows lo ... hi - 1: to each, what `linear_predictor` writes.

    One pass over a row for both takes three quarters of the time of two passes.
    """
    for i in range(lo, hi):
        row = X[i]
        eta = eta_other = 0.0
        for j in range(theta.shape[0]):
            eta += row[j] * theta[j]
            eta_other += row[j] * proposed[j]
        out[i - lo] = eta
        other_out[i - lo] = eta_other


def _linear_terms(theta, data, order, lo, hi, out):  # type: ignore[no-untyped-def]  # a template
    # Two loops: the first gathers rows, the second vectorises over data. It does so only on contiguous arrays (3.4 ns a
    # datum against 21 with y gathered in it), hence the copy of the responses.
    X, y = data
    linear_predictor(theta, X, order, lo, hi, out)
    if order.shape[0] == 0:
        # A slice from 0: the index lo + i might be negative for all that the compiler knows, and its check that `out`
        # does not overlap y would then fail where the two are neighbours in memory, and fall back to a scalar loop.
        here = y[lo:hi]
        for i in range(hi - lo):
            out[i] = LOGLIK_ETA(out[i], here[i])  # type: ignore[name-defined]  # noqa: F821 (bound)
        return
    responses = np.empty(hi - lo)
    for place in range(lo, hi):
        responses[place - lo] = y[order[place]]
    for i in range(hi - lo):
        out[i] = LOGLIK_ETA(out[i], responses[i])  # type: ignore[name-defined]  # noqa: F821 (bound)


def _linear_terms_at_both(theta, proposed, data, lo, hi, current, candidate):  # type: ignore[no-untyped-def]  # as above
    X, y = data
    linear_predictors(theta, proposed, X, lo, hi, current, candidate)
    here = y[lo:hi]
    for i in range(hi - lo):
        current[i] = LOGLIK_ETA(current[i], here[i])  # type: ignore[name-defined]  # noqa: F821 (bound)
    for i in range(hi - lo):
        candidate[i] = LOGLIK_ETA(candidate[i], here[i])  # type: ignore[name-defined]  # noqa: F821 (bound)


@compiled
def terms_at_both(both, log_terms, theta, proposed, data, lo, hi, current, candidate):  # type: ignore[no-untyped-def]
    """Write the terms of the rows lo ... hi - 1 at theta to `current` and at theta' to `candidate`.

    `both` is the target's own kernel for this, or None; the branch that is not taken is not compiled.
    """
    if both is not None:
        both(theta, proposed, data, lo, hi, current, candidate)
        return
    log_terms(theta, data, memory_order(), lo, hi, current)
    log_terms(proposed, data, memory_order(), lo, hi, candidate)


def batch_kernel(loglik: Callable[..., float], data: tuple[np.ndarray, ...]) -> Any:
    """Return the batch kernel of a per-datum function ``loglik(theta, data, i) -> float``."""
    return _bind_terms(_terms, data, LOGLIK=loglik)


def linear_batch_kernel(loglik_eta: Callable[[float, float], float], data: tuple[np.ndarray, ...]) -> Any:
    """Return the batch kernel of a linear model, ``loglik_eta(x_i' theta, y_i) -> float``; data = (X, y)."""
    return _bind_terms(_linear_terms, data, LOGLIK_ETA=loglik_eta)


def linear_kernel_at_both(loglik_eta: Callable[[float, float], float], data: tuple[np.ndarray, ...]) -> Any:
    """Return the kernel that evaluates the terms of a linear model at two thetas in one pass."""
    signature = log_terms_at_both_type(type_of(data)).signature
    return bind(_linear_terms_at_both, signature, fastmath=BATCH_FASTMATH, LOGLIK_ETA=loglik_eta)


def _bind_terms(template: Callable[..., None], data: tuple[np.ndarray, ...], **parts: Any) -> Any:
    return bind(template, log_terms_type(type_of(data)).signature, fastmath=BATCH_FASTMATH, **parts)


def prior_kernel(log_prior: Callable[..., float], **parts: Any) -> Any:
    """Return a compiled ``log_prior(theta) -> float``, strict in its arithmetic."""
    return bind(log_prior, LOG_PRIOR.signature, **parts)


@compiled
def subtract(current, candidate, out):  # type: ignore[no-untyped-def]  # a kernel helper; types are inferred at its call
    """Write l_i = candidate_i - current_i to `out`; return IMPOSSIBLE or CERTAIN where a term is -inf, else FINITE."""
    infinite = 0  # counted first: a loop that asks each term does not vectorise, and takes 0.7 ns instead of 0.2
    for i in range(current.shape[0]):
        infinite += (current[i] == -math.inf) + (candidate[i] == -math.inf)
    if infinite == 0:
        for i in range(current.shape[0]):
            out[i] = candidate[i] - current[i]
        return FINITE
    outcome = FINITE
    for i in range(current.shape[0]):
        now, then = current[i], candidate[i]
        if then == -math.inf:
            return IMPOSSIBLE
        if now == -math.inf and not math.isnan(then):
            outcome = CERTAIN
            now = then
        out[i] = then - now
    return outcome


@compiled
def finish(outcome, moments):  # type: ignore[no-untyped-def]  # as above
    """Return what the differences read so far amount to: `outcome`, or UNDEFINED when a finite sum turned out NaN."""
    return UNDEFINED if outcome == FINITE and not math.isfinite(moments[MEAN]) else outcome


@compiled
def merge_differences(  # type: ignore[no-untyped-def]  # as above
    log_terms, theta, proposed, data, order, start, stop, work
):
    """Merge l_i = log p(x_i|theta') - log p(x_i|theta), i in ``order[start:stop]``, into the moments ``work[2]``.

    Returns FINITE; or IMPOSSIBLE when a datum has probability 0 at theta' (the full ratio is then 0, whatever the rest
    says), CERTAIN when a datum has probability 0 at theta and not at theta', UNDEFINED when a term is NaN. The
    differences of the last batch stay in ``work[1]``.
    """
    current, candidate, moments = work[0], work[1], work[2]
    outcome = FINITE
    for lo in range(start, stop, BATCH):
        hi = min(lo + BATCH, stop)
        log_terms(theta, data, order, lo, hi, current)
        log_terms(proposed, data, order, lo, hi, candidate)
        found = subtract(current[: hi - lo], candidate[: hi - lo], candidate)
        if found == IMPOSSIBLE:
            return IMPOSSIBLE
        outcome = CERTAIN if found == CERTAIN else outcome
        merge(moments, candidate, hi - lo)
    return finish(outcome, moments)


@compiled
def sum_terms(log_terms, theta, data, order, n_obs, work):  # type: ignore[no-untyped-def]  # as above
    """Return the log-likelihood on all data; sums of 512 terms are added up: rounding stays near 1e-16 sqrt(N)."""
    all_terms = 0.0
    for lo in range(0, n_obs, BATCH):
        hi = min(lo + BATCH, n_obs)
        log_terms(theta, data, order, lo, hi, work)
        all_terms += total(work, hi - lo)
    return all_terms


@compiled
def memory_order():  # type: ignore[no-untyped-def]  # as above
    """Return the empty order: the data as they lie."""
    return np.empty(0, dtype=np.int64)


def full_terms(log_terms: Any, theta: np.ndarray, data: tuple[np.ndarray, ...], n_obs: int) -> np.ndarray:
    """Return all N terms at one theta; shape (n_obs,). For set-up and explanations, not for steps."""
    out = np.empty(n_obs)
    log_terms(theta, data, np.empty(0, dtype=np.int64), 0, n_obs, out)
    return out
