"""The update of theta at fixed z: a proposal with Metropolis-Hastings, or a slice, on the joint density p(theta, z).

A gradient proposal sees the joint density as a target of one term,

    grad log joint = grad log p + grad sum_i log B_i + sum_{i bright} grad gap_i / (1 - exp(-gap_i)).

Its gradient kernel reads the bright set from arrays that belong to one chain. So a chain builds its own proposal for
its own arrays; the compiled code is shared.
"""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from approxmcmc.acceptance.metropolis import ACCEPT, REJECT, UNDECIDED, decision_on, log_ratio_of
from approxmcmc.acceptance.out_of_reach import is_out_of_reach
from approxmcmc.acceptance.rules import log_uniform, metropolis_probability
from approxmcmc.contracts import (
    CompiledBound,
    CompiledGradient,
    CompiledProposal,
    DifferentiableTarget,
    Streams,
    Target,
)
from approxmcmc.contracts.records import ACCEPTANCE_RATE, GRADIENTS, TOUCHED
from approxmcmc.engine.compiler.compile import bind, compiled, type_of
from approxmcmc.engine.compiler.identity import cached_by_content
from approxmcmc.engine.terms.batches import BATCH
from approxmcmc.engine.terms.gradients import gradient_signature
from approxmcmc.errors import IncompatibleError
from approxmcmc.samplers.firefly.joint import Bright, log_joint, log_joint_at
from approxmcmc.samplers.firefly.step import CompiledThetaUpdate, FireflyState
from approxmcmc.samplers.slice.line import draw_direction, forget_nothing, make_slice_move, place_on_line
from approxmcmc.samplers.slice.settings import Slice
from approxmcmc.sampling.chain import FAILED, MOVED, STAYED, adapt_nothing, is_tuning, settle_nothing

SMALLEST_GAP = 1e-300  # a bright datum's gap is positive; this keeps rounding from dividing by 0


class JointData(NamedTuple):
    """The data of the gradient: the bound's arrays, the bright set of a chain, and scratch for one batch."""

    data: Any
    sums: Any
    order: np.ndarray
    size: np.ndarray
    weights: np.ndarray


def make_add_joint_gradient(
    gaps: Callable[..., None], add_gap_gradient: Callable[..., None], add_bound_gradient: Callable[..., None]
) -> Callable[..., None]:
    """Return the kernel of the gradient of the joint density without the prior; for proposals this is a single term."""

    def add_joint_gradient(
        theta: np.ndarray, joint: JointData, unused_order: np.ndarray, lo: int, hi: int, out: np.ndarray
    ) -> None:
        data = joint.data
        order = joint.order
        weights = joint.weights
        add_bound_gradient(theta, joint.sums, out)
        for start in range(0, joint.size[0], BATCH):
            stop = min(start + BATCH, joint.size[0])
            gaps(theta, data, order, start, stop, weights)
            for k in range(stop - start):
                weights[k] = -1.0 / math.expm1(-max(SMALLEST_GAP, weights[k]))
            add_gap_gradient(theta, data, order, start, stop, weights, out)

    return add_joint_gradient


class JointTarget(DifferentiableTarget):
    """The joint density of one chain, with the target interface that proposals use."""

    def __init__(self, target: Target, bound: CompiledBound, bright: Bright) -> None:
        self.variables = target.variables
        self.n_obs = 1
        self._target = target
        self._bound = bound
        self._bright = bright

    def initial_point(self) -> np.ndarray:
        """Return the target's initial point; shape (dim,)."""
        return self._target.initial_point()

    def __repr__(self) -> str:
        """Name the target."""
        return f"Firefly on {self._target!r}"

    def compile_gradient(self) -> CompiledGradient:
        """Return the gradients of the log joint density: of the prior, and of the rest, which is a single term."""
        bound = self._bound
        bright = self._bright
        if bound.add_gap_gradient is None or not isinstance(self._target, DifferentiableTarget):
            raise IncompatibleError(
                f"Firefly with a gradient proposal: the bound or the prior of {self._target!r} has no gradient; "
                "use RandomWalk or Slice"
            )
        data = JointData(bound.data, bound.sums, bright.order, bright.size, np.empty(BATCH))
        parts = bound.gaps, bound.add_gap_gradient, bound.add_bound_gradient
        kernel = bind(make_add_joint_gradient, *parts, signature=gradient_signature(type_of(data)))
        # The tuple is nested, unlike a target's: only the kernel above reads it.
        return CompiledGradient(kernel, self._target.compile_gradient().add_prior_gradient, data, 1)


