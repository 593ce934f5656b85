"""The program of Firefly: the joint density of theta and z on a target, and how a chain draws its first z."""

import functools
import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from approxmcmc.acceptance.out_of_reach import evaluations_to_reject
from approxmcmc.contracts import CompiledBound, Streams
from approxmcmc.contracts.records import EVALUATIONS, TOUCHED
from approxmcmc.engine.checks import show
from approxmcmc.engine.compiler.python_call import PythonCall
from approxmcmc.engine.terms.batches import full_terms
from approxmcmc.samplers.firefly.joint import Bright, Factors, JointDensity, all_log_odds, false_bound, new_bright
from approxmcmc.samplers.firefly.step import CompiledThetaUpdate, CompiledZUpdate, FireflyState, firefly_step
from approxmcmc.samplers.program import StepProgram, undefined_prior
from approxmcmc.sampling.chain import CompiledChain, compile_chain
from approxmcmc.targets.all_rows import AllRows

RECORDS = ("acceptance_rate", "bound_evaluations", "bright_count", "dark_proposals", "out_of_reach")


class FireflyProgram(StepProgram):
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
        self.joint = JointDensity(target.log_prior, bound.log_bound, bound.gaps, bound.data, bound.sums)
        bright = new_bright(np.zeros(target.n_obs, dtype=bool), np.zeros(target.n_obs))
        update = theta_update(bright)
        super().__init__({*RECORDS, *update.records}, attrs)
        stand_in = self.new_state(np.zeros(1), bright, update.make_state(), expected_bright=0.0, n_tune=0)
        self.loop = compile_chain(firefly_step(update, z_update), stand_in)

    def new_state(
        self, theta: np.ndarray, bright: Bright, proposal: Any, *, expected_bright: float, n_tune: int
    ) -> FireflyState:
        """Return the state of a chain at theta, before prior and bound are evaluated."""
        n_obs = self.target.n_obs
        fields = self.first_fields(theta, n_tune)
        proposed = fields["proposed"]

        def log_density(point: np.ndarray) -> float:
            return self.log_joint(point, bright)

        return FireflyState(
            **fields,
            joint=self.joint,
            current=Factors(np.full(1, math.nan), np.full(1, math.nan), bright.log_odds),
            candidate=Factors(np.full(1, math.nan), np.full(1, math.nan), np.empty(n_obs)),
            bright=bright,
            evaluations_to_reject=PythonCall(lambda: evaluations_to_reject(log_density, theta, proposed)),
            proposal=proposal,
            z=self.z_update.make_state(expected_bright, n_obs),
        )

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
        return self.chain(
            streams,
            state,
            describe=lambda: {**update.describe(state.proposal), **self.z_update.describe(state.z)},
            watch=self.check_bound if self.watched else None,
            start_evaluations=gaps.size,
        )

    def check_bound(self, start: np.ndarray, theta: np.ndarray, count: np.ndarray) -> bool:
        """Return whether the bound holds at theta, on all data, and add the evaluations to `count`.

        Steps see a gap below 0, but not a closed form that is not the sum of the bounds. `start` is not used.
        """
        count[EVALUATIONS] += 2 * self.target.n_obs
        count[TOUCHED] += self.target.n_obs
        return not self.false_bound(theta)

    def explain_failure(self, state: FireflyState) -> str:
        """Return what was NaN, or which bound was above the likelihood, at the theta at which a chain stopped."""
        theta = state.proposed
        return (
            undefined_prior(self.joint.log_prior(theta), theta)
            or self.false_bound(theta)
            or f"the log joint density or the ratio of proposal densities is NaN at theta = {show(theta)}"
        )
