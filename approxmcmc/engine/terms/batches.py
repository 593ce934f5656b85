"""The batch boundary: turn a user's per-datum function into a kernel over many data.

``log_terms(theta, data, order, lo, hi, out)`` writes the terms of the data ``order[lo:hi]`` at one theta; an empty
order stands for the rows lo ... hi - 1 in memory order. Everything above the boundary (differences, caches, moments,
decisions) belongs to the library and is compiled once for all models with the same types of data; everything below
belongs to the model.
"""

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numba import types as nb

from approxmcmc.engine.compiler.compile import BATCH_FASTMATH, INDICES, VECTOR, bind, compiled, kernel, type_of
from approxmcmc.engine.terms.moments import total

Data = tuple[np.ndarray, ...]

# Data per call of a batch kernel: 512 rows of 50 doubles (200 kB) stay in the second-level cache between the two
# thetas, and one indirect call per 512 data costs nothing that can be measured.
BATCH = 512

# Outcomes of a batch of differences.
FINITE = 0
IMPOSSIBLE = 1
CERTAIN = 2
UNDEFINED = 3

LOG_PRIOR = nb.FunctionType(nb.float64(VECTOR))


def log_terms_type(data_type: Any) -> Any:
    """Return the type of a `log_terms` kernel for data of this numba type."""
    return nb.FunctionType(nb.void(VECTOR, data_type, INDICES, nb.int64, nb.int64, VECTOR))


def log_terms_at_both_type(data_type: Any) -> Any:
    """Return the type of a kernel that writes terms at two thetas (`terms_at_both`), for data of this numba type."""
    return nb.FunctionType(nb.void(VECTOR, VECTOR, data_type, nb.int64, nb.int64, VECTOR, VECTOR))


def make_log_terms(loglik: Callable[..., float]) -> Callable[..., None]:
    """Return the batch kernel of ``loglik(theta, data, i)``."""

    def log_terms(theta: np.ndarray, data: Data, order: np.ndarray, lo: int, hi: int, out: np.ndarray) -> None:
        for position in range(lo, hi):
            out[position - lo] = loglik(theta, data, datum_at(order, position))

    return log_terms


@compiled
def datum_at(order: np.ndarray, place: int) -> int:
    """Return the index of the datum at a place of the order: ``order[place]``, or `place` if the order is empty."""
    return order[place] if order.shape[0] else place


