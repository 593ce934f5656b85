"""The update of theta at fixed z by Metropolis-Hastings on the joint density, with any proposal."""

import math
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from approxmcmc.contracts import CompiledProposal, Streams
from approxmcmc.contracts.records import ACCEPTANCE_RATE, GRADIENTS, TOUCHED
from approxmcmc.engine.compiler.compile import compiled
from approxmcmc.engine.compiler.identity import cached_by_content
from approxmcmc.samplers.chain import FAILED, MOVED, STAYED, adapt_nothing, is_tuning, settle_nothing
from approxmcmc.samplers.firefly.joint_density import log_joint, log_joint_at
from approxmcmc.samplers.firefly.state import FireflyState


class CompiledThetaUpdate(NamedTuple):
    """What moves theta at fixed z, built for a chain.

    ``move(streams, state, count, value) -> status`` writes where theta goes to `state.proposed` and the summands of the
    joint density there to `state.candidate`; the step does the moving. `make_state`, `describe` and `records` are as in
    `CompiledProposal`.
    """

    move: Callable[..., int]
    make_state: Callable[[], Any]
    describe: Callable[[Any], Mapping[str, float]] = lambda state: {}
    records: tuple[str, ...] = ()


def metropolis_update(proposal: CompiledProposal) -> CompiledThetaUpdate:
    """Return the update with a proposal; what remembers the density must be able to forget it."""
    move = make_metropolis_move(
        proposal.propose,
        proposal.settle or settle_nothing,
        proposal.adapt or adapt_nothing,
        proposal.forget or nothing_to_forget,
    )
    return CompiledThetaUpdate(move, proposal.make_state, proposal.describe, proposal.records)


@compiled
def nothing_to_forget(proposal: Any) -> None:
    """Forget nothing."""


@cached_by_content(maxsize=64)
def make_metropolis_move(
    propose: Callable[..., float],
    settle: Callable[[Any, bool], None],
    adapt: Callable[..., None],
    forget: Callable[..., None],
) -> Callable[..., int]:
    """Return the move of theta as a function of streams and state."""

    def move(streams: Streams, state: FireflyState, count: np.ndarray, value: np.ndarray) -> int:
        n_bright, clock = state.bright.size[0], state.clock
        forget(state.proposal)
        gradients, touched = count[GRADIENTS], count[TOUCHED]
        log_q_ratio = propose(streams.proposal, state.proposal, state.theta, state.proposed, count)
        # To the proposal the joint density is one term: a gradient of it takes one of every bright datum.
        count[GRADIENTS] = gradients + n_bright * (count[GRADIENTS] - gradients)
        count[TOUCHED] = touched + n_bright * (count[TOUCHED] - touched)
        log_u = -streams.uniform.standard_exponential()
        there = log_joint_at(state.joint, state.proposed, state.bright, state.candidate, count)
        log_ratio = there  # -inf outside the support, and where a bright likelihood touches its bound
        if there > -math.inf:
            log_ratio = there - log_joint(state.current, n_bright) + log_q_ratio
        if not log_ratio < math.inf:  # NaN; or +inf, from where no chain would ever come back
            return FAILED
        value[ACCEPTANCE_RATE] = math.exp(min(0.0, log_ratio))
        if is_tuning(clock):
            adapt(state.proposal, value[ACCEPTANCE_RATE], clock.steps[0])
        accepted = log_u < log_ratio
        settle(state.proposal, accepted)
        return MOVED if accepted else STAYED

    return compiled(inline="always")(move)
