"""Metropolis-Hastings: target x proposal x acceptance test.

One step:

1. theta' ~ q(.|theta), with log q(theta|theta') - log q(theta'|theta);
2. u ~ U(0, 1);  c = log p(theta') - log p(theta) + log q ratio;
3. ask the test whether c + sum_i [log p(x_i|theta') - log p(x_i|theta)] exceeds the threshold of u; move if it does.

The kernel keeps its rejection atom: a rejected step repeats theta. With :class:`ExactTest` the chain leaves the
posterior invariant (Hastings 1970); with another test it does what the test promises.
"""

import dataclasses
import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numba import config
from numba import types as nb

from approxmcmc.contracts import (
    CORE_COUNTS,
    COUNT_NAMES,
    VALUE_NAMES,
    AcceptanceTest,
    CompiledTarget,
    Component,
    DiscreteTarget,
    Part,
    Proposal,
    Streams,
    Target,
)
from approxmcmc.engine.batches import (
    BATCH,
    CERTAIN,
    FINITE,
    LOG_PRIOR,
    UNDEFINED,
    full_terms,
    log_terms_type,
    memory_order,
    merge_differences,
)
from approxmcmc.engine.bind import COUNTS, MATRIX, VECTOR, bind, type_of
from approxmcmc.engine.clock import nanoseconds
from approxmcmc.engine.moments import MEAN, reset, standard_deviation
from approxmcmc.engine.order import BLOCKS_FROM, block_size, blocks_order, rows_order, settle
from approxmcmc.engine.shuffled import by_row, check_place, check_rows_are_terms, shuffled_copy
from approxmcmc.engine.vectors import assign
from approxmcmc.errors import IncompatibleError

DECISIONS = COUNT_NAMES.index("decisions_made")
AUDITS = COUNT_NAMES.index("decisions_audited")
WRONG = COUNT_NAMES.index("wrong_decisions")
WRONG_ACCEPTS = COUNT_NAMES.index("wrong_accepts")
ACCEPTED = COUNT_NAMES.index("accepted")
ACCEPTANCE_RATE = VALUE_NAMES.index("acceptance_rate")
SECONDS = VALUE_NAMES.index("perf_counter_diff")
LP = VALUE_NAMES.index("lp")
DRAW_WEIGHT = VALUE_NAMES.index("weight")
AUDIT_COUNTS = ("decisions_audited", "wrong_decisions", "wrong_accepts")
MU_STD = VALUE_NAMES.index("audited_mu_std")
AUDIT_ERROR = VALUE_NAMES.index("audit_acceptance_error")
AUDIT_NOISE = VALUE_NAMES.index("audit_acceptance_noise")
EPSILON = VALUE_NAMES.index("epsilon")


def audit(  # type: ignore[no-untyped-def]  # bound into the template below
    rng, log_terms, data, n_obs, theta, proposed, threshold, log_rest, order, work, params, value
):
    """Decide on all data, read in memory order, and record how clear the answer was; -1 when a log density is NaN."""
    reset(work[2])
    start = np.int64(0)  # a literal 0 would compile the helper twice
    outcome = merge_differences(log_terms, theta, proposed, data, memory_order(), start, n_obs, work)
    if outcome != FINITE:
        return -1 if outcome == UNDEFINED else (1 if outcome == CERTAIN else 0)
    log_ratio = log_rest + n_obs * work[2, MEAN]
    s_l = standard_deviation(work[2])
    if s_l > 0.0:
        value[MU_STD] = (log_ratio - threshold) / (math.sqrt(n_obs) * s_l)
    return 1 if threshold < log_ratio else 0


def no_weight(params, state):  # type: ignore[no-untyped-def]  # bound into the template below
    """Return 0: draws weigh the same, and the trace holds no weights."""
    return 0.0


