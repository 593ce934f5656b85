"""Langevin steps with a drift estimated from auxiliary data.

    theta' ~ N(m(theta, G), Sigma),    m(theta, G) = theta + Sigma/2 [grad log p(theta) + s(y) - mean statistic of G],

where G are auxiliary draws at theta. NoisyLangevin and MALAExchange use these functions.
"""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from approxmcmc.contracts import DoublyIntractableTarget
from approxmcmc.engine.checks import checked_integer, cov_of
from approxmcmc.engine.compiler.compile import compiled
from approxmcmc.engine.compiler.vectors import assign
from approxmcmc.errors import IncompatibleError, InvalidInputError
from approxmcmc.samplers.auxiliary_variable.doubly_intractable import (
    RECORDS,
    RatioState,
    check_target,
    check_thin,
    log_likelihood_of,
)
from approxmcmc.samplers.auxiliary_variable.program import NoisyProgram, NoisySetup

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


def check_steps(sampler: Any) -> None:
    """Check the settings shared by the Langevin samplers, and put them in standard form."""
    who = type(sampler).__name__
    if not (np.ndim(sampler.step_size) == 0 and 0.0 < sampler.step_size < math.inf):
        raise InvalidInputError(f"{who}: step_size must be positive and finite, found {sampler.step_size!r}")
    object.__setattr__(sampler, "step_size", float(sampler.step_size))
    object.__setattr__(sampler, "n_auxiliary", checked_integer(sampler.n_auxiliary, "n_auxiliary", who=who))
    object.__setattr__(sampler, "cov", _checked_covariance(sampler.cov, who))
    check_thin(sampler, who)


def _checked_covariance(cov: Any, who: str) -> Any:
    """Return None, or the symmetric positive definite matrix that an array or an object with `cov` holds."""
    if cov is None:
        return None
    matrix = cov_of(cov)
    square = matrix.ndim == 2 and matrix.shape[0] == matrix.shape[1]
    if not square or not np.all(np.isfinite(matrix)) or not np.allclose(matrix, matrix.T, rtol=1e-8, atol=0.0):
        raise InvalidInputError(f"{who}: cov must be a finite symmetric matrix, found shape {matrix.shape}")
    least = np.linalg.eigvalsh(matrix)[0]
    if least <= 0.0:
        raise InvalidInputError(f"{who}: cov must be positive definite, its least eigenvalue is {least:.3g}")
    return matrix


def langevin_program(
    sampler: Any,
    target: DoublyIntractableTarget,
    make_step: Callable[[Callable[..., None]], Callable[..., int]],
    *,
    fresh_for_ratio: bool,
    decides: bool,
    audit_every: int | str | None,
) -> NoisyProgram:
    """Return the program of a Langevin sampler on a target; ``make_step(simulate)`` returns its step.

    If `fresh_for_ratio`, the ratio is estimated from a separate draw, otherwise from G'. `decides` is False if every
    step inside the support is accepted.
    """
    who = type(sampler).__name__
    check_target(target, who)
    simulator = target.build_simulator(sampler.auxiliary)
    dim = target.variables.size
    cov = np.eye(dim) if sampler.cov is None else np.asarray(sampler.cov)
    if cov.shape != (dim, dim):
        raise IncompatibleError(f"{who}: the target has {dim} parameters, cov has shape {cov.shape}")
    sigma = np.ascontiguousarray(sampler.step_size * cov)
    lower = np.ascontiguousarray(np.linalg.cholesky(sigma))
    log_prior = target.compile_log_prior()
    observed = target.observed_statistics
    wanted = sampler.target_acceptance

    def make_states(theta: np.ndarray, rng: np.random.Generator) -> tuple[DriftState, RatioState]:
        here, there = (np.empty((sampler.n_auxiliary, dim)) for _ in range(2))
        drift = DriftState(
            sigma=sigma,
            lower=lower,
            wanted=wanted or 0.0,
            log_factor=np.zeros(1),
            log_prior=log_prior,
            observed=observed,
            simulator=simulator.make_state(),
            here=here,
            there=there,
            has_draws=np.zeros(1, dtype=np.bool_),
            gradient=np.empty(dim),
            mean_back=np.empty(dim),
            scratch=np.empty(dim),
        )
        for_ratio = np.empty((1, dim)) if fresh_for_ratio else there
        return drift, RatioState(observed, simulator.make_state(), for_ratio)

    def describe(drift: DriftState) -> dict[str, float]:
        return {} if wanted is None else {"step_size": sampler.step_size * math.exp(2.0 * drift.log_factor[0])}

    records = (*RECORDS, "gradient_evaluations")
    setup = NoisySetup(make_step(simulator.simulate), make_states, describe, records, decides=decides, n_obs=1)
    start = np.asarray(target.initial_point(), dtype=np.float64)
    return NoisyProgram(setup, log_prior, start, log_likelihood_of(target), audit_every)
