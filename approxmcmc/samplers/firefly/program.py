"""Firefly bound to a target: the parts shared by its chains, and how a chain starts."""

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from approxmcmc.contracts import CompiledBound, Program, Streams
from approxmcmc.contracts.records import AUDIT_COUNTS, CORE_COUNTS
from approxmcmc.engine.checks import show
from approxmcmc.engine.terms.batches import full_terms
from approxmcmc.samplers.chain import CompiledChain, compile_chain, names_recorded, new_clock
from approxmcmc.samplers.firefly.joint import Bright, Factors, JointDensity, new_bright
from approxmcmc.samplers.firefly.step import CompiledThetaUpdate, CompiledZUpdate, FireflyState, firefly_step
from approxmcmc.targets.all_rows import AllRows


class FireflyProgram(Program):
    """A Firefly sampler bound to a target.

    `theta_update` builds the update of theta for the bright set of a chain, which gradients read.
    """

    def __init__(
        self,
        rows: AllRows,
        bound: CompiledBound,
        theta_update: Callable[[Bright], CompiledThetaUpdate],
        z_update: CompiledZUpdate,
        attrs: Mapping[str, Any],
    ) -> None:
        self.rows, self.theta_update, self.z_update = rows, theta_update, z_update
        self.target = target = rows.compiled
        self.attrs = attrs
        self.joint = JointDensity(target.log_prior, bound.log_bound, bound.gaps, bound.data, bound.sums)
        bright = new_bright(np.zeros(target.n_obs, dtype=bool), np.zeros(target.n_obs))
        update = theta_update(bright)
        self.count_names, self.value_names = names_recorded(
            {*CORE_COUNTS, "bound_evaluations", "bright_count", "dark_proposals", *update.records} - {*AUDIT_COUNTS},
            {"acceptance_rate", "perf_counter_diff", *update.records},
        )
        stand_in = self.new_state(np.zeros(1), bright, update.make_state(), expected_bright=0.0, n_tune=0)
        self.loop = compile_chain(firefly_step(update, z_update), stand_in)

    def new_state(
        self, theta: np.ndarray, bright: Bright, proposal: Any, *, expected_bright: float, n_tune: int
    ) -> FireflyState:
        """Return the state of a chain at theta, before prior and bound are evaluated."""
        n_obs = self.target.n_obs
        return FireflyState(
            theta=theta,
            proposed=theta.copy(),
            log_density=np.full(1, math.nan),
            clock=new_clock(n_tune),
            joint=self.joint,
            current=Factors(np.full(1, math.nan), np.full(1, math.nan), bright.log_odds),
            candidate=Factors(np.full(1, math.nan), np.full(1, math.nan), np.empty(n_obs)),
            bright=bright,
            proposal=proposal,
            z=self.z_update.make_state(expected_bright, n_obs),
        )

    def log_densities(self, thetas: np.ndarray) -> np.ndarray:
        """Return log prior + log-likelihood on all data at each theta."""
        return self.rows.log_densities(thetas)

    def gaps(self, theta: np.ndarray) -> np.ndarray:
        """Return log p(x_i|theta) - log B_i(theta) of all data."""
        return full_terms(self.joint.gaps, theta, self.joint.data, self.target.n_obs)

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
        return CompiledChain(
            self.loop,
            streams,
            state,
            describe=lambda: {**update.describe(state.proposal), **self.z_update.describe(state.z)},
            explain=lambda: self.explain_failure(state.proposed),
            start_evaluations=gaps.size,
        )

    def explain_failure(self, theta: np.ndarray) -> str:
        """Return what was NaN, or which bound was above the likelihood, at the theta at which a chain stopped."""
        shown = show(theta)
        log_prior = self.joint.log_prior(theta)
        if not log_prior < math.inf:
            return f"log prior is {'NaN' if math.isnan(log_prior) else '+inf'} at theta = {shown}"
        gaps = self.gaps(theta)
        bad = np.flatnonzero(~(gaps >= 0.0))
        if bad.size:
            worst = bad[np.argmin(np.where(np.isnan(gaps[bad]), -math.inf, gaps[bad]))]
            return (
                f"the lower bound of datum {worst} is not below its likelihood at theta = {shown}: log L - log B = "
                f"{gaps[worst]:.3g}; this holds for {bad.size} of {gaps.size} data"
            )
        return f"the log joint density or the ratio of proposal densities is NaN at theta = {shown}"
