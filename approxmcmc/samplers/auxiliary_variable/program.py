"""The program shared by samplers with an acceptance ratio, or a drift, estimated from random draws.

Audits compare a decision with the exact ratio, which is computed in plain Python. So the kernel only lists the
decisions to audit, and the chain audits them after the chunk; this time is not counted.
"""

import functools
import math
import time
from collections.abc import Callable, Collection, Mapping
from typing import Any, NamedTuple

import numpy as np

from approxmcmc.contracts import Chain, DoublyIntractableTarget, EstimatedTarget, Proposal, Streams
from approxmcmc.contracts.speaker import speaker
from approxmcmc.engine.checks import show
from approxmcmc.engine.compiler.compile import as_python
from approxmcmc.errors import IncompatibleError, NotFiniteError
from approxmcmc.samplers.auxiliary_variable.doubly_intractable import (
    RECORDS,
    RatioState,
    check_target,
    log_likelihood_of,
    make_estimate_from_fresh_draws,
)
from approxmcmc.samplers.auxiliary_variable.langevin import DriftState
from approxmcmc.samplers.auxiliary_variable.pseudo_marginal import EstimateState, carry_estimate
from approxmcmc.samplers.auxiliary_variable.step import (
    AuxiliaryState,
    follow,
    keep_nothing,
    make_step,
    new_audit_list,
)
from approxmcmc.samplers.program import StepProgram, undefined_prior
from approxmcmc.sampling.chain import CompiledChain, adapt_nothing, book_audit, compile_chain

LEAST_AUDIT_EVERY = 50
STEP_SECONDS = 1e-4  # time of a typical step; "auto" audits add a tenth to this


class KnownLikelihood(NamedTuple):
    """The function that returns log p(y|theta) up to a constant, or None if it cannot be computed exactly."""

    log_likelihood: Callable[[np.ndarray], float | None]

    def is_known(self, theta: np.ndarray) -> bool:
        """Return whether the log-likelihood at theta can be computed, so that decisions can be audited."""
        return self.log_likelihood(theta) is not None

    def audit_every(self, theta: np.ndarray) -> int:
        """Return the number of decisions for each audited one, for "auto": audits then add about a tenth to the time.

        It is 50 or a power of ten, so that the noise of one timing rarely changes it.
        """
        started = time.perf_counter()
        self.log_likelihood(theta)
        share = 2.0 * (time.perf_counter() - started) / (0.1 * STEP_SECONDS)
        return LEAST_AUDIT_EVERY if share <= LEAST_AUDIT_EVERY else 10 ** math.ceil(math.log10(share))


class AuxiliaryProgram(StepProgram):
    """A sampler that estimates its acceptance ratio or its drift, bound to a target.

    `step` is made by `make_step`. ``make_states(theta, rng)`` returns the states of its functions MOVE and ESTIMATE for
    a new chain at theta, ``describe(state of MOVE)`` the tuned values. `records` are the optional counts that the step
    fills, `n_obs` the number of terms that a decision on all data would read. `decides` is False if every step inside
    the support is accepted. ``log_likelihood(theta)`` is None where it is unknown.
    """

    def __init__(
        self,
        target: DoublyIntractableTarget | EstimatedTarget,
        step: Callable[..., int],
        make_states: Callable[[np.ndarray, np.random.Generator], tuple[Any, Any]],
        describe: Callable[[Any], Mapping[str, float]],
        records: Collection[str],
        log_likelihood: Callable[[np.ndarray], float | None],
        audit_every: int | str | None,
        *,
        decides: bool = True,
        n_obs: int = 1,
    ) -> None:
        self.log_prior = target.compile_log_prior()
        self.make_states = make_states
        self.describe = describe
        self.likelihood = KnownLikelihood(log_likelihood)
        start = np.asarray(target.initial_point(), dtype=np.float64)
        audited = decides and audit_every is not None and self.likelihood.is_known(start)
        if audited and isinstance(audit_every, str):
            audit_every = self.likelihood.audit_every(start)
        attrs: dict[str, Any] = {"n_obs": n_obs, "audit_every": 0}
        if audited:  # decisions of the exact sampler with one auxiliary draw differ from the exact ratio's, too
            attrs["wrong_decisions_note"] = "noise, not bias"
        super().__init__({"acceptance_rate", *records}, attrs, audited=audited, audit_every=audit_every)
        self.loop = compile_chain(step, self.new_state(start, np.random.default_rng(0), n_tune=0))

    def new_state(self, theta: np.ndarray, rng: np.random.Generator, n_tune: int) -> AuxiliaryState:
        """Return the state of a chain at theta; `rng` draws what the state holds."""
        move, estimate = self.make_states(theta, rng)
        return AuxiliaryState(
            **self.first_fields(theta, n_tune),
            log_prior_of=self.log_prior,
            move=move,
            estimate=estimate,
            audits=new_audit_list(0, theta.size),
        )

    def log_densities(self, thetas: np.ndarray) -> np.ndarray:
        """Return log prior + log-likelihood at each of `thetas` (k, dim), up to a constant; shape (k,).

        Where the likelihood is unknown, the log prior, which has the same support.
        """
        return np.array([self._log_density(theta) for theta in thetas])

    def _log_density(self, theta: np.ndarray) -> float:
        prior = float(self.log_prior(theta))
        log_likelihood = self.likelihood.log_likelihood(theta) if prior > -math.inf else None
        return prior if log_likelihood is None else prior + log_likelihood

    def start(self, theta: np.ndarray, streams: Streams, n_tune: int) -> Chain:
        """Start a chain at `theta`, inside the support of the prior."""
        state = self.new_state(theta.copy(), streams.order, n_tune)
        chain = self.chain(streams, state, describe=lambda: self.describe(state.move))
        return AuditedChain(chain, self.likelihood) if self.audit_probability else chain

    def explain_failure(self, state: AuxiliaryState) -> str:
        """Return what was NaN: the log prior, or the estimated log ratio."""
        for name, theta in (("theta'", state.proposed), ("theta", state.theta)):
            if why := undefined_prior(self.log_prior(theta), theta, name):
                return why
        return f"the estimated log ratio is NaN from theta = {show(state.theta)} to {show(state.proposed)}"


