"""Repeat the decision of a test on one pair of states many times, each with another order of precomputed terms.

For a fixed order of the data, a test with a threshold form (`CompiledTest.threshold_form`) accepts if and only if its
threshold T(u) is below one number, Lambda^. So the acceptance probability of the test is

    alpha^ = E_order F(Lambda^),    F(x) = P(T(u) < x),

with u integrated out, where F(x) = min(1, exp x) or Barker's logistic function. A test without a threshold form decides
at stratified u's instead, and Lambda^ is +inf if it accepts and -inf if it rejects.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from numba import config, types as nb

from approxmcmc.acceptance.metropolis import ACCEPT, REJECT
from approxmcmc.contracts import COUNT_NAMES, VALUE_NAMES, CompiledTest
from approxmcmc.engine.compiler.compile import INDICES, VECTOR, compiled, entry_point, kernel, type_of
from approxmcmc.engine.compiler.generators import ADDRESSES, addresses, generator_at
from approxmcmc.engine.compiler.identity import cached_by_content
from approxmcmc.engine.terms.evidence import Evidence
from approxmcmc.engine.terms.term_table import BEGIN

ORDERS = 16  # orders of the data per audit
DECISIONS = 64  # decisions per audit of a test without threshold form, for which Lambda^ is +inf or -inf

Replicate = Callable[..., np.ndarray]


@cached_by_content(maxsize=64)
def by_threshold_form(threshold_form: Callable[..., float]) -> Callable[..., None]:
    """Return the loop that writes Lambda^ of a test with a threshold form to `log_ratios`.

    Entry k belongs to the window of the table that begins at ``begins[k]``; the thresholds are not used.
    """

    def replicate(
        rng: Any,
        table: Evidence,
        log_rest: float,
        test: Any,
        thresholds: np.ndarray,
        begins: np.ndarray,
        log_ratios: np.ndarray,
        count: np.ndarray,
        value: np.ndarray,
    ) -> None:
        for k in range(thresholds.shape[0]):
            table.order.cursor[BEGIN] = begins[k]
            log_ratios[k] = threshold_form(rng, table, log_rest, test)

    return replicate


@cached_by_content(maxsize=64)
def by_decision(decide: Callable[..., tuple[int, float]]) -> Callable[..., None]:
    """Return the loop in which the test decides at each threshold, each time on a new random subset.

    It writes +inf to `log_ratios` where the test accepts, -inf where it rejects, NaN where a term is NaN or +inf.
    """

    def replicate(
        rng: Any,
        table: Evidence,
        log_rest: float,
        test: Any,
        thresholds: np.ndarray,
        begins: np.ndarray,
        log_ratios: np.ndarray,
        count: np.ndarray,
        value: np.ndarray,
    ) -> None:
        for k in range(thresholds.shape[0]):
            decision, _ = decide(rng, table, thresholds[k], log_rest, test, count, value)
            if decision == ACCEPT:
                log_ratios[k] = np.inf
            elif decision == REJECT:
                log_ratios[k] = -np.inf
            else:
                log_ratios[k] = np.nan

    return replicate


@cached_by_content(maxsize=64)
def _from_addresses(replicate: Callable[..., None]) -> Callable[..., None]:
    """Return the loop as a function that gets the addresses of its generator in place of the generator."""
    replicate = compiled(inline="always")(replicate)

    def enter(
        places: Any,
        table: Evidence,
        log_rest: float,
        test: Any,
        thresholds: np.ndarray,
        begins: np.ndarray,
        log_ratios: np.ndarray,
        count: np.ndarray,
        value: np.ndarray,
    ) -> None:
        replicate(generator_at(places), table, log_rest, test, thresholds, begins, log_ratios, count, value)

    return enter


def compile_replicate(test: CompiledTest, table: Evidence) -> Replicate:
    """Return ``replicate(rng, table, log_rest, state, thresholds, begins, count=None) -> Lambda^``, one per threshold.

    `table` comes from `table_of_terms`; a test without a threshold form takes any evidence. `state` is the state of the
    test. `begins` holds, for each threshold, the index in the table where its order of the data begins; only a test
    with a threshold form uses it. Only a test without one adds the reads of its decisions to `count`. Lambda^ is NaN if
    a log density is NaN.
    """
    loop: Any = by_threshold_form(test.threshold_form) if test.threshold_form else by_decision(test.decide)
    if not config.DISABLE_JIT:
        # thresholds, begins, log_ratios, count and value
        arrays = (VECTOR, INDICES, VECTOR, INDICES, VECTOR)
        signature = nb.void(ADDRESSES, type_of(table), nb.float64, type_of(test.make_state()), *arrays)
        loop = entry_point(kernel(_from_addresses(loop), signature, allocates=False), signature)

    def replicate(
        rng: np.random.Generator,
        table: Evidence,
        log_rest: float,
        state: Any,
        thresholds: np.ndarray,
        begins: np.ndarray,
        count: np.ndarray | None = None,
    ) -> np.ndarray:
        log_ratios = np.empty(thresholds.size)
        value = np.zeros(len(VALUE_NAMES))
        count = np.zeros(len(COUNT_NAMES), np.int64) if count is None else count
        generator = rng if config.DISABLE_JIT else addresses(rng)
        loop(generator, table, log_rest, state, thresholds, begins, log_ratios, count, value)
        return log_ratios

    return replicate
