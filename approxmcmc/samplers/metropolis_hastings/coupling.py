"""Coupled chains of Metropolis-Hastings with the exact test; `coupled_steps` has their step.

Prior and terms at a point that both chains propose are evaluated once.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from approxmcmc.acceptance.metropolis import log_ratio_of
from approxmcmc.acceptance.out_of_reach import evaluations_to_reject, is_out_of_reach
from approxmcmc.acceptance.rules import MIRRORS, RULES
from approxmcmc.contracts import AcceptanceTest, CompiledCoupling, CompiledTarget, Proposal, Target
from approxmcmc.contracts.records import COUNT_NAMES, EVALUATIONS
from approxmcmc.engine.compiler.compile import compiled
from approxmcmc.engine.compiler.python_call import PythonCall
from approxmcmc.engine.compiler.vectors import assign
from approxmcmc.engine.terms.batches import BATCH, full_terms, sum_terms
from approxmcmc.errors import InvalidInputError
from approxmcmc.samplers.coupled_steps import coupling_of_proposal, make_coupled_step
from approxmcmc.samplers.metropolis_hastings.program import tuned_state
from approxmcmc.targets.all_rows import AllRows

# indices of the current theta and of the proposal in the numbers of a `Walker`
HERE = 0
THERE = 1


class Walker(NamedTuple):
    """A chain: theta and theta', log prior and log-likelihood at both (indices HERE, THERE), state of the proposal."""

    theta: np.ndarray
    proposed: np.ndarray
    log_prior: np.ndarray
    log_likelihood: np.ndarray
    proposal: Any


class SharedTarget(NamedTuple):
    """What both chains use: counts, the target, and scratch.

    While X moves alone, `last_ratios` (2,) holds its last log ratio, with and without the proposal's part. `there` (2,)
    holds log prior and log-likelihood at the last proposal evaluated. `evaluations_to_reject` searches the way from
    ``way[0]`` to ``way[1]``, see `approxmcmc.acceptance.out_of_reach`; one function serves both chains of all pairs,
    because a pair meets after a few steps, and a Python function takes longer to become one of C than these steps.
    """

    counts: np.ndarray
    last_ratios: np.ndarray
    there: np.ndarray
    log_prior: Any
    log_terms: Any
    data: tuple[np.ndarray, ...]
    n_obs: int
    prior_rows: int
    memory_order: np.ndarray
    work: np.ndarray
    noise: np.ndarray
    way: np.ndarray
    evaluations_to_reject: Callable[[], int]


@compiled
def evaluate(shared: SharedTarget, theta: np.ndarray) -> None:
    """Write log prior and log-likelihood at theta to ``shared.there``; no term is read where the prior is 0."""
    log_prior = shared.log_prior(theta)
    shared.there[0] = log_prior
    shared.there[1] = log_prior
    shared.counts[EVALUATIONS] += shared.prior_rows
    if log_prior > -math.inf:
        shared.there[1] = sum_terms(
            shared.log_terms, theta, shared.data, shared.memory_order, shared.n_obs, shared.work
        )
        shared.counts[EVALUATIONS] += shared.n_obs


@compiled
def go_there(walker: Walker) -> None:
    """Move the chain to its proposal."""
    assign(walker.theta, walker.proposed)
    walker.log_prior[HERE] = walker.log_prior[THERE]
    walker.log_likelihood[HERE] = walker.log_likelihood[THERE]


@compiled
def log_density(walker: Walker) -> float:
    """Return the log posterior density at theta."""
    return walker.log_prior[HERE] + walker.log_likelihood[HERE]


@compiled
def weigh(rng: np.random.Generator, shared: SharedTarget, walker: Walker, log_q_ratio: float, again: bool) -> float:
    """Return Lambda of the walker's proposal; its densities are those of the last call if `again`."""
    if not again:
        evaluate(shared, walker.proposed)
    walker.log_prior[THERE] = shared.there[0]
    walker.log_likelihood[THERE] = shared.there[1]
    log_rest = log_ratio_of(log_q_ratio, walker.log_prior[HERE], walker.log_prior[THERE])
    return log_ratio_of(log_rest, walker.log_likelihood[HERE], walker.log_likelihood[THERE])


