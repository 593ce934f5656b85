"""What is known of a step: transition probabilities on a list of states, and decisions repeated at one pair of states.

The transition probability is proposal times acceptance. On a grid the proposal's density is evaluated at all pairs of
points and scaled to a largest row sum of 1; the rest of a row is the mass that a proposal sends off the grid, and
counts as rejected. A proposal to the same point counts as a rejection.

For decisions at a pair (x, x'), a chain with a proposal fixed to the pair proposes x' from x, and always returns from
x' to x. So the sampler's test decides at x again and again, with a new u and new subsets each time.
"""

import math
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
from numba import types as nb

from approxmcmc.acceptance.laws.probability import (
    acceptance_probability,
    best_method,
    exact_probability,
    gaussian_probability,
    refuse_impossible_terms,
)
from approxmcmc.audits.steps import compare
from approxmcmc.contracts import (
    AcceptanceTest,
    CompiledProposal,
    Decision,
    Proposal,
    Sampler,
    Streams,
    Target,
    TransitionMatrix,
)
from approxmcmc.contracts.records import COUNT_NAMES, TOUCHED, VALUE_NAMES
from approxmcmc.engine.compiler.compile import INDICES, VECTOR, bind, compiled, entry_point, type_of
from approxmcmc.engine.compiler.vectors import assign, equal
from approxmcmc.engine.terms.batches import full_terms, scale_of
from approxmcmc.errors import IncompatibleError, InvalidInputError
from approxmcmc.samplers.metropolis_hastings.program import MetropolisHastingsProgram, data_schedule
from approxmcmc.targets.all_rows import AllRows

ENTRIES_AT_ONCE = 20_000_000  # pairs x terms in memory: 160 MB


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


def refuse_site(sampler: Sampler, site: int | None) -> None:
    """Raise if one site is requested from a sampler that does not visit sites in turn."""
    if site is not None:
        raise InvalidInputError(f"transition_matrix: `site` is for Gibbs, found {type(sampler).__name__}.")


