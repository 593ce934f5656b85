"""Code shared by proposals with a covariance: checks, the tuned factor of a step, and fast triangular kernels.

Kernels take the *upper* factor U = L', C-contiguous, so that column j of L is the row ``upper[j, j:]``. Both products
below then read contiguous memory and vectorise without changing the order of any sum.
"""

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from approxmcmc.contracts.speaker import speaker
from approxmcmc.engine.checks import cov_of
from approxmcmc.engine.compiler.compile import compiled
from approxmcmc.errors import InvalidInputError


def checked_cholesky(cov: np.ndarray, *, name: str = "covariance") -> np.ndarray:
    """Return the lower Cholesky factor of a covariance; raise InvalidInputError if it is not positive definite."""
    if cov.ndim != 2 or cov.shape[0] != cov.shape[1] or not np.isfinite(cov).all() or not np.allclose(cov, cov.T):
        raise InvalidInputError(
            f"{speaker()}: the matrix {name} is a covariance: it must be symmetric and finite, found shape {cov.shape}"
        )
    try:
        return np.linalg.cholesky(cov)
    except np.linalg.LinAlgError:
        least = np.linalg.eigvalsh(cov)[0]
        raise InvalidInputError(
            f"{speaker()}: the {name} must be positive definite, its least eigenvalue is {least:.3g}"
        ) from None


def covariance_of(preconditioner: Any) -> np.ndarray:
    """Return the covariance given by a preconditioner: a matrix, a vector of sds, or a Laplace approximation."""
    cov = cov_of(preconditioner)
    if cov.ndim == 1 and cov.size and np.all(cov > 0.0) and np.all(np.isfinite(cov)):
        cov = np.diag(cov**2)
    checked_cholesky(cov, name="preconditioner")
    return cov


def check_target_acceptance(rate: float | None) -> None:
    """Raise unless a target acceptance rate is None or lies in (0, 1)."""
    if rate is not None and not 0.0 < rate < 1.0:
        raise InvalidInputError(f"{speaker()}: target_acceptance must lie strictly between 0 and 1, found {rate}")


def tuned_factor(
    name: str, unit: float = 1.0
) -> tuple[Callable[[Any], Mapping[str, float]], Callable[[Any, Mapping[str, float]], None]]:
    """Return the functions `describe` and `restore` (see `CompiledProposal`) of a state with a tuned factor.

    The trace stores ``unit * exp(log_factor)`` under `name`.
    """

    def describe(state: Any) -> Mapping[str, float]:
        return {name: unit * math.exp(state.log_factor[0])}

    def restore(state: Any, described: Mapping[str, float]) -> None:
        state.log_factor[0] = math.log(described[name] / unit)

    return describe, restore


@compiled
def add_column(upper: np.ndarray, j: int, factor: float, out: np.ndarray) -> None:
    """Add `factor` times column j of L to `out`; calls for all j with the factors z_j add L z."""
    row = upper[j]
    for i in range(j, out.shape[0]):
        out[i] += factor * row[i]


@compiled
def whiten(upper: np.ndarray, center: np.ndarray, theta: np.ndarray, out: np.ndarray) -> None:
    """Write phi = L^-1 (theta - center) to `out`."""
    for j in range(theta.shape[0]):
        out[j] = theta[j] - center[j]
    # Forward substitution by columns of L. After step j the entries up to j are phi, and the others are what the
    # columns after j must still give: (theta - center)_i - sum_{k <= j} L_ik phi_k.
    for j in range(theta.shape[0]):
        row = upper[j]
        value = out[j] / row[j]
        out[j] = value
        for i in range(j + 1, theta.shape[0]):
            out[i] -= value * row[i]


@compiled
def factor(matrix: np.ndarray, lower: np.ndarray) -> None:
    """Write the lower Cholesky factor of `matrix` to `lower`, with NaN on its diagonal if none exists.

    Entries above the diagonal are not written.
    """
    for j in range(matrix.shape[0]):
        for i in range(j, matrix.shape[0]):
            total = matrix[i, j]
            for k in range(j):
                total -= lower[i, k] * lower[j, k]
            # A NaN pivot makes all later columns NaN, so the last entry of the diagonal shows whether a factor exists.
            if i == j:
                lower[j, j] = math.sqrt(total) if total > 0.0 else math.nan
            else:
                lower[i, j] = total / lower[j, j]


@compiled
def couple_noise(rng: np.random.Generator, xi: np.ndarray, z: np.ndarray) -> bool:
    """Turn the noise xi of chain X into that of chain Y, in place; return True if both propose the same point.

    `z` is the mean of X's proposal minus that of Y's, whitened as `xi` is. If the proposals are to be the same point,
    `xi` is left unchanged; otherwise it is reflected at the plane orthogonal to `z`.
    """
    square = change = 0.0
    for j in range(xi.shape[0]):
        square += z[j] * z[j]
        change += xi[j] * z[j]
    # Chain Y proposes the point of X if its noise is xi + z, so the two agree with probability min(1, r),
    # log r = log N(xi + z; 0, I) - log N(xi; 0, I). The uniform number is in (0, 1].
    if math.log(1.0 - rng.random()) <= -change - 0.5 * square:
        return True
    if square > 0.0:
        for j in range(xi.shape[0]):
            xi[j] -= 2.0 * change / square * z[j]
    return False
