"""Chains whose acceptance ratio, or whose drift, is estimated from random draws: one step for the whole family.

One step of noisy Metropolis-Hastings (Alquier, Friel, Everitt and Boland 2016, algorithm 2):

1. MOVE draws theta' and returns log q(theta|theta') - log q(theta'|theta);
2. u ~ U(0, 1);  ESTIMATE returns an estimate of log p(y|theta') - log p(y|theta) from auxiliary draws;
3. move if log u < log p(theta')/p(theta) + log q ratio + estimate; then KEEP carries over what belongs to theta'.

The samplers differ in these three functions alone. MOVE and ESTIMATE are templates themselves, in which
PROPOSE stands for the proposal of the user's choice, SIMULATE for the target's simulator or the user's estimator.

Audits hold a decision against the exact ratio, which plain Python computes. So the kernel only writes down the
decisions that are to be audited, and the chain looks at them when the chunk is done and the clock stands still.
"""

import functools
import math
import time
import types
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
from numba import config
from numba import types as nb

from approxmcmc.acceptance.rules import RULES
from approxmcmc.contracts import CORE_COUNTS, COUNT_NAMES, VALUE_NAMES, Streams
from approxmcmc.engine.batches import LOG_PRIOR
from approxmcmc.engine.checks import show
from approxmcmc.engine.clock import nanoseconds
from approxmcmc.engine.compile import COUNTS, MATRIX, VECTOR, bind, compiled, type_of
from approxmcmc.engine.identity import cached_by_content
from approxmcmc.engine.vectors import assign
from approxmcmc.samplers.metropolis_hastings_step import AUDIT_COUNTS

DECISIONS = COUNT_NAMES.index("decisions_made")
ROUNDS = COUNT_NAMES.index("decision_rounds")
AUDITED = COUNT_NAMES.index("decisions_audited")
WRONG = COUNT_NAMES.index("wrong_decisions")
WRONG_ACCEPTS = COUNT_NAMES.index("wrong_accepts")
ACCEPTED = COUNT_NAMES.index("accepted")
ACCEPTANCE_RATE = VALUE_NAMES.index("acceptance_rate")
SECONDS = VALUE_NAMES.index("perf_counter_diff")

# Columns of the list of decisions to be audited; theta and theta' follow.
AUDIT_DRAW, AUDIT_DECISION, AUDIT_THRESHOLD, AUDIT_REST, AUDIT_THETA = range(5)
LEAST_AUDIT_EVERY = 50
STEP_SECONDS = 1e-4  # of a typical step; "auto" lets audits add a tenth to it


def advance(  # type: ignore[no-untyped-def]  # a template
    streams, log_prior, params, memory, theta, proposed, first_step, n_tune, thin, audit_probability, audits,
    draws, counts, values,
):  # fmt: skip
    """Make steps and record them; return the draws made, fewer than asked for where a log ratio was NaN."""
    proposal_rng, uniform_rng, auxiliary_rng, audit_rng = streams
    dim, listed = theta.shape[0], 0
    for draw in range(draws.shape[0]):
        started = nanoseconds()
        count, value = counts[draw], values[draw]
        count[:] = 0
        value[:] = 0.0
        for repeat in range(thin):
            log_q_ratio = MOVE(  # noqa: F821 (bound)
                proposal_rng, auxiliary_rng, log_prior, params, memory, theta, proposed, count
            )
            threshold = THRESHOLD(uniform_rng)  # noqa: F821 (bound)
            audited = DECIDES and audit_probability > 0.0 and audit_rng.random() < audit_probability  # noqa: F821 (bound)
            proposed_log_prior = log_prior(proposed)
            # A proposal of a population has exchanged theta for another member: its prior is not kept from before.
            log_rest = -math.inf
            if proposed_log_prior != -math.inf:
                log_rest = proposed_log_prior - log_prior(theta) + log_q_ratio
            log_ratio = log_rest
            if DECIDES and log_rest != -math.inf:  # noqa: F821 (bound)
                log_ratio += ESTIMATE(auxiliary_rng, params, memory, theta, proposed, count)  # noqa: F821 (bound)
            if math.isnan(log_ratio) or proposed_log_prior == math.inf:  # from +inf no chain would ever come back
                return draw
            if DECIDES:  # noqa: F821 (bound)
                decision = 1 if threshold < log_ratio else 0
                acceptance = ACCEPTANCE_PROBABILITY(log_ratio)  # noqa: F821 (bound)
                count[DECISIONS] += 1
                count[ROUNDS] += 1
            else:
                decision = 1 if log_rest > -math.inf else 0
                acceptance = float(decision)
            if audited:
                audits[listed, AUDIT_DRAW], audits[listed, AUDIT_DECISION] = draw, decision
                audits[listed, AUDIT_THRESHOLD], audits[listed, AUDIT_REST] = threshold, log_rest
                audits[listed, AUDIT_THETA : AUDIT_THETA + dim] = theta
                audits[listed, AUDIT_THETA + dim :] = proposed
                listed += 1
            if decision == 1:
                assign(theta, proposed)
                KEEP(memory)  # noqa: F821 (bound)
            step = first_step + draw * thin + repeat
            if step < n_tune:
                ADAPT(params[0], memory[0], acceptance, step)  # noqa: F821 (bound)
            count[ACCEPTED] = decision
            value[ACCEPTANCE_RATE] += acceptance / thin
        assign(draws[draw], theta)
        value[SECONDS] = 1e-9 * (nanoseconds() - started)
    return draws.shape[0]


