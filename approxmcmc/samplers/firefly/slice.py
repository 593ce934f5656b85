"""Slice sampling along random directions, as an update of theta inside Firefly."""

import math
from collections.abc import Callable

import numpy as np

from approxmcmc.contracts import Streams
from approxmcmc.contracts.records import ACCEPTANCE_RATE
from approxmcmc.engine.compiler.compile import compiled
from approxmcmc.engine.compiler.identity import cached_by_content
from approxmcmc.samplers.firefly.joint_density import log_joint, log_joint_at
from approxmcmc.samplers.firefly.state import FireflyState
from approxmcmc.samplers.firefly.theta_update import CompiledThetaUpdate
from approxmcmc.samplers.slice.line import Slice, draw_direction, forget_nothing, make_slice_move, place_on_line


@compiled
def is_inside(
    streams: Streams, state: FireflyState, t: float, log_height: float, count: np.ndarray, value: np.ndarray
) -> int:
    """Compare the log joint density at theta + t direction, which becomes the candidate, with the height."""
    place_on_line(state.proposal, state.theta, t, state.proposed)
    found = log_joint_at(state.joint, state.proposed, state.bright, state.candidate, count)
    if math.isnan(found):
        return -1
    return 1 if found > log_height else 0


@cached_by_content(maxsize=1)
def make_move_on_slice(move_along_line: Callable[..., int]) -> Callable[..., int]:
    """Return the move of theta to a point of the slice of the joint density."""

    def move_on_slice(streams: Streams, state: FireflyState, count: np.ndarray, value: np.ndarray) -> int:
        value[ACCEPTANCE_RATE] = 1.0
        log_height = log_joint(state.current, state.bright.size[0]) - streams.proposal.standard_exponential()
        draw_direction(streams.proposal, state.proposal)
        return move_along_line(streams, state, log_height, count, value)

    return compiled(move_on_slice)


def slice_update(move: Slice, dim: int) -> CompiledThetaUpdate:
    """Return the update of `dim` parameters by slices of the joint density; FAILED where that is NaN."""
    return CompiledThetaUpdate(make_move_on_slice(make_slice_move(is_inside, forget_nothing)), move.state_maker(dim))
