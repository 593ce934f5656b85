"""Firefly bound to a target: the compiled loop over draws, and the arrays of one chain."""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numba import config
from numba import types as nb

from approxmcmc.contracts import CORE_COUNTS, COUNT_NAMES, VALUE_NAMES, CompiledBound, CompiledTarget, Part, Streams
from approxmcmc.engine.batches import LOG_PRIOR, full_terms, log_terms_type
from approxmcmc.engine.checks import show
from approxmcmc.engine.clock import nanoseconds
from approxmcmc.engine.compile import COUNTS, INDICES, MATRIX, VECTOR, bind, type_of
from approxmcmc.engine.vectors import assign
from approxmcmc.samplers.firefly.steps import (
    MEAN_BRIGHT,
    TOUCHED,
    Q,
    current_log_joint,
    log_joint,
    log_odds_of,
    slice_step,
)

DECISIONS = COUNT_NAMES.index("decisions_made")
ROUNDS = COUNT_NAMES.index("decision_rounds")
ACCEPTED = COUNT_NAMES.index("accepted")
GRADIENTS = COUNT_NAMES.index("gradient_evaluations")
BRIGHT = COUNT_NAMES.index("bright_count")
ACCEPTANCE_RATE = VALUE_NAMES.index("acceptance_rate")
SECONDS = VALUE_NAMES.index("perf_counter_diff")
FIREFLY_COUNTS = ("bound_evaluations", "bright_count", "dark_proposals")
AUDIT_COUNTS = ("decisions_audited", "wrong_decisions", "wrong_accepts")
MOST_Q = 0.1  # of the automatic choice


def advance(  # type: ignore[no-untyped-def]  # a template; PROPOSE, FORGET, ADAPT, UPDATE_Z, SLICES, TUNES_Q are bound
    streams, gaps, log_bound, log_prior, data, sums, proposal_params, proposal_state, theta, proposed, bright, work,
    parts, z_settings, first_step, n_tune, thin, draws, counts, values,
):  # fmt: skip
    """Make ``len(draws) * thin`` steps, each an update of theta at fixed z and then of z at fixed theta."""
    proposal_rng, uniform_rng, z_rng = streams
    _, _, size, log_odds = bright
    proposed_log_odds = work[0]
    proposed_parts = np.empty(2)
    for draw in range(draws.shape[0]):
        started = nanoseconds()
        count, value = counts[draw], values[draw]
        count[:] = 0
        value[:] = 0.0
        for repeat in range(thin):
            step = first_step + draw * thin + repeat
            count[DECISIONS] += 1
            count[ROUNDS] += 1
            count[TOUCHED] += size[0]
            if SLICES:  # noqa: F821 (bound)
                assign(proposed_parts, parts)
                widths, max_steps = proposal_params
                moved = slice_step(
                    proposal_rng, gaps, log_bound, log_prior, data, sums, widths, max_steps, theta, proposed, bright,
                    proposed_log_odds, proposed_parts, count,
                )  # fmt: skip
                acceptance = 1.0
            else:
                gradients, touched = count[GRADIENTS], count[TOUCHED]
                FORGET(proposal_state)  # noqa: F821 (bound)
                log_q_ratio = PROPOSE(proposal_rng, proposal_params, proposal_state, theta, proposed, count)  # noqa: F821 (bound)
                # To the proposal the joint density is one term: a gradient of it takes one of every bright datum.
                count[GRADIENTS] = gradients + size[0] * (count[GRADIENTS] - gradients)
                count[TOUCHED] = touched + size[0] * (count[TOUCHED] - touched)
                log_u = -uniform_rng.standard_exponential()
                there = log_joint(
                    gaps, log_bound, log_prior, data, sums, proposed, bright, proposed_log_odds, proposed_parts, count
                )
                log_ratio = there  # -inf outside the support, and where a bright likelihood touches its bound
                if there > -math.inf:
                    log_ratio = there - current_log_joint(bright, parts) + log_q_ratio
                if not log_ratio < math.inf:  # NaN; or +inf, from where no chain would ever come back
                    return draw
                moved = 1 if log_u < log_ratio else 0
                acceptance = math.exp(min(0.0, log_ratio))
                if step < n_tune:
                    ADAPT(proposal_params, proposal_state, acceptance, step)  # noqa: F821 (bound)
            if moved < 0:
                return draw
            if moved == 1:
                assign(theta, proposed)
                assign(parts, proposed_parts)
                log_odds[: size[0]] = proposed_log_odds[: size[0]]
            if UPDATE_Z(z_rng, gaps, theta, data, bright, work, z_settings, count) < 0:  # noqa: F821 (bound)
                assign(proposed, theta)
                return draw
            if TUNES_Q and step < n_tune:  # noqa: F821 (bound)
                z_settings[MEAN_BRIGHT] += (size[0] - z_settings[MEAN_BRIGHT]) / (step + 1.0) ** 0.6
                z_settings[Q] = min(MOST_Q, max(z_settings[MEAN_BRIGHT], 1.0) / work[1].shape[0])
            count[ACCEPTED] = moved
            value[ACCEPTANCE_RATE] += acceptance / thin
        count[BRIGHT] = size[0]
        assign(draws[draw], theta)
        value[SECONDS] = 1e-9 * (nanoseconds() - started)
    return draws.shape[0]


