"""Decisions repeated at one pair of states (x, x').

A chain with a proposal fixed to the pair proposes x' from x, and always returns from x' to x. So the sampler's test
decides at x again and again, with a new u and new subsets each time.
"""

import math
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
from numba import types as nb

from approxmcmc.audits.steps import compare
from approxmcmc.contracts import AcceptanceTest, CompiledProposal, Decision, Streams, Target
from approxmcmc.contracts.records import COUNT_NAMES, TOUCHED, VALUE_NAMES
from approxmcmc.engine.compiler.compile import INDICES, VECTOR, bind, compiled, entry_point, type_of
from approxmcmc.engine.compiler.vectors import assign, equal
from approxmcmc.engine.terms.batches import full_terms, scale_of
from approxmcmc.errors import InvalidInputError
from approxmcmc.samplers.metropolis_hastings.program import MetropolisHastingsProgram, data_schedule
from approxmcmc.targets.all_rows import AllRows

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
