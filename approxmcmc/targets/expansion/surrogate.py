"""The surrogate: what a posterior becomes when most of its rows are replaced by one quadratic.

    S(theta) = log p(theta) + q(theta) + sum_{i in core} log p(x_i | theta),

q the sum of the quadratics of the light rows. S costs dim^2 multiplications and the rows of the core. With an empty
core it is a normal law, up to the prior.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numba import types as nb

from approxmcmc.contracts import CompiledGradient, CompiledTarget
from approxmcmc.engine.batches import BATCH, LOG_PRIOR, linear_predictor, sum_terms
from approxmcmc.engine.compile import BATCH_FASTMATH, VECTOR, kernel
from approxmcmc.engine.compile import compiled as compiled_part
from approxmcmc.engine.gradients import ADD_PRIOR_GRADIENT, ALL_ROWS, make_add_differences
from approxmcmc.engine.pinned import pinned
from approxmcmc.engine.surrogate_transition import SurrogateState
from approxmcmc.targets.expansion.quadratic import Quadratic
from approxmcmc.targets.linear import LinearTarget

LENGTH = 2.2  # of a trajectory, in posterior standard deviations
THINNEST_WALL = 1.0  # variance of a predictor along a direction, in units of its scale, above which it is a wall
PREDICT, ON_LINE = nb.void(VECTOR, VECTOR), nb.float64(VECTOR, VECTOR, nb.float64)


def rows_of(data: tuple[np.ndarray, ...], n_obs: int, rows: np.ndarray) -> tuple[np.ndarray, ...]:
    """Return the arrays of a target with these rows alone; an array without a row for each datum is as it was."""
    return tuple(np.ascontiguousarray(array[rows]) if array.shape[:1] == (n_obs,) else array for array in data)


def make_log_surrogate(
    log_prior: Callable[..., float], log_terms: Callable[..., None], quadratic: Any, core: Any, n_core: int
) -> Callable[[np.ndarray], float]:
    """Return theta -> S(theta)."""

    def log_surrogate(theta: np.ndarray) -> float:
        center, value, slope, bend, order = quadratic()
        total = log_prior(theta) + value[0]
        for j in range(theta.shape[0]):
            product = 0.0
            for k in range(theta.shape[0]):
                product += bend[j, k] * (theta[k] - center[k])
            total += (theta[j] - center[j]) * (slope[j] + 0.5 * product)
        if n_core > 0:
            total += sum_terms(log_terms, theta, core(), order, n_core, np.empty(BATCH))
        return total

    return log_surrogate


def make_add_surrogate_gradient(
    add_prior_gradient: Callable[..., None], add_gradient: Callable[..., None], quadratic: Any, core: Any, n_core: int
) -> Callable[..., None]:
    """Return what adds grad S(theta)."""

    def add_surrogate_gradient(theta: np.ndarray, out: np.ndarray) -> None:
        center, _, slope, bend, order = quadratic()
        add_prior_gradient(theta, out)
        for j in range(theta.shape[0]):
            product = slope[j]
            for k in range(theta.shape[0]):
                product += bend[j, k] * (theta[k] - center[k])
            out[j] += product
        if n_core > 0:
            add_gradient(theta, core(), order, 0, n_core, out)

    return add_surrogate_gradient


def make_predict(core: Any, n_core: int) -> Callable[..., None]:
    """Return what writes the linear predictors of the core."""

    def predict(theta: np.ndarray, out: np.ndarray) -> None:
        X, _, order = core()
        linear_predictor(theta, X, order, 0, n_core, out)

    return predict


def make_on_line(loglik_eta: Callable[[float, float], float], core: Any) -> Callable[..., float]:
    """Return the sum of the terms of the core at predictors eta + t slopes."""

    def on_line(eta: np.ndarray, slopes: np.ndarray, t: float) -> float:
        _, y, _ = core()
        total = 0.0
        for i in range(y.shape[0]):
            total += loglik_eta(eta[i] + t * slopes[i], y[i])
        return total

    return on_line


def predict_nothing(theta: np.ndarray, out: np.ndarray) -> None:
    """Stand in where the terms have no linear predictor, and there are no walls."""


def nothing_on_line(eta: np.ndarray, slopes: np.ndarray, t: float) -> float:
    """Stand in likewise."""
    return 0.0


class Directions(NamedTuple):
    """Where a surrogate is moved: `walls` (q, dim) and the `others` (dim - q, dim), in standard deviations."""

    walls: np.ndarray
    others: np.ndarray


class Surrogate:
    """S, compiled: from a target, the point of the expansion, the quadratic of the light rows, and the core.

    Attributes
    ----------
    log_density, add_gradient
        S and its gradient, as functions of theta alone; kernels.
    core
        The numbers of its rows; int64, shape (n_core,).
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
        self.center, self.light, self.core, self.log_prior = center, light, core, compiled.log_prior
        n_obs, n_core = compiled.n_obs, len(core)
        value, slope, bend = np.array([light.value]), np.array(light.gradient), np.array(light.hessian)
        quadratic = pinned(center, value, slope, bend, ALL_ROWS)
        rows = pinned(*rows_of(compiled.data, n_obs, core))
        density = make_log_surrogate(compiled.log_prior, compiled.log_terms, quadratic, rows, n_core)
        self.log_density = kernel(density, LOG_PRIOR.signature, cache=False)
        if gradient is None:
            slope_of = make_add_differences(self.log_density)
        else:
            parts = gradient.add_prior_gradient, gradient.add_gradient, quadratic
            slope_of = make_add_surrogate_gradient(*parts, pinned(*rows_of(gradient.data, n_obs, core)), n_core)
        self.add_gradient = kernel(slope_of, ADD_PRIOR_GRADIENT, cache=False)
        self._X = np.ascontiguousarray(target.X[core]) if isinstance(target, LinearTarget) else np.empty((0, 0))
        self._predict, self._on_line = kernel(predict_nothing, PREDICT), kernel(nothing_on_line, ON_LINE)
        self._scale = 1.0
        if isinstance(target, LinearTarget) and n_core:
            self._scale = target.predictor_scale or 1.0
            rows = pinned(self._X, np.array(target.y[core]), ALL_ROWS)
            self._predict = kernel(make_predict(rows, n_core), PREDICT, cache=False)
            on_line = make_on_line(compiled_part(fastmath=set(BATCH_FASTMATH))(target._loglik_eta), rows)
            self._on_line = kernel(on_line, ON_LINE, fastmath=BATCH_FASTMATH, cache=False)

    def directions(self, cholesky: np.ndarray) -> Directions:
        """Return wall directions and their complement in the metric L L', L = `cholesky`.

        A direction is a wall where a predictor of the core varies by more than one unit of its scale along it. The
        choice is greedy: the row whose predictor varies most gives a direction, which is projected out, and so on.
        """
        dim, rows = len(self.center), self._X @ cholesky if self._X.size else np.empty((0, len(self.center)))
        walls: list[np.ndarray] = []
        while len(rows) and len(walls) < dim:
            variances = np.einsum("ij,ij->i", rows, rows)
            widest = int(np.argmax(variances))
            if variances[widest] <= THINNEST_WALL * self._scale**2:
                break
            walls.append(rows[widest] / np.sqrt(variances[widest]))
            rows = rows - np.outer(rows @ walls[-1], walls[-1])
        frame = np.array(walls).reshape(-1, dim)
        whole, _ = np.linalg.qr(np.vstack([frame, np.eye(dim)]).T)  # its first columns span the walls, up to sign
        return Directions(frame @ cholesky.T, np.ascontiguousarray(whole[:, len(frame) :].T @ cholesky.T))

    def new_state(self, directions: Directions, log_step: float = 0.0) -> SurrogateState:
        """Return what a chain on S needs, with scratch of its own."""
        walls, others = directions
        dim, slopes = len(self.center), walls @ self._X.T if self._X.size else np.empty((len(walls), 0))
        return SurrogateState(
            log_density=self.log_density,
            add_gradient=self.add_gradient,
            predict=self._predict,
            on_line=self._on_line,
            log_prior=self.log_prior,
            n_core=len(self.core),
            center=self.center,
            slope=np.array(self.light.gradient),
            basis=others,
            walls=np.ascontiguousarray(walls),
            wall_slopes=np.ascontiguousarray(slopes),
            wall_bends=np.ascontiguousarray(walls @ self.light.hessian),
            log_step=np.full(1, log_step),
            length=LENGTH,
            position=np.empty(dim),
            gradient=np.empty(dim),
            momentum=np.empty(len(others)),
            eta=np.empty(len(self.core)),
            order=np.arange(len(walls) + 1),
        )
