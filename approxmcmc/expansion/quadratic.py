"""The second-order expansion of a function around a point, and the checks that expansions of all kinds share."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from approxmcmc.engine.checks import show
from approxmcmc.engine.compiler.compile import allocating, compiled
from approxmcmc.engine.files.mapped_files import nameless_array
from approxmcmc.engine.files.paths import user_cache
from approxmcmc.errors import InvalidInputError, NotFiniteError

ROWS = 4096  # data expanded at a time: at 50 columns they and a scaled copy fill 3 MB, and stay in cache
# Eigenvalues of -Hessian, scaled to a unit diagonal, that are below this may be rounding errors.
FLAT = 1e-10


class Quadratic(NamedTuple):
    """Value, gradient (dim,) and Hessian (dim, dim) of a function at a point."""

    value: float
    gradient: np.ndarray
    hessian: np.ndarray

    def __add__(self, other: Any) -> "Quadratic":
        """Return the expansion of the sum of two functions."""
        return Quadratic(*(mine + theirs for mine, theirs in zip(self, other, strict=True)))

    def __sub__(self, other: Any) -> "Quadratic":
        """Return the expansion of the difference of two functions."""
        return Quadratic(*(mine - theirs for mine, theirs in zip(self, other, strict=True)))


class CenteredQuadratic(NamedTuple):
    """A quadratic function of theta, as kernels read it: its centre (dim,), and there its derivatives.

    Value (1,), gradient (dim,) and Hessian (dim, dim), exactly symmetric.
    """

    center: np.ndarray
    value: np.ndarray
    gradient: np.ndarray
    hessian: np.ndarray

    @classmethod
    def around(cls, center: np.ndarray, quadratic: Quadratic) -> "CenteredQuadratic":
        """Return the function with this value and these derivatives at `center`."""
        value, gradient, hessian = quadratic
        return cls(center, np.array([value]), np.array(gradient), np.array(hessian))


# From this number of coordinates on, the products of all rows of a Hessian with theta - center are computed at once,
# which vectorises. Below, memory for them costs more than it saves: a gradient takes 23 ns one row after the other and
# 112 ns at once for 5 coordinates, 339 and 229 for 20, 9400 and 2600 for 100. Both ways add in the same order. The
# choice is made when a kernel is composed: a kernel with both ways took .3 s longer to compile.
MANY = 16


@compiled
def plus_row(total: float, k: int, theta: np.ndarray, quadratic: CenteredQuadratic) -> float:
    """Return `total` plus entry k of the Hessian times theta - center."""
    center = quadratic.center
    row = quadratic.hessian[k]
    for j in range(theta.shape[0]):
        total += row[j] * (theta[j] - center[j])
    return total


@compiled
def add_rows(theta: np.ndarray, quadratic: CenteredQuadratic, out: np.ndarray) -> None:
    """Add the Hessian times theta - center to `out`; the Hessian is symmetric, so its row j is column j."""
    center = quadratic.center
    hessian = quadratic.hessian
    for j in range(theta.shape[0]):
        delta = theta[j] - center[j]
        for k in range(theta.shape[0]):
            out[k] += hessian[j, k] * delta


@compiled
def plus_quadratic_of_few(total: float, theta: np.ndarray, quadratic: CenteredQuadratic) -> float:
    """Return `total` plus the value of a quadratic function of few coordinates at theta."""
    center = quadratic.center
    gradient = quadratic.gradient
    total += quadratic.value[0]
    for k in range(theta.shape[0]):
        total += (theta[k] - center[k]) * (gradient[k] + 0.5 * plus_row(0.0, k, theta, quadratic))
    return total


@allocating
def plus_quadratic_of_many(total: float, theta: np.ndarray, quadratic: CenteredQuadratic) -> float:
    """Return the same for many coordinates."""
    center = quadratic.center
    gradient = quadratic.gradient
    total += quadratic.value[0]
    product = np.zeros(theta.shape[0])
    add_rows(theta, quadratic, product)
    for k in range(theta.shape[0]):
        total += (theta[k] - center[k]) * (gradient[k] + 0.5 * product[k])
    return total


@compiled
def add_gradient_of_few(theta: np.ndarray, quadratic: CenteredQuadratic, out: np.ndarray) -> None:
    """Add the gradient of a quadratic function of few coordinates at theta to `out`."""
    gradient = quadratic.gradient
    for k in range(theta.shape[0]):
        out[k] += plus_row(gradient[k], k, theta, quadratic)


@allocating
def add_gradient_of_many(theta: np.ndarray, quadratic: CenteredQuadratic, out: np.ndarray) -> None:
    """Do the same for many coordinates."""
    slope = quadratic.gradient.copy()
    add_rows(theta, quadratic, slope)
    for k in range(theta.shape[0]):
        out[k] += slope[k]


class QuadraticFunctions(NamedTuple):
    """Compiled functions of a quadratic: ``plus_value(total, theta, quadratic) -> total`` and ``add_gradient``."""

    plus_value: Callable[..., float]
    add_gradient: Callable[..., None]


def functions_of(n_coordinates: int) -> QuadraticFunctions:
    """Return the functions of a quadratic with so many coordinates."""
    if n_coordinates < MANY:
        return QuadraticFunctions(plus_quadratic_of_few, add_gradient_of_few)
    return QuadraticFunctions(plus_quadratic_of_many, add_gradient_of_many)


class Survey(NamedTuple):
    """Residuals of an expansion of every row at draws of a pilot.

    `deviations` and `variances` are the sums over all rows of the residuals' standard deviations and variances over the
    draws, or upper bounds of these sums. `left` (draws,) is the sum of the residuals at each draw, up to a constant, or
    None if bounds show that it is small. `walls` (rows,) marks rows that are influential although their residuals at
    the draws are small; `total` is the sum of all quadratics. ``spreads()`` returns the standard deviations row by row,
    ``residuals_of(rows)`` the residuals of some rows, shape (rows, draws), up to a constant for each row. Both are
    computed on demand, because light rows are rarely needed.
    """

    deviations: float
    variances: float
    left: np.ndarray | None
    walls: np.ndarray
    total: Quadratic
    spreads: Callable[[], np.ndarray] | None = None
    residuals_of: Callable[[np.ndarray], np.ndarray] | None = None


def survey_of(residuals: np.ndarray, walls: np.ndarray, total: Quadratic) -> Survey:
    """Return the survey with these residuals, shape (rows, draws), walls, and sum of quadratics `total`."""
    spreads = residuals.std(axis=1)
    sums = float(spreads.sum()), float(spreads @ spreads), residuals.sum(axis=0)
    return Survey(*sums, walls, total, lambda: spreads, residuals.__getitem__)


def inverse(precision: np.ndarray) -> np.ndarray:
    """Return the inverse of a positive definite matrix, exactly symmetric; it is scaled to a unit diagonal first."""
    scale = 1.0 / np.sqrt(np.diag(precision))
    scaled = np.linalg.inv(precision * np.outer(scale, scale))
    return 0.5 * (scaled + scaled.T) * np.outer(scale, scale)


def is_positive_definite(precision: np.ndarray) -> bool:
    """Return whether `precision`, minus a Hessian, is positive definite by more than rounding."""
    diagonal = np.diag(precision)
    if not np.all(diagonal > 0.0):
        return False
    scale = 1.0 / np.sqrt(diagonal)
    scaled = precision * np.outer(scale, scale)
    scaled[np.diag_indices_from(scaled)] -= FLAT  # has a Cholesky factor if, and only if, no eigenvalue is that small
    try:
        return bool(np.isfinite(np.diag(np.linalg.cholesky(scaled))).all())
    except np.linalg.LinAlgError:
        return False


def check_finite(numbers: np.ndarray, first: int, theta: np.ndarray) -> None:
    """Raise if a row of `numbers` holds NaN or infinity, naming the datum; `first` is the index of the first row."""
    bad = np.flatnonzero(~np.isfinite(numbers).all(axis=1))
    if bad.size:
        raise NotFiniteError(
            f"the log-likelihood of datum {first + bad[0]} has no finite value and derivatives at theta = "
            f"{show(theta)}; expand elsewhere, or start the search elsewhere"
        )


def empty_rows(n_obs: int, columns: int, memory_limit: float, *, mapped: bool = False) -> np.ndarray:
    """Return an array (n_obs, columns) to be filled with the rows of an expansion; raise above `memory_limit` bytes.

    `mapped`, for data mapped from a file: the array is in a nameless file below the package's cache folder, and the
    limit does not count.
    """
    if mapped:
        return nameless_array((n_obs, columns), np.float64, user_cache("expansions"), purpose="expansion")
    needed = 8.0 * n_obs * columns
    if needed > memory_limit:
        raise InvalidInputError(
            f"expansion: {n_obs} data need {columns} numbers each, {needed / 1e9:.3g} GB, over memory_limit = "
            f"{memory_limit / 1e9:.3g} GB; take order=1 of a ControlVariate, write the model as a GLMTarget (2 numbers "
            "each) or a PredictorTarget (1 + 2 K + K (K + 1) / 2 for K linear predictors), or raise memory_limit"
        )
    return np.empty((n_obs, columns))