def _advance(  # type: ignore[no-untyped-def]
    streams, log_terms, log_prior, data, n_obs, proposal_params, proposal_state, test_params, test_state,
    theta, proposed, current_log_prior, order, work, first_step, n_tune, thin, audit_probability, draws, counts, values,
):  # fmt: skip
    proposal_rng, uniform_rng, order_rng, audit_rng = streams
    for draw in range(draws.shape[0]):
        started = nanoseconds()
        paused = 0
        count, value = counts[draw], values[draw]
        count[:] = 0
        value[:] = 0.0
        value[MU_STD] = value[AUDIT_ERROR] = value[AUDIT_NOISE] = value[EPSILON] = math.nan
        for repeat in range(thin):
            step = first_step + draw * thin + repeat
            log_q_ratio = PROPOSE(  # noqa: F821 (bound)
                proposal_rng, proposal_params, proposal_state, theta, proposed, count
            )
            threshold = THRESHOLD(uniform_rng)  # noqa: F821 (bound)
            proposed_log_prior = log_prior(proposed) if USES_RATIO else 0.0  # noqa: F821 (bound)
            log_rest = proposed_log_prior - current_log_prior[0] + log_q_ratio
            if proposed_log_prior == -math.inf:  # a gradient may be undefined there, and with it the density ratio
                log_rest = -math.inf
            audited = AUDITED and audit_probability > 0.0 and audit_rng.random() < audit_probability  # noqa: F821 (bound)
            if math.isnan(log_rest):
                return draw
            if log_rest == -math.inf:  # outside the support: no datum can change the answer
                count[DECISIONS] += 1
                count[AUDITS] += 1 if audited else 0
                decision, log_ratio = 0, log_rest
            else:
                decision, log_ratio = TEST(  # noqa: F821 (bound)
                    order_rng, log_terms, data, n_obs, theta, proposed, threshold, log_rest,
                    order, work, test_params, test_state, count, value,
                )  # fmt: skip
                if decision < 0:
                    return draw
                if audited:
                    pause = nanoseconds()
                    exact = AUDIT(  # noqa: F821 (bound)
                        audit_rng, log_terms, data, n_obs, theta, proposed, threshold, log_rest,
                        order, work, test_params, value,
                    )  # fmt: skip
                    if exact >= 0:
                        count[AUDITS] += 1
                        if exact != decision:
                            count[WRONG] += 1
                            count[WRONG_ACCEPTS] += decision
                    paused += nanoseconds() - pause
            if USES_RATIO and not CACHES_LIKELIHOOD:  # noqa: F821 (bound)
                settle(order, decision == 1)
            if decision == 1:
                assign(theta, proposed)
                current_log_prior[0] = proposed_log_prior
            acceptance = ACCEPTANCE_PROBABILITY(log_ratio)  # noqa: F821 (bound)
            if step < n_tune:
                ADAPT(proposal_params, proposal_state, acceptance, step)  # noqa: F821 (bound)
            count[ACCEPTED] = decision
            value[ACCEPTANCE_RATE] += acceptance / thin
        assign(draws[draw], theta)
        value[LP] = current_log_prior[0] + test_state[0]
        value[DRAW_WEIGHT] = WEIGHT(proposal_params, proposal_state)  # noqa: F821 (bound)
        value[SECONDS] = 1e-9 * (nanoseconds() - started - paused)
    return draws.shape[0]


