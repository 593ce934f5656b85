"""One step of noisy Metropolis-Hastings (Alquier, Friel, Everitt and Boland 2016, algorithm 2).

1. MOVE draws theta' and returns log q(theta|theta') - log q(theta'|theta);
2. u ~ U(0, 1);  ESTIMATE returns an estimate of log p(y|theta') - log p(y|theta) from auxiliary draws;
3. move if log u < log p(theta')/p(theta) + log q ratio + estimate; then KEEP stores the values that belong to theta'.

The samplers of this folder differ only in these three functions. Densities that are 0 or undefined follow the rule of
`acceptance/metropolis.py`; no search finds out whether a proposal is out of reach, because no density is known.
"""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from approxmcmc.acceptance.metropolis import ACCEPT, REJECT, UNDECIDED, decision_on, log_ratio_of
from approxmcmc.acceptance.rules import METROPOLIS
from approxmcmc.contracts import CompiledProposal, Streams
from approxmcmc.contracts.records import ACCEPTANCE_RATE, DECISIONS, ROUNDS
from approxmcmc.contracts.speaker import speaker
from approxmcmc.engine.compiler.compile import compiled
from approxmcmc.engine.compiler.identity import cached_by_content
from approxmcmc.engine.compiler.vectors import assign
from approxmcmc.errors import IncompatibleError
from approxmcmc.sampling.chain import FAILED, Clock, is_chosen_for_audit, is_tuning


class AuditList(NamedTuple):
    """Decisions to audit against the exact ratio: each is one row of all arrays, of which the first `length` are used.

    A decision compares `threshold` with `log_rest` (the known part of the log ratio) plus the estimate.
    """

    length: np.ndarray
    step: np.ndarray
    decision: np.ndarray
    threshold: np.ndarray
    log_rest: np.ndarray
    theta: np.ndarray
    proposed: np.ndarray


class AuxiliaryState(NamedTuple):
    """A chain of one of these samplers: theta, its proposal, and the states of MOVE and ESTIMATE.

    `log_prior_of` is the target's compiled log prior. `audits` is a new list for each chunk of draws.
    """

    theta: np.ndarray
    proposed: np.ndarray
    log_density: np.ndarray
    clock: Clock
    log_prior_of: Any
    move: Any
    estimate: Any
    audits: AuditList


def new_audit_list(size: int, dim: int) -> AuditList:
    """Return an empty list with space for `size` decisions."""
    whole, real = ((np.empty(size, dtype), np.empty(size, dtype)) for dtype in (np.int64, np.float64))
    return AuditList(np.zeros(1, np.int64), *whole, *real, np.empty((size, dim)), np.empty((size, dim)))


@compiled
def list_for_audit(state: AuxiliaryState, decision: int, threshold: float, log_rest: float) -> None:
    """Add a decision to the audit list, before theta moves."""
    audits = state.audits
    place = audits.length[0]
    audits.step[place] = state.clock.steps[0]
    audits.decision[place] = decision
    audits.threshold[place] = threshold
    audits.log_rest[place] = log_rest
    assign(audits.theta[place], state.theta)
    assign(audits.proposed[place], state.proposed)
    audits.length[0] += 1


@compiled
def keep_nothing(state: AuxiliaryState) -> None:
    """Do nothing: theta alone is the state of the chain."""


def follow(proposal: CompiledProposal) -> Callable[..., float]:
    """Return MOVE of a proposal, which draws theta'; raise if the proposal must learn whether theta' was accepted."""
    if proposal.settle is not None:
        raise IncompatibleError(
            f"{speaker()} does not report its decisions, on which the velocity of this proposal depends; "
            "use a proposal without memory, such as RandomWalk"
        )
    return make_follow_proposal(proposal.propose)


@cached_by_content(maxsize=64)
def make_follow_proposal(propose: Callable[..., float]) -> Callable[..., float]:
    """Return MOVE that only calls ``propose(rng, proposal, theta, proposed, count)``."""

    def follow_proposal(
        streams: Streams, proposal: Any, theta: np.ndarray, proposed: np.ndarray, count: np.ndarray
    ) -> float:
        return propose(streams.proposal, proposal, theta, proposed, count)

    return compiled(follow_proposal)


@cached_by_content(maxsize=64)
def make_step(
    move: Callable[..., float],
    estimate: Callable[..., float],
    keep: Callable[[AuxiliaryState], None],
    adapt: Callable[..., None],
    decides: bool,
) -> Callable[..., int]:
    """Return the compiled step, ``step(streams, state, count, value) -> status``.

    With ``decides=False`` it accepts every theta' inside the support.
    """
    draw_threshold, acceptance_probability = METROPOLIS

    def step(streams: Streams, state: AuxiliaryState, count: np.ndarray, value: np.ndarray) -> int:
        theta = state.theta
        proposed = state.proposed
        log_q_ratio = move(streams, state.move, theta, proposed, count)
        threshold = draw_threshold(streams.uniform)
        # The prior at theta is computed again: the move of a population has written another member to theta.
        log_rest = log_ratio_of(log_q_ratio, state.log_prior_of(theta), state.log_prior_of(proposed))
        log_ratio = log_rest
        if decides and log_rest != -math.inf:
            # Auxiliary data use the random stream of the data order, which is free because no data are ordered.
            log_ratio += estimate(streams.order, state.estimate, theta, proposed, count)
        decision = decision_on(threshold, log_ratio)
        if decision == UNDECIDED:
            return FAILED
        if decides:
            value[ACCEPTANCE_RATE] = acceptance_probability(log_ratio)
            count[DECISIONS] += 1
            count[ROUNDS] += 1
            if is_chosen_for_audit(streams, state.clock):
                list_for_audit(state, decision, threshold, log_rest)
        else:
            decision = ACCEPT if log_rest > -math.inf else REJECT
            value[ACCEPTANCE_RATE] = float(decision)
        if decision == ACCEPT:
            assign(theta, proposed)
            keep(state)
        if is_tuning(state.clock):
            adapt(state.move, value[ACCEPTANCE_RATE], state.clock.steps[0])
        return decision

    return compiled(inline="always")(step)
