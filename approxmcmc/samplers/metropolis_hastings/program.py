"""The program of Metropolis-Hastings samplers: the functions compiled for a target, and the chains that it starts."""

import copy
import math
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from approxmcmc.acceptance.out_of_reach import evaluations_to_reject
from approxmcmc.audits.steps import Judge, TestedSteps, WalkedSteps
from approxmcmc.contracts import AcceptanceTest, Auditor, CompiledProposal, CompiledTest, Streams
from approxmcmc.engine.checks import show
from approxmcmc.engine.compiler.compile import as_python
from approxmcmc.engine.compiler.python_call import PythonCall
from approxmcmc.engine.terms.batches import full_terms
from approxmcmc.engine.terms.evidence import DataOrder, new_evidence
from approxmcmc.engine.terms.order import BLOCKS_FROM, block_size, blocks_order, is_reshuffled, moves_rows, rows_order
from approxmcmc.engine.terms.shuffled import by_row, check_rows_are_terms, order_of_files, shuffled_copy, word_of
from approxmcmc.engine.terms.term_table import Partition
from approxmcmc.errors import InvalidInputError
from approxmcmc.samplers.metropolis_hastings.step import MetropolisHastingsState, metropolis_hastings_step
from approxmcmc.samplers.program import StepProgram, undefined_prior
from approxmcmc.sampling.chain import CompiledChain, compile_chain
from approxmcmc.targets.all_rows import AllRows

END = 2**62  # the index of a step after all others


class Schedule(NamedTuple):
    """How subsets are drawn: "memory" (no subsets, or the test draws rows itself), "rows", or "blocks" of a copy.

    `size` is the number of rows in a block, `place` where the copy is kept: `shuffled_copy` of `MetropolisHastings`.
    """

    name: str
    size: int = 0
    place: str = "memory"


def data_schedule(settings: AcceptanceTest, test: CompiledTest, n_obs: int, shuffled_copy: str = "memory") -> Schedule:
    """Return how subsets of the data are drawn: as the settings of the test require, or in the faster way.

    `test` is the compiled form of `settings`; `shuffled_copy` says where a shuffled copy of the data is kept.
    """
    by_itself = settings.order == "memory" or test.log_likelihood is not None or not test.uses_ratio
    if by_itself:  # the test reads all data or none, or draws its own rows
        return Schedule("memory")
    if settings.order == "rows" or (settings.order == "auto" and n_obs < BLOCKS_FROM):
        return Schedule("rows")
    return Schedule("blocks", block_size(n_obs, settings.batch_size), shuffled_copy)  # type: ignore[attr-defined]  # of tests that read in blocks


class Audits(NamedTuple):
    """The settings of audits of finished chains; `judge` says how to check the test, None to check the draws alone."""

    judge: Judge | None