def metropolis_update(proposal: CompiledProposal) -> CompiledThetaUpdate:
    """Return the update with a proposal; if the proposal caches the density, it must be able to clear the cache."""
    move = make_metropolis_move(
        proposal.propose,
        proposal.settle or settle_nothing,
        proposal.adapt or adapt_nothing,
        proposal.forget or nothing_to_forget,
    )
    return CompiledThetaUpdate(move, proposal.make_state, proposal.describe, proposal.records)


@compiled
def nothing_to_forget(proposal: Any) -> None:
    """Do nothing: there is no cache."""


@cached_by_content(maxsize=64)
def make_metropolis_move(
    propose: Callable[..., float],
    settle: Callable[[Any, bool], None],
    adapt: Callable[..., None],
    forget: Callable[..., None],
) -> Callable[..., int]:
    """Return the compiled move of theta by a proposal; see `CompiledThetaUpdate`."""

    def move(streams: Streams, state: FireflyState, count: np.ndarray, value: np.ndarray) -> int:
        n_bright = state.bright.size[0]
        clock = state.clock
        forget(state.proposal)
        gradients = count[GRADIENTS]
        touched = count[TOUCHED]
        log_q_ratio = propose(streams.proposal, state.proposal, state.theta, state.proposed, count)
        # For the proposal the joint density is one term, whose gradient needs one gradient per bright datum.
        count[GRADIENTS] = gradients + n_bright * (count[GRADIENTS] - gradients)
        count[TOUCHED] = touched + n_bright * (count[TOUCHED] - touched)
        log_u = log_uniform(streams.uniform)
        there = log_joint_at(state.joint, state.proposed, state.bright, state.candidate, count)
        # The joint density is 0 outside the support, and where the likelihood of a bright datum touches the bound.
        log_ratio = log_ratio_of(log_q_ratio, log_joint(state.current, n_bright), there)
        decision = decision_on(log_u, log_ratio)
        if decision == UNDECIDED:
            if not is_out_of_reach(state.evaluations_to_reject, n_bright, 0, count):
                return FAILED
            decision = REJECT
            log_ratio = -math.inf
        value[ACCEPTANCE_RATE] = metropolis_probability(log_ratio)
        if is_tuning(clock):
            adapt(state.proposal, value[ACCEPTANCE_RATE], clock.steps[0])
        settle(state.proposal, decision == ACCEPT)
        return MOVED if decision == ACCEPT else STAYED

    return compiled(inline="always")(move)


@compiled
def is_inside(
    streams: Streams, state: FireflyState, t: float, log_height: float, count: np.ndarray, value: np.ndarray
) -> int:
    """Return whether the log joint density at theta + t direction is above `log_height`: ACCEPT, REJECT or UNDECIDED.

    The point and the summands of its density are stored as the chain's candidate.
    """
    place_on_line(state.proposal, state.theta, t, state.proposed)
    there = log_joint_at(state.joint, state.proposed, state.bright, state.candidate, count)
    inside = decision_on(log_height, log_ratio_of(0.0, 0.0, there))  # the height is a log density, and no ratio
    if inside == UNDECIDED and is_out_of_reach(state.evaluations_to_reject, state.bright.size[0], 0, count):
        return REJECT  # far below the slice
    return inside


@cached_by_content(maxsize=1)
def make_move_on_slice(move_along_line: Callable[..., int]) -> Callable[..., int]:
    """Return the compiled move of theta to a point of a slice of the joint density; see `CompiledThetaUpdate`."""

    def move_on_slice(streams: Streams, state: FireflyState, count: np.ndarray, value: np.ndarray) -> int:
        value[ACCEPTANCE_RATE] = 1.0
        log_height = log_joint(state.current, state.bright.size[0]) - streams.proposal.standard_exponential()
        draw_direction(streams.proposal, state.proposal)
        return move_along_line(streams, state, log_height, count, value)

    return compiled(move_on_slice)


def slice_update(move: Slice, dim: int) -> CompiledThetaUpdate:
    """Return the update of `dim` parameters by slices of the joint density; the move fails if the density is NaN."""
    return CompiledThetaUpdate(make_move_on_slice(make_slice_move(is_inside, forget_nothing)), move.state_maker(dim))
