"""Code shared by the samplers of doubly intractable posteriors: auxiliary draws, and the ratio of normalisers.

The posterior is p(theta) exp(theta's(y)) / Z(theta). Means over draws of data replace two expectations:

    Z(theta) / Z(theta') = E exp((theta - theta')'s(y')),  y' at theta';        grad log Z(theta) = E s(y),  y at theta.
"""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from approxmcmc.contracts import DoublyIntractableTarget
from approxmcmc.contracts.records import EVALUATIONS, TOUCHED
from approxmcmc.contracts.speaker import speaker
from approxmcmc.engine.compiler.compile import compiled
from approxmcmc.engine.compiler.identity import cached_by_content
from approxmcmc.errors import IncompatibleError

RECORDS = ("auxiliary_updates", "statistic_evaluations")


class RatioState(NamedTuple):
    """The observed statistics s(y), the simulator's state, and the statistics of the draws at theta', one row each."""

    observed: np.ndarray
    simulator: Any
    drawn: np.ndarray


@cached_by_content(maxsize=64)
def make_draw_rows(simulate: Callable[..., None]) -> Callable[..., None]:
    """Return the function that draws a data set at theta for each row of `rows`, and writes its statistics there."""

    def draw_rows(
        rng: np.random.Generator, theta: np.ndarray, simulator: Any, rows: np.ndarray, count: np.ndarray
    ) -> None:
        for k in range(rows.shape[0]):
            simulate(rng, theta, simulator, rows[k], count)

    return compiled(draw_rows)


@compiled
def log_normalizer_ratio(theta: np.ndarray, proposed: np.ndarray, statistics: np.ndarray) -> float:
    """Return log (1/N) sum_k exp((theta - theta')'s_k), an estimate of log Z(theta) - log Z(theta').

    theta' is `proposed`; `statistics` (N, dim) holds the s_k of draws at theta', one in each row.
    """
    largest = -math.inf
    total = 0.0
    for k in range(statistics.shape[0]):
        exponent = 0.0
        for j in range(theta.shape[0]):
            exponent += (theta[j] - proposed[j]) * statistics[k, j]
        if exponent > largest:
            total = total * math.exp(largest - exponent) + 1.0
            largest = exponent
        else:
            total += math.exp(exponent - largest)
    return largest + math.log(total / statistics.shape[0])


@compiled
def log_ratio_of_observed(theta: np.ndarray, proposed: np.ndarray, observed: np.ndarray) -> float:
    """Return (theta' - theta)'s(y)."""
    total = 0.0
    for j in range(theta.shape[0]):
        total += (proposed[j] - theta[j]) * observed[j]
    return total


@compiled
def estimate_from_draws(
    rng: np.random.Generator, state: RatioState, theta: np.ndarray, proposed: np.ndarray, count: np.ndarray
) -> float:
    """Return an estimate of log p(y|theta') - log p(y|theta), from the draws at theta' in `state.drawn`."""
    count[TOUCHED] += 1
    count[EVALUATIONS] += 1
    return log_ratio_of_observed(theta, proposed, state.observed) + log_normalizer_ratio(theta, proposed, state.drawn)


@cached_by_content(maxsize=64)
def make_estimate_from_fresh_draws(simulate: Callable[..., None]) -> Callable[..., float]:
    """Return the function that draws auxiliary data at theta', and estimates log p(y|theta') - log p(y|theta)."""
    draw_rows = make_draw_rows(simulate)

    def estimate_from_fresh_draws(
        rng: np.random.Generator, state: RatioState, theta: np.ndarray, proposed: np.ndarray, count: np.ndarray
    ) -> float:
        draw_rows(rng, proposed, state.simulator, state.drawn, count)
        return estimate_from_draws(rng, state, theta, proposed, count)

    return compiled(estimate_from_fresh_draws)


def check_target(target: Any) -> None:
    """Raise unless a target is doubly intractable."""
    if not isinstance(target, DoublyIntractableTarget):
        raise IncompatibleError(
            f"{speaker()} needs a doubly intractable target such as targets.Ising or targets.ERGM, which can simulate "
            f"data; found {target!r}; sample it with MetropolisHastings"
        )


def why_not_exact(target: Any, auxiliary: Any) -> str:
    """Return why auxiliary data are not drawn exactly; "" if they are."""
    check_target(target)
    if target.build_simulator(auxiliary).exact:
        return ""
    return (
        f"auxiliary data of {target!r} are the end of a Markov chain; the bias is the convergence error of that chain "
        "and is not bounded"
    )


def log_likelihood_of(target: DoublyIntractableTarget) -> Any:
    """Return the function theta -> theta's(y) - log Z(theta); it returns None if the normaliser is unknown."""

    def log_likelihood(theta: np.ndarray) -> float | None:
        normalizer = target.log_normalizer(theta)
        return None if normalizer is None else float(theta @ target.observed_statistics) - normalizer

    return log_likelihood
