r"""Code shared by proposals with a momentum: kicks, drifts and friction, in the coordinates of the preconditioner.

With M = L L' and z = L^-1 theta the masses are 1: the velocity v = dz/dt is N(0, I) under the target distribution

    p(theta | x) N(v; 0, I),        d theta = L v dt,    d v = (L' g(theta) - gamma v) dt + sqrt(2 gamma) dW,

g the gradient of log p(theta | x) (underdamped Langevin dynamics). A step is composed of exact pieces:

- B, a kick:    v <- v + t L' g(theta);
- A, a drift:   theta <- theta + t L v;
- O, friction:  v <- c v + N(0, (1 - c^2) I),  c = exp(-gamma t).

L is given as for Langevin steps: an empty `upper` stands for a diagonal M with standard deviations `scale`. With a
sparse factor of the precision, M^-1 = G G', L is the inverse of G'.
"""

import math
from typing import Any

import numpy as np

from approxmcmc.contracts.arguments import is_number
from approxmcmc.contracts.speaker import speaker
from approxmcmc.engine.compiler.compile import compiled
from approxmcmc.engine.compiler.vectors import assign
from approxmcmc.engine.sparse_factor import SparseFactor, solve, solve_transposed
from approxmcmc.errors import InvalidInputError
from approxmcmc.proposals.covariance import add_column


@compiled
def kick(time: float, scale: np.ndarray, upper: np.ndarray, gradient: np.ndarray, velocity: np.ndarray) -> float:
    """Add time L' g to the velocity v, and return the change of the kinetic energy |v|^2 / 2."""
    dim = velocity.shape[0]
    gained = 0.0
    for j in range(dim):
        force = 0.0
        if upper.shape[0] == 0:
            force = scale[j] * gradient[j]
        else:
            row = upper[j]
            for i in range(j, dim):
                force += row[i] * gradient[i]
        change = time * force
        # (v + change)^2 / 2 - v^2 / 2, without the difference of two large numbers
        gained += change * (velocity[j] + 0.5 * change)
        velocity[j] += change
    return gained


@compiled
def drift(time: float, scale: np.ndarray, upper: np.ndarray, velocity: np.ndarray, theta: np.ndarray) -> None:
    """Add time L v to theta."""
    for j in range(theta.shape[0]):
        if upper.shape[0] == 0:
            theta[j] += time * scale[j] * velocity[j]
        else:
            add_column(upper, j, time * velocity[j], theta)


@compiled
def kick_sparsely(
    time: float, factor: SparseFactor, gradient: np.ndarray, velocity: np.ndarray, work: np.ndarray
) -> float:
    """Add time L' g to the velocity, L = G'^-1, and return the change of the kinetic energy; `work` is scratch."""
    assign(work, gradient)
    solve(factor, work)
    gained = 0.0
    for j in range(velocity.shape[0]):
        change = time * work[j]
        gained += change * (velocity[j] + 0.5 * change)
        velocity[j] += change
    return gained


@compiled
def drift_sparsely(
    time: float, factor: SparseFactor, velocity: np.ndarray, theta: np.ndarray, work: np.ndarray
) -> None:
    """Add time L v to theta, L = G'^-1; `work` is scratch."""
    assign(work, velocity)
    solve_transposed(factor, work)
    for j in range(theta.shape[0]):
        theta[j] += time * work[j]


@compiled
def draw_velocity(rng: np.random.Generator, velocity: np.ndarray) -> None:
    """Draw v from N(0, I)."""
    for j in range(velocity.shape[0]):
        velocity[j] = rng.standard_normal()


@compiled
def apply_friction(rng: np.random.Generator, keep: float, spread: float, velocity: np.ndarray) -> None:
    """Apply friction: replace the velocity v by keep v + spread z, z ~ N(0, I)."""
    for j in range(velocity.shape[0]):
        velocity[j] = keep * velocity[j] + spread * rng.standard_normal()


def sparse_factor_of(preconditioner: Any) -> SparseFactor | None:
    """Return the sparse factor G of M^-1 that a preconditioner holds, if it holds one."""
    factor = getattr(preconditioner, "factor", None)
    return factor if isinstance(factor, SparseFactor) else None


def checked_time(step_size: Any) -> float:
    """Return h, the time of a step; raise if it is invalid."""
    if not is_number(step_size) or not 0.0 < float(step_size) < math.inf:
        raise InvalidInputError(
            f"{speaker()}: step_size is the time of a step, one positive number, found {step_size!r}; different scales "
            "for different coordinates go into preconditioner="
        )
    return float(step_size)