@compiled(fastmath=set(BATCH_FASTMATH))
def linear_predictor(theta: np.ndarray, X: np.ndarray, order: np.ndarray, lo: int, hi: int, out: np.ndarray) -> None:
    """Write x_i' theta to ``out[:hi - lo]`` for i in ``order[lo:hi]``, or for i = lo ... hi - 1 if the order is empty.

    Two rows at a time, which overlaps their horizontal sums (docs, decision record 5). A last row without a partner is
    paired with itself: each row goes through the same arithmetic, so a term does not depend on its batch.
    """
    for pair in range((hi - lo + 1) // 2):
        i = lo + 2 * pair
        next_i = min(i + 1, hi - 1)
        row = X[datum_at(order, i)]
        next_row = X[datum_at(order, next_i)]
        eta = next_eta = 0.0
        for j in range(theta.shape[0]):
            eta += row[j] * theta[j]
            next_eta += next_row[j] * theta[j]
        out[i - lo] = eta
        out[next_i - lo] = next_eta


@compiled(fastmath=set(BATCH_FASTMATH))
def linear_predictors(
    theta: np.ndarray, proposed: np.ndarray, X: np.ndarray, lo: int, hi: int, out: np.ndarray, other_out: np.ndarray
) -> None:
    """Write x_i' theta to `out` and x_i' theta' to `other_out`, i = lo ... hi - 1; theta' is `proposed`.

    The results are bit-equal to those of `linear_predictor`.

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


def make_linear_log_terms(loglik_eta: Callable[[float, float], float]) -> Callable[..., None]:
    """Return the batch kernel of a linear model, ``loglik_eta(x_i' theta, y_i)``; data = (X, y)."""

    def linear_log_terms(theta: np.ndarray, data: Data, order: np.ndarray, lo: int, hi: int, out: np.ndarray) -> None:
        # Two loops: the first gathers rows, the second vectorises over data. The second vectorises only on contiguous
        # arrays, so the responses are copied first: 3.4 ns a datum, against 21 if it gathers them.
        X, y = data
        linear_predictor(theta, X, order, lo, hi, out)
        if order.shape[0] == 0:
            # A slice from 0, because the compiler cannot exclude that an index lo + i is negative. If `out` and y are
            # neighbours in memory, its check that they do not overlap would then fail, and the loop would be scalar.
            y_of_rows = y[lo:hi]
            for i in range(hi - lo):
                out[i] = loglik_eta(out[i], y_of_rows[i])
            return
        responses = np.empty(hi - lo, y.dtype)
        for position in range(lo, hi):
            responses[position - lo] = y[order[position]]
        for i in range(hi - lo):
            out[i] = loglik_eta(out[i], responses[i])

    return linear_log_terms


def make_linear_terms_at_both(loglik_eta: Callable[[float, float], float]) -> Callable[..., None]:
    """Return the kernel that evaluates the terms of a linear model at two thetas in one pass."""

    def linear_terms_at_both(
        theta: np.ndarray,
        proposed: np.ndarray,
        data: Data,
        lo: int,
        hi: int,
        current: np.ndarray,
        candidate: np.ndarray,
    ) -> None:
        X, y = data
        linear_predictors(theta, proposed, X, lo, hi, current, candidate)
        y_of_rows = y[lo:hi]
        for i in range(hi - lo):
            current[i] = loglik_eta(current[i], y_of_rows[i])
        for i in range(hi - lo):
            candidate[i] = loglik_eta(candidate[i], y_of_rows[i])

    return linear_terms_at_both


@compiled
def terms_at_both(
    at_both: Any,
    log_terms: Any,
    theta: np.ndarray,
    proposed: np.ndarray,
    data: Data,
    memory_order: np.ndarray,
    lo: int,
    hi: int,
    current: np.ndarray,
    candidate: np.ndarray,
) -> None:
    """Write the terms of the rows lo ... hi - 1 at theta to `current` and at theta' to `candidate`.

    `at_both` is the target's own kernel for this, or None; the unused branch is not compiled. `memory_order` is the
    empty order.
    """
    if at_both is not None:
        at_both(theta, proposed, data, lo, hi, current, candidate)
        return
    log_terms(theta, data, memory_order, lo, hi, current)
    log_terms(proposed, data, memory_order, lo, hi, candidate)


def batch_kernel(loglik: Callable[..., float], data: Data) -> Any:
    """Return the batch kernel of a per-datum function ``loglik(theta, data, i) -> float``."""
    return bind_terms(make_log_terms, loglik, data=data)


def linear_batch_kernel(loglik_eta: Callable[[float, float], float], data: Data) -> Any:
    """Return the batch kernel of a linear model, ``loglik_eta(x_i' theta, y_i) -> float``; data = (X, y)."""
    return bind_terms(make_linear_log_terms, loglik_eta, data=data)


def linear_kernel_at_both(loglik_eta: Callable[[float, float], float], data: Data) -> Any:
    """Return the kernel that evaluates the terms of a linear model at two thetas in one pass."""
    signature = log_terms_at_both_type(type_of(data)).signature
    return bind(make_linear_terms_at_both, loglik_eta, signature=signature, fastmath=BATCH_FASTMATH)


def bind_terms(make: Callable[..., Callable[..., None]], *parts: Any, data: Data) -> Any:
    """Return ``make(*parts)``, a function `log_terms`, compiled for data of the types of `data`."""
    return bind(make, *parts, signature=log_terms_type(type_of(data)).signature, fastmath=BATCH_FASTMATH)


def prior_kernel(log_prior: Callable[..., float]) -> Any:
    """Return a compiled ``log_prior(theta) -> float`` with strict arithmetic."""
    return kernel(log_prior, LOG_PRIOR.signature)


@compiled
def subtract(current: np.ndarray, candidate: np.ndarray, out: np.ndarray) -> int:
    """Write l_i = candidate_i - current_i to `out`, and return the outcome.

    IMPOSSIBLE if a term of `candidate` is -inf (`out` is then incomplete); CERTAIN if only terms of `current` are, for
    which 0 is written; else FINITE.
    """
    # Counted in a separate loop: with a branch per term a loop does not vectorise, and takes 0.7 ns a term instead of
    # 0.2.
    infinite = 0
    for i in range(current.shape[0]):
        infinite += (current[i] == -math.inf) + (candidate[i] == -math.inf)
    if infinite == 0:
        for i in range(current.shape[0]):
            out[i] = candidate[i] - current[i]
        return FINITE
    outcome = FINITE
    for i in range(current.shape[0]):
        term = current[i]
        proposed_term = candidate[i]
        if proposed_term == -math.inf:
            return IMPOSSIBLE
        if term == -math.inf and not math.isnan(proposed_term):
            outcome = CERTAIN
            term = proposed_term  # the difference is written as 0; a NaN stays one
        out[i] = proposed_term - term
    return outcome


@compiled
def sum_terms(log_terms: Any, theta: np.ndarray, data: Data, order: np.ndarray, n_obs: int, work: np.ndarray) -> float:
    """Return the sum of all terms at theta; sums of 512 terms are added, so rounding stays near 1e-16 sqrt(N).

    `order` is a permutation of the data, or empty for memory order; `work` is scratch for 512 terms.
    """
    all_terms = 0.0
    for lo in range(0, n_obs, BATCH):
        hi = min(lo + BATCH, n_obs)
        log_terms(theta, data, order, lo, hi, work)
        all_terms += total(work, hi - lo)
    return all_terms


def full_terms(log_terms: Any, theta: np.ndarray, data: tuple[np.ndarray, ...], n_obs: int) -> np.ndarray:
    """Return all N terms at one theta, in a new array of shape (n_obs,)."""
    out = np.empty(n_obs)
    log_terms(theta, data, np.empty(0, dtype=np.int64), 0, n_obs, out)
    return out


def scale_of(differences: np.ndarray) -> float:
    """Return tau, sqrt(N) times the standard deviation of N differences; 0 for N = 1, inf if one is not finite."""
    if not np.isfinite(differences).all():
        return np.inf
    return float(np.sqrt(differences.size) * differences.std(ddof=1)) if differences.size > 1 else 0.0


@functools.cache
def row_reader(n_arrays: int) -> Any:
    """Return ``rows(data, order, lo, hi)``, which returns the rows ``order[lo:hi]`` of each of `n_arrays` arrays.

    If the order is empty, it returns views of the rows lo ... hi - 1.

    The code is generated for each number of arrays, because compiled code cannot loop over arrays of different types.
    """
    # As text, because closures that each add an array to the tuple of the rest take longer to compile and are no faster
    # to call: 2.6 s of a processor in place of .7 for 3 arrays, 12 in place of 1.3 for 8; 15 and 23 us a call in both.
    chosen, views = ("".join(f"data[{k}][{rows}], " for k in range(n_arrays)) for rows in ("index", "lo:hi"))
    source = f"""
def rows(data, order, lo, hi):
    if order.shape[0] > 0:
        index = order[lo:hi]
        return ({chosen})
    return ({views})
"""
    scope: dict[str, Any] = {}
    exec(source, scope)
    return scope["rows"]
