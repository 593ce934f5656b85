"""One step of Metropolis-Hastings, for a pairing of proposal and test.

1. theta' ~ q(.|theta), with log q(theta|theta') - log q(theta'|theta);
2. u ~ U(0, 1);  c = log p(theta') - log p(theta) + log q ratio;
3. let the test decide whether c + sum_i [log p(x_i|theta') - log p(x_i|theta)] exceeds the threshold of u; move if it
does.

Densities that are 0 or undefined follow the rule of `acceptance/metropolis.py`.
"""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from approxmcmc.acceptance.metropolis import ACCEPT, REJECT, UNDECIDED, decision_on, log_ratio_of
from approxmcmc.acceptance.out_of_reach import is_out_of_reach
from approxmcmc.contracts import CompiledProposal, CompiledTest, Streams
from approxmcmc.contracts.records import ACCEPTANCE_RATE, DECISIONS, DRAW_WEIGHT, EVALUATIONS, TOUCHED
from approxmcmc.engine.compiler.compile import compiled
from approxmcmc.engine.compiler.identity import cached_by_content
from approxmcmc.engine.compiler.vectors import assign
from approxmcmc.engine.terms.evidence import Evidence
from approxmcmc.engine.terms.order import settle
from approxmcmc.samplers.decision import make_decision
from approxmcmc.sampling.chain import (
    FAILED,
    Clock,
    adapt_nothing,
    book_audit,
    is_chosen_for_audit,
    is_tuning,
    settle_nothing,
)


class MetropolisHastingsState(NamedTuple):
    """A chain of Metropolis-Hastings: theta, its proposal, and the states of its parts.

    `log_prior_of` is the target's compiled log prior, which reads `prior_rows` of the data, and `log_prior` its value
    at theta; `log_q_ratio` is the log q ratio of the last proposal; `evaluations_to_reject` is called if a density is
    undefined, and returns the number of densities evaluated until the proposal proved out of reach, or 0; `proposal`
    and `test` are the states of the two parts.
    """

    theta: np.ndarray
    proposed: np.ndarray
    log_density: np.ndarray
    log_prior: np.ndarray
    log_q_ratio: np.ndarray
    clock: Clock
    log_prior_of: Any
    prior_rows: int
    evaluations_to_reject: Callable[[], int]
    evidence: Evidence
    proposal: Any
    test: Any


@compiled
def weigh_alike(proposal: Any) -> float:
    """Return 0: all draws have equal weight, and the trace stores no weights."""
    return 0.0


@compiled
def always_tested(test: Any) -> bool:
    """Return True: every step is tested."""
    return True


@compiled
def unknown_log_likelihood(test: Any) -> float:
    """Return NaN: the test does not cache the log-likelihood at theta."""
    return math.nan


def metropolis_hastings_step(proposal: CompiledProposal, test: CompiledTest) -> Callable[..., int]:
    """Return the compiled step for a proposal and a test, ``step(streams, state, count, value) -> status``."""
    return make_step(
        proposal.propose,
        proposal.move or proposal.propose,
        test.is_tested or always_tested,
        proposal.settle or settle_nothing,
        proposal.adapt or adapt_nothing,
        proposal.weight or weigh_alike,
        make_decision(test),
        test.threshold,
        test.probability,
        test.log_likelihood or unknown_log_likelihood,
        test.uses_ratio,
        test.is_audited,
    )


@cached_by_content(maxsize=64)
def make_step(
    propose: Callable[..., float],
    move: Callable[..., float],
    is_tested: Callable[[Any], bool],
    settle_proposal: Callable[[Any, bool], None],
    adapt: Callable[..., None],
    weight: Callable[..., float],
    decide: Callable[..., tuple[int, float]],
    draw_threshold: Callable[..., float],
    acceptance_probability: Callable[[float], float],
    log_likelihood: Callable[..., float],
    uses_ratio: bool,
    is_audited: bool,
) -> Callable[..., int]:
    """Return the compiled step, ``step(streams, state, count, value) -> status``."""

    def step(streams: Streams, state: MetropolisHastingsState, count: np.ndarray, value: np.ndarray) -> int:
        theta = state.theta
        proposed = state.proposed
        clock = state.clock
        tested = is_tested(state.test)
        if tested:
            log_q_ratio = propose(streams.proposal, state.proposal, theta, proposed, count)
        else:
            log_q_ratio = move(streams.proposal, state.proposal, theta, proposed, count)
        state.log_q_ratio[0] = log_q_ratio
        threshold = draw_threshold(streams.uniform)
        log_prior = state.log_prior_of(proposed) if uses_ratio else 0.0
        if uses_ratio:
            count[TOUCHED] += state.prior_rows
            count[EVALUATIONS] += state.prior_rows
        log_rest = log_ratio_of(log_q_ratio, state.log_prior[0], log_prior)
        log_ratio = log_rest
        if not log_rest > -math.inf:  # undefined, or outside the support: no datum can change the decision
            decision = decision_on(threshold, log_rest)
            count[DECISIONS] += 1
            if is_audited and decision == REJECT and is_chosen_for_audit(streams, clock):
                book_audit(decision, decision, count)
        elif not tested:
            decision = ACCEPT
            log_ratio = math.inf
        else:
            decision, log_ratio = decide(streams, clock, state.evidence, threshold, log_rest, state.test, count, value)
        if decision == UNDECIDED:
            n_obs = state.evidence.n_obs
            if not (uses_ratio and is_out_of_reach(state.evaluations_to_reject, n_obs, state.prior_rows, count)):
                return FAILED
            decision = REJECT
            log_ratio = -math.inf
        settle(state.evidence.order, decision == ACCEPT)
        if tested:
            settle_proposal(state.proposal, decision == ACCEPT)
        if decision == ACCEPT:
            assign(theta, proposed)
            state.log_prior[0] = log_prior
        value[ACCEPTANCE_RATE] = acceptance_probability(log_ratio)
        if is_tuning(clock):
            adapt(state.proposal, value[ACCEPTANCE_RATE], clock.steps[0])
        state.log_density[0] = state.log_prior[0] + log_likelihood(state.test)
        value[DRAW_WEIGHT] = weight(state.proposal)
        return decision

    return compiled(inline="always")(step)
