"""The program shared by samplers with an acceptance ratio, or a drift, estimated from random draws.

Audits compare a decision with the exact ratio, which is computed in plain Python. So the kernel only lists the
decisions to audit, and the chain audits them after the chunk; this time is not counted.
"""

import functools
import math
import time
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from approxmcmc.contracts import Chain, Program, Streams
from approxmcmc.contracts.records import AUDIT_COUNTS, CORE_COUNTS
from approxmcmc.engine.checks import show
from approxmcmc.errors import NotFiniteError
from approxmcmc.samplers.auxiliary_variable.step import NoisyState, new_audit_list
from approxmcmc.sampling.chain import CompiledChain, book_audit, compile_chain, names_recorded, new_clock

LEAST_AUDIT_EVERY = 50
STEP_SECONDS = 1e-4  # time of a typical step; "auto" audits add a tenth to this


class NoisySetup(NamedTuple):
    """The parts of the program that differ between the samplers of this folder.

    `step` is made by `make_step`. ``make_states(theta, rng)`` returns the states of its functions MOVE and ESTIMATE for
    a new chain at theta, ``describe(state of MOVE)`` the tuned values. `records` are the optional counts that the step
    fills, `n_obs` the number of terms that a decision on all data would read. `decides` is False if every step inside
    the support is accepted.
    """

    step: Callable[..., int]
    make_states: Callable[[np.ndarray, np.random.Generator], tuple[Any, Any]]
    describe: Callable[[Any], Mapping[str, float]]
    records: tuple[str, ...]
    decides: bool
    n_obs: int


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


class NoisyProgram(Program):
    """A sampler that estimates its acceptance ratio or its drift, bound to a target."""

    def __init__(
        self,
        setup: NoisySetup,
        log_prior: Callable[[np.ndarray], float],
        start: np.ndarray,
        log_likelihood: Callable[[np.ndarray], float | None],
        audit_every: int | str | None,
    ) -> None:
        self.setup = setup
        self.log_prior = log_prior
        self.likelihood = KnownLikelihood(log_likelihood)
        audited = setup.decides and audit_every is not None and self.likelihood.is_known(start)
        if audited and isinstance(audit_every, str):
            audit_every = self.likelihood.audit_every(start)
        self.audit_probability = 1.0 / float(audit_every) if audited and audit_every else 0.0
        self.count_names, self.value_names = names_recorded(
            {*CORE_COUNTS, *setup.records} - {*(() if audited else AUDIT_COUNTS)},
            ("acceptance_rate", "perf_counter_diff"),
        )
        self.attrs = {
            "n_obs": setup.n_obs,
            "audit_every": audit_every if audited else 0,
            # Decisions of the exact sampler with one auxiliary draw differ from the exact ratio's decisions, too.
            **({"wrong_decisions_note": "noise, not bias"} if audited else {}),
        }
        stand_in = self.new_state(start, np.random.default_rng(0), n_tune=0)
        self.loop = compile_chain(setup.step, stand_in)

    def new_state(self, theta: np.ndarray, rng: np.random.Generator, n_tune: int) -> NoisyState:
        """Return the state of a chain at theta."""
        move, estimate = self.setup.make_states(theta, rng)
        return NoisyState(
            theta=theta,
            proposed=theta.copy(),
            log_density=np.full(1, math.nan),
            clock=new_clock(n_tune, self.audit_probability),
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
        known = self.likelihood.log_likelihood(theta) if prior > -math.inf else None
        return prior if known is None else prior + known

    def start(self, theta: np.ndarray, streams: Streams, n_tune: int) -> Chain:
        """Start a chain at `theta`, inside the support of the prior."""
        state = self.new_state(theta.copy(), streams.order, n_tune)
        chain = CompiledChain(
            self.loop,
            streams,
            state,
            describe=lambda: self.setup.describe(state.move),
            explain=lambda: self.explain_failure(state),
        )
        return AuditedChain(chain, self.likelihood) if self.audit_probability else chain

    def explain_failure(self, state: NoisyState) -> str:
        """Return what was NaN: the log prior, or the estimated log ratio."""
        for name, theta in (("theta'", state.proposed), ("theta", state.theta)):
            log_prior = self.log_prior(theta)
            if not log_prior < math.inf:
                return f"log prior is {'NaN' if math.isnan(log_prior) else '+inf'} at {name} = {show(theta)}"
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
        state: NoisyState = self.chain.state
        first = state.clock.steps[0]
        begun = state.clock.begun[0]
        audits = new_audit_list(steps, state.theta.size)
        self.chain.state = state._replace(audits=audits)
        made = self.chain.advance(steps, thin, draws, counts, values)
        self.chain.state = state  # the list of audits is not part of the chain's state
        finished = (begun + made) // thin
        for k in range(audits.length[0]):
            log_ratio = audits.log_rest[k]
            if log_ratio > -math.inf:
                there = tuple(audits.proposed[k])
                here = tuple(audits.theta[k])
                log_ratio += self.log_likelihood(there) - self.log_likelihood(here)
            exact = int(audits.threshold[k] < log_ratio)
            row = (begun + audits.step[k] - first) // thin
            book_audit(int(audits.decision[k]), exact, counts[row] if row < finished else state.clock.draw_counts)
        return made
