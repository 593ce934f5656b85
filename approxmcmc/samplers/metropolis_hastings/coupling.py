"""Coupled chains of Metropolis-Hastings with the exact test: proposals drawn together, one threshold for both.

    (x', y') by the proposal's own coupling,  one u with its threshold T;  X moves iff T < Lambda(x, x'),  Y iff T <
    Lambda(y, y').

If each chain proposes the other's state, as on the sites of a discrete target, they meet iff exactly one of them moves.
Y then uses 1 - u, which makes a meeting as likely as possible.

Terms at a point that both chains propose are evaluated once. A step of X alone is the sampler's step, with the same
random numbers.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from approxmcmc.acceptance.rules import MIRRORS, RULES
from approxmcmc.contracts import AcceptanceTest, CompiledCoupling, CompiledProposal, CompiledTarget, Proposal, Target
from approxmcmc.contracts.records import COUNT_NAMES, EVALUATIONS
from approxmcmc.engine.compiler.compile import compiled
from approxmcmc.engine.compiler.identity import cached_by_content
from approxmcmc.engine.compiler.vectors import assign, equal
from approxmcmc.engine.terms.batches import BATCH, full_terms, sum_terms
from approxmcmc.errors import IncompatibleError, InvalidInputError
from approxmcmc.samplers.metropolis_hastings.program import tuned_state
from approxmcmc.sampling.chain import FAILED, STAYED

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

    While X moves alone, `look` (2,) holds its last log ratio, with and without the proposal's part.
    """

    counts: np.ndarray
    look: np.ndarray
    log_prior: Any
    log_terms: Any
    data: tuple[np.ndarray, ...]
    n_obs: int
    prior_rows: int
    memory_order: np.ndarray
    work: np.ndarray
    noise: np.ndarray


@compiled
def evaluate_there(shared: SharedTarget, walker: Walker) -> None:
    """Write log prior and log-likelihood at the proposal to the walker; the latter is 0 where the prior is 0."""
    log_prior = shared.log_prior(walker.proposed)
    walker.log_prior[THERE] = log_prior
    walker.log_likelihood[THERE] = 0.0
    shared.counts[EVALUATIONS] += shared.prior_rows
    if log_prior > -math.inf:
        walker.log_likelihood[THERE] = sum_terms(
            shared.log_terms, walker.proposed, shared.data, shared.memory_order, shared.n_obs, shared.work
        )
        shared.counts[EVALUATIONS] += shared.n_obs


@compiled
def log_ratio_of(walker: Walker, log_q_ratio: float) -> float:
    """Return Lambda, the log ratio of the walker's proposal; -inf if the proposal is outside the prior's support."""
    if walker.log_prior[THERE] == -math.inf:
        return -math.inf
    log_rest = walker.log_prior[THERE] - walker.log_prior[HERE] + log_q_ratio
    return log_rest + (walker.log_likelihood[THERE] - walker.log_likelihood[HERE])


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
def trade_places(x: Walker, y: Walker) -> bool:
    """Return whether each chain proposes the other's value in every coordinate that changes."""
    for j in range(x.theta.shape[0]):
        changes = x.proposed[j] != x.theta[j] or y.proposed[j] != y.theta[j]
        if changes and (x.proposed[j] != y.theta[j] or y.proposed[j] != x.theta[j]):
            return False
    return True


@cached_by_content(maxsize=64)
def make_move(
    propose: Callable[..., float],
    couple: Callable[..., tuple[float, float]],
    draw_threshold: Callable[..., float],
    mirror: Callable[[float], float],
) -> Callable[..., int]:
    """Return ``move(rng, chains, shared, n_chains) -> status``: a step of both chains, or of X alone if n_chains = 1.

    The status is FAILED if a log ratio is NaN, otherwise STAYED, whether a chain moved or not.
    """

    def move(rng: np.random.Generator, chains: Any, shared: SharedTarget, n_chains: int) -> int:
        x, y = chains
        log_q_x = log_q_y = 0.0
        if n_chains == 1:
            log_q_x = propose(rng, x.proposal, x.theta, x.proposed, shared.counts)
        else:
            log_q_x, log_q_y = couple(
                rng, x.proposal, y.proposal, x.theta, y.theta, x.proposed, y.proposed, shared.noise, shared.counts
            )
        threshold = draw_threshold(rng)
        evaluate_there(shared, x)
        log_ratio_x = log_ratio_of(x, log_q_x)
        log_ratio_y = -math.inf
        if n_chains == 1:
            shared.look[0] = log_ratio_x
            shared.look[1] = log_ratio_x - log_q_x
        else:
            if equal(x.proposed, y.proposed):
                y.log_prior[THERE] = x.log_prior[THERE]
                y.log_likelihood[THERE] = x.log_likelihood[THERE]
            else:
                evaluate_there(shared, y)
            log_ratio_y = log_ratio_of(y, log_q_y)
        if math.isnan(log_ratio_x) or math.isnan(log_ratio_y):
            return FAILED
        threshold_y = mirror(threshold) if n_chains == 2 and trade_places(x, y) else threshold
        if threshold < log_ratio_x:
            go_there(x)
        if threshold_y < log_ratio_y:
            go_there(y)
        return STAYED

    return compiled(move)


def couple_metropolis(
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
    couple = coupling_of_proposal(proposal, built, adapted)
    known: CompiledTarget = target.compile()
    dim = target.variables.size

    def start(theta: np.ndarray, log_likelihood: float) -> Walker:
        log_prior = float(known.log_prior(theta))
        if log_prior == -math.inf:  # the first proposal inside the support is then accepted
            log_likelihood = 0.0
        elif math.isnan(log_likelihood):
            log_likelihood = float(full_terms(known.log_terms, theta, known.data, known.n_obs).sum())
        both = np.array([log_prior, math.nan]), np.array([log_likelihood, math.nan])
        return Walker(theta, theta.copy(), *both, tuned_state(built, adapted or {}))

    def shared() -> SharedTarget:
        counts = np.zeros(len(COUNT_NAMES), dtype=np.int64)
        scratch = (np.empty(BATCH), np.empty((2, dim)))
        memory_order = np.empty(0, dtype=np.int64)
        kernels = known.log_prior, known.log_terms
        sizes = known.n_obs, known.prior_rows
        return SharedTarget(counts, np.full(2, math.nan), *kernels, known.data, *sizes, memory_order, *scratch)

    name = " + ".join(type(member).__name__ for member in proposal.members)
    move = make_move(propose, couple, RULES[rule].threshold, MIRRORS[rule])
    point = np.asarray(target.initial_point(), dtype=np.float64)
    return CompiledCoupling(name, move, start, shared, point, known.n_obs, rule, log_density)


def coupling_of_proposal(
    settings: Proposal, built: CompiledProposal, adapted: Mapping[str, float] | None = None
) -> Callable[..., tuple[float, float]]:
    """Return the compiled function that proposes for two chains together; `built` is the compiled proposal.

    Raises
    ------
    IncompatibleError
        When the proposal has no coupling, or still adapts.
    """
    if adapted is None and any(member.target_acceptance is not None for member in settings.members):
        raise IncompatibleError(
            "couplings: the proposal must not adapt, as the chain is then not Markov; fix the scale"
        )
    if built.couple is None or built.settle is not None:
        raise IncompatibleError(
            f"couplings: no coupling is known for {settings!r}; use RandomWalk, Langevin, Independence, "
            "PreconditionedCrankNicolson, SurrogateTransition, SingleSite or a mixture of them"
        )
    return built.couple


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
