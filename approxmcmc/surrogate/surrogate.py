"""The surrogate: a posterior with most of its rows replaced by one quadratic.

    S(theta) = log p(theta) + q(theta) + sum_{i in core} log p(x_i | theta),

with q the sum of the quadratics of the rows that are not in the core. S costs dim^2 multiplications and reads the rows
of the core. With an empty core exp(S) is a normal density times the prior, up to a constant.
"""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numba import types as nb

from approxmcmc.contracts import CompiledGradient, CompiledTarget
from approxmcmc.engine.compiler.compile import BATCH_FASTMATH, VECTOR, compiled as compiled_part, kernel, type_of
from approxmcmc.engine.compiler.identity import cached_by_content
from approxmcmc.engine.compiler.pinned import with_context
from approxmcmc.engine.files.mapped_files import is_mapped, nameless_array
from approxmcmc.engine.files.paths import user_cache
from approxmcmc.engine.terms.batches import BATCH, LOG_PRIOR, linear_predictor, sum_terms
from approxmcmc.engine.terms.gradients import ADD_PRIOR_GRADIENT, ALL_ROWS, make_add_differences
from approxmcmc.surrogate.moves import SurrogateState
from approxmcmc.targets.expansion.quadratic import Quadratic
from approxmcmc.targets.linear import LinearTarget

THINNEST_WALL = 1.0  # a wall direction is one in which a predictor's variance is larger, in squared units of its scale
MANY = 1 << 18  # from this number of rows on, a copy of a mapped array is a temporary file; shorter ones are in memory


def rows_of(data: tuple[np.ndarray, ...], n_obs: int, rows: np.ndarray) -> tuple[np.ndarray, ...]:
    """Restrict a target's arrays to the rows with indices `rows`; arrays whose length is not `n_obs` are unchanged."""
    return tuple(taken(array, rows) if array.shape[:1] == (n_obs,) else array for array in data)


def taken(array: np.ndarray, rows: Any) -> np.ndarray:
    """Return some rows of an array: a copy unless they are a slice, in a temporary file for many of a mapped array."""
    if isinstance(rows, slice) or not is_mapped(array) or len(rows) < MANY:
        return np.ascontiguousarray(array[rows])
    chosen = nameless_array((len(rows), *array.shape[1:]), array.dtype, user_cache("light_rows"), who="CoreRows")
    for lo in range(0, len(rows), MANY):
        chosen[lo : lo + MANY] = array[rows[lo : lo + MANY]]
    return chosen


class SumOfRows(NamedTuple):
    """The numbers and kernels from which `log_surrogate` computes S.

    `center`, `slope` (dim,), `bend` (dim, dim) and `value` (1,) are the centre, gradient, Hessian and value of the
    quadratic of the light rows; `core` are the target's data, restricted to the `n_core` rows of the core;
    `memory_order` is an empty array: rows are read as stored. `log_prior` and `log_terms` are the target's kernels.
    """

    center: np.ndarray
    value: np.ndarray
    slope: np.ndarray
    bend: np.ndarray
    core: tuple[np.ndarray, ...]
    memory_order: np.ndarray
    n_core: int
    log_prior: Any
    log_terms: Any


class SumOfGradients(NamedTuple):
    """The numbers and kernels from which `add_surrogate_gradient` computes grad S; fields as in `SumOfRows`."""

    center: np.ndarray
    slope: np.ndarray
    bend: np.ndarray
    core: tuple[np.ndarray, ...]
    memory_order: np.ndarray
    n_core: int
    add_prior_gradient: Any
    add_gradient: Any


class CorePredictors(NamedTuple):
    """The core's rows of the design matrix, X (n_core, dim), and of the responses, y (n_core,)."""

    X: np.ndarray
    y: np.ndarray
    memory_order: np.ndarray