@compiled
def is_unreachable(shared: SharedTarget, walker: Walker) -> bool:
    """Return whether the walker's proposal, where a density is undefined, is out of reach, and count the search."""
    assign(shared.way[0], walker.theta)
    assign(shared.way[1], walker.proposed)
    return is_out_of_reach(shared.evaluations_to_reject, shared.n_obs, shared.prior_rows, shared.counts)


def couple(
    target: Target, proposal: Proposal, rule: str, adapted: Mapping[str, float] | None = None
) -> CompiledCoupling:
    """Return the coupling of two chains of a proposal with the exact test of a rule, "metropolis" or "barker".

    `adapted` holds the tuned values of the proposal, as stored in a trace; None if it does not adapt.

    Raises
    ------
    IncompatibleError
        When the proposal has no coupling, or still adapts.
    InvalidInputError
        By `start` of the returned coupling, when `adapted` lacks tuned values.
    """
    proposal = proposal.with_meetings(target)
    built = proposal.build_proposal(target)
    propose = built.propose
    propose_both = coupling_of_proposal(proposal, built, adapted)
    compiled: CompiledTarget = target.compile()
    rows = AllRows(target)
    dim = target.variables.size

    def log_density_at(theta: np.ndarray) -> float:
        return float(rows.log_densities(theta[None])[0])

    def start(theta: np.ndarray, log_likelihood: float) -> Walker:
        log_prior = float(compiled.log_prior(theta))
        if log_prior == -math.inf:  # the first proposal inside the support is then accepted
            log_likelihood = 0.0
        elif math.isnan(log_likelihood):
            log_likelihood = float(full_terms(compiled.log_terms, theta, compiled.data, compiled.n_obs).sum())
        return Walker(
            theta,
            theta.copy(),
            log_prior=np.array([log_prior, math.nan]),
            log_likelihood=np.array([log_likelihood, math.nan]),
            proposal=tuned_state(built, adapted or {}),
        )

    def shared() -> SharedTarget:
        way = np.empty((2, dim))
        return SharedTarget(
            counts=np.zeros(len(COUNT_NAMES), dtype=np.int64),
            last_ratios=np.full(2, math.nan),
            there=np.full(2, math.nan),
            log_prior=compiled.log_prior,
            log_terms=compiled.log_terms,
            data=compiled.data,
            n_obs=compiled.n_obs,
            prior_rows=compiled.prior_rows,
            memory_order=np.empty(0, dtype=np.int64),
            work=np.empty(BATCH),
            noise=np.empty((2, dim)),
            way=way,
            evaluations_to_reject=PythonCall(lambda: evaluations_to_reject(log_density_at, way[0], way[1])),
        )

    name = " + ".join(type(member).__name__ for member in proposal.members)
    step = make_coupled_step(
        propose, propose_both, RULES[rule].threshold, MIRRORS[rule], weigh, is_unreachable, go_there, True
    )
    point = np.asarray(target.initial_point(), dtype=np.float64)
    return CompiledCoupling(name, step, start, shared, point, compiled.n_obs, rule, log_density)


def why_no_audits(
    target: Target, proposal: Proposal, test: AcceptanceTest, adapted: Sequence[Mapping[str, float]]
) -> str:
    """Return why decisions on a proposal cannot be audited and followed by couplings; "" if they can."""
    if not test.uses_ratio:
        return "the sampler has no test"
    if test.reads_all(target.n_obs):
        return "the sampler's test is exact"
    if test.temperature != 1.0:
        return "the sampler is tempered"
    if not test.is_homogeneous:
        return "the sampler's test changes along the chain, which then has no stationary distribution"
    if proposal.with_meetings(target) is not proposal:
        return "two chains of the sampler's proposal approach each other but never meet"
    if not test.build_test(target).is_audited:
        return f"decisions of {test!r} cannot be audited"
    built = proposal.build_proposal(target)
    if built.couple is None or built.settle is not None:
        return f"no coupling is known for {proposal!r}"
    try:
        for each in adapted:
            tuned_state(built, each)
    except InvalidInputError as error:
        return str(error)
    return ""
