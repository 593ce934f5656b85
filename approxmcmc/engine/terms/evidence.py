"""The evidence of a test: the terms of the data at two states, as differences, and their running moments.

    l_i = log p(x_i | theta') - log p(x_i | theta)

Tests are independent of models and of the data's order. They request the next data (`engine/terms/order.py`), and use
the moments of the differences read so far.
"""

import math
from typing import Any, NamedTuple

import numpy as np

from approxmcmc.engine.compiler.compile import compiled
from approxmcmc.engine.terms.batches import (
    BATCH,
    CERTAIN,
    FINITE,
    IMPOSSIBLE,
    UNDEFINED,
    subtract,
    sum_terms,
)
from approxmcmc.engine.terms.moments import MEAN, SIZE, merge, reset


class DataOrder(NamedTuple):
    """The state of a chain's schedule, by which it draws subsets of the data; see `approxmcmc.engine.terms.order`.

    `places` (N,): permutation of the rows; empty means memory order, for a shuffled copy or a test that reads all data.
    `blocks` (K,): permutation of the blocks; empty means the schedule of rows. `kept` (K, 2): for each block the
    version of theta, a number that changes when theta does, and how many of the block's first rows have a cached term
    for that version. `terms` (2, N): terms at the current theta, by row, and at the proposed one, in the order of
    reading. `cursor` (7,): block size, N, decisions between two shuffles (0: none), decisions so far, version of theta,
    and the block and the row in it at which the current decision has arrived. `rows`: the copy's arrays that have a
    row for each datum, viewed as integers; a shuffle moves these. `at_both`: the target's kernel for two thetas, or
    None.
    """

    places: np.ndarray
    blocks: np.ndarray
    kept: np.ndarray
    terms: np.ndarray
    cursor: np.ndarray
    rows: tuple[np.ndarray, ...]
    at_both: Any


class Evidence(NamedTuple):
    """The terms at theta and at theta', the order in which they are drawn, and the moments of those read.

    `log_terms`, `data` and `n_obs` are the target's. `memory_order` is the empty order, which means all data in memory
    order. `moments` are those of the differences read so far. `current` and `differences` are scratch for one batch;
    after a read `differences` holds the last batch of l_i.
    """

    log_terms: Any
    data: tuple[np.ndarray, ...]
    n_obs: int
    theta: np.ndarray
    proposed: np.ndarray
    order: DataOrder
    memory_order: np.ndarray
    moments: np.ndarray
    current: np.ndarray
    differences: np.ndarray


def new_evidence(
    log_terms: Any,
    data: tuple[np.ndarray, ...],
    n_obs: int,
    theta: np.ndarray,
    proposed: np.ndarray,
    order: DataOrder,
) -> Evidence:
    """Return the evidence on the states `theta` and `proposed`, with new scratch arrays and without any read data.

    The two arrays are kept, not copied: the evidence is on the values that they have when data are read.
    """
    nothing = np.empty(0, dtype=np.int64)
    scratch = np.zeros(SIZE), np.empty(BATCH), np.empty(BATCH)
    return Evidence(log_terms, data, n_obs, theta, proposed, order, nothing, *scratch)


@compiled
def finish(outcome: int, moments: np.ndarray) -> int:
    """Return `outcome`, or UNDEFINED if it is FINITE and the mean of the differences read so far is not finite."""
    return UNDEFINED if outcome == FINITE and not math.isfinite(moments[MEAN]) else outcome


@compiled
def merge_differences(evidence: Evidence, places: np.ndarray, start: int, stop: int) -> int:
    """Merge l_i, i in ``places[start:stop]``, into the moments; empty `places` mean memory order.

    Returns FINITE; or IMPOSSIBLE if a datum has probability 0 at theta' (the ratio of all data is then 0, and no
    further data are read), CERTAIN if one has probability 0 at theta and none has at theta', UNDEFINED if a term is NaN
    or +inf.
    """
    log_terms = evidence.log_terms
    data = evidence.data
    theta = evidence.theta
    proposed = evidence.proposed
    moments = evidence.moments
    current = evidence.current
    candidate = evidence.differences
    outcome = FINITE
    for lo in range(start, stop, BATCH):
        hi = min(lo + BATCH, stop)
        log_terms(theta, data, places, lo, hi, current)
        log_terms(proposed, data, places, lo, hi, candidate)
        n_undefined = subtract(current[: hi - lo], candidate[: hi - lo], candidate)
        if n_undefined == IMPOSSIBLE:
            return IMPOSSIBLE
        outcome = CERTAIN if n_undefined == CERTAIN else outcome
        merge(moments, candidate, hi - lo)
    return finish(outcome, moments)


@compiled
def merge_all_differences(evidence: Evidence) -> int:
    """Reset the moments, merge the differences of all data in memory order, and return as `merge_differences`."""
    reset(evidence.moments)
    start = np.int64(0)  # a literal 0 would compile the helper twice
    return merge_differences(evidence, evidence.memory_order, start, evidence.n_obs)


@compiled
def log_likelihood_at(evidence: Evidence, theta: np.ndarray, places: np.ndarray) -> float:
    """Return the sum of the terms of all data at one theta, in the order of `places`; empty means memory order."""
    return sum_terms(evidence.log_terms, theta, evidence.data, places, evidence.n_obs, evidence.differences)