class AuditedChain:
    """A chain whose listed decisions are audited after each chunk of draws; see the protocol `Chain`."""

    start_evaluations = 0
    auditor = None

    def __init__(self, chain: CompiledChain, likelihood: KnownLikelihood) -> None:
        self.chain = chain
        self.adapted = chain.adapted
        self.explain_failure = chain.explain_failure
        self.streams = chain.streams

        # After a rejected step the next decision needs the likelihood at the same theta again.
        @functools.lru_cache(maxsize=64)
        def log_likelihood(theta: tuple[float, ...]) -> float:
            known = likelihood.log_likelihood(np.array(theta))
            if known is None or not known < math.inf:  # a comparison with NaN would count as a rejection
                at = show(np.array(theta))
                raise NotFiniteError(f"the exact log-likelihood, which audits need, is {known} at theta = {at}")
            return known

        self.log_likelihood = log_likelihood

    @property
    def proposed(self) -> np.ndarray:
        """The last proposal; shape (dim,)."""
        return self.chain.proposed

    @property
    def memory(self) -> Mapping[str, Any]:
        """Return the arrays that change during the run, by name, and the numbers of the set-up."""
        return self.chain.memory

    def advance(self, steps: int, thin: int, draws: np.ndarray, counts: np.ndarray, values: np.ndarray) -> int:
        """Make and record `steps` steps, audit the listed decisions, and return the steps made."""
        state: AuxiliaryState = self.chain.state
        first = state.clock.steps[0]
        unfinished = self.chain.unfinished
        begun = unfinished.steps[0]
        audits = new_audit_list(steps, state.theta.size)
        self.chain.state = state._replace(audits=audits)
        n_made = self.chain.advance(steps, thin, draws, counts, values)
        self.chain.state = state  # the list of audits is not part of the chain's state
        finished = (begun + n_made) // thin
        for k in range(audits.length[0]):
            log_ratio = audits.log_rest[k]
            if log_ratio > -math.inf:
                theta_after = tuple(audits.proposed[k])
                theta_before = tuple(audits.theta[k])
                log_ratio += self.log_likelihood(theta_after) - self.log_likelihood(theta_before)
            exact = int(audits.threshold[k] < log_ratio)
            row = (begun + audits.step[k] - first) // thin
            count = counts[row] if row < finished else unfinished.counts
            as_python(book_audit)(int(audits.decision[k]), exact, count)
        return n_made


def exchange_program(
    target: DoublyIntractableTarget,
    settings: Proposal,
    auxiliary: Any,
    n_auxiliary: int,
    audit_every: int | str | None,
) -> AuxiliaryProgram:
    """Return the program of the exchange sampler, with `n_auxiliary` draws for each ratio."""
    check_target(target)
    simulator = target.build_simulator(auxiliary)
    proposal = settings.build_proposal(target)
    observed = target.observed_statistics
    shape = (n_auxiliary, target.variables.size)
    step = make_step(
        follow(proposal),
        make_estimate_from_fresh_draws(simulator.simulate),
        keep_nothing,
        proposal.adapt or adapt_nothing,
        True,
    )

    def make_states(theta: np.ndarray, rng: np.random.Generator) -> tuple[Any, RatioState]:
        return proposal.make_state(), RatioState(observed, simulator.make_state(), np.empty(shape))

    return AuxiliaryProgram(
        target,
        step,
        make_states,
        proposal.describe,
        (*RECORDS, *proposal.records),
        log_likelihood_of(target),
        audit_every,
    )


