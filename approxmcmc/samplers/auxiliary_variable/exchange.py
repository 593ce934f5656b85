"""The exchange algorithm, and noisy exchange: the ratio of normalisers is estimated from auxiliary data at theta'.

    log a = (theta' - theta)'s(y) + log p(theta')/p(theta) + log q ratio + log (1/N) sum_k exp((theta - theta')'s(y'_k))

with y'_k drawn from the model at theta'. With N = 1 and exact draws the chain leaves the posterior invariant (Murray,
Ghahramani and MacKay 2006); with N = infinity it would be Metropolis-Hastings, also exact; with other N it is biased
(Alquier, Friel, Everitt and Boland 2016, algorithms 6 and 7).
"""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from approxmcmc.acceptance import ExactTest
from approxmcmc.contracts import (
    CompiledCoupling,
    Component,
    DoublyIntractableTarget,
    Proposal,
    ProposalSampler,
    TransitionMatrix,
)
from approxmcmc.engine.checks import checked_integer
from approxmcmc.errors import IncompatibleError
from approxmcmc.samplers.auxiliary_variable.coupling import couple_exchange
from approxmcmc.samplers.auxiliary_variable.doubly_intractable import (
    RECORDS,
    RatioState,
    check_target,
    check_thin,
    log_likelihood_of,
    make_estimate_from_fresh_draws,
    why_not_exact,
)
from approxmcmc.samplers.auxiliary_variable.matrix import DrawsLaw, acceptance_of_exchange, refuse_inexact_draws
from approxmcmc.samplers.auxiliary_variable.program import NoisyProgram, NoisySetup
from approxmcmc.samplers.auxiliary_variable.step import follow, keep_nothing, make_step
from approxmcmc.samplers.checks import refuse_site
from approxmcmc.samplers.counted_model import counted_model
from approxmcmc.samplers.metropolis_hastings import MetropolisHastings
from approxmcmc.samplers.metropolis_hastings.distribution import decided, proposed
from approxmcmc.sampling.chain import adapt_nothing