def keep_nothing(memory):  # type: ignore[no-untyped-def]  # bound into the template
    """Carry nothing over: theta alone is the state of the chain."""


def follow_proposal(  # type: ignore[no-untyped-def]  # bound into the template
    proposal_rng, auxiliary_rng, log_prior, params, memory, theta, proposed, count
):
    """Go where the proposal goes; it reads no auxiliary draws."""
    return PROPOSE(proposal_rng, params[0], memory[0], theta, proposed, count)  # noqa: F821 (bound)


@cached_by_content(maxsize=256)
def with_part(function: Callable[..., Any], name: str, part: Callable[..., Any]) -> Callable[..., Any]:
    """Return `function` with one of its global names standing for a compiled part; equal parts, the same function.

    MOVE and ESTIMATE are templates inside the template. Parts handed on as arguments would do as well, but numba would
    compile their addresses in, and such code cannot be kept on disk.
    """
    scope = {**function.__globals__, name: compiled(part)}  # type: ignore[attr-defined]  # a function has globals
    return types.FunctionType(function.__code__, scope, function.__name__)  # type: ignore[attr-defined]


class NoisyStep(NamedTuple):
    """What one sampler of the family adds to the template.

    `functions` holds MOVE, ESTIMATE, KEEP and ADAPT, all parts in place. `params` and the memory are tuples, of
    which the first entries belong to the proposal; ``make_memory(theta, streams)`` returns the memory of a new chain.
    `records` are the optional counts that the step fills, `n_obs` the terms that a decision on all data would read.
    """

    functions: Mapping[str, Callable[..., Any]]
    params: tuple[Any, ...]
    make_memory: Callable[[np.ndarray, Streams], tuple[Any, ...]]
    describe: Callable[[np.ndarray], Mapping[str, float]]
    records: tuple[str, ...]
    decides: bool
    n_obs: int


class Exact(NamedTuple):
    """What is known exactly: log p(y|theta) up to a constant where it can be computed, else None."""

    log_likelihood: Callable[[np.ndarray], float | None]

    def known(self, theta: np.ndarray) -> bool:
        """Say whether decisions can be audited."""
        return self.log_likelihood(theta) is not None

    def audit_every(self, theta: np.ndarray) -> int:
        """Return the rate that "auto" stands for: audits may add about a tenth to the time of a run.

        A power of ten from 100 on, so that the noise of one timing seldom changes it.
        """
        started = time.perf_counter()
        self.log_likelihood(theta)
        share = 2.0 * (time.perf_counter() - started) / (0.1 * STEP_SECONDS)
        return LEAST_AUDIT_EVERY if share <= LEAST_AUDIT_EVERY else 10 ** math.ceil(math.log10(share))


