"""Noisy Metropolis-Hastings in general: accept by any estimate of the log likelihood ratio.

    accept iff  log u < [estimate of log p(y|theta') - log p(y|theta)] + log p(theta')/p(theta) + log q ratio

(Alquier, Friel, Everitt and Boland 2016, algorithm 2). If E|exp(estimate) - ratio| is small for every pair of states,
the stationary distribution is close to the posterior (their corollary 2.3).
"""

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np

from approxmcmc.contracts import Component, EstimatedTarget, ProposalSampler
from approxmcmc.contracts.records import EVALUATIONS, TOUCHED
from approxmcmc.engine.compiler.compile import compiled
from approxmcmc.engine.compiler.identity import cached_by_content
from approxmcmc.samplers.noisy.exchange import check_proposal
from approxmcmc.samplers.noisy.program import NoisyProgram
from approxmcmc.samplers.noisy.pseudo_marginal import EstimateState, estimated_program


@cached_by_content(maxsize=64)
def make_estimate_ratio(log_ratio: Callable[..., float]) -> Callable[..., float]:
    """Return the function that calls the user's estimate of the log ratio."""

    def estimate_ratio(
        rng: np.random.Generator, state: EstimateState, theta: np.ndarray, proposed: np.ndarray, count: np.ndarray
    ) -> float:
        count[TOUCHED] += state.n_terms
        count[EVALUATIONS] += 2 * state.n_terms
        return log_ratio(rng, theta, proposed, state.data)

    return compiled(estimate_ratio)


@dataclasses.dataclass(frozen=True, eq=False)
class NoisyMetropolisHastings(Component, ProposalSampler):
    """Metropolis-Hastings with a random estimate of the likelihood ratio, redrawn in each step.

    Parameters
    ----------
    proposal
        The proposal: :class:`RandomWalk`.

    Raises
    ------
    IncompatibleError
        When the target is not an :class:`approxmcmc.targets.EstimatedRatio`; raised before anything runs.

    Notes
    -----
    Guarantee: biased in general, like the estimate; exact if the estimate is the ratio. If the target knows its
    likelihood, audits compare with the exact decision at the same theta' and u.

    References
    ----------
    Alquier, Friel, Everitt and Boland (2016), algorithm 2.

    Examples
    --------
    >>> import approxmcmc as amc
    >>> def estimate(rng, theta, proposed, data):
    ...     return 0.5 * (theta[0] ** 2 - proposed[0] ** 2) + 0.1 * rng.standard_normal()
    >>> target = amc.targets.EstimatedRatio(estimate, lambda theta: 0.0, dim=1)
    >>> sampler = amc.samplers.NoisyMetropolisHastings(amc.RandomWalk(1.0))
    >>> trace = amc.sample(target, sampler, draws=100, chains=1, random_seed=1, progressbar=False)
    >>> trace.posterior.sizes["draw"]
    100
    """

    proposal: Any

    def __post_init__(self) -> None:
        """Check the role of the proposal."""
        check_proposal(self.proposal, "NoisyMetropolisHastings")

    def build(self, target: EstimatedTarget, *, audit_every: int | str | None = "auto") -> NoisyProgram:
        """Check the pairing, compile it, and return the program that starts chains."""
        return estimated_program(self, target, "ratio", make_estimate_ratio, keeps=False, audit_every=audit_every)

    def why_not_invariant(self, target: EstimatedTarget) -> str:
        """Return the reason: the likelihood ratio is estimated."""
        return "the ratio of likelihoods is estimated anew in each step; the bias vanishes with the estimate's variance"
