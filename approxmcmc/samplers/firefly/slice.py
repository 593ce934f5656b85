"""Slice sampling along random directions, as an update of theta inside Firefly."""

import dataclasses
import math
from typing import Any, NamedTuple

import numpy as np

from approxmcmc.contracts import Component, Streams
from approxmcmc.contracts.records import ACCEPTANCE_RATE
from approxmcmc.engine.checks import checked_integer
from approxmcmc.engine.compile import compiled
from approxmcmc.errors import IncompatibleError, InvalidInputError
from approxmcmc.samplers.chain import FAILED, MOVED, STAYED
from approxmcmc.samplers.firefly.joint_density import log_joint, log_joint_at
from approxmcmc.samplers.firefly.state import FireflyState
from approxmcmc.samplers.firefly.theta_update import CompiledThetaUpdate

MOST_SHRINKS = 200  # 2^-200 of the first length is no length at all


class SliceState(NamedTuple):
    """The width of each coordinate, the most widths to step out, and the direction of the last step."""

    widths: np.ndarray
    max_steps: int
    direction: np.ndarray


@compiled
def move_on_slice(streams: Streams, state: FireflyState, count: np.ndarray, value: np.ndarray) -> int:
    """Draw theta from the slice of the joint density along a random direction; FAILED where the density is NaN.

    Neal (2003), figures 3 and 5: an interval of length 1, in units of the direction, is stepped out and shrunk.
    """
    rng, max_steps = streams.proposal, state.proposal.max_steps
    value[ACCEPTANCE_RATE] = 1.0
    log_height = log_joint(state.current, state.bright.size[0]) - rng.standard_exponential()
    draw_direction(rng, state.proposal)
    left = -rng.random()
    right = left + 1.0
    steps_left = int(rng.random() * max_steps)
    steps_right = max_steps - 1 - steps_left
    left = step_out(state, left, -1.0, steps_left, log_height, count)
    if math.isnan(left):
        return FAILED
    right = step_out(state, right, 1.0, steps_right, log_height, count)
    if math.isnan(right):
        return FAILED
    for _ in range(MOST_SHRINKS):
        t = left + rng.random() * (right - left)
        inside = log_joint_along(state, t, count)
        if math.isnan(inside):
            return FAILED
        if inside > log_height:
            return MOVED
        left, right = (t, right) if t < 0.0 else (left, t)
    return STAYED


@compiled
def draw_direction(rng: np.random.Generator, state: SliceState) -> None:
    """Draw a uniform direction of the sphere, times the widths."""
    widths, direction = state.widths, state.direction
    squared = 0.0
    for j in range(direction.shape[0]):
        direction[j] = rng.standard_normal()
        squared += direction[j] * direction[j]
    for j in range(direction.shape[0]):
        direction[j] *= widths[j] / math.sqrt(squared)


@compiled
def step_out(state: FireflyState, end: float, stride: float, most: int, log_height: float, count: np.ndarray) -> float:
    """Return where an end of the interval has left the slice, or has made all its steps; NaN where the density is."""
    for _ in range(most):
        inside = log_joint_along(state, end, count)
        if math.isnan(inside):
            return math.nan
        if inside <= log_height:
            break
        end += stride
    return end


@compiled
def log_joint_along(state: FireflyState, t: float, count: np.ndarray) -> float:
    """Return the log joint density at theta + t direction, which becomes the candidate."""
    theta, proposed, direction = state.theta, state.proposed, state.proposal.direction
    for j in range(theta.shape[0]):
        proposed[j] = theta[j] + t * direction[j]
    return log_joint_at(state.joint, proposed, state.bright, state.candidate, count)


@dataclasses.dataclass(frozen=True, eq=False)
class Slice(Component):
    """Draw theta from the slice of the joint density along a random direction; for `Firefly`.

    Parameters
    ----------
    width
        Length of the first interval, in the units of theta: a positive number, or one for every coordinate. About two
        posterior standard deviations do well; the law is right for every width.
    max_steps
        Stepping out stops after this many widths, at least 1.

    Raises
    ------
    InvalidInputError
        When a width is not positive, or `max_steps` is less than 1.
    IncompatibleError
        When the number of widths is not the target's dimension.

    Notes
    -----
    The direction is width times a uniform direction of the sphere. Each evaluation of the joint density costs one
    evaluation of every bright likelihood; the records add them up. There is nothing to reject: ``acceptance_rate`` is
    1, and ``accepted`` False only where 200 shrinkings found no point, which rounding alone can bring about.

    References
    ----------
    Neal (2003), Slice sampling, section 4 (stepping out and shrinkage).

    Examples
    --------
    >>> import approxmcmc as amc
    >>> amc.Firefly(amc.Slice(0.2))
    Firefly(proposal=Slice(width=0.2, max_steps=8), bound='tuned', z_update=ImplicitZ(q='auto', q_bright=1.0), \
at=None)
    """

    width: Any = 1.0
    max_steps: int = 8

    def __post_init__(self) -> None:
        """Check signs and ranges."""
        width = np.array(self.width, dtype=np.float64)
        if width.ndim > 1 or not (np.isfinite(width).all() and np.all(width > 0.0)):
            raise InvalidInputError(f"Slice: width must be a positive number or a vector of them, found {self.width!r}")
        object.__setattr__(self, "width", width if width.ndim else float(width))
        checked_integer(self.max_steps, "max_steps", who="Slice", whole_floats=True)

    def draw_start(self, rng: np.random.Generator) -> None:
        """Offer no start, see `Proposal`."""

    def build_update(self, dim: int) -> CompiledThetaUpdate:
        """Compile the update of `dim` parameters; its state holds the widths and the number of steps."""
        width = np.asarray(self.width)
        if width.ndim and width.size != dim:
            raise IncompatibleError(f"Slice: the target has {dim} parameters, {width.size} widths were given")
        widths = np.ascontiguousarray(np.broadcast_to(width, (dim,)))
        max_steps = int(self.max_steps)
        return CompiledThetaUpdate(move_on_slice, lambda: SliceState(widths, max_steps, np.empty(dim)))