class NoisyProgram:
    """A sampler of the family bound to a target; see the protocol `Program`."""

    def __init__(
        self,
        step: NoisyStep,
        log_prior: Any,
        start: np.ndarray,
        log_likelihood: Callable[[np.ndarray], float | None],
        audit_every: int | str | None,
    ) -> None:
        self.step, self.log_prior, self.exact = step, log_prior, Exact(log_likelihood)
        audited = step.decides and audit_every is not None and self.exact.known(start)
        every = (self.exact.audit_every(start) if isinstance(audit_every, str) else audit_every) if audited else None
        self.audit_probability = 1.0 / every if every else 0.0
        written = {*CORE_COUNTS, *step.records} - {*(() if audited else AUDIT_COUNTS)}
        self.count_names = [name for name in COUNT_NAMES if name in written]
        self.value_names = ["acceptance_rate", "perf_counter_diff"]
        self.attrs: Mapping[str, Any] = {"n_obs": step.n_obs, "audit_every": every or 0}
        if audited:  # the exact sampler with one auxiliary draw flips decisions, too
            self.attrs = {**self.attrs, "wrong_decisions_note": "noise, not bias"}
        functions = {**RULES["metropolis"], **step.functions}
        self.kernel = bind(advance, self._signature(start), DECIDES=step.decides, **functions)

    def _signature(self, theta: np.ndarray) -> Any:
        if config.DISABLE_JIT:
            return None
        generator = type_of(np.random.default_rng(0))
        memory = self.step.make_memory(theta, Streams(*(np.random.default_rng(0) for _ in Streams._fields)))
        return nb.int64(
            nb.UniTuple(generator, 4), LOG_PRIOR, type_of(self.step.params), type_of(memory), VECTOR, VECTOR,
            nb.int64, nb.int64, nb.int64, nb.float64, MATRIX, MATRIX, COUNTS, MATRIX,
        )  # fmt: skip

    def log_density(self, theta: np.ndarray) -> float:
        """Return log prior + log-likelihood where that is known; elsewhere the log prior, whose support it has."""
        prior = float(self.log_prior(theta))
        known = self.exact.log_likelihood(theta) if prior > -math.inf else None
        return prior if known is None else prior + known

    def start(self, theta: np.ndarray, streams: Streams, n_tune: int) -> "NoisyChain":
        """Start a chain at `theta`, inside the support of the prior."""
        return NoisyChain(self, theta, streams, n_tune)


class NoisyChain:
    """One chain in flight; see the protocol `Chain`."""

    def __init__(self, program: NoisyProgram, theta: np.ndarray, streams: Streams, n_tune: int) -> None:
        self.program, self.streams, self.n_tune = program, streams, n_tune
        self.theta, self.proposed = theta.copy(), theta.copy()
        self.memory = program.step.make_memory(self.theta, streams)
        # Decisions come in pairs at one theta: a rejected step asks for its likelihood again.
        self.log_likelihood = functools.lru_cache(maxsize=64)(self._log_likelihood)
        self.steps, self.start_evaluations = 0, 0

    def advance(self, n_draws: int, thin: int, draws: np.ndarray, counts: np.ndarray, values: np.ndarray) -> int:
        """Make ``n_draws * thin`` steps, record every `thin`-th state, and audit what was chosen for it."""
        program, streams = self.program, self.streams
        dim = self.theta.size
        audits = np.full((n_draws * thin if program.audit_probability else 0, AUDIT_THETA + 2 * dim), -1.0)
        made = program.kernel(
            # Auxiliary data take the stream of data order: there are no data to be ordered.
            (streams.proposal, streams.uniform, streams.order, streams.audit),
            program.log_prior, program.step.params, self.memory, self.theta, self.proposed,
            self.steps, self.n_tune, thin, program.audit_probability, audits, draws[:n_draws], counts[:n_draws],
            values[:n_draws],
        )  # fmt: skip
        self.steps += n_draws * thin
        for row in audits[audits[:, AUDIT_DRAW] >= 0.0]:
            self._audit(row, counts[int(row[AUDIT_DRAW])])
        return int(made)

    def _audit(self, row: np.ndarray, count: np.ndarray) -> None:
        dim, decision = self.theta.size, int(row[AUDIT_DECISION])
        log_ratio = row[AUDIT_REST]
        if log_ratio > -math.inf:
            theta, proposed = tuple(row[AUDIT_THETA : AUDIT_THETA + dim]), tuple(row[AUDIT_THETA + dim :])
            log_ratio += self.log_likelihood(proposed) - self.log_likelihood(theta)
        count[AUDITED] += 1
        if int(row[AUDIT_THRESHOLD] < log_ratio) != decision:
            count[WRONG] += 1
            count[WRONG_ACCEPTS] += decision

    def _log_likelihood(self, theta: tuple[float, ...]) -> float:
        known = self.program.exact.log_likelihood(np.array(theta))
        return math.nan if known is None else known

    def adapted(self) -> Mapping[str, float]:
        """Return what the proposal's tuning has settled on."""
        return self.program.step.describe(self.memory[0])

    def explain_failure(self) -> str:
        """Say what was NaN: the log prior, or the estimated log ratio."""
        for name, theta in (("theta'", self.proposed), ("theta", self.theta)):
            log_prior = self.program.log_prior(theta)
            if not log_prior < math.inf:
                return f"log prior is {'NaN' if math.isnan(log_prior) else '+inf'} at {name} = {show(theta)}"
        return f"the estimated log ratio is NaN from theta = {show(self.theta)} to {show(self.proposed)}"
