"""One step of Firefly, and the two roles that make it.

1. theta at fixed z: a move that leaves p(theta, z) invariant as a density of theta;
2. z at fixed theta: an update that leaves the conditional of z given theta invariant.
"""

import abc
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from approxmcmc.contracts import Streams
from approxmcmc.contracts.records import BRIGHT, DECISIONS, ROUNDS, TOUCHED
from approxmcmc.engine.compiler.compile import compiled
from approxmcmc.engine.compiler.identity import cached_by_content
from approxmcmc.engine.compiler.vectors import assign
from approxmcmc.samplers.firefly.joint import Bright, Factors, JointDensity
from approxmcmc.sampling.chain import FAILED, MOVED, Clock, adapt_nothing, is_tuning


class FireflyState(NamedTuple):
    """A chain of Firefly: theta, its proposal, and which data are bright.

    `joint` is the joint density, `current` and `candidate` its summands at `theta` and at `proposed`; `current` and
    `bright` share one array of log odds. `evaluations_to_reject` searches the way to `proposed`, see
    `approxmcmc.acceptance.out_of_reach`. `proposal` is the state of the update of theta, by a proposal or a slice, `z`
    the state of the update of z. The posterior is never evaluated, so `log_density` stays NaN.
    """

    theta: np.ndarray
    proposed: np.ndarray
    log_density: np.ndarray
    clock: Clock
    joint: JointDensity
    current: Factors
    candidate: Factors
    bright: Bright
    evaluations_to_reject: Callable[[], int]
    proposal: Any
    z: Any


class CompiledThetaUpdate(NamedTuple):
    """The update of theta at fixed z, built for a chain.

    ``move(streams, state, count, value) -> status`` writes a theta to `state.proposed` and the summands of the log
    joint density there to `state.candidate`; if it returns MOVED, the caller copies both to the current state.
    `make_state`, `describe` and `records` are as in `CompiledProposal`.
    """

    move: Callable[..., int]
    make_state: Callable[[], Any]
    describe: Callable[[Any], Mapping[str, float]] = lambda state: {}
    records: tuple[str, ...] = ()


class CompiledZUpdate(NamedTuple):
    """An update of z, compiled.

    ``update(rng, theta, joint, bright, state, count) -> bool`` moves data in and out of the bright set and leaves the
    conditional of z given theta invariant; it returns whether every gap that it used was at least LEAST_GAP.
    ``make_state(expected_bright, n_obs)`` returns the state of a chain that starts with that many bright data on
    average. ``adapt(state, n_bright, step)`` learns from a tuning step (None without tuning), and `describe` returns
    the tuned values.
    """

    update: Callable[..., bool]
    make_state: Callable[[float, int], Any]
    adapt: Callable[..., None] | None = None
    describe: Callable[[Any], Mapping[str, float]] = lambda state: {}


class ZUpdate(abc.ABC):
    """Base class of Firefly's updates of z."""

    @abc.abstractmethod
    def build_z_update(self) -> CompiledZUpdate:
        """Compile the update."""


def firefly_step(theta_update: CompiledThetaUpdate, z_update: CompiledZUpdate) -> Callable[..., int]:
    """Return the compiled step that updates theta, then z."""
    return make_step(theta_update.move, z_update.update, z_update.adapt or adapt_nothing)


@cached_by_content(maxsize=64)
def make_step(
    move_theta: Callable[..., int], update_z: Callable[..., bool], adapt_z: Callable[..., None]
) -> Callable[..., int]:
    """Return the compiled step, ``step(streams, state, count, value) -> status``."""

    def step(streams: Streams, state: FireflyState, count: np.ndarray, value: np.ndarray) -> int:
        bright = state.bright
        clock = state.clock
        count[DECISIONS] += 1
        count[ROUNDS] += 1
        count[TOUCHED] += bright.size[0]
        status = move_theta(streams, state, count, value)
        if status == FAILED:
            return FAILED
        if status == MOVED:
            go_to_candidate(state)
        if not update_z(streams.order, state.theta, state.joint, bright, state.z, count):
            assign(state.proposed, state.theta)  # reported as the place where the bound failed
            return FAILED
        if is_tuning(clock):
            adapt_z(state.z, bright.size[0], clock.steps[0])
        count[BRIGHT] = bright.size[0]
        return status

    return compiled(inline="always")(step)


@compiled
def go_to_candidate(state: FireflyState) -> None:
    """Move theta to its proposal, with the summands of the joint density."""
    current = state.current
    candidate = state.candidate
    n_bright = state.bright.size[0]
    assign(state.theta, state.proposed)
    current.log_prior[0] = candidate.log_prior[0]
    current.log_bound[0] = candidate.log_bound[0]
    assign(current.log_odds[:n_bright], candidate.log_odds[:n_bright])