class FireflyProgram:
    """A Firefly sampler bound to a target; see the protocol `Program`."""

    def __init__(
        self, target: CompiledTarget, bound: CompiledBound, theta_update: Any, z_update: Any, attrs: Mapping[str, Any]
    ) -> None:
        self.target, self.bound, self.theta_update, self.z_update = target, bound, theta_update, z_update
        self.attrs: Mapping[str, Any] = attrs
        n_obs = target.n_obs
        order = np.zeros(n_obs, dtype=np.int64)
        part = theta_update(order, np.zeros(1, dtype=np.int64))
        self.proposal: Part = part
        written = {*CORE_COUNTS, *FIREFLY_COUNTS, *part.records} - {*AUDIT_COUNTS}
        self.count_names = [name for name in COUNT_NAMES if name in written]
        recorded = {"acceptance_rate", "perf_counter_diff", *part.records}
        self.value_names = [name for name in VALUE_NAMES if name in recorded]
        constants = {"UPDATE_Z": z_update.function, "TUNES_Q": z_update.tunes}
        self.kernel = bind(advance, self._signature(), **{**part.functions, **constants})

    def _signature(self) -> Any:
        if config.DISABLE_JIT:
            return None
        generator = type_of(np.random.default_rng(0))
        data, sums = type_of(self.bound.data), type_of(self.bound.sums)
        return nb.int64(
            nb.UniTuple(generator, 3), log_terms_type(data), nb.FunctionType(nb.float64(VECTOR, sums)), LOG_PRIOR,
            data, sums, type_of(self.proposal.params), VECTOR, VECTOR, VECTOR,
            nb.Tuple((INDICES, INDICES, INDICES, VECTOR)), nb.Tuple((VECTOR, INDICES, VECTOR, INDICES)),
            VECTOR, VECTOR, nb.int64, nb.int64, nb.int64, MATRIX, COUNTS, MATRIX,
        )  # fmt: skip

    def log_density(self, theta: np.ndarray) -> float:
        """Return log prior + log-likelihood on all data at `theta`."""
        prior = float(self.target.log_prior(theta))
        if prior == -math.inf:
            return prior
        return prior + float(np.sum(full_terms(self.target.log_terms, theta, self.target.data, self.target.n_obs)))

    def start(self, theta: np.ndarray, streams: Streams, n_tune: int) -> "FireflyChain":
        """Start a chain at `theta`, whose log density is finite, with z drawn from its law given theta."""
        return FireflyChain(self, theta, streams, n_tune)


class FireflyChain:
    """One chain in flight; see the protocol `Chain`."""

    def __init__(self, program: FireflyProgram, theta: np.ndarray, streams: Streams, n_tune: int) -> None:
        self.program, self.streams, self.n_tune = program, streams, n_tune
        self.theta, self.proposed = theta.copy(), theta.copy()
        bound, n_obs = program.bound, program.target.n_obs
        gaps = np.maximum(0.0, full_terms(bound.gaps, theta, bound.data, n_obs))
        self.start_evaluations = n_obs
        probability = -np.expm1(-gaps)
        is_bright = streams.start.random(n_obs) < probability
        order = np.argsort(~is_bright, kind="stable").astype(np.int64)
        position = np.empty(n_obs, dtype=np.int64)
        position[order] = np.arange(n_obs)
        size, log_odds = np.array([is_bright.sum()], dtype=np.int64), np.empty(n_obs)
        for place in range(size[0]):
            log_odds[place] = log_odds_of(gaps[order[place]])
        self.bright = (order, position, size, log_odds)
        picked = np.zeros(n_obs if program.z_update.picks else 0, dtype=np.int64)
        self.work = (np.empty(n_obs), np.empty(n_obs, dtype=np.int64), np.empty(n_obs), picked)
        self.parts = np.array([program.target.log_prior(theta), bound.log_bound(theta, bound.sums)])
        self.z_settings = program.z_update.settings(float(probability.sum()), n_obs)
        self.proposal = program.theta_update(order, size)
        self.proposal_state = self.proposal.make_state()
        self.steps = 0

    def advance(self, n_draws: int, thin: int, draws: np.ndarray, counts: np.ndarray, values: np.ndarray) -> int:
        """Make ``n_draws * thin`` steps and record every `thin`-th state."""
        program, bound, streams = self.program, self.program.bound, self.streams
        made = program.kernel(
            (streams.proposal, streams.uniform, streams.order), bound.gaps, bound.log_bound, program.target.log_prior,
            bound.data, bound.sums, self.proposal.params, self.proposal_state, self.theta, self.proposed, self.bright,
            self.work, self.parts, self.z_settings, self.steps, self.n_tune, thin,
            draws[:n_draws], counts[:n_draws], values[:n_draws],
        )  # fmt: skip
        self.steps += n_draws * thin
        return int(made)

    def adapted(self) -> Mapping[str, float]:
        """Return what tuning has settled on."""
        found = dict(self.proposal.describe(self.proposal_state))
        return {**found, "q": float(self.z_settings[Q])} if self.program.z_update.tunes else found

    def explain_failure(self) -> str:
        """Say what was NaN at the last proposal, or which bound lies above its likelihood there."""
        program, theta = self.program, self.proposed
        shown = show(theta)
        log_prior = program.target.log_prior(theta)
        if not log_prior < math.inf:
            return f"log prior is {'NaN' if math.isnan(log_prior) else '+inf'} at theta = {shown}"
        gaps = full_terms(program.bound.gaps, theta, program.bound.data, program.target.n_obs)
        bad = np.flatnonzero(~(gaps >= 0.0))
        if bad.size:
            worst = bad[np.argmin(np.where(np.isnan(gaps[bad]), -math.inf, gaps[bad]))]
            return (
                f"the lower bound of datum {worst} is not below its likelihood at theta = {shown}: log L - log B = "
                f"{gaps[worst]:.3g}; so for {bad.size} of {gaps.size} data"
            )
        return f"the log joint density or the ratio of proposal densities is NaN at theta = {shown}"
