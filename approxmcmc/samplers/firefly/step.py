"""One step of Firefly.

1. theta at fixed z: a move that leaves p(theta, z) alone as a function of theta;
2. z at fixed theta: an update that leaves the law of z given theta alone.
"""

from collections.abc import Callable

import numpy as np

from approxmcmc.contracts import Streams
from approxmcmc.contracts.records import BRIGHT, DECISIONS, ROUNDS, TOUCHED
from approxmcmc.engine.compiler.compile import compiled
from approxmcmc.engine.compiler.identity import cached_by_content
from approxmcmc.engine.compiler.vectors import assign
from approxmcmc.samplers.chain import FAILED, MOVED, adapt_nothing, is_tuning
from approxmcmc.samplers.firefly.state import FireflyState
from approxmcmc.samplers.firefly.theta_update import CompiledThetaUpdate
from approxmcmc.samplers.firefly.z_update import CompiledZUpdate


def firefly_step(theta_update: CompiledThetaUpdate, z_update: CompiledZUpdate) -> Callable[..., int]:
    """Return the step of a pairing."""
    return make_step(theta_update.move, z_update.update, z_update.adapt or adapt_nothing)


@cached_by_content(maxsize=64)
def make_step(
    move_theta: Callable[..., int], update_z: Callable[..., bool], adapt_z: Callable[..., None]
) -> Callable[..., int]:
    """Return the step as a function of streams and state."""

    def step(streams: Streams, state: FireflyState, count: np.ndarray, value: np.ndarray) -> int:
        bright, clock = state.bright, state.clock
        count[DECISIONS] += 1
        count[ROUNDS] += 1
        count[TOUCHED] += bright.size[0]
        status = move_theta(streams, state, count, value)
        if status == FAILED:
            return FAILED
        if status == MOVED:
            go_to_candidate(state)
        if not update_z(streams.order, state.theta, state.joint, bright, state.z, count):
            assign(state.proposed, state.theta)  # where the bound failed
            return FAILED
        if is_tuning(clock):
            adapt_z(state.z, bright.size[0], clock.steps[0])
        count[BRIGHT] = bright.size[0]
        return status

    return compiled(inline="always")(step)


@compiled
def go_to_candidate(state: FireflyState) -> None:
    """Move theta to where it wants to go, with the summands of the joint density."""
    current, candidate, n_bright = state.current, state.candidate, state.bright.size[0]
    assign(state.theta, state.proposed)
    current.log_prior[0] = candidate.log_prior[0]
    current.log_bound[0] = candidate.log_bound[0]
    assign(current.log_odds[:n_bright], candidate.log_odds[:n_bright])
