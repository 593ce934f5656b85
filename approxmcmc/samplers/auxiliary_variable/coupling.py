"""Coupled exchange samplers: coupled proposals, one u, one draw of auxiliary data if both propose one point.

    (x', y') by the proposal's own coupling;  z ~ f(.|x'), and for Y the same z where y' = x', else z ~ f(.|y');
    X moves iff log u < log p(x')/p(x) + log q ratio + (x' - x)'(s(data) - s(z)),  and Y in the same way with the same
    u.

With one exact draw the sampler leaves the posterior invariant (Murray, Ghahramani and MacKay 2006), whatever the
normaliser. A step of X alone is the sampler's step, with the same random numbers.
"""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from approxmcmc.acceptance.rules import log_uniform
from approxmcmc.contracts import CompiledCoupling, DoublyIntractableTarget, Proposal
from approxmcmc.contracts.records import COUNT_NAMES
from approxmcmc.engine.compiler.compile import compiled
from approxmcmc.engine.compiler.identity import cached_by_content
from approxmcmc.engine.compiler.vectors import assign, equal
from approxmcmc.errors import IncompatibleError
from approxmcmc.samplers.auxiliary_variable.doubly_intractable import RatioState, estimate_from_draws, make_draw_rows
from approxmcmc.samplers.metropolis_hastings.coupling import coupling_of_proposal
from approxmcmc.sampling.chain import FAILED, STAYED


class ExchangeWalker(NamedTuple):
    """A chain: theta, its proposal, and the state of the proposal."""

    theta: np.ndarray
    proposed: np.ndarray
    proposal: Any


class SharedDraws(NamedTuple):
    """What both chains use: counts, log prior, simulator, and scratch.

    While X moves alone, ``look[0]`` is its last log ratio.
    """

    counts: np.ndarray
    look: np.ndarray
    log_prior: Any
    ratio: RatioState
    noise: np.ndarray


@compiled
def log_rest_of(shared: SharedDraws, walker: ExchangeWalker, log_q_ratio: float) -> float:
    """Return the part of the log ratio that is known without auxiliary data; -inf outside the support."""
    log_prior = shared.log_prior(walker.proposed)
    if log_prior == -math.inf:
        return -math.inf
    return float(log_prior - shared.log_prior(walker.theta) + log_q_ratio)


@cached_by_content(maxsize=64)
def make_move(
    propose: Callable[..., float], couple: Callable[..., tuple[float, float]], simulate: Callable[..., None]
) -> Callable[..., int]:
    """Return ``move(rng, chains, shared, n_chains) -> status``: a step of both chains; of X alone if n_chains = 1."""
    draw_rows = make_draw_rows(simulate)

    def move(rng: np.random.Generator, chains: Any, shared: SharedDraws, n_chains: int) -> int:
        x, y = chains
        ratio = shared.ratio
        counts = shared.counts
        log_q_x = log_q_y = 0.0
        if n_chains == 1:
            log_q_x = propose(rng, x.proposal, x.theta, x.proposed, counts)
        else:
            log_q_x, log_q_y = couple(
                rng, x.proposal, y.proposal, x.theta, y.theta, x.proposed, y.proposed, shared.noise, counts
            )
        threshold = log_uniform(rng)
        log_ratio_x = log_rest_of(shared, x, log_q_x)
        log_ratio_y = -math.inf
        if log_ratio_x != -math.inf:
            draw_rows(rng, x.proposed, ratio.simulator, ratio.drawn, counts)
            log_ratio_x += estimate_from_draws(rng, ratio, x.theta, x.proposed, counts)
        if n_chains == 1:
            shared.look[0] = log_ratio_x
        else:
            log_ratio_y = log_rest_of(shared, y, log_q_y)
            if log_ratio_y != -math.inf:
                if not equal(x.proposed, y.proposed):
                    draw_rows(rng, y.proposed, ratio.simulator, ratio.drawn, counts)
                log_ratio_y += estimate_from_draws(rng, ratio, y.theta, y.proposed, counts)
        if math.isnan(log_ratio_x) or math.isnan(log_ratio_y):
            return FAILED
        if threshold < log_ratio_x:
            assign(x.theta, x.proposed)
        if threshold < log_ratio_y:
            assign(y.theta, y.proposed)
        return STAYED

    return compiled(move)


def couple_exchange(target: DoublyIntractableTarget, proposal: Proposal) -> CompiledCoupling:
    """Return the coupling of the exchange sampler with one exact draw.

    Raises
    ------
    IncompatibleError
        When the target has no exact draws, or the proposal has no coupling.
    """
    try:
        simulator = target.build_simulator("exact")
    except IncompatibleError as error:
        raise IncompatibleError(
            f"couplings need an exact kernel, and {target!r} has none, so biases and bounds are not available: {error}"
        ) from None
    built = proposal.build_proposal(target)
    couple = coupling_of_proposal(proposal, built)
    log_prior = target.compile_log_prior()
    dim = target.variables.size

    def start(theta: np.ndarray, log_likelihood: float) -> ExchangeWalker:
        return ExchangeWalker(theta, theta.copy(), built.make_state())

    def shared() -> SharedDraws:
        ratio = RatioState(target.observed_statistics, simulator.make_state(), np.empty((1, dim)))
        counts = np.zeros(len(COUNT_NAMES), dtype=np.int64)
        return SharedDraws(counts, np.full(2, math.nan), log_prior, ratio, np.empty((2, dim)))

    move = make_move(built.propose, couple, simulator.simulate)
    point = np.asarray(target.initial_point(), dtype=np.float64)
    return CompiledCoupling("Exchange", move, start, shared, point, 1.0, rule="metropolis")
