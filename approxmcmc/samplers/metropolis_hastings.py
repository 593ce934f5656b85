"""Metropolis-Hastings: target x proposal x acceptance test.

The kernel keeps its rejection atom: a rejected step repeats theta. With :class:`ExactTest` the chain leaves the
posterior invariant (Hastings 1970); with another test it does what the test promises.
"""

import dataclasses
import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

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
    ProposalSampler,
    Streams,
    Target,
)
from approxmcmc.engine.batches import BATCH, full_terms
from approxmcmc.engine.checks import show
from approxmcmc.engine.order import BLOCKS_FROM, block_size, blocks_order, rows_order
from approxmcmc.engine.shuffled import by_row, check_place, check_rows_are_terms, shuffled_copy
from approxmcmc.errors import IncompatibleError
from approxmcmc.samplers.metropolis_hastings_step import AUDIT_COUNTS, compile_step


@dataclasses.dataclass(frozen=True, eq=False)
class MetropolisHastings(Component, ProposalSampler):
    r"""Metropolis-Hastings with any proposal and any acceptance test.

    Parameters
    ----------
    proposal
        Where to go: :class:`RandomWalk`, :class:`Langevin`, :class:`PreconditionedCrankNicolson`, or another one of
        the room `proposals`.
    test
        When to accept: :class:`ExactTest`, :class:`SequentialTTest`, :class:`BernsteinTest`, or another one of the room
        `acceptance`.
    shuffled_copy
        Where the chains of a test that reads in blocks keep their shuffled data, a copy for each chain: ``"memory"``,
        ``"disk"`` (nameless files below the package's cache folder), or a folder for these files, which must exist.

    Notes
    -----
    With theta' ~ q(. | theta) and u ~ U(0, 1) the chain moves to theta' when

    .. math:: \log u < \log\frac{p(\theta')\, q(\theta \mid \theta')}{p(\theta)\, q(\theta' \mid \theta)}
              + \sum_{i=1}^{N} \log\frac{p(x_i \mid \theta')}{p(x_i \mid \theta)}

    as far as the test can tell (Hastings 1970, section 2), and stays where it is otherwise; a test with Barker's rule
    has log(u / (1 - u)) on the left.

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
        if isinstance(target, DiscreteTarget) and not self.proposal.proposes_states:
            raise IncompatibleError(
                f"MetropolisHastings: {target!r} has discrete states, {self.proposal!r} proposes real numbers; "
                "use SingleSite, or Gibbs"
            )
        if isinstance(audit_every, str):
            batch_size = getattr(self.test, "batch_size", target.n_obs)
            audit_every = target.audit_rarity * max(50, round(20 * target.n_obs / batch_size))
        test = self.test.build_test(target)
        uses_ratio = test.functions["USES_RATIO"]
        if not uses_ratio:
            _refuse_tuning(self.proposal, self.test)
        proposal = self.proposal.build_proposal(target) if uses_ratio else self.proposal.build_unadjusted(target)
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


def _refuse_tuning(proposal: Proposal, test: Any) -> None:
    for member in proposal.members:
        if member.target_acceptance is not None:
            raise IncompatibleError(
                f"{type(member).__name__}: target_acceptance={member.target_acceptance:g} tunes the size of steps to "
                f"the answers of a test, and {test!r} gives none; choose the size by hand, or use ExactTest"
            )


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
        self.kernel = compile_step(target, proposal, test, self.new_order())

    def new_order(self) -> tuple[Any, ...]:
        """Return a fresh order of the data as they lie, or of their rows."""
        n_arrays = sum(by_row(self.target.data, self.target.n_obs))
        return rows_order(self.target.n_obs if self.schedule.name == "rows" else 0, n_arrays, self.both)

    def arrange(
        self, theta: np.ndarray, rng: np.random.Generator
    ) -> tuple[tuple[np.ndarray, ...], tuple[Any, ...], int]:
        """Return the data that a chain reads, its order, and the number of terms evaluated to check them.

        In blocks the data are a copy, shuffled by the chain's own stream.
        """
        target, schedule = self.target, self.schedule
        if schedule.name != "blocks":
            return target.data, self.new_order(), 0
        permutation = rng.permutation(target.n_obs)
        copy, rows = shuffled_copy(target.data, permutation, schedule.place)
        evaluations = check_rows_are_terms(target, copy, permutation, theta)
        return copy, blocks_order(target.n_obs, schedule.size, rows, self.both), evaluations

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
        self.data, self.order, self.start_evaluations = program.arrange(self.theta, streams.order)
        self.work = np.empty((3, BATCH))
        self.steps = 0
        if program.test.functions["CACHES_LIKELIHOOD"]:
            self.test_state[0] = program._log_likelihood(self.theta)
            self.start_evaluations += program.target.n_obs

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
            why = self.program.proposal.explain(self.proposal_state)
            return f"{why or 'the gradient of the proposal is NaN or infinite'}, at theta = {show(self.theta)}"
        log_prior = target.log_prior(self.proposed)
        if not log_prior < math.inf:
            return f"log prior is {'NaN' if math.isnan(log_prior) else '+inf'} at theta = {show(self.proposed)}"
        for theta in (self.proposed, self.theta):
            bad = np.flatnonzero(~(full_terms(target.log_terms, theta, target.data, target.n_obs) < math.inf))
            if bad.size:
                more = f" and {bad.size - 1} more" if bad.size > 1 else ""
                return f"log-likelihood of datum {bad[0]}{more} is NaN or +inf at theta = {show(theta)}"
        return f"log ratio of proposal densities is NaN from theta = {show(self.theta)} to {show(self.proposed)}"
