"""Langevin moves along a gradient estimated from auxiliary data: untested (noisy Langevin), or MALA-exchange.

    theta' ~ N(m(theta, G), Sigma),    m(theta, G) = theta + Sigma/2 [grad log p(theta) + s(y) - mean statistic of G],

where G are auxiliary draws at theta. Noisy Langevin:

    theta' = theta + Sigma/2 [grad log p(theta) + s(y) - (1/N) sum_k s(y'_k)] + N(0, Sigma),    y'_k drawn at theta.

The chain has two biases: from the step size, like every unadjusted Langevin chain, and from the noise of the gradient.

MALA-exchange stores theta together with G, the auxiliary draws that estimate the drift at theta. One step:

1. theta' ~ N(m(theta, G), Sigma);
2. G' = N draws at theta' for the drift of the reverse step, and *another* draw y' at theta' for the ratio;
3. log a = (theta' - theta)'[s(y) - s(y')] + log p(theta')/p(theta)
           + log N(theta; m(theta', G'), Sigma) - log N(theta'; m(theta, G), Sigma);
4. move to (theta', G') if log u < log a.

Exchanging (theta, G) for (theta', G') and y for y' leaves the extended distribution invariant, so the chain is exact.
The chain is not exact if y' is one of the draws G', because the reverse proposal then uses the draw that
decides.
"""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from approxmcmc.contracts import Streams
from approxmcmc.contracts.records import GRADIENTS, TOUCHED
from approxmcmc.engine.compiler.compile import compiled
from approxmcmc.engine.compiler.identity import cached_by_content
from approxmcmc.engine.compiler.vectors import assign
from approxmcmc.samplers.auxiliary_variable.doubly_intractable import RatioState, make_draw_rows
from approxmcmc.samplers.auxiliary_variable.step import AuxiliaryState

# Step of the central difference of the log prior, which is quadratic or constant: rounding of 1e-12 remains.
PRIOR_STEP = 1e-4


class DriftState(NamedTuple):
    """Steps of covariance factor^2 sigma, sigma = L L', along a drift that auxiliary draws estimate.

    `lower` is L; `log_factor` is the log of the factor, which is tuned to the `wanted` acceptance rate. `here` and
    `there` are G and G', the statistics drawn at theta and at theta', one row for each draw; `has_draws` says whether G
    has been drawn. The ratio has a separate simulator state, so draws for the ratio never continue a Markov chain of
    draws for the drift. `gradient`, `mean_back` and `scratch` have the length of theta.
    """

    sigma: np.ndarray
    lower: np.ndarray
    wanted: float
    log_factor: np.ndarray
    log_prior: Any
    observed: np.ndarray
    simulator: Any
    here: np.ndarray
    there: np.ndarray
    has_draws: np.ndarray
    gradient: np.ndarray
    mean_back: np.ndarray
    scratch: np.ndarray


@compiled
def prior_gradient(log_prior: Any, theta: np.ndarray, shifted: np.ndarray, out: np.ndarray) -> None:
    """Write grad log p(theta) of the prior to `out`, by central differences, one-sided at the edge of the support.

    `shifted` is scratch, of the length of theta.
    """
    assign(shifted, theta)
    here = log_prior(theta)
    for j in range(theta.shape[0]):
        step = PRIOR_STEP * (1.0 + abs(theta[j]))
        width = 2.0 * step
        shifted[j] = theta[j] + step
        above = log_prior(shifted)
        shifted[j] = theta[j] - step
        below = log_prior(shifted)
        shifted[j] = theta[j]
        if above == -math.inf:
            above = here
            width = width - step
        if below == -math.inf:
            below = here
            width = width - step
        out[j] = (above - below) / width if width > 0.0 else 0.0


@compiled
def posterior_gradient(
    log_prior: Any,
    theta: np.ndarray,
    observed: np.ndarray,
    statistics: np.ndarray,
    shifted: np.ndarray,
    out: np.ndarray,
) -> None:
    """Write grad log p(theta) + s(y) - mean statistic of auxiliary draws, one per row, to `out`."""
    prior_gradient(log_prior, theta, shifted, out)
    for j in range(theta.shape[0]):
        drawn = 0.0
        for k in range(statistics.shape[0]):
            drawn += statistics[k, j]
        out[j] += observed[j] - drawn / statistics.shape[0]