def acceptance_by_density(log_density: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """Return min(1, p(x') / p(x)) of the `wanted` pairs of states with positive density, 0 elsewhere; (n, n)."""
    possible = np.isfinite(log_density)
    inside = wanted & possible[:, None] & possible
    rows, columns = np.nonzero(inside)
    found = np.zeros(wanted.shape)
    found[rows, columns] = exact_probability(log_density[columns] - log_density[rows], "metropolis")
    return found


def acceptance_by_test(
    target: Any, test: AcceptanceTest, points: np.ndarray, wanted: np.ndarray, method: str
) -> tuple[np.ndarray, str]:
    """Return the test's acceptance probabilities for the `wanted` pairs of `points`, (n, n), and the method used.

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
        return _pair_by_pair(test, terms, prior, possible, wanted, method)
    if not test.uses_ratio:
        return np.ones(wanted.shape), method
    # All pairs at once, because sums and scales of differences follow from sums and inner products of the terms.
    terms = terms[possible] / test.temperature
    pairs = np.ix_(possible, possible)
    log_density = prior[possible] + terms.sum(axis=1)
    log_ratio = log_density[None, :] - log_density[:, None]
    tau = _scales(terms) if method == "gaussian" else np.zeros(log_ratio.shape)
    acceptance = np.zeros(log_ratio.shape)
    inside = wanted[pairs]
    acceptance[inside] = gaussian_probability(test, log_ratio[inside], tau[inside], n_obs, test.rule)
    return _of_all_states(acceptance, possible), method


def _pair_by_pair(
    test: AcceptanceTest, terms: np.ndarray, prior: np.ndarray, possible: np.ndarray, wanted: np.ndarray, method: str
) -> tuple[np.ndarray, str]:
    terms = terms[possible]
    prior = prior[possible]
    acceptance = np.zeros((len(prior), len(prior)))
    rows, columns = np.nonzero(wanted[np.ix_(possible, possible)])
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


MOST_STEPS = 2000  # steps in one call of the chain, which take some 10 to 100 ms


class PinnedPair(NamedTuple):
    """The pair (x, x') of a fixed proposal, and log q(x|x') - log q(x'|x), one number."""

    here: np.ndarray
    there: np.ndarray
    log_q_ratio: np.ndarray


@compiled
def propose_pinned(
    rng: np.random.Generator, pair: PinnedPair, theta: np.ndarray, out: np.ndarray, count: np.ndarray
) -> float:
    """Propose x' if theta is x, otherwise x with an infinite log q ratio, so that the way back is always accepted."""
    if equal(theta, pair.here):
        assign(out, pair.there)
        return pair.log_q_ratio[0]
    assign(out, pair.here)
    return math.inf


def compiled_propose(proposal: CompiledProposal) -> Callable[..., float]:
    """Return the proposal as a function callable from Python, ``propose(rng, state, theta, out, count)``."""
    signature = nb.float64(type_of(np.random.default_rng(0)), type_of(proposal.make_state()), VECTOR, VECTOR, INDICES)
    return entry_point(bind(_returning, proposal.propose, signature=signature), signature)


def _returning(propose: Callable[..., float]) -> Callable[..., float]:
    """Return a plain function, which can be compiled for Python, that calls a compiled proposal."""

    def call(rng: np.random.Generator, state: Any, theta: np.ndarray, out: np.ndarray, count: np.ndarray) -> float:
        return propose(rng, state, theta, out, count)

    return call


def replicate_pairs(
    target: Target, test: AcceptanceTest, program: Any, memory: Any, states: np.ndarray, replications: int, own: Streams
) -> Iterator[Decision]:
    """Propose once from each of `states`, and yield how the test decides on this pair in `replications` repetitions.

    ``program.proposal`` is the compiled proposal, `memory` its state.
    """
    propose = compiled_propose(program.proposal)
    rows = AllRows(target)
    decisions = PinnedDecisions(target, test)
    count = np.zeros(len(COUNT_NAMES), dtype=np.int64)
    for theta in states:
        there = theta.copy()
        log_q_ratio = propose(own.proposal, memory, theta, there, count)
        log_ratio, tau = ratio_and_scale(rows, theta, there, log_q_ratio, test.temperature)
        accepted, touched = decisions(theta, there, log_q_ratio, replications, own)
        yield Decision(log_ratio, tau, rows.compiled.n_obs, test.rule, accepted, touched)


class PinnedDecisions:
    """Replicates the decisions of a test at one pair of states after the other."""

    def __init__(self, target: Target, test: AcceptanceTest) -> None:
        rows = AllRows(target)
        dim = target.variables.size
        built = test.with_independent_subsets()  # blocks would let the decisions at one pair share a partition
        compiled_test = built.build_test(target)
        schedule = data_schedule(built, compiled_test, rows.compiled.n_obs)
        self.pair = PinnedPair(np.zeros(dim), np.zeros(dim), np.zeros(1))
        proposal = CompiledProposal(propose_pinned, lambda: self.pair)
        self.program = MetropolisHastingsProgram(rows, proposal, compiled_test, None, schedule)

    def __call__(
        self, here: np.ndarray, there: np.ndarray, log_q_ratio: float, replications: int, own: Streams
    ) -> tuple[int, int]:
        """Return how many of `replications` decisions at the pair accepted, and how many data they touched in all."""
        self.pair.here[:] = here
        self.pair.there[:] = there
        self.pair.log_q_ratio[0] = log_q_ratio
        return _decide(self.program.start(here.copy(), own, 0), here, replications)


def ratio_and_scale(
    rows: AllRows, theta: np.ndarray, proposed: np.ndarray, log_q_ratio: float, temperature: float
) -> tuple[float, float]:
    """Return Lambda and tau of a pair of states, by two passes over the data.

    They are -inf and 0 if theta' is outside the support, and -inf and inf if a datum has probability 0 at theta'.

    Raises
    ------
    InvalidInputError
        When a datum has probability 0 at theta.
    """
    log_prior_ratio, terms, total, at_theta = compare(rows, theta, proposed, temperature)
    if log_prior_ratio == -math.inf:  # a gradient may be undefined there, and with it the density ratio
        return -math.inf, 0.0
    if not np.isfinite(at_theta):
        model = rows.compiled
        bad = np.argmin(np.isfinite(full_terms(model.log_terms, theta, model.data, model.n_obs)))
        raise InvalidInputError(
            f"estimate_delta: datum {bad} has probability 0 or no density at the state theta = {theta}, which no exact "
            "chain visits; give `states` of positive density"
        )
    return log_prior_ratio + log_q_ratio + total, scale_of(terms)


def _decide(chain: Any, here: np.ndarray, replications: int) -> tuple[int, int]:
    """Return how many of `replications` decisions at the pair accepted, and how many data they touched in all."""
    decided = accepted = touched = 0
    away = False
    while decided < replications:
        n = min(MOST_STEPS, replications - decided)
        draws = np.empty((n, here.size))
        counts = np.empty((n, len(COUNT_NAMES)), dtype=np.int64)
        if chain.advance(n, 1, draws, counts, np.empty((n, len(VALUE_NAMES)))) < n:
            raise InvalidInputError(f"estimate_delta: {chain.explain_failure()}")
        moved = (draws != here).any(axis=1)
        began_away = np.concatenate([[away], moved[:-1]])
        decided += int((~began_away).sum())
        accepted += int((moved & ~began_away).sum())
        touched += int(counts[~began_away, TOUCHED].sum())
        away = bool(moved[-1])
    return accepted, touched
