"""Langevin steps whose drift auxiliary data estimate.

    theta' ~ N(m(theta, G), Sigma),    m(theta, G) = theta + Sigma/2 [grad log p(theta) + s(y) - mean statistic of G],

G drawn at theta. NoisyLangevin and MALAExchange are made of these pieces.
"""

import math
from typing import Any

import numpy as np

from approxmcmc.contracts import COUNT_NAMES, DoublyIntractableTarget
from approxmcmc.engine.approximation import cov_of
from approxmcmc.engine.checks import checked_integer
from approxmcmc.engine.compile import compiled
from approxmcmc.engine.vectors import assign
from approxmcmc.errors import IncompatibleError, InvalidInputError
from approxmcmc.samplers.noisy.chain import NoisyProgram, NoisyStep, with_part
from approxmcmc.samplers.noisy.doubly_intractable import RECORDS, check_target, log_likelihood_of

GRADIENTS = COUNT_NAMES.index("gradient_evaluations")
# Entries of the proposal's state: log of the factor on the standard deviation of a step, and whether G is at theta.
LOG_FACTOR, CARRIED = 0, 1
# Of the central difference of the log prior, which is quadratic or constant: only rounding remains, 1e-12 relative.
PRIOR_STEP = 1e-4


@compiled
def prior_gradient(log_prior, theta, shifted, out):  # type: ignore[no-untyped-def]
    """Write grad log p(theta) to `out`; differences are one-sided at the edge of the support."""
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
            above, width = here, width - step
        if below == -math.inf:
            below, width = here, width - step
        out[j] = (above - below) / width if width > 0.0 else 0.0


@compiled
def mean_after_drift(log_prior, theta, observed, statistics, sigma, factor, work, out):  # type: ignore[no-untyped-def]
    """Write m(theta, G) to `out`, with Sigma = factor^2 sigma; `statistics` holds G, one draw per row."""
    gradient = work[0]
    prior_gradient(log_prior, theta, work[1], gradient)
    for j in range(theta.shape[0]):
        drawn = 0.0
        for k in range(statistics.shape[0]):
            drawn += statistics[k, j]
        gradient[j] += observed[j] - drawn / statistics.shape[0]
    for i in range(theta.shape[0]):
        step = 0.0
        for j in range(theta.shape[0]):
            step += sigma[i, j] * gradient[j]
        out[i] = theta[i] + 0.5 * factor * factor * step


@compiled
def add_noise(rng, lower, factor, work, out):  # type: ignore[no-untyped-def]
    """Add factor * L z to `out`, z ~ N(0, I); return |z|^2."""
    z, square = work[0], 0.0
    for j in range(out.shape[0]):
        z[j] = rng.standard_normal()
        square += z[j] * z[j]
    for i in range(out.shape[0]):
        for j in range(i + 1):
            out[i] += factor * lower[i, j] * z[j]
    return square


@compiled
def squared_distance(lower, factor, x, mean, work):  # type: ignore[no-untyped-def]
    """Return (x - mean)' Sigma^-1 (x - mean), Sigma = factor^2 L L', by forward substitution."""
    w, square = work[0], 0.0
    for i in range(x.shape[0]):
        w[i] = (x[i] - mean[i]) / factor
        for j in range(i):
            w[i] -= lower[i, j] * w[j]
        w[i] /= lower[i, i]
        square += w[i] * w[i]
    return square


def check_steps(sampler: Any) -> None:
    """Check the settings that the Langevin kinds share, and put them in standard form."""
    who = type(sampler).__name__
    if not (np.ndim(sampler.step_size) == 0 and 0.0 < sampler.step_size < math.inf):
        raise InvalidInputError(f"{who}: step_size must be positive and finite, found {sampler.step_size!r}")
    object.__setattr__(sampler, "step_size", float(sampler.step_size))
    object.__setattr__(sampler, "n_auxiliary", checked_integer(sampler.n_auxiliary, "n_auxiliary", who=who))
    object.__setattr__(sampler, "cov", _checked_covariance(sampler.cov, who))


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
    functions: dict[str, Any],
    *,
    n_ratio: int,
    decides: bool,
    audit_every: int | str | None,
) -> NoisyProgram:
    """Bind a Langevin kind to a target; `n_ratio` auxiliary draws serve the ratio alone.

    The params are ((sigma, its Cholesky factor, wanted acceptance, refresh), s(y), the simulator's), the memory
    (proposal state, simulator state and draws for the ratio, simulator state for the drift, G, G', work).
    """
    who = type(sampler).__name__
    check_target(target, who)
    simulator, dim = target.build_simulator(sampler.auxiliary), target.variables.size
    cov = np.eye(dim) if sampler.cov is None else np.asarray(sampler.cov)
    if cov.shape != (dim, dim):
        raise IncompatibleError(f"{who}: the target has {dim} parameters, cov has shape {cov.shape}")
    sigma = np.ascontiguousarray(sampler.step_size * cov)
    wanted, refresh = sampler.target_acceptance, sampler.refresh
    own = (sigma, np.ascontiguousarray(np.linalg.cholesky(sigma)), wanted or 0.0, bool(refresh))

    def make_memory(theta: np.ndarray, streams: Any) -> tuple[Any, ...]:
        for_ratio, here, there = (np.empty((n, dim)) for n in (n_ratio, sampler.n_auxiliary, sampler.n_auxiliary))
        work = np.empty((3, dim))
        return (np.zeros(2), simulator.make_state(), for_ratio, simulator.make_state(), here, there, work)

    def describe(state: np.ndarray) -> dict[str, float]:
        return {} if wanted is None else {"step_size": sampler.step_size * math.exp(2.0 * state[LOG_FACTOR])}

    step = NoisyStep(
        {name: with_part(function, "SIMULATE", simulator.simulate) for name, function in functions.items()},
        (own, target.observed_statistics, simulator.params),
        make_memory,
        describe,
        (*RECORDS, "gradient_evaluations"),
        decides=decides,
        n_obs=1,
    )
    start = np.asarray(target.initial_point(), dtype=np.float64)
    return NoisyProgram(step, target.compile_log_prior(), start, log_likelihood_of(target), audit_every)
