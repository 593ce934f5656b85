"""One step of slice sampling on a target: a move along a line, with comparisons made by an acceptance test."""

import math
from collections.abc import Callable

import numpy as np

from approxmcmc.acceptance.metropolis import REJECT, UNDECIDED, decision_on, log_ratio_of
from approxmcmc.acceptance.out_of_reach import is_out_of_reach
from approxmcmc.contracts import CompiledTest, Streams
from approxmcmc.contracts.records import ACCEPTANCE_RATE, DECISIONS, EVALUATIONS, TOUCHED
from approxmcmc.engine.compiler.compile import compiled
from approxmcmc.engine.compiler.identity import cached_by_content
from approxmcmc.engine.compiler.vectors import assign
from approxmcmc.engine.terms.order import settle
from approxmcmc.samplers.decision import keep_nothing, make_decision
from approxmcmc.samplers.metropolis_hastings.step import MetropolisHastingsState, unknown_log_likelihood
from approxmcmc.samplers.slice.line import draw_direction, make_slice_move, place_on_line
from approxmcmc.sampling.chain import FAILED, MOVED


def slice_step(test: CompiledTest) -> Callable[..., int]:
    """Return the step that moves along a line, where each comparison with the slice's level is made by the test."""
    tell = test.log_likelihood or unknown_log_likelihood
    keep = test.keep_log_likelihood or keep_nothing
    move = make_slice_move(make_is_inside(make_decision(test)), make_forget(keep))
    return make_step(move, test.threshold, tell)


@cached_by_content(maxsize=16)
def make_is_inside(decide: Callable[..., tuple[int, float]]) -> Callable[..., int]:
    """Return the function that decides whether theta + t direction, the proposed state, lies in the slice.

    It returns ACCEPT, REJECT or UNDECIDED, see `approxmcmc.acceptance.metropolis`.
    """

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
        log_rest = log_ratio_of(0.0, state.log_prior[0], log_prior)
        if not log_rest > -math.inf:  # undefined, or outside the support, and so outside the slice
            inside = decision_on(threshold, log_rest)
            count[DECISIONS] += 1
        else:
            inside, _ = decide(streams, state.clock, state.evidence, threshold, log_rest, state.test, count, value)
        if inside == UNDECIDED and is_out_of_reach(
            state.evaluations_to_reject, state.evidence.n_obs, state.prior_rows, count
        ):
            return REJECT  # far below the slice
        return inside

    return compiled(is_inside)


@cached_by_content(maxsize=16)
def make_forget(keep: Callable[..., None]) -> Callable[..., None]:
    """Return the function that ends a comparison without a move: it restores the cached terms and sums at theta."""

    def forget(state: MetropolisHastingsState) -> None:
        settle(state.evidence.order, False)
        keep(state.test, state.proposal.kept[0])

    return compiled(forget)


@cached_by_content(maxsize=16)
def make_step(
    move: Callable[..., int], draw_threshold: Callable[..., float], tell: Callable[..., float]
) -> Callable[..., int]:
    """Return the compiled step, ``step(streams, state, count, value) -> status``."""

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
