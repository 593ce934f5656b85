"""Make one decision by an acceptance test, and audit it if it was chosen for an audit; used by several samplers."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from approxmcmc.acceptance.look_by_look import answer_to
from approxmcmc.acceptance.metropolis import decision_on
from approxmcmc.contracts import CompiledTest, Streams
from approxmcmc.contracts.records import MU_STD, SECONDS
from approxmcmc.engine.compiler.clock import nanoseconds
from approxmcmc.engine.compiler.compile import compiled
from approxmcmc.engine.compiler.identity import cached_by_content
from approxmcmc.engine.terms.batches import FINITE
from approxmcmc.engine.terms.evidence import Evidence, merge_all_differences
from approxmcmc.engine.terms.moments import MEAN, standard_deviation
from approxmcmc.sampling.chain import Clock, book_audit, is_chosen_for_audit


@compiled
def decide_on_all_data(
    rng: np.random.Generator, evidence: Evidence, threshold: float, log_rest: float, state: Any, value: np.ndarray
) -> int:
    """Decide on all data, read in memory order: return ACCEPT, REJECT, or UNDECIDED if a term is NaN or +inf.

    ``value[MU_STD]`` becomes (log ratio - threshold) / (sqrt(N) times the standard deviation of the terms).
    """
    outcome = merge_all_differences(evidence)
    if outcome != FINITE:
        answer, _ = answer_to(outcome)
        return answer
    log_ratio = log_rest + evidence.n_obs * evidence.moments[MEAN]
    s_l = standard_deviation(evidence.moments)
    if s_l > 0.0:
        value[MU_STD] = (log_ratio - threshold) / (math.sqrt(evidence.n_obs) * s_l)
    return decision_on(threshold, log_ratio)


@compiled
def keep_nothing(test: Any, total: float) -> None:
    """Do nothing: the test caches no sum of terms."""


def make_decision(test: CompiledTest) -> Callable[..., tuple[int, float]]:
    """Return the function that decides by a test, and audits decisions chosen at random at the chain's rate."""
    return _make_decision(test.decide, test.audit or decide_on_all_data, test.is_audited)


@cached_by_content(maxsize=64)
def _make_decision(decide: Callable[..., Any], audit: Callable[..., int], is_audited: bool) -> Callable[..., Any]:
    def decision(
        streams: Streams,
        clock: Clock,
        evidence: Evidence,
        threshold: float,
        log_rest: float,
        test: Any,
        count: np.ndarray,
        value: np.ndarray,
    ) -> tuple[int, float]:
        audited = is_audited and is_chosen_for_audit(streams, clock)
        answer, log_ratio = decide(streams.order, evidence, threshold, log_rest, test, count, value)
        if audited and answer >= 0:
            pause = nanoseconds()
            exact = audit(streams.audit, evidence, threshold, log_rest, test, value)
            if exact >= 0:
                book_audit(answer, exact, count)
            value[SECONDS] -= 1e-9 * (nanoseconds() - pause)
        return answer, log_ratio

    return compiled(inline="always")(decision)  # inlined: one argument less saves a second of compile time
