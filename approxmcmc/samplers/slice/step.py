"""One step of slice sampling: theta moves along a line, and an acceptance test decides which points are in the slice.

1. log u, u ~ U(0, 1): the height of the slice is p(theta | x) u, and theta' lies in it when

       log u < log p(theta') - log p(theta) + sum_i [log p(x_i | theta') - log p(x_i | theta)];

2. a random line through theta; 3. step out and shrink. An acceptance test makes every comparison, with the same
threshold.
"""

import math
from collections.abc import Callable

import numpy as np

from approxmcmc.contracts import CompiledTest, Streams
from approxmcmc.contracts.records import ACCEPTANCE_RATE, DECISIONS, EVALUATIONS, TOUCHED
from approxmcmc.engine.compiler.compile import compiled
from approxmcmc.engine.compiler.identity import cached_by_content
from approxmcmc.engine.compiler.vectors import assign
from approxmcmc.engine.terms.order import settle
from approxmcmc.samplers.chain import FAILED, MOVED
from approxmcmc.samplers.decision import make_decision
from approxmcmc.samplers.metropolis_hastings.step import MetropolisHastingsState, unknown_log_likelihood
from approxmcmc.samplers.slice.line import draw_direction, make_slice_move, place_on_line


@compiled
def keep_nothing(test: object, total: float) -> None:
    """Do nothing: the test caches no sum."""


def slice_step(test: CompiledTest) -> Callable[..., int]:
    """Return the step with a test; its state is that of Metropolis-Hastings, with a line instead of a proposal."""
    tell, keep = test.log_likelihood or unknown_log_likelihood, test.keep_log_likelihood or keep_nothing
    move = make_slice_move(make_is_inside(make_decision(test)), make_forget(keep))
    return make_step(move, test.threshold, tell)


@cached_by_content(maxsize=16)
def make_is_inside(decide: Callable[..., tuple[int, float]]) -> Callable[..., int]:
    """Return the comparison at theta + t direction, which becomes the proposed state."""

    def is_inside(
        streams: Streams,
        state: MetropolisHastingsState,
        t: float,
        threshold: float,
        count: np.ndarray,
        value: np.ndarray,
    ) -> int:
        place_on_line(state.proposal, state.theta, t, state.proposed)
        log_prior = state.log_prior_of(state.proposed)
        count[TOUCHED] += state.prior_rows
        count[EVALUATIONS] += state.prior_rows
        log_rest = log_prior - state.log_prior[0]
        if math.isnan(log_rest) or log_prior == math.inf:
            return -1
        if log_prior == -math.inf:  # outside the support, and so outside the slice
            count[DECISIONS] += 1
            return 0
        inside, _ = decide(streams, state.clock, state.evidence, threshold, log_rest, state.test, count, value)
        return inside

    return compiled(is_inside)


@cached_by_content(maxsize=16)
def make_forget(keep: Callable[..., None]) -> Callable[..., None]:
    """Return the function that ends a comparison without a move: cached terms and sums stay those at theta."""

    def forget(state: MetropolisHastingsState) -> None:
        settle(state.evidence.order, False)
        keep(state.test, state.proposal.kept[0])

    return compiled(forget)


@cached_by_content(maxsize=16)
def make_step(
    move: Callable[..., int], draw_threshold: Callable[..., float], tell: Callable[..., float]
) -> Callable[..., int]:
    """Return the step as a function of streams and state."""

    def step(streams: Streams, state: MetropolisHastingsState, count: np.ndarray, value: np.ndarray) -> int:
        threshold = draw_threshold(streams.uniform)
        draw_direction(streams.proposal, state.proposal)
        state.proposal.kept[0] = tell(state.test)
        status = move(streams, state, threshold, count, value)
        if status == FAILED:
            return FAILED
        if status == MOVED:
            settle(state.evidence.order, True)
            assign(state.theta, state.proposed)
            state.log_prior[0] = state.log_prior_of(state.theta)
        value[ACCEPTANCE_RATE] = 1.0
        state.log_density[0] = state.log_prior[0] + tell(state.test)
        return status

    return compiled(inline="always")(step)