@dataclasses.dataclass(frozen=True, eq=False)
class Exchange(Component, ProposalSampler):
    """The exchange algorithm, for p(theta) exp(theta's(y)) / Z(theta) without Z: auxiliary data are drawn at theta'.

    Parameters
    ----------
    proposal
        The proposal: :class:`RandomWalk`, or :class:`AdaptiveDirection` for a population of chains.
    n_auxiliary
        Number N of auxiliary draws in one decision: 1 is the exchange algorithm, more is noisy exchange.
    auxiliary
        How to draw: ``"exact"``, ``AuxiliaryChain(n_updates, start)`` (take the end of a Markov chain), or ``"auto"``:
        exact if the target has exact draws.

    Raises
    ------
    InvalidInputError
        When `n_auxiliary` is not a positive integer, or is 1 while `auxiliary` has a `thin`, which has no effect then.
    IncompatibleError
        When the target cannot simulate, or not in the way that `auxiliary` requires; raised before anything runs.

    Notes
    -----
    Guarantee: exact with ``n_auxiliary=1`` and exact draws. With draws from the end of a Markov chain it is biased by
    that chain's convergence error, at any N. With N > 1 it is biased even with exact draws: the one-step error is of
    order 1 / sqrt(N), but the bias is 0 at N = 1, largest at a few draws, and vanishes again as N grows.

    Records: ``auxiliary_updates`` counts sites or dyads visited. The observed data count as one datum, read whole by
    each decision. If the target knows its normaliser, audits compare with the exact ratio at the same theta' and u. The
    differences that audits count are noise, not bias: the exact sampler, N = 1, has the most differences.

    References
    ----------
    Murray, Ghahramani and MacKay (2006); Alquier, Friel, Everitt and Boland (2016), section 3.

    Examples
    --------
    >>> import approxmcmc as amc
    >>> amc.Exchange(amc.RandomWalk(0.2), n_auxiliary=50).n_auxiliary
    50
    """

    proposal: Any
    n_auxiliary: int = 1
    auxiliary: Any = "auto"

    def __post_init__(self) -> None:
        """Raise unless `proposal` is a `Proposal` and the number of draws is positive."""
        check_proposal(self.proposal, "Exchange")
        object.__setattr__(self, "n_auxiliary", checked_integer(self.n_auxiliary, "n_auxiliary", who="Exchange"))
        check_thin(self, "Exchange")

    def build(self, target: DoublyIntractableTarget, *, audit_every: int | str | None = "auto") -> NoisyProgram:
        """Check that target and proposal fit, compile them, and return the program that starts chains."""
        check_target(target, "Exchange")
        simulator = target.build_simulator(self.auxiliary)
        proposal = self.proposal.build_proposal(target)
        step = make_step(
            follow(proposal, "Exchange"),
            make_estimate_from_fresh_draws(simulator.simulate),
            keep_nothing,
            proposal.adapt or adapt_nothing,
            True,
        )
        observed = target.observed_statistics
        room = (self.n_auxiliary, target.variables.size)

        def make_states(theta: np.ndarray, rng: np.random.Generator) -> tuple[Any, RatioState]:
            return proposal.make_state(), RatioState(observed, simulator.make_state(), np.empty(room))

        records = (*RECORDS, *proposal.records)
        setup = NoisySetup(step, make_states, proposal.describe, records, decides=True, n_obs=1)
        start = np.asarray(target.initial_point(), dtype=np.float64)
        return NoisyProgram(setup, target.compile_log_prior(), start, log_likelihood_of(target), audit_every)

    def why_not_invariant(self, target: DoublyIntractableTarget) -> str:
        """Return the reason if the ratio of normalisers has an error; "" otherwise."""
        if self.n_auxiliary > 1:
            return f"{self!r} averages auxiliary draws: the error of one step is of order 1 / sqrt({self.n_auxiliary})"
        return why_not_exact(target, self.auxiliary, "Exchange")

    def exact_twin(self, target: DoublyIntractableTarget) -> "Exchange":
        """Return the sampler with one exact draw."""
        return dataclasses.replace(self, n_auxiliary=1, auxiliary="exact")

    def coupling(self, target: DoublyIntractableTarget, adapted: Mapping[str, float] | None = None) -> CompiledCoupling:
        """Return the coupling of two exact exchange chains that share auxiliary data if they propose the same point."""
        if not isinstance(target, DoublyIntractableTarget):
            return super().coupling(target, adapted)
        return couple_exchange(target, self.proposal)

    def why_no_audits(self, target: DoublyIntractableTarget, adapted: Sequence[Mapping[str, float]]) -> str:
        """Return the reason: there is no decision on all data to compare with."""
        return "its ratio is redrawn in every decision, and no decision on all data replaces it"

    def transition_matrix(
        self, target: Any, states: np.ndarray, *, method: str = "auto", site: int | None = None
    ) -> TransitionMatrix:
        """Return the transition matrix on a grid, from the distribution of the statistics; `method` is ignored."""
        refuse_site(site, who="Exchange")
        law = self.draws_law(target, states)
        accepted = acceptance_of_exchange(law.model, self.n_auxiliary, law.steps > 0.0)
        return decided(law.steps, accepted, "lattice" if law.error > 0.0 else "enumerate", law.error)

    def draws_law(self, target: Any, states: np.ndarray) -> DrawsLaw:
        """Return the distribution of the draws that estimate the ratio, and the proposal probabilities."""
        check_target(target, "Exchange")
        refuse_inexact_draws(self)
        return DrawsLaw(counted_model(target, states), self.n_auxiliary, proposed(self.proposal, target, states))

    def exact_limit(self, target: Any) -> MetropolisHastings:
        """Return Metropolis-Hastings with the exact ratio, N = infinity."""
        return MetropolisHastings(self.proposal, ExactTest())


def check_proposal(proposal: Any, who: str) -> None:
    """Raise unless the value is a proposal."""
    if not isinstance(proposal, Proposal):
        raise IncompatibleError(f"{who}: proposal must be a proposal such as RandomWalk(scale=0.1), found {proposal!r}")
