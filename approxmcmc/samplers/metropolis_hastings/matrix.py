"""Transition probabilities of a step on a list of states: proposal times acceptance.

On a grid the proposal's density is evaluated at all pairs of points and scaled to a largest row sum of 1; the rest of a
row is the mass that a proposal sends off the grid, and counts as rejected. A proposal to the same point counts as a
rejection.
"""

from typing import Any

import numpy as np

from approxmcmc.acceptance.laws.probability import (
    acceptance_probability,
    best_method,
    exact_probability,
    gaussian_probability,
    refuse_impossible_terms,
)
from approxmcmc.contracts import AcceptanceTest, Proposal, Sampler, Target, TransitionMatrix
from approxmcmc.engine.terms.batches import full_terms
from approxmcmc.errors import IncompatibleError, InvalidInputError

ENTRIES_AT_ONCE = 20_000_000  # pairs x terms in memory: 160 MB


def decided(steps: np.ndarray, acceptance: np.ndarray, method: str, error: float = 0.0) -> TransitionMatrix:
    """Return the transition matrix of a step that proposes by `steps` and accepts by `acceptance`, both (n, n)."""
    matrix = steps * acceptance
    np.fill_diagonal(matrix, 0.0)
    np.fill_diagonal(matrix, 1.0 - matrix.sum(axis=1))
    return TransitionMatrix(matrix, np.where(steps > 0.0, acceptance, np.nan), method, error=error)


def proposed(proposal: Proposal, target: Target, states: np.ndarray) -> np.ndarray:
    """Return the proposal probabilities on some states; raise if they are unknown."""
    steps = proposal.probabilities(target, states)
    if steps is None:
        raise IncompatibleError(
            f"transition_matrix: the proposal must be RandomWalk on a grid or SingleSite on a discrete target, found "
            f"{proposal!r}"
        )
    return steps


def refuse_site(sampler: Sampler, site: int | None) -> None:
    """Raise if one site is requested from a sampler that does not visit sites in turn."""
    if site is not None:
        raise InvalidInputError(f"transition_matrix: `site` is for Gibbs, found {type(sampler).__name__}.")


def acceptance_by_density(log_density: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """Return min(1, p(x') / p(x)) of every pair that can be proposed between states of positive density."""
    possible = np.isfinite(log_density)
    inside = wanted & possible[:, None] & possible
    rows, columns = np.nonzero(inside)
    found = np.zeros(wanted.shape)
    found[rows, columns] = exact_probability(log_density[columns] - log_density[rows], "metropolis")
    return found


def acceptance_by_test(
    target: Any, test: AcceptanceTest, points: np.ndarray, wanted: np.ndarray, method: str
) -> tuple[np.ndarray, str]:
    """Return the acceptance probability of every pair that can be proposed, and the method."""
    compiled = target.compile()
    terms = np.array([full_terms(compiled.log_terms, point, compiled.data, compiled.n_obs) for point in points])
    prior = np.array([compiled.log_prior(point) for point in points])
    n_obs = compiled.n_obs
    possible = np.isfinite(prior) & np.isfinite(terms).all(axis=1)
    method = best_method(test, n_obs, method)
    if method != "closed form":
        refuse_impossible_terms(test, terms[np.isfinite(prior)])
    if method == "enumerate":
        return _pair_by_pair(test, terms, prior, possible, wanted, method)
    if not test.uses_ratio:
        return np.ones(wanted.shape), method
    # All pairs at once, because sums and scales of differences follow from sums and inner products of the terms.
    terms, pairs = terms[possible] / test.temperature, np.ix_(possible, possible)
    log_density = prior[possible] + terms.sum(axis=1)
    log_ratio = log_density[None, :] - log_density[:, None]
    tau = _scales(terms) if method == "gaussian" else np.zeros(log_ratio.shape)
    acceptance, inside = np.zeros(log_ratio.shape), wanted[pairs]
    acceptance[inside] = gaussian_probability(test, log_ratio[inside], tau[inside], n_obs, test.rule)
    return _of_all_states(acceptance, possible), method


def _pair_by_pair(
    test: AcceptanceTest, terms: np.ndarray, prior: np.ndarray, possible: np.ndarray, wanted: np.ndarray, method: str
) -> tuple[np.ndarray, str]:
    terms, prior = terms[possible], prior[possible]
    acceptance = np.zeros((len(prior), len(prior)))
    rows, columns = np.nonzero(wanted[np.ix_(possible, possible)])
    used, at_once = "enumerate", max(1, ENTRIES_AT_ONCE // terms.shape[1])
    for start in range(0, rows.size, at_once):
        i, j = rows[start : start + at_once], columns[start : start + at_once]
        acceptance[i, j], used = acceptance_probability(test, terms[j] - terms[i], prior[j] - prior[i], method=method)
    return _of_all_states(acceptance, possible), used


def _of_all_states(acceptance: np.ndarray, possible: np.ndarray) -> np.ndarray:
    """Add states of probability 0: a chain always leaves an impossible state and never enters one."""
    found = np.zeros((len(possible), len(possible)))
    found[:, possible] = 1.0
    found[np.ix_(possible, possible)] = acceptance
    return found


def _scales(terms: np.ndarray) -> np.ndarray:
    """Return tau = sqrt(N) S_l of every pair, from inner products of the centred terms."""
    n_obs = terms.shape[1]
    centred = terms - terms.mean(axis=0)  # common parts cancel in every difference
    centred -= centred.mean(axis=1, keepdims=True)
    products = centred @ centred.T
    squares = np.diag(products)
    variance = np.maximum(squares[:, None] + squares[None, :] - 2.0 * products, 0.0) / (n_obs - 1)
    np.fill_diagonal(variance, 0.0)
    return np.asarray(np.sqrt(n_obs * variance))
