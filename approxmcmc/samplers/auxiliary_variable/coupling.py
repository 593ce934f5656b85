"""Coupled exchange samplers, by the step of `coupled_steps`, with one draw of auxiliary data if both propose one point.

    z ~ f(.|x'), and for Y the same z where y' = x', else z ~ f(.|y');
    Lambda(x, x') = log p(x')/p(x) + log q ratio + (x' - x)'(s(data) - s(z)),  and in the same way for Y.

With one exact draw the sampler leaves the posterior invariant (Murray, Ghahramani and MacKay 2006), whatever the
normaliser.
"""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from approxmcmc.acceptance.metropolis import log_ratio_of
from approxmcmc.acceptance.rules import log_uniform
from approxmcmc.contracts import CompiledCoupling, DoublyIntractableTarget, Proposal
from approxmcmc.contracts.records import COUNT_NAMES
from approxmcmc.engine.compiler.compile import compiled
from approxmcmc.engine.compiler.identity import cached_by_content
from approxmcmc.engine.compiler.vectors import assign
from approxmcmc.errors import IncompatibleError
from approxmcmc.samplers.auxiliary_variable.doubly_intractable import RatioState, estimate_from_draws, make_draw_rows
from approxmcmc.samplers.coupled_steps import coupling_of_proposal, make_coupled_step, unmirrored


class ExchangeWalker(NamedTuple):
    """A chain: theta, its proposal, and the state of the proposal."""

    theta: np.ndarray
    proposed: np.ndarray
    proposal: Any


class SharedDraws(NamedTuple):
    """What both chains use: counts, log prior, simulator, and scratch.

    While X moves alone, ``last_ratios[0]`` is its last log ratio.
    """

    counts: np.ndarray
    last_ratios: np.ndarray
    log_prior: Any
    ratio: RatioState
    noise: np.ndarray


@cached_by_content(maxsize=64)
def make_weigh(simulate: Callable[..., None]) -> Callable[..., float]:
    """Return ``weigh(rng, shared, walker, log_q_ratio, again)`` with auxiliary data at theta', drawn unless `again`."""
    draw_rows = make_draw_rows(simulate)

    def weigh(
        rng: np.random.Generator, shared: SharedDraws, walker: ExchangeWalker, log_q_ratio: float, again: bool
    ) -> float:
        log_rest = log_ratio_of(log_q_ratio, shared.log_prior(walker.theta), shared.log_prior(walker.proposed))
        if log_rest == -math.inf:
            return log_rest
        ratio = shared.ratio
        if not again:
            draw_rows(rng, walker.proposed, ratio.simulator, ratio.drawn, shared.counts)
        return log_rest + estimate_from_draws(rng, ratio, walker.theta, walker.proposed, shared.counts)

    return compiled(weigh)


@compiled
def cannot_tell(shared: SharedDraws, walker: ExchangeWalker) -> bool:
    """Return False: without the normaliser no search finds out whether a proposal is out of reach."""
    return False


@compiled
def go_there(walker: ExchangeWalker) -> None:
    """Move the chain to its proposal."""
    assign(walker.theta, walker.proposed)


def couple(target: DoublyIntractableTarget, proposal: Proposal) -> CompiledCoupling:
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
    propose_both = coupling_of_proposal(proposal, built)
    log_prior = target.compile_log_prior()
    dim = target.variables.size

    def start(theta: np.ndarray, log_likelihood: float) -> ExchangeWalker:
        return ExchangeWalker(theta, theta.copy(), built.make_state())

    def shared() -> SharedDraws:
        ratio = RatioState(target.observed_statistics, simulator.make_state(), np.empty((1, dim)))
        counts = np.zeros(len(COUNT_NAMES), dtype=np.int64)
        return SharedDraws(counts, np.full(2, math.nan), log_prior, ratio, np.empty((2, dim)))

    step = make_coupled_step(
        built.propose,
        propose_both,
        log_uniform,
        unmirrored,
        make_weigh(simulator.simulate),
        cannot_tell,
        go_there,
        False,
    )
    point = np.asarray(target.initial_point(), dtype=np.float64)
    return CompiledCoupling("Exchange", step, start, shared, point, 1.0, rule="metropolis")
