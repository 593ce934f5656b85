"""Checks of settings and targets that several samplers share."""

from typing import Any

from approxmcmc.contracts import AcceptanceTest, DiscreteTarget, Proposal
from approxmcmc.contracts.speaker import speaker
from approxmcmc.errors import IncompatibleError, InvalidInputError


def check_proposal(proposal: Any) -> None:
    """Raise unless the value is a proposal."""
    if not isinstance(proposal, Proposal):
        raise IncompatibleError(
            f"{speaker()}: proposal must be a proposal such as RandomWalk(scale=0.1), found {proposal!r}"
        )


def check_test(test: Any) -> None:
    """Raise unless the value is an acceptance test."""
    if not isinstance(test, AcceptanceTest):
        raise IncompatibleError(
            f"{speaker()}: test must be an acceptance test such as SequentialTTest(epsilon=0.05), found {test!r}"
        )


def check_continuous(target: Any) -> None:
    """Raise if the target has discrete states."""
    if isinstance(target, DiscreteTarget):
        raise IncompatibleError(f"{speaker()}: {target!r} has discrete states; use Gibbs")


def check_discrete(target: Any) -> None:
    """Raise unless the target has discrete states."""
    if not isinstance(target, DiscreteTarget):
        raise IncompatibleError(
            f"{speaker()} needs a discrete target such as targets.BinaryMRF or targets.BayesianNetwork, found "
            f"{target!r}; sample it with MetropolisHastings"
        )


def refuse_site(site: int | None) -> None:
    """Raise if the transition matrix of one site is requested from a sampler that does not visit sites in turn."""
    if site is not None:
        raise InvalidInputError(f"transition_matrix: `site` is for Gibbs, found {speaker()}.")
