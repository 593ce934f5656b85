"""Pseudo-marginal Metropolis-Hastings: an unbiased random estimate replaces the likelihood.

    log a = log p^(y|theta') - log p^(y|theta) + log p(theta')/p(theta) + log q ratio.

GIMH keeps the estimate at theta from the step that led there, and draws an estimate only at theta'. So (theta, p^) is a
Markov chain with the posterior as its exact theta-marginal (Beaumont 2003; Andrieu and Roberts 2009). MCWM redraws both
estimates in each step. So theta alone is a Markov chain, which mixes better and is biased.
"""

import dataclasses
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from approxmcmc.acceptance.metropolis import log_ratio_of
from approxmcmc.contracts import Component, EstimatedTarget, ProposalSampler
from approxmcmc.contracts.records import EVALUATIONS, TOUCHED
from approxmcmc.engine.compiler.compile import as_python, compiled
from approxmcmc.engine.compiler.identity import cached_by_content
from approxmcmc.errors import IncompatibleError
from approxmcmc.samplers.auxiliary_variable.exchange import check_proposal
from approxmcmc.samplers.auxiliary_variable.program import NoisyProgram, NoisySetup
from approxmcmc.samplers.auxiliary_variable.step import NoisyState, follow, keep_nothing, make_step
from approxmcmc.sampling.chain import adapt_nothing


class EstimateState(NamedTuple):
    """The data of a user's estimate, and the estimates at theta and theta'.

    An estimate reads `n_terms` of the target's `n_obs` likelihood terms. `here` and `there` hold log p^(y|theta) and
    log p^(y|theta'), one number each; only GIMH uses them.
    """

    data: tuple[np.ndarray, ...]
    n_terms: int
    n_obs: int
    here: np.ndarray
    there: np.ndarray


@compiled
def difference(here: float, there: float) -> float:
    """Return there - here; -inf, a rejection, if the estimate at the proposal is 0; NaN if an estimate is +inf."""
    # A density at theta is never +inf, because the chain would not have gone there, but an estimate may be redrawn.
    return math.nan if here == math.inf else log_ratio_of(0.0, here, there)


@cached_by_content(maxsize=64)
def make_estimate_against_kept(log_estimate: Callable[..., float]) -> Callable[..., float]:
    """Return the function that draws an estimate at theta', and subtracts the kept one at theta from its log (GIMH)."""

    def estimate_against_kept(
        rng: np.random.Generator, state: EstimateState, theta: np.ndarray, proposed: np.ndarray, count: np.ndarray
    ) -> float:
        state.there[0] = log_estimate(rng, proposed, state.data)
        count[TOUCHED] += state.n_terms
        count[EVALUATIONS] += state.n_terms
        return difference(state.here[0], state.there[0])

    return compiled(estimate_against_kept)


@cached_by_content(maxsize=64)
def make_estimate_both(log_estimate: Callable[..., float]) -> Callable[..., float]:
    """Return the function that draws estimates at theta and at theta', and returns log p^' - log p^ (MCWM)."""

    def estimate_both(
        rng: np.random.Generator, state: EstimateState, theta: np.ndarray, proposed: np.ndarray, count: np.ndarray
    ) -> float:
        here = log_estimate(rng, theta, state.data)
        there = log_estimate(rng, proposed, state.data)
        count[TOUCHED] += min(2 * state.n_terms, state.n_obs)
        count[EVALUATIONS] += 2 * state.n_terms
        return difference(here, there)

    return compiled(estimate_both)


@compiled
def carry_estimate(state: NoisyState) -> None:
    """Store the estimate at theta' as the estimate at theta."""
    state.estimate.here[0] = state.estimate.there[0]


