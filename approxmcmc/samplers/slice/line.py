"""Slice sampling along a line: step out an interval around theta, and shrink it until a point is accepted.

Reference: Neal (2003), Slice sampling, section 4, figures 3 and 5.
"""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from approxmcmc.contracts import Streams
from approxmcmc.engine.compiler.compile import compiled
from approxmcmc.engine.compiler.identity import cached_by_content
from approxmcmc.sampling.chain import FAILED, MOVED, STAYED

MOST_SHRINKS = 200  # shrinkings of an interval: 2^-200 of the first length is numerically 0


class SliceState(NamedTuple):
    """The settings of the line, and its direction in the current step.

    `widths` (dim,): width of each coordinate. `max_steps`: largest length of the interval, in widths. `coordinates`: 1
    if directions are axes, else 0. `kept` (1,): the log-likelihood at theta, for tests that cache it.
    """

    widths: np.ndarray
    max_steps: int
    coordinates: int
    direction: np.ndarray
    kept: np.ndarray


@compiled
def draw_direction(rng: np.random.Generator, state: SliceState) -> None:
    """Draw a uniform direction of the sphere, or an axis, multiplied by the widths."""
    widths = state.widths
    direction = state.direction
    if state.coordinates == 1:
        chosen = int(rng.random() * direction.shape[0])
        for j in range(direction.shape[0]):
            direction[j] = widths[j] if j == chosen else 0.0
        return
    squared = 0.0  # a normal vector, divided by its length, is uniform on the sphere
    for j in range(direction.shape[0]):
        direction[j] = rng.standard_normal()
        squared += direction[j] * direction[j]
    for j in range(direction.shape[0]):
        direction[j] *= widths[j] / math.sqrt(squared)


@compiled
def place_on_line(line: SliceState, theta: np.ndarray, t: float, out: np.ndarray) -> None:
    """Write theta + t direction to `out`."""
    for j in range(theta.shape[0]):
        out[j] = theta[j] + t * line.direction[j]


@compiled
def forget_nothing(state: Any) -> None:
    """Do nothing: comparisons cache nothing."""


@cached_by_content(maxsize=16)
def make_slice_move(is_inside: Callable[..., int], forget: Callable[..., None]) -> Callable[..., int]:
    """Return the move to a point of the slice on a line through theta; ``state.proposal`` is the line's `SliceState`.

    ``is_inside(streams, state, t, log_height, count, value)`` returns whether theta + t direction lies in the slice, 1
    or 0, or -1 for an undefined density; ``forget(state)`` follows every comparison that is not the last. The move
    returns MOVED, STAYED or FAILED, and does not change theta: the last comparison was at the new point.
    """

    def step_out(
        streams: Streams,
        state: Any,
        end: float,
        stride: float,
        most: int,
        log_height: float,
        count: np.ndarray,
        value: np.ndarray,
    ) -> float:
        for _ in range(most):
            inside = is_inside(streams, state, end, log_height, count, value)
            forget(state)
            if inside < 0:
                return math.nan
            if inside == 0:
                break
            end += stride
        return end

    step_out = compiled(step_out)

    def move(streams: Streams, state: Any, log_height: float, count: np.ndarray, value: np.ndarray) -> int:
        rng = streams.proposal
        max_steps = state.proposal.max_steps
        # Theta is at t = 0. An interval of length 1 is placed at random around it, and the steps by which it may grow
        # are divided at random between its ends (figure 3). So every point of the slice in the interval would have led
        # to the same interval with the same probability.
        left = -rng.random()
        right = left + 1.0
        steps_left = int(rng.random() * max_steps)
        steps_right = max_steps - 1 - steps_left
        left = step_out(streams, state, left, -1.0, steps_left, log_height, count, value)
        if math.isnan(left):
            return FAILED
        right = step_out(streams, state, right, 1.0, steps_right, log_height, count, value)
        if math.isnan(right):
            return FAILED
        # Shrink to each rejected point, on its side of theta (figure 5): t = 0 stays inside, and it is in the slice.
        for _ in range(MOST_SHRINKS):
            t = left + rng.random() * (right - left)
            inside = is_inside(streams, state, t, log_height, count, value)
            if inside < 0:
                return FAILED
            if inside == 1:
                return MOVED
            forget(state)
            left, right = (t, right) if t < 0.0 else (left, t)
        return STAYED

    return compiled(move)