class MetropolisHastingsProgram(StepProgram):
    """A Metropolis-Hastings sampler bound to a target.

    `audits` is None if finished chains are not audited. Other samplers with the same state give their own `step`.
    """

    def __init__(
        self,
        rows: AllRows,
        proposal: CompiledProposal,
        test: CompiledTest,
        audit_every: int | str | None,
        schedule: Schedule,
        audits: "Audits | None" = None,
        step: Callable[..., int] | None = None,
    ) -> None:
        self.rows = rows
        self.proposal = proposal
        self.test = test
        self.schedule = schedule
        self.target = target = rows.compiled
        self.audits = audits
        self.copy: tuple[tuple[np.ndarray, ...], tuple[np.ndarray, ...]] | None = None
        self.shuffled_by: np.random.Generator | None = None
        # Only chains that read blocks evaluate at two thetas at once; other chains are compiled without this code.
        at_both = target.compile_at_both if schedule.name == "blocks" else None
        self.at_both = at_both() if at_both else None
        records = {"acceptance_rate", *proposal.records, *test.records}
        if test.uses_ratio:
            records.add("out_of_reach")
        if test.log_likelihood is not None:
            records.add("lp")
        attrs = {
            **({"data_order": schedule.name} if schedule.name != "memory" else {}),
            **({"block_size": schedule.size} if schedule.name == "blocks" else {}),
            **proposal.attrs,
            **test.attrs,
        }
        super().__init__(records, attrs, audited=test.is_audited, audit_every=audit_every)
        stand_in = self.new_state(np.zeros(1), target.data, self.new_order(), n_tune=0)
        self.loop = compile_chain(step or metropolis_hastings_step(proposal, test), stand_in)

    def new_order(self) -> DataOrder:
        """Return a new order of the data: memory order, or a permutation of the rows if tests draw single rows."""
        data = self.target.data
        n_obs = self.target.n_obs
        n_places = n_obs if self.schedule.name == "rows" else 0
        n_arrays = sum(by_row(data, n_obs))
        return rows_order(n_places, n_arrays, self.at_both, word_of(data, n_obs))

    def arrange(self, theta: np.ndarray, rng: np.random.Generator) -> tuple[tuple[np.ndarray, ...], DataOrder, int]:
        """Return the data that a chain reads, the order in which it reads them, and the number of terms evaluated.

        Terms are evaluated at `theta` to check that the shuffled rows are those of the target. A chain that reads
        blocks reads a shuffled copy of the data. All chains share the copy of the first chain, shuffled by this chain's
        random stream or, on disk, in a fixed order, unless every chain shuffles a copy anew.
        """
        target = self.target
        schedule = self.schedule
        if schedule.name != "blocks":
            return target.data, self.new_order(), 0
        evaluations = 0
        is_own = is_reshuffled(target.n_obs, schedule.size)
        if self.copy is None or is_own:
            self.shuffled_by, permutation = copy.deepcopy(rng), self.shuffled_rows(rng)
            named = schedule.place != "memory" and not is_own
            self.copy = shuffled_copy(target.data, permutation, schedule.place, named=named)
            evaluations = check_rows_are_terms(target, self.copy[0], permutation, theta)
        data, rows = self.copy
        return data, blocks_order(target.n_obs, schedule.size, rows, self.at_both), evaluations

    def shuffled_rows(self, rng: np.random.Generator) -> np.ndarray:
        """Return the indices of the rows in the order of a shuffled copy, drawn from `rng`, or fixed if on disk."""
        n_obs = self.target.n_obs
        schedule = self.schedule
        of_files = schedule.place != "memory" and not is_reshuffled(n_obs, schedule.size)
        return order_of_files(n_obs) if of_files else rng.permutation(n_obs)

    def partition(self, shuffled_by: np.random.Generator | None) -> Partition | None:
        """Return the partition of the rows whose blocks all chains read.

        None if the chains read single rows, if each chain shuffles its own copy, or if `shuffled_by` is None.
        """
        name, size, _ = self.schedule
        if shuffled_by is None or name != "blocks" or is_reshuffled(self.target.n_obs, size):
            return None
        return Partition(self.shuffled_rows(copy.deepcopy(shuffled_by)), size)

    def new_state(
        self, theta: np.ndarray, data: tuple[np.ndarray, ...], order: DataOrder, n_tune: int
    ) -> MetropolisHastingsState:
        """Return the state of a chain at theta before the first evaluation; `n_tune` steps adapt the proposal."""
        target = self.target
        fields = self.first_fields(theta, n_tune)
        proposed = fields["proposed"]
        return MetropolisHastingsState(
            **fields,
            log_prior=np.full(1, math.nan),
            log_q_ratio=np.full(1, math.nan),
            log_prior_of=target.log_prior,
            prior_rows=target.prior_rows,
            evaluations_to_reject=PythonCall(lambda: evaluations_to_reject(self.log_density, theta, proposed)),
            evidence=new_evidence(target.log_terms, data, target.n_obs, theta, proposed, order),
            proposal=self.proposal.make_state(),
            test=self.test.make_state(),
        )

    def log_density(self, theta: np.ndarray) -> float:
        """Return log prior + log-likelihood on all data."""
        return float(self.rows.log_densities(theta[None])[0])

    def log_likelihood(self, theta: np.ndarray) -> float:
        """Return the sum of all terms at `theta`."""
        return float(np.sum(full_terms(self.target.log_terms, theta, self.target.data, self.target.n_obs)))

    def start(self, theta: np.ndarray, streams: Streams, n_tune: int) -> CompiledChain:
        """Start a chain at `theta`, where the log density is finite."""
        data, order, evaluations = self.arrange(theta, streams.order)
        state = self.new_state(theta.copy(), data, order, n_tune)
        state.log_prior[0] = self.target.log_prior(theta)
        if self.test.keep_log_likelihood is not None:
            as_python(self.test.keep_log_likelihood)(state.test, self.log_likelihood(theta))
            evaluations += self.target.n_obs

        def auditor(draws: np.ndarray) -> Auditor:
            return self.auditor(state.proposal, draws, streams.audit, self.shuffled_by)

        return self.chain(
            streams,
            state,
            describe=lambda: self.proposal.describe(state.proposal),
            watch=self.test.watch,
            start_evaluations=evaluations,
            auditor=auditor if self.audits else None,
            fixed=() if moves_rows(order) else (*data, *order.rows),
        )

    def auditor_of(
        self,
        adapted: Mapping[str, float],
        draws: np.ndarray,
        rng: np.random.Generator,
        shuffled_by: np.random.Generator | None = None,
    ) -> Auditor | None:
        """Return the auditor of stored draws, given the chain's tuned values; None if the program has no `audits`."""
        return (
            None if self.audits is None else self.auditor(tuned_state(self.proposal, adapted), draws, rng, shuffled_by)
        )

    def auditor(
        self, tuned: Any, draws: np.ndarray, rng: np.random.Generator, shuffled_by: np.random.Generator | None
    ) -> Auditor:
        """Return the auditor of a finished chain.

        `tuned` is its tuned proposal state, `draws` its kept draws, `rng` its random stream for audits, `shuffled_by`
        the stream that shuffled the data, None if unknown.
        """
        judge = self.audits.judge if self.audits else None
        if judge is None:
            return WalkedSteps(self.rows, draws, rng)
        # The auditor's steps make no decisions, so any order of the data will do. From step END on every step is
        # tested, so the proposal returns its q ratio.
        state = self.new_state(draws[-1].copy(), self.target.data, self.new_order(), n_tune=0)._replace(proposal=tuned)
        if self.test.state_at is not None:
            state = state._replace(test=self.test.state_at(END))
        return TestedSteps(
            self.rows, self.test, judge, self.loop, self.proposal.refresh, state, rng, self.partition(shuffled_by)
        )

    def explain_failure(self, state: MetropolisHastingsState) -> str:
        """Return what was NaN or infinite: the proposal, its log prior, a datum's term, or the ratio of densities q."""
        target = self.target
        here = show(state.theta)
        if np.isnan(state.proposed).any():
            why = self.proposal.explain(state.proposal) or "the gradient of the proposal is NaN or infinite"
            return f"{why}, at theta = {here}"
        if why := undefined_prior(target.log_prior(state.proposed), state.proposed):
            return why
        for theta in (state.proposed, state.theta):
            bad = np.flatnonzero(~(full_terms(target.log_terms, theta, target.data, target.n_obs) < math.inf))
            if bad.size:
                more = f" and {bad.size - 1} more" if bad.size > 1 else ""
                return f"log-likelihood of datum {bad[0]}{more} is NaN or +inf at theta = {show(theta)}"
        return f"log ratio of proposal densities is NaN from theta = {here} to {show(state.proposed)}"


def tuned_state(proposal: CompiledProposal, described: Mapping[str, float]) -> Any:
    """Return a new state of a proposal with the tuned values in `described`, as stored in a trace.

    Raises
    ------
    InvalidInputError
        When the description lacks tuned values.
    """
    state = proposal.make_state()
    try:
        if proposal.adapt is not None and proposal.restore is not None:
            proposal.restore(state, described)
    except KeyError as error:
        raise InvalidInputError(
            f"the proposal tunes its steps, and the trace does not record the tuned {error}; give a "
            "proposal with the tuned size, or sampler=None to check only the draws"
        ) from None
    return state
