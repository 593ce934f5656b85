"""Metropolis-Hastings: target x proposal x acceptance test.

A rejected step repeats theta. With :class:`ExactTest` the chain leaves the posterior invariant (Hastings 1970); with
another test the sampler has the guarantee of the test.
"""

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from approxmcmc.acceptance import CheapestExactTest
from approxmcmc.acceptance.exact import exact_twin_of
from approxmcmc.audits.replication import compile_replicate
from approxmcmc.audits.steps import Judge
from approxmcmc.contracts import (
    CompiledCoupling,
    CompiledTest,
    Component,
    Decision,
    DiscreteTarget,
    DoublyIntractableTarget,
    Proposal,
    ProposalSampler,
    Streams,
    Target,
    TestedSampler,
    TransitionMatrix,
)
from approxmcmc.contracts.speaker import names_itself
from approxmcmc.engine.terms.shuffled import check_place
from approxmcmc.engine.terms.term_table import table_of_terms
from approxmcmc.errors import IncompatibleError
from approxmcmc.samplers.checks import check_proposal, check_test, refuse_site
from approxmcmc.samplers.metropolis_hastings.coupling import couple, why_no_audits
from approxmcmc.samplers.metropolis_hastings.distribution import transition_matrix
from approxmcmc.samplers.metropolis_hastings.program import Audits, MetropolisHastingsProgram, data_schedule
from approxmcmc.samplers.metropolis_hastings.replication import replicate_pairs
from approxmcmc.targets.all_rows import AllRows