def log_surrogate(theta: np.ndarray, rows: SumOfRows) -> float:
    """Return the surrogate log density S(theta)."""
    center, slope, bend = rows.center, rows.slope, rows.bend
    total = rows.log_prior(theta) + rows.value[0]
    for j in range(theta.shape[0]):
        product = 0.0
        for k in range(theta.shape[0]):
            product += bend[j, k] * (theta[k] - center[k])
        total += (theta[j] - center[j]) * (slope[j] + 0.5 * product)
    if rows.n_core > 0:
        total += sum_terms(rows.log_terms, theta, rows.core, rows.memory_order, rows.n_core, np.empty(BATCH))
    return total


def add_surrogate_gradient(theta: np.ndarray, out: np.ndarray, rows: SumOfGradients) -> None:
    """Add grad S(theta) to `out`."""
    center, slope, bend = rows.center, rows.slope, rows.bend
    rows.add_prior_gradient(theta, out)
    for j in range(theta.shape[0]):
        product = slope[j]
        for k in range(theta.shape[0]):
            product += bend[j, k] * (theta[k] - center[k])
        out[j] += product
    if rows.n_core > 0:
        rows.add_gradient(theta, rows.core, rows.memory_order, 0, rows.n_core, out)


def predict(theta: np.ndarray, out: np.ndarray, rows: CorePredictors) -> None:
    """Write the linear predictors of the core's rows at theta to `out`."""
    linear_predictor(theta, rows.X, rows.memory_order, 0, rows.X.shape[0], out)


@cached_by_content(maxsize=64)
def make_on_line(loglik_eta: Callable[[float, float], float]) -> Callable[..., float]:
    """Return the function ``on_line(eta, slopes, t, rows)`` that sums the core's terms at predictors eta + t slopes."""
    term = compiled_part(fastmath=set(BATCH_FASTMATH))(loglik_eta)

    def on_line(eta: np.ndarray, slopes: np.ndarray, t: float, rows: CorePredictors) -> float:
        y, total = rows.y, 0.0
        for i in range(y.shape[0]):
            total += term(eta[i] + t * slopes[i], y[i])
        return total

    return on_line


def predict_nothing(theta: np.ndarray, out: np.ndarray, rows: CorePredictors) -> None:
    """Do nothing: terms without a linear predictor have no walls."""


def nothing_on_line(eta: np.ndarray, slopes: np.ndarray, t: float, rows: CorePredictors) -> float:
    """Return 0: terms without a linear predictor have no walls."""
    return 0.0


class Directions(NamedTuple):
    """Directions of the moves, one in each row: `walls` (q, dim) cross the walls, `others` (dim - q, dim) the rest.

    The length of each is one posterior standard deviation.
    """

    walls: np.ndarray
    others: np.ndarray


