"""Transition probabilities of a step on a list of states: proposal times acceptance.

On a grid the proposal's density is evaluated at all pairs of points and scaled to a largest row sum of 1; the rest of a
row is the mass that a proposal sends off the grid, and counts as rejected. A proposal to the same point counts as a
rejection.
"""

from typing import Any

import numpy as np

from approxmcmc.acceptance import ExactTest
from approxmcmc.acceptance.laws.probability import (
    acceptance_probability,
    best_method,
    exact_probability,
    gaussian_probability,
    refuse_impossible_terms,
)
from approxmcmc.contracts import AcceptanceTest, DoublyIntractableTarget, Proposal, Target, TransitionMatrix
from approxmcmc.engine.terms.batches import full_terms
from approxmcmc.errors import IncompatibleError
from approxmcmc.samplers.counted_model import counted_model

ENTRIES_AT_ONCE = 20_000_000  # pairs x terms in memory: 160 MB


def transition_matrix(
    target: Target, proposal: Proposal, test: AcceptanceTest, states: np.ndarray, method: str
) -> TransitionMatrix:
    """Return the transition matrix of a step on `states` (n, dim); `method` as in `Sampler.transition_matrix`."""
    steps = proposed(proposal, target, states)
    if not isinstance(target, DoublyIntractableTarget):
        return decided(steps, *acceptance_by_test(target, test, states, steps > 0.0, method))
    if test != ExactTest():
        raise IncompatibleError(
            f"transition_matrix: on {target!r} the ratio is known exactly from one datum, so there is nothing to "
            f"subsample; use ExactTest(), or Exchange, found {test!r}"
        )
    log_density = counted_model(target, states).log_density()
    return decided(steps, acceptance_by_density(log_density, steps > 0.0), "closed form")


def decided(steps: np.ndarray, acceptance: np.ndarray, method: str, error: float = 0.0) -> TransitionMatrix:
    """Return the transition matrix of a step.

    `steps` and `acceptance` (n, n) are the probabilities to propose the second state from the first, and to accept it;
    `method` and `error` say how, and with which largest error, `acceptance` was computed.
    """
    matrix = steps * acceptance
    np.fill_diagonal(matrix, 0.0)
    np.fill_diagonal(matrix, 1.0 - matrix.sum(axis=1))
    return TransitionMatrix(matrix, np.where(steps > 0.0, acceptance, np.nan), method, error=error)


def proposed(proposal: Proposal, target: Target, states: np.ndarray) -> np.ndarray:
    """Return the probabilities to propose state j from state i of `states`, (n, n); raise if they are unknown."""
    steps = proposal.probabilities(target, states)
    if steps is None:
        raise IncompatibleError(
            f"transition_matrix: the proposal must be RandomWalk on a grid or SingleSite on a discrete target, found "
            f"{proposal!r}"
        )
    return steps


def acceptance_by_density(log_density: np.ndarray, pairs: np.ndarray) -> np.ndarray:
    """Return min(1, p(x') / p(x)) of those `pairs` of states that have positive density, 0 elsewhere; (n, n)."""
    possible = np.isfinite(log_density)
    inside = pairs & possible[:, None] & possible
    rows, columns = np.nonzero(inside)
    acceptance = np.zeros(pairs.shape)
    acceptance[rows, columns] = exact_probability(log_density[columns] - log_density[rows], "metropolis")
    return acceptance


def acceptance_by_test(
    target: Any, test: AcceptanceTest, points: np.ndarray, asked: np.ndarray, method: str
) -> tuple[np.ndarray, str]:
    """Return the test's acceptance probabilities for the `asked` pairs of `points`, (n, n), and the method used.

    Entries of other pairs have no meaning.
    """
    compiled = target.compile()
    terms = np.array([full_terms(compiled.log_terms, point, compiled.data, compiled.n_obs) for point in points])
    prior = np.array([compiled.log_prior(point) for point in points])
    n_obs = compiled.n_obs
    possible = np.isfinite(prior) & np.isfinite(terms).all(axis=1)
    method = best_method(test, n_obs, method)
    if method != "closed form":
        refuse_impossible_terms(test, terms[np.isfinite(prior)])
    if method == "enumerate":
        return _pair_by_pair(test, terms, prior, possible, asked, method)
    if not test.uses_ratio:
        return np.ones(asked.shape), method
    # All pairs at once, because sums and scales of differences follow from sums and inner products of the terms.
    terms = terms[possible] / test.temperature
    pairs = np.ix_(possible, possible)
    log_density = prior[possible] + terms.sum(axis=1)
    log_ratio = log_density[None, :] - log_density[:, None]
    tau = _scales(terms) if method == "gaussian" else np.zeros(log_ratio.shape)
    acceptance = np.zeros(log_ratio.shape)
    inside = asked[pairs]
    acceptance[inside] = gaussian_probability(test, log_ratio[inside], tau[inside], n_obs, test.rule)
    return _of_all_states(acceptance, possible), method


def _pair_by_pair(
    test: AcceptanceTest, terms: np.ndarray, prior: np.ndarray, possible: np.ndarray, asked: np.ndarray, method: str
) -> tuple[np.ndarray, str]:
    terms = terms[possible]
    prior = prior[possible]
    acceptance = np.zeros((len(prior), len(prior)))
    rows, columns = np.nonzero(asked[np.ix_(possible, possible)])
    used = "enumerate"
    at_once = max(1, ENTRIES_AT_ONCE // terms.shape[1])
    for start in range(0, rows.size, at_once):
        i = rows[start : start + at_once]
        j = columns[start : start + at_once]
        acceptance[i, j], used = acceptance_probability(test, terms[j] - terms[i], prior[j] - prior[i], method=method)
    return _of_all_states(acceptance, possible), used


def _of_all_states(acceptance: np.ndarray, possible: np.ndarray) -> np.ndarray:
    """Return `acceptance` with rows and columns for the states that are not `possible`, which have probability 0.

    A chain accepts every proposal of a possible state from an impossible one, and never enters an impossible one.
    """
    whole = np.zeros((len(possible), len(possible)))
    whole[:, possible] = 1.0
    whole[np.ix_(possible, possible)] = acceptance
    return whole


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