@compiled
def mean_after_drift(
    state: DriftState, theta: np.ndarray, statistics: np.ndarray, factor: float, out: np.ndarray
) -> None:
    """Write m(theta, G) to `out`, with Sigma = factor^2 sigma; `statistics` holds G, one draw per row."""
    gradient = state.gradient
    posterior_gradient(state.log_prior, theta, state.observed, statistics, state.scratch, gradient)
    for i in range(theta.shape[0]):
        step = 0.0
        for j in range(theta.shape[0]):
            step += state.sigma[i, j] * gradient[j]
        out[i] = theta[i] + 0.5 * factor * factor * step


@compiled
def add_noise(rng: np.random.Generator, lower: np.ndarray, factor: float, z: np.ndarray, out: np.ndarray) -> float:
    """Add factor * L z to `out`, z ~ N(0, I); return |z|^2."""
    square = 0.0
    for j in range(out.shape[0]):
        z[j] = rng.standard_normal()
        square += z[j] * z[j]
    for i in range(out.shape[0]):
        for j in range(i + 1):
            out[i] += factor * lower[i, j] * z[j]
    return square


@compiled
def squared_distance(lower: np.ndarray, factor: float, x: np.ndarray, mean: np.ndarray, w: np.ndarray) -> float:
    """Return (x - mean)' Sigma^-1 (x - mean), Sigma = factor^2 L L', by forward substitution."""
    square = 0.0
    for i in range(x.shape[0]):
        w[i] = (x[i] - mean[i]) / factor
        for j in range(i):
            w[i] -= lower[i, j] * w[j]
        w[i] /= lower[i, i]
        square += w[i] * w[i]
    return square


@cached_by_content(maxsize=64)
def make_drift(simulate: Callable[..., None]) -> Callable[..., float]:
    """Return the move that draws G at theta and follows the estimated drift; it returns 0 in place of the q ratio."""
    draw_rows = make_draw_rows(simulate)

    def drift(streams: Streams, state: DriftState, theta: np.ndarray, proposed: np.ndarray, count: np.ndarray) -> float:
        draw_rows(streams.order, theta, state.simulator, state.here, count)
        count[TOUCHED] += 1
        count[GRADIENTS] += 1
        mean_after_drift(state, theta, state.here, 1.0, proposed)
        add_noise(streams.proposal, state.lower, 1.0, state.scratch, proposed)
        return 0.0

    return compiled(drift)


@compiled
def no_estimate(
    rng: np.random.Generator, state: RatioState, theta: np.ndarray, proposed: np.ndarray, count: np.ndarray
) -> float:
    """Return 0: no ratio is estimated, because every step inside the support is accepted."""
    return 0.0


@cached_by_content(maxsize=64)
def make_drift_and_return(simulate: Callable[..., None], refresh: bool) -> Callable[..., float]:
    """Return the move that proposes theta', draws G' there, and returns the log q ratio (steps 1 and 2).

    With `refresh`, G is redrawn for each step. Outside the support G' is not drawn, and the ratio is 0.
    """
    draw_rows = make_draw_rows(simulate)

    def drift_and_return(
        streams: Streams, state: DriftState, theta: np.ndarray, proposed: np.ndarray, count: np.ndarray
    ) -> float:
        here = state.here
        there = state.there
        factor = math.exp(state.log_factor[0])
        if refresh or not state.has_draws[0]:
            draw_rows(streams.order, theta, state.simulator, here, count)
            count[GRADIENTS] += 1
            state.has_draws[0] = True
        mean_after_drift(state, theta, here, factor, proposed)
        forward = add_noise(streams.proposal, state.lower, factor, state.scratch, proposed)
        if state.log_prior(proposed) == -math.inf:
            return 0.0
        draw_rows(streams.order, proposed, state.simulator, there, count)
        count[GRADIENTS] += 1
        mean_after_drift(state, proposed, there, factor, state.mean_back)
        return 0.5 * (forward - squared_distance(state.lower, factor, theta, state.mean_back, state.scratch))

    return compiled(drift_and_return)


@compiled
def carry_drift_draws(state: AuxiliaryState) -> None:
    """Store the auxiliary draws G' at theta' as the draws G of the next step."""
    drift = state.move
    for k in range(drift.here.shape[0]):
        assign(drift.here[k], drift.there[k])


@compiled
def adapt_step(state: DriftState, acceptance: float, step: int) -> None:
    """Tune the length of the steps to the rate ``state.wanted`` (Robbins and Monro 1951); `step` counts from 0."""
    state.log_factor[0] += (acceptance - state.wanted) / (step + 1.0) ** 0.6