@dataclasses.dataclass(frozen=True, eq=False)
class PseudoMarginal(Component, ProposalSampler):
    """Metropolis-Hastings with an unbiased estimate of the likelihood in place of the likelihood: GIMH or MCWM.

    Parameters
    ----------
    proposal
        The proposal: :class:`RandomWalk`.
    refresh
        False: keep the estimate at theta from the step that led there (GIMH). True: redraw it in each step (MCWM).

    Raises
    ------
    IncompatibleError
        When the target is not an :class:`approxmcmc.targets.EstimatedLikelihood`; raised before anything runs.

    Notes
    -----
    Guarantee: with ``refresh=False`` exact, whatever the variance of an unbiased estimate; with a large variance the
    chain sticks at states with a high estimate. A standard deviation of log p^ near 1 is a good compromise (Doucet et
    al. 2015). With ``refresh=True`` biased; the bias vanishes with the variance of the estimate. A proposal with an
    estimate of 0 is rejected.

    Records: `datapoints_touched` and `likelihood_evaluations` count the target's `n_terms` for each estimate. If the
    target knows its likelihood, audits compare with the exact decision at the same theta' and u; the differences are
    noise, not bias.

    References
    ----------
    Beaumont (2003); Andrieu and Roberts (2009); Alquier, Friel, Everitt and Boland (2016), section 2.

    Examples
    --------
    >>> import approxmcmc as amc
    >>> amc.samplers.PseudoMarginal(amc.RandomWalk(0.5)).refresh
    False
    """

    proposal: Any
    refresh: bool = False

    def __post_init__(self) -> None:
        """Raise unless `proposal` is a `Proposal`."""
        check_proposal(self.proposal, "PseudoMarginal")

    def build(self, target: EstimatedTarget, *, audit_every: int | str | None = "auto") -> NoisyProgram:
        """Check the pairing, compile it, and return the program that starts chains."""
        make_estimate = make_estimate_both if self.refresh else make_estimate_against_kept
        return estimated_program(
            self, target, "likelihood", make_estimate, keeps=not self.refresh, audit_every=audit_every
        )

    def why_not_invariant(self, target: EstimatedTarget) -> str:
        """Return the reason if the estimate at theta is redrawn; "" otherwise."""
        return f"{self!r} draws the estimate at theta anew; the bias vanishes with its variance" if self.refresh else ""


def estimated_program(
    sampler: Any,
    target: EstimatedTarget,
    of: str,
    make_estimate: Callable[[Callable[..., float]], Callable[..., float]],
    *,
    keeps: bool,
    audit_every: int | str | None,
) -> NoisyProgram:
    """Return the program of a sampler on a target that estimates its `of`, "likelihood" or "ratio".

    ``make_estimate(estimate)`` returns ESTIMATE of the step. If `keeps`, the estimate at theta is kept for later steps.
    """
    who = type(sampler).__name__
    if not isinstance(target, EstimatedTarget) or target.build_estimator().of != of:
        raise IncompatibleError(
            f"{who} needs a target that estimates its {of}, targets.Estimated{of.capitalize()}; found {target!r}"
        )
    estimator = target.build_estimator()
    proposal = sampler.proposal.build_proposal(target)
    # The start needs one call of the estimate; compiling the estimate for Python as well would take a second.
    plain_estimate = as_python(estimator.estimate)
    n_obs = int(target.n_obs)
    step = make_step(
        follow(proposal, who),
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

    setup = NoisySetup(step, make_states, proposal.describe, tuple(proposal.records), decides=True, n_obs=n_obs)
    start = np.asarray(target.initial_point(), dtype=np.float64)
    return NoisyProgram(setup, target.compile_log_prior(), start, target.log_likelihood, audit_every)


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
    Guarantee: biased in general, even if the estimate is unbiased; exact if the estimate is the ratio itself. If the
    target knows its likelihood, audits compare with the exact decision at the same theta' and u.

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
        """Raise unless `proposal` is a `Proposal`."""
        check_proposal(self.proposal, "NoisyMetropolisHastings")

    def build(self, target: EstimatedTarget, *, audit_every: int | str | None = "auto") -> NoisyProgram:
        """Check the pairing, compile it, and return the program that starts chains."""
        return estimated_program(self, target, "ratio", make_estimate_ratio, keeps=False, audit_every=audit_every)

    def why_not_invariant(self, target: EstimatedTarget) -> str:
        """Return the reason: the likelihood ratio is estimated."""
        return "the ratio of likelihoods is estimated anew in each step; the bias vanishes with the estimate's variance"
