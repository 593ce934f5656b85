"""Code shared by all Langevin proposals: a normal step along a gradient, and the density of the reverse step.

    theta' = m(theta) + N(0, alpha M),    m(theta) = theta + (alpha/2) M g(theta).

**Convention, everywhere in this package: the step size alpha is the variance of the noise.** The drift has alpha/2.
(With alpha for both, the chain would sample the squared posterior.) M is a fixed preconditioner, L L' = M; an empty
`upper` stands for a diagonal M with standard deviations `scale`.
"""

import math
from typing import Any, NamedTuple

import numpy as np

from approxmcmc.contracts import CompiledGradient, DifferentiableTarget, Target
from approxmcmc.contracts.arguments import is_number
from approxmcmc.contracts.speaker import speaker
from approxmcmc.engine.checks import cov_of
from approxmcmc.engine.compiler.compile import compiled
from approxmcmc.engine.compiler.vectors import assign
from approxmcmc.errors import IncompatibleError, InvalidInputError
from approxmcmc.proposals.covariance import add_column, checked_cholesky, covariance_of, whiten


@compiled
def drift(
    alpha: float, scale: np.ndarray, upper: np.ndarray, theta: np.ndarray, gradient: np.ndarray, out: np.ndarray
) -> None:
    """Write m(theta) = theta + (alpha/2) M g to `out`."""
    dim = theta.shape[0]
    if upper.shape[0] == 0:
        for j in range(dim):
            out[j] = theta[j] + 0.5 * alpha * scale[j] * scale[j] * gradient[j]
        return
    assign(out, theta)
    for j in range(dim):  # M g = L (L' g)
        row = upper[j]
        component = 0.0
        for i in range(j, dim):
            component += row[i] * gradient[i]
        add_column(upper, j, 0.5 * alpha * component, out)


@compiled
def add_noise(rng: np.random.Generator, alpha: float, scale: np.ndarray, upper: np.ndarray, out: np.ndarray) -> float:
    """Add sqrt(alpha) L z to `out`, with z ~ N(0, I); return |z|^2."""
    spread = math.sqrt(alpha)
    squared = 0.0
    for j in range(out.shape[0]):
        z = rng.standard_normal()
        squared += z * z
        if upper.shape[0] == 0:  # a diagonal M
            out[j] += spread * scale[j] * z
        else:
            add_column(upper, j, spread * z, out)
    return squared


@compiled
def add_given_noise(alpha: float, scale: np.ndarray, upper: np.ndarray, xi: np.ndarray, out: np.ndarray) -> None:
    """Add sqrt(alpha) L xi to `out`."""
    spread = math.sqrt(alpha)
    for j in range(out.shape[0]):
        if upper.shape[0] == 0:
            out[j] += spread * scale[j] * xi[j]
        else:
            add_column(upper, j, spread * xi[j], out)


@compiled
def squared_distance(
    scale: np.ndarray, upper: np.ndarray, center: np.ndarray, theta: np.ndarray, work: np.ndarray
) -> float:
    """Return (theta - center)' M^-1 (theta - center); `work` becomes L^-1 (theta - center)."""
    if upper.shape[0] == 0:
        for j in range(theta.shape[0]):
            work[j] = (theta[j] - center[j]) / scale[j]
    else:
        whiten(upper, center, theta, work)
    total = 0.0
    for j in range(theta.shape[0]):
        total += work[j] * work[j]
    return total


class Spread(NamedTuple):
    """The preconditioner M for kernels: `scale`, its standard deviations, or `upper` = L'; the other is empty."""

    scale: np.ndarray
    upper: np.ndarray


def checked_preconditioner(preconditioner: Any) -> Any:
    """Return a preconditioner as None, a vector of standard deviations or a covariance; raise if it is invalid."""
    if preconditioner is None:
        return None
    values = cov_of(preconditioner)
    if values.ndim == 1 and values.size and np.all(values > 0.0) and np.all(np.isfinite(values)):
        return values
    return covariance_of(values)


def spread_of(preconditioner: Any, dim: int) -> Spread:
    """Return the arrays of a checked preconditioner that kernels need, for a target of `dim` parameters."""
    if preconditioner is None:
        return Spread(np.ones(dim), np.empty((0, 0)))
    if preconditioner.shape[0] != dim:
        raise IncompatibleError(
            f"{speaker()}: the target has {dim} parameters, the preconditioner has shape {preconditioner.shape}; give "
            f"{dim} standard deviations, a {dim} x {dim} covariance, or laplace(target) of this target"
        )
    if preconditioner.ndim == 1:
        return Spread(preconditioner.copy(), np.empty((0, 0)))
    return Spread(np.empty(0), np.ascontiguousarray(checked_cholesky(preconditioner).T))


def gradient_of(target: Target) -> CompiledGradient:
    """Return the compiled gradients of a target; raise if it has none."""
    if not isinstance(target, DifferentiableTarget):
        raise IncompatibleError(
            f"{speaker()} needs the gradient of the log density; {target!r} has none; use RandomWalk"
        )
    return target.compile_gradient()


def checked_step_size(step_size: Any) -> float:
    """Return a positive, finite step size; raise if it is invalid."""
    if not is_number(step_size) or not 0.0 < float(step_size) < math.inf:
        raise InvalidInputError(
            f"{speaker()}: step_size is the variance of the noise, one positive number, found {step_size!r}; "
            "different scales for different coordinates go into preconditioner="
        )
    return float(step_size)