@dataclasses.dataclass(frozen=True, eq=False)
class MetropolisHastings(Component, TestedSampler, ProposalSampler):
    r"""Metropolis-Hastings with any proposal and any acceptance test.

    Parameters
    ----------
    proposal
        The proposal of theta': :class:`RandomWalk`, :class:`Langevin`, :class:`PreconditionedCrankNicolson`, or another
        proposal of `approxmcmc.proposals`.
    test
        The acceptance test: :class:`ExactTest`, :class:`SequentialTTest`, :class:`PoissonTest`, or another test
        of `approxmcmc.acceptance`. None with a :class:`SurrogateTransition`: :class:`CheapestExactTest`, never a
        biased one.
    shuffled_copy
        Where the chains of a test that reads in blocks keep their shuffled data: ``"memory"``, ``"disk"`` (below the
        package's cache folder), or an existing folder. All chains share one copy, or with fewer than 150 blocks have
        one each. On disk the shared copy belongs to the data set, is reused by later runs and other processes, and has
        the same order for every seed.

    Raises
    ------
    IncompatibleError
        When `proposal` or `test` has the wrong role, or does not fit the target, or `shuffled_copy` is given and `test`
        never reads in blocks; raised before anything runs.

    Notes
    -----
    With theta' ~ q(. | theta) and u ~ U(0, 1) the chain moves to theta' when

    .. math:: \log u < \log\frac{p(\theta')\, q(\theta \mid \theta')}{p(\theta)\, q(\theta' \mid \theta)}
              + \sum_{i=1}^{N} \log\frac{p(x_i \mid \theta')}{p(x_i \mid \theta)}

    according to the test (Hastings 1970, section 2), and stays otherwise; a test with Barker's rule has log(u / (1 -
    u)) on the left.

    Guarantee: exact with :class:`ExactTest` and the tests of exact subsampling; otherwise the guarantee of the test.

    Examples
    --------
    >>> import approxmcmc as amc
    >>> sampler = amc.MetropolisHastings(amc.RandomWalk(0.01), amc.SequentialTTest(epsilon=0.05))
    """

    proposal: Any
    test: Any = None
    shuffled_copy: str = dataclasses.field(default="memory", repr=False)

    scope: ClassVar[Mapping[str, str]] = {"coupling": "with SingleSite on discrete states"}

    def __post_init__(self) -> None:
        """Check the role of each setting; the test of a surrogate transition is `CheapestExactTest` if it is None."""
        if self.test is None and isinstance(self.proposal, Proposal):
            if not self.proposal.leaves_little:
                raise IncompatibleError(
                    f"MetropolisHastings: {self.proposal!r} needs a test: ExactTest(), which reads all data, or one "
                    "that reads fewer, such as SequentialTTest(epsilon=0.01); only SurrogateTransition has a default "
                    "test"
                )
            object.__setattr__(self, "test", CheapestExactTest())
        check_proposal(self.proposal)
        check_test(self.test)
        check_place(self.shuffled_copy)
        if self.shuffled_copy != "memory" and self.test.order in ("rows", "memory"):
            raise IncompatibleError(
                f"MetropolisHastings: shuffled_copy={self.shuffled_copy!r} has no effect, because {self.test!r} reads "
                'no shuffled copy; leave it out, or use a test with order="blocks" or "auto"'
            )

    def build(self, target: Target, *, audit_every: int | str | None = "auto") -> MetropolisHastingsProgram:
        """Check that target, proposal and test fit, compile them, and return the program that starts chains."""
        if isinstance(target, DiscreteTarget) and not self.proposal.proposes_states:
            raise IncompatibleError(
                f"MetropolisHastings: {target!r} has discrete states, {self.proposal!r} proposes real numbers; "
                "use SingleSite, or Gibbs"
            )
        test = self.test.build_test(target)
        if not test.uses_ratio or test.is_tested is not None:
            _refuse_tuning(self.proposal, self.test)
        proposal = self.proposal.build_proposal(target) if test.uses_ratio else self.proposal.build_unadjusted(target)
        rows = AllRows(target)
        schedule = data_schedule(self.test, test, rows.compiled.n_obs, self.shuffled_copy)
        return MetropolisHastingsProgram(
            rows, proposal, test, audit_every, schedule, audits=self._audits(target, test, audit_every)
        )

    def why_not_invariant(self, target: Target) -> str:
        """Return the test's reason, or the proposal's if steps are untested; "" if the sampler is exact."""
        return self.test.why_not_invariant(target.n_obs) if self.test.uses_ratio else self.proposal.error_untested

    def exact_twin(self, target: Target) -> "MetropolisHastings":
        """Return the sampler with the exact test of the same rule."""
        return dataclasses.replace(self, test=exact_twin_of(self.test))

    def coupling(self, target: Target, adapted: Mapping[str, float] | None = None) -> CompiledCoupling:
        """Return the coupling of two chains with coupled proposals and one u, which decide on all data."""
        intractable = isinstance(target, DoublyIntractableTarget)
        discrete = isinstance(target, DiscreteTarget)
        if intractable or self.proposal.proposes_states != discrete:
            return super().coupling(target, adapted)
        return couple(target, self.proposal, exact_twin_of(self.test).rule, adapted)

    def why_no_audits(self, target: Target, adapted: Sequence[Mapping[str, float]]) -> str:
        """Return why decisions cannot be audited and followed by couplings; "" if they can."""
        return why_no_audits(target, self.proposal, self.test, adapted)

    @names_itself()
    def transition_matrix(
        self, target: Target, states: np.ndarray, *, method: str = "auto", site: int | None = None
    ) -> TransitionMatrix:
        """Return the transition matrix of one step: proposal probability times the test's acceptance probability."""
        refuse_site(site)
        return transition_matrix(target, self.proposal, self.test, states, method)

    def replicate(
        self, target: Target, program: Any, chain: Any, states: np.ndarray, replications: int, streams: Streams
    ) -> Iterator[Decision]:
        """Yield for each of `states` one `Decision`: `replications` decisions on one proposal from this state."""
        return replicate_pairs(target, self.test, program, chain.state.proposal, states, replications, streams)

    def _audits(self, target: Target, test: CompiledTest, audit_every: int | str | None) -> Audits | None:
        """Return the settings of audits of finished chains; None if audits are off or there is nothing to check."""
        if not isinstance(audit_every, str) or isinstance(target, DiscreteTarget) > test.uses_ratio:
            return None
        if not test.uses_ratio:
            return Audits(None)
        if not test.is_audited:
            return None
        table = table_of_terms(target.n_obs, target.variables.size)
        return Audits(Judge(self.test.rule, self.test.temperature, compile_replicate(test, table), table))


def _refuse_tuning(proposal: Proposal, test: Any) -> None:
    for member in proposal.members:
        if member.target_acceptance is not None:
            raise IncompatibleError(
                f"{type(member).__name__}: target_acceptance={member.target_acceptance:g} tunes the size of steps to "
                f"the decisions of a test, and with {test!r} some or all steps are accepted without a decision; fix "
                "the step size, or use ExactTest"
            )
