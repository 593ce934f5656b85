"""Pseudo-marginal Metropolis-Hastings: an unbiased random estimate replaces the likelihood.

    log a = log p^(y|theta') - log p^(y|theta) + log p(theta')/p(theta) + log q ratio.

GIMH keeps the estimate at theta from the step that led there, and draws an estimate only at theta'. So (theta, p^) is a
Markov chain with the posterior as its exact theta-marginal (Beaumont 2003; Andrieu and Roberts 2009). MCWM redraws both
estimates in each step. So theta alone is a Markov chain, which mixes better and is biased.
"""

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from approxmcmc.acceptance.metropolis import log_ratio_of
from approxmcmc.contracts.records import EVALUATIONS, TOUCHED
from approxmcmc.engine.compiler.compile import compiled
from approxmcmc.engine.compiler.identity import cached_by_content
from approxmcmc.samplers.auxiliary_variable.step import AuxiliaryState


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
def carry_estimate(state: AuxiliaryState) -> None:
    """Store the estimate at theta' as the estimate at theta."""
    state.estimate.here[0] = state.estimate.there[0]


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