def langevin_program(
    target: DoublyIntractableTarget,
    make_step_of: Callable[[Callable[..., None]], Callable[..., int]],
    sampler: Any,
    *,
    fresh_for_ratio: bool,
    decides: bool,
    audit_every: int | str | None,
) -> AuxiliaryProgram:
    """Return the program of a Langevin sampler on a target; ``make_step_of(simulate)`` returns its step.

    If `fresh_for_ratio`, the ratio is estimated from a separate draw, otherwise from G'. `decides` is False if every
    step inside the support is accepted.
    """
    check_target(target)
    simulator = target.build_simulator(sampler.auxiliary)
    dim = target.variables.size
    cov = np.eye(dim) if sampler.cov is None else np.asarray(sampler.cov)
    if cov.shape != (dim, dim):
        raise IncompatibleError(f"{speaker()}: the target has {dim} parameters, cov has shape {cov.shape}")
    sigma = np.ascontiguousarray(sampler.step_size * cov)
    lower = np.ascontiguousarray(np.linalg.cholesky(sigma))
    log_prior = target.compile_log_prior()
    observed = target.observed_statistics
    target_rate = sampler.target_acceptance

    def make_states(theta: np.ndarray, rng: np.random.Generator) -> tuple[DriftState, RatioState]:
        here, there = (np.empty((sampler.n_auxiliary, dim)) for _ in range(2))
        drift = DriftState(
            sigma=sigma,
            lower=lower,
            wanted=target_rate or 0.0,
            log_factor=np.zeros(1),
            log_prior=log_prior,
            observed=observed,
            simulator=simulator.make_state(),
            here=here,
            there=there,
            has_draws=np.zeros(1, dtype=np.bool_),
            gradient=np.empty(dim),
            mean_back=np.empty(dim),
            scratch=np.empty(dim),
        )
        for_ratio = np.empty((1, dim)) if fresh_for_ratio else there
        return drift, RatioState(observed, simulator.make_state(), for_ratio)

    def describe(drift: DriftState) -> dict[str, float]:
        return {} if target_rate is None else {"step_size": sampler.step_size * math.exp(2.0 * drift.log_factor[0])}

    return AuxiliaryProgram(
        target,
        make_step_of(simulator.simulate),
        make_states,
        describe,
        (*RECORDS, "gradient_evaluations"),
        log_likelihood_of(target),
        audit_every,
        decides=decides,
    )


def estimated_program(
    target: EstimatedTarget,
    settings: Proposal,
    make_estimate: Callable[[Callable[..., float]], Callable[..., float]],
    *,
    of: str,
    keeps: bool,
    audit_every: int | str | None,
) -> AuxiliaryProgram:
    """Return the program of a sampler on a target that estimates its `of`, "likelihood" or "ratio".

    ``make_estimate(estimate)`` returns ESTIMATE of the step. If `keeps`, the estimate at theta is kept for later steps.
    """
    if not isinstance(target, EstimatedTarget) or target.build_estimator().of != of:
        raise IncompatibleError(
            f"{speaker()} needs a target that estimates its {of}, targets.Estimated{of.capitalize()}; found {target!r}"
        )
    estimator = target.build_estimator()
    proposal = settings.build_proposal(target)
    # The start needs one call of the estimate; compiling the estimate for Python as well would take a second.
    plain_estimate = as_python(estimator.estimate)
    n_obs = int(target.n_obs)
    step = make_step(
        follow(proposal),
        make_estimate(estimator.estimate),
        carry_estimate if keeps else keep_nothing,
        proposal.adapt or adapt_nothing,
        True,
    )

    def make_states(theta: np.ndarray, rng: np.random.Generator) -> tuple[Any, EstimateState]:
        here = np.full(1, math.nan)
        there = np.full(1, math.nan)
        if keeps:
            here[0] = plain_estimate(rng, theta, estimator.data)
        return proposal.make_state(), EstimateState(estimator.data, estimator.n_terms, n_obs, here, there)

    return AuxiliaryProgram(
        target,
        step,
        make_states,
        proposal.describe,
        proposal.records,
        target.log_likelihood,
        audit_every,
        n_obs=n_obs,
    )