@dataclasses.dataclass(frozen=True, eq=False)
class MetropolisHastings(Component):
    """Metropolis-Hastings with any proposal and any acceptance test.

    Parameters
    ----------
    proposal
        Where to go: :class:`RandomWalk`.
    test
        When to accept: :class:`ExactTest`, :class:`SequentialTTest`, :class:`AlwaysAccept`.
    shuffled_copy
        Where the chains of a test that reads in blocks keep their shuffled data, a copy for each chain: ``"memory"``,
        ``"disk"`` (nameless files below the package's cache folder), or a folder for these files, which must exist.

    Notes
    -----
    Guarantee: exact with :class:`ExactTest`; otherwise as the test says.

    Examples
    --------
    >>> import approxmcmc as amc
    >>> sampler = amc.MetropolisHastings(amc.RandomWalk(0.01), amc.SequentialTTest(epsilon=0.05))
    """

    proposal: Any
    test: Any
    shuffled_copy: str = dataclasses.field(default="memory", repr=False)

    def __post_init__(self) -> None:
        """Check that each role is played by a member of that role."""
        for role, part, protocol in (("proposal", self.proposal, Proposal), ("test", self.test, AcceptanceTest)):
            if isinstance(part, type) or not isinstance(part, protocol):
                raise IncompatibleError(
                    f"MetropolisHastings: {role} must be a {role} such as "
                    f"{'RandomWalk(scale=0.1)' if role == 'proposal' else 'SequentialTTest(epsilon=0.05)'}, found {
                        part!r
                    }"
                )
        check_place(self.shuffled_copy, who="MetropolisHastings")

    def build(self, target: Target, *, audit_every: int | str | None = "auto") -> "MetropolisHastingsProgram":
        """Check the pairing, compile it, and return the program that starts chains."""
        if isinstance(target, DiscreteTarget) and not getattr(self.proposal, "proposes_states", False):
            raise IncompatibleError(
                f"MetropolisHastings: {target!r} has discrete states, {self.proposal!r} proposes real numbers; "
                "use SingleSite, or Gibbs"
            )
        if isinstance(audit_every, str):
            batch_size = getattr(self.test, "batch_size", target.n_obs)
            rarity = getattr(target, "audit_rarity", 1)  # with control variates a step costs too little for more
            audit_every = rarity * max(50, round(20 * target.n_obs / batch_size))
        test = self.test.build_test(target)
        build_unadjusted = None if test.functions["USES_RATIO"] else getattr(self.proposal, "build_unadjusted", None)
        proposal = (build_unadjusted or self.proposal.build_proposal)(target)
        compiled = target.compile()
        schedule = self._schedule(test, compiled.n_obs)
        return MetropolisHastingsProgram(compiled, proposal, test, audit_every, schedule)

    def _schedule(self, test: Part, n_obs: int) -> "Schedule":
        """Return how subsets of the data are drawn: what the test asks for, or the faster way."""
        if test.functions["CACHES_LIKELIHOOD"] or not test.functions["USES_RATIO"]:  # it reads all data, or none
            return Schedule("memory")
        asked = getattr(self.test, "order", "rows")
        if asked == "rows" or (asked == "auto" and n_obs < BLOCKS_FROM):
            return Schedule("rows")
        return Schedule("blocks", block_size(n_obs, self.test.batch_size), self.shuffled_copy)


class Schedule(NamedTuple):
    """How subsets are drawn: "memory" (all data as they lie), "rows", or "blocks" of `size` rows of a copy."""

    name: str
    size: int = 0
    place: str = "memory"


class MetropolisHastingsProgram:
    """A Metropolis-Hastings sampler bound to a target; see the protocol `Program`."""

    def __init__(
        self, target: CompiledTarget, proposal: Part, test: Part, audit_every: int | None, schedule: Schedule
    ) -> None:
        self.target, self.proposal, self.test, self.schedule = target, proposal, test, schedule
        # Only blocks evaluate at two thetas at once: other chains are compiled without.
        at_both = target.compile_at_both if schedule.name == "blocks" else None
        self.both = at_both() if at_both else None
        audited_test = bool(test.functions["AUDITED"])
        self.audit_probability = 1.0 / audit_every if audited_test and audit_every else 0.0
        exact = bool(test.functions["CACHES_LIKELIHOOD"])
        written = {*CORE_COUNTS, *proposal.records, *test.records} - {*(() if audited_test else AUDIT_COUNTS)}
        self.count_names = [name for name in COUNT_NAMES if name in written]
        recorded = {
            "acceptance_rate",
            "perf_counter_diff",
            *proposal.records,
            *test.records,
            *(("lp",) if exact else ()),
        }
        self.value_names = [name for name in VALUE_NAMES if name in recorded]
        self.attrs: Mapping[str, Any] = {
            **({"audit_every": audit_every or 0} if audited_test else {}),
            **({"data_order": schedule.name} if schedule.name != "memory" else {}),
            **({"block_size": schedule.size} if schedule.name == "blocks" else {}),
            **proposal.attrs,
        }
        parts = {"AUDIT": audit, "WEIGHT": no_weight, **proposal.functions, **test.functions}
        self.kernel = bind(_advance, self._signature(), **parts)

    def _signature(self) -> Any:
        if config.DISABLE_JIT:
            return None
        generator = type_of(np.random.default_rng(0))
        data = type_of(self.target.data)
        return nb.int64(
            nb.UniTuple(generator, 4), log_terms_type(data), LOG_PRIOR, data, nb.int64,
            type_of(self.proposal.params), VECTOR, type_of(self.test.params), VECTOR,
            VECTOR, VECTOR, VECTOR, type_of(self.new_order()), MATRIX,
            nb.int64, nb.int64, nb.int64, nb.float64, MATRIX, COUNTS, MATRIX,
        )  # fmt: skip

    def new_order(self) -> tuple[Any, ...]:
        """Return a fresh order of the data as they lie, or of their rows."""
        n_arrays = sum(by_row(self.target.data, self.target.n_obs))
        return rows_order(self.target.n_obs if self.schedule.name == "rows" else 0, n_arrays, self.both)

    def arrange(self, theta: np.ndarray, rng: np.random.Generator) -> tuple[tuple[np.ndarray, ...], tuple[Any, ...]]:
        """Return the data that a chain reads, and its order; in blocks, a copy shuffled by the chain's own stream."""
        target, schedule = self.target, self.schedule
        if schedule.name != "blocks":
            return target.data, self.new_order()
        permutation = rng.permutation(target.n_obs)
        copy, rows = shuffled_copy(target.data, permutation, schedule.place)
        check_rows_are_terms(target, copy, permutation, theta)
        return copy, blocks_order(target.n_obs, schedule.size, rows, self.both)

    def log_density(self, theta: np.ndarray) -> float:
        """Return log prior + log-likelihood on all data at `theta`."""
        prior = float(self.target.log_prior(theta))
        return prior + self._log_likelihood(theta) if prior > -math.inf else prior

    def start(self, theta: np.ndarray, streams: Streams, n_tune: int) -> "MetropolisHastingsChain":
        """Start a chain at `theta`, whose log density is finite."""
        return MetropolisHastingsChain(self, theta, streams, n_tune)

    def _log_likelihood(self, theta: np.ndarray) -> float:
        return float(np.sum(full_terms(self.target.log_terms, theta, self.target.data, self.target.n_obs)))


