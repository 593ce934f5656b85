"""One step of Firefly, the two roles that make it, and the program that starts chains of such steps.

1. theta at fixed z: a move that leaves p(theta, z) invariant as a density of theta;
2. z at fixed theta: an update that leaves the conditional of z given theta invariant.
"""

import abc
import functools
import math
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from approxmcmc.acceptance.out_of_reach import looks_to_reject
from approxmcmc.contracts import CompiledBound, Program, Streams
from approxmcmc.contracts.records import AUDIT_COUNTS, BRIGHT, CORE_COUNTS, DECISIONS, EVALUATIONS, ROUNDS, TOUCHED
from approxmcmc.engine.checks import show
from approxmcmc.engine.compiler.compile import compiled
from approxmcmc.engine.compiler.identity import cached_by_content
from approxmcmc.engine.compiler.python_call import PythonCall
from approxmcmc.engine.compiler.vectors import assign
from approxmcmc.engine.terms.batches import full_terms
from approxmcmc.samplers.firefly.joint import Bright, Factors, JointDensity, all_log_odds, false_bound, new_bright
from approxmcmc.sampling.chain import (
    FAILED,
    MOVED,
    Clock,
    CompiledChain,
    WatchedChain,
    adapt_nothing,
    compile_chain,
    is_tuning,
    names_recorded,
    new_clock,
)
from approxmcmc.targets.all_rows import AllRows


class FireflyState(NamedTuple):
    """A chain of Firefly: theta, its proposal, and which data are bright.

    `joint` is the joint density, `current` and `candidate` its summands at `theta` and at `proposed`; `current` and
    `bright` share one array of log odds. `looks_to_reject` searches the way to `proposed`, see
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
    looks_to_reject: Callable[[], int]
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


class FireflyProgram(Program):
    """A Firefly sampler bound to a target.

    ``theta_update(bright)`` builds the update of theta for the bright set of one chain, which gradients read. If
    `watched`, the bound is checked on all data while chains run.
    """

    def __init__(
        self,
        rows: AllRows,
        bound: CompiledBound,
        theta_update: Callable[[Bright], CompiledThetaUpdate],
        z_update: CompiledZUpdate,
        attrs: Mapping[str, Any],
        *,
        watched: bool = False,
    ) -> None:
        self.rows = rows
        self.theta_update = theta_update
        self.z_update = z_update
        self.watched = watched
        self.false_bound = functools.partial(false_bound, bound, rows.compiled)
        self.target = target = rows.compiled
        self.attrs = attrs
        self.joint = JointDensity(target.log_prior, bound.log_bound, bound.gaps, bound.data, bound.sums)
        bright = new_bright(np.zeros(target.n_obs, dtype=bool), np.zeros(target.n_obs))
        update = theta_update(bright)
        self.count_names, self.value_names = names_recorded(
            {*CORE_COUNTS, "bound_evaluations", "bright_count", "dark_proposals", "out_of_reach", *update.records}
            - {*AUDIT_COUNTS},
            {"acceptance_rate", "perf_counter_diff", *update.records},
        )
        stand_in = self.new_state(np.zeros(1), bright, update.make_state(), expected_bright=0.0, n_tune=0)
        self.loop = compile_chain(firefly_step(update, z_update), stand_in)

    def new_state(
        self, theta: np.ndarray, bright: Bright, proposal: Any, *, expected_bright: float, n_tune: int
    ) -> FireflyState:
        """Return the state of a chain at theta, before prior and bound are evaluated."""
        n_obs = self.target.n_obs
        proposed = theta.copy()

        def log_density(point: np.ndarray) -> float:
            return self.log_joint(point, bright)

        return FireflyState(
            theta=theta,
            proposed=proposed,
            log_density=np.full(1, math.nan),
            clock=new_clock(n_tune),
            joint=self.joint,
            current=Factors(np.full(1, math.nan), np.full(1, math.nan), bright.log_odds),
            candidate=Factors(np.full(1, math.nan), np.full(1, math.nan), np.empty(n_obs)),
            bright=bright,
            looks_to_reject=PythonCall(lambda: looks_to_reject(log_density, theta, proposed)),
            proposal=proposal,
            z=self.z_update.make_state(expected_bright, n_obs),
        )

    def log_densities(self, thetas: np.ndarray) -> np.ndarray:
        """Return log prior + log-likelihood on all data at each of `thetas` (k, dim); shape (k,)."""
        return self.rows.log_densities(thetas)

    def gaps(self, theta: np.ndarray) -> np.ndarray:
        """Return log p(x_i|theta) - log B_i(theta) of all data; shape (n_obs,)."""
        return full_terms(self.joint.gaps, theta, self.joint.data, self.target.n_obs)

    def log_joint(self, theta: np.ndarray, bright: Bright) -> float:
        """Return the log joint density of theta and z; -inf outside the support of the prior."""
        log_prior = float(self.joint.log_prior(theta))
        if log_prior == -math.inf:
            return log_prior
        gaps = np.empty(bright.size[0])
        self.joint.gaps(theta, self.joint.data, bright.order, 0, gaps.size, gaps)
        return log_prior + float(self.joint.log_bound(theta, self.joint.sums)) + float(all_log_odds(gaps).sum())

    def start(self, theta: np.ndarray, streams: Streams, n_tune: int) -> CompiledChain:
        """Start a chain at `theta`, where the log density is finite, with z drawn from its conditional given theta."""
        gaps = np.maximum(0.0, self.gaps(theta))
        probability = -np.expm1(-gaps)
        bright = new_bright(streams.start.random(gaps.size) < probability, gaps)
        update = self.theta_update(bright)
        expected_bright = float(probability.sum())
        state = self.new_state(
            theta.copy(), bright, update.make_state(), expected_bright=expected_bright, n_tune=n_tune
        )
        state.current.log_prior[0] = self.joint.log_prior(theta)
        state.current.log_bound[0] = self.joint.log_bound(theta, self.joint.sums)
        new_chain = functools.partial(WatchedChain, self.check_bound) if self.watched else CompiledChain
        return new_chain(
            self.loop,
            streams,
            state,
            describe=lambda: {**update.describe(state.proposal), **self.z_update.describe(state.z)},
            explain=lambda: self.explain_failure(state.proposed),
            start_evaluations=gaps.size,
        )

    def check_bound(self, start: np.ndarray, theta: np.ndarray, count: np.ndarray) -> bool:
        """Return whether the bound holds at theta, on all data, and add the evaluations to `count`.

        Steps see a gap below 0, but not a closed form that is not the sum of the bounds. `start` is not used.
        """
        count[EVALUATIONS] += 2 * self.target.n_obs
        count[TOUCHED] += self.target.n_obs
        return not self.false_bound(theta)

    def explain_failure(self, theta: np.ndarray) -> str:
        """Return what was NaN, or which bound was above the likelihood, at the theta at which a chain stopped."""
        shown = show(theta)
        log_prior = self.joint.log_prior(theta)
        if not log_prior < math.inf:
            return f"log prior is {'NaN' if math.isnan(log_prior) else '+inf'} at theta = {shown}"
        return self.false_bound(theta) or (
            f"the log joint density or the ratio of proposal densities is NaN at theta = {shown}"
        )