class Surrogate:
    """S, compiled: from a target, the point of the expansion, the quadratic of the light rows, and the core.

    Attributes
    ----------
    log_density, add_gradient
        S and its gradient, as functions of theta only; kernels.
    core
        The indices of the core's rows in the target's data; int64, shape (n_core,).
    """

    def __init__(
        self,
        target: Any,
        compiled: CompiledTarget,
        gradient: CompiledGradient | None,
        center: np.ndarray,
        light: Quadratic,
        core: np.ndarray,
    ) -> None:
        self.target, self.center, self.light, self.core = target, center, light, core
        self.log_prior, self._gradient, self._n_obs = compiled.log_prior, gradient, compiled.n_obs
        self._slope, self._bend = np.array(light.gradient), np.array(light.hessian)
        kernels = compiled.log_prior, compiled.log_terms
        data = rows_of(compiled.data, compiled.n_obs, core)
        quadratic = center, np.array([light.value]), self._slope, self._bend
        rows = SumOfRows(*quadratic, data, ALL_ROWS, len(core), *kernels)
        self.log_density = with_context(log_surrogate, LOG_PRIOR.signature, rows)
        self._has_predictors = isinstance(target, LinearTarget) and len(core) > 0
        X = np.asarray(target.X[core], np.float64) if self._has_predictors else np.empty((0, len(center)))
        y = np.array(target.y[core]) if self._has_predictors else np.empty(0)
        self._predictors = CorePredictors(X, y, ALL_ROWS)
        self._scale = (target.predictor_scale or 1.0) if self._has_predictors else 1.0

    @functools.cached_property
    def add_gradient(self) -> Any:
        """The gradient of S: from the target's gradient, or by differences of S if the target has no gradient."""
        if self._gradient is None:
            return kernel(make_add_differences(self.log_density), ADD_PRIOR_GRADIENT, cache=False)
        kernels = self._gradient.add_prior_gradient, self._gradient.add_gradient
        data = rows_of(self._gradient.data, self._n_obs, self.core)
        rows = SumOfGradients(self.center, self._slope, self._bend, data, ALL_ROWS, len(self.core), *kernels)
        return with_context(add_surrogate_gradient, ADD_PRIOR_GRADIENT, rows)

    @functools.cached_property
    def _lines(self) -> tuple[Any, Any]:
        """Kernels of slices: one writes the predictors of the core, the other sums the core's terms on a line."""
        rows = type_of(self._predictors)
        predict_rows, sum_up = predict_nothing, nothing_on_line
        if self._has_predictors:
            predict_rows, sum_up = predict, make_on_line(self.target._loglik_eta)
        along = nb.float64(VECTOR, VECTOR, nb.float64, rows)
        return kernel(predict_rows, nb.void(VECTOR, VECTOR, rows)), kernel(sum_up, along, fastmath=BATCH_FASTMATH)

    def directions(self, cholesky: np.ndarray, *, across_walls: bool = True) -> Directions:
        """Return wall directions and their complement under the covariance L L', L = `cholesky`.

        A wall direction is one in which the linear predictor of a core row has a standard deviation above one unit of
        its scale. The choice is greedy: the row whose predictor varies most gives a direction, which is projected out
        of all rows before the next choice. With ``across_walls=False`` `walls` is empty, and `others` are all
        directions.
        """
        dim, rows = len(self.center), self._predictors.X @ cholesky
        walls: list[np.ndarray] = []
        while across_walls and len(rows) and len(walls) < dim:
            variances = np.einsum("ij,ij->i", rows, rows)
            widest = int(np.argmax(variances))
            if variances[widest] <= THINNEST_WALL * self._scale**2:
                break
            walls.append(rows[widest] / np.sqrt(variances[widest]))
            rows = rows - np.outer(rows @ walls[-1], walls[-1])
        frame = np.array(walls).reshape(-1, dim)
        whole, _ = np.linalg.qr(np.vstack([frame, np.eye(dim)]).T)  # its first columns span the walls, up to sign
        return Directions(frame @ cholesky.T, np.ascontiguousarray(whole[:, len(frame) :].T @ cholesky.T))

    def new_state(self, directions: Directions, length: float, log_step: float) -> SurrogateState:
        """Return the state of a chain on S, with its own scratch, S not yet evaluated.

        `length` is that of a trajectory, 0 for a single step; `log_step` is the log of a step.
        """
        walls, others = directions
        dim, (predict, on_line) = len(self.center), self._lines
        return SurrogateState(
            log_density=self.log_density,
            add_gradient=self.add_gradient,
            predict=predict,
            on_line=on_line,
            core=self._predictors,
            log_prior=self.log_prior,
            n_core=len(self.core),
            center=self.center,
            slope=self._slope,
            basis=others,
            walls=np.ascontiguousarray(walls),
            wall_slopes=np.ascontiguousarray(walls @ self._predictors.X.T),
            wall_bends=np.ascontiguousarray(walls @ self._bend),
            log_step=np.full(1, log_step),
            length=length,
            value=np.empty(1),
            exact=np.empty(1),
            position=np.empty(dim),
            gradient=np.empty(dim),
            momentum=np.empty(len(others)),
            eta=np.empty(len(self.core)),
            order=np.arange(len(walls) + 1),
        )