class MetropolisHastingsChain:
    """One chain in flight; see the protocol `Chain`."""

    def __init__(self, program: MetropolisHastingsProgram, theta: np.ndarray, streams: Streams, n_tune: int) -> None:
        self.program, self.streams, self.n_tune = program, streams, n_tune
        self.theta, self.proposed = theta.copy(), theta.copy()
        self.proposal_state, self.test_state = program.proposal.make_state(), program.test.make_state()
        self.log_prior = np.array([program.target.log_prior(self.theta)])
        self.data, self.order = program.arrange(self.theta, streams.order)
        self.work = np.empty((3, BATCH))
        self.steps = 0
        if program.test.functions["CACHES_LIKELIHOOD"]:
            self.test_state[0] = program._log_likelihood(self.theta)

    def advance(self, n_draws: int, thin: int, draws: np.ndarray, counts: np.ndarray, values: np.ndarray) -> int:
        """Make ``n_draws * thin`` steps and record every `thin`-th state."""
        target, program = self.program.target, self.program
        generators = (self.streams.proposal, self.streams.uniform, self.streams.order, self.streams.audit)
        done = program.kernel(
            generators, target.log_terms, target.log_prior, self.data, target.n_obs,
            program.proposal.params, self.proposal_state, program.test.params, self.test_state,
            self.theta, self.proposed, self.log_prior, self.order, self.work,
            self.steps, self.n_tune, thin, program.audit_probability, draws[:n_draws], counts[:n_draws],
            values[:n_draws],
        )  # fmt: skip
        self.steps += n_draws * thin
        return int(done)

    def adapted(self) -> Mapping[str, float]:
        """Return what the proposal's tuning has settled on."""
        return self.program.proposal.describe(self.proposal_state)

    def explain_failure(self) -> str:
        """Say what was NaN: the log prior at the proposal, a datum's term, or the log density ratio of the proposal."""
        target = self.program.target
        if np.isnan(self.proposed).any():
            return f"the gradient of the proposal is NaN or infinite at theta = {_show(self.theta)}"
        if math.isnan(target.log_prior(self.proposed)):
            return f"log prior is NaN at theta = {_show(self.proposed)}"
        for theta in (self.proposed, self.theta):
            bad = np.flatnonzero(~(full_terms(target.log_terms, theta, target.data, target.n_obs) < math.inf))
            if bad.size:
                more = f" and {bad.size - 1} more" if bad.size > 1 else ""
                return f"log-likelihood of datum {bad[0]}{more} is NaN or +inf at theta = {_show(theta)}"
        return f"log ratio of proposal densities is NaN from theta = {_show(self.theta)} to {_show(self.proposed)}"


def _show(theta: np.ndarray) -> str:
    return np.array2string(theta, precision=6, threshold=20)
