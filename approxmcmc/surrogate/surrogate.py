"""The surrogate: a posterior with most of its rows replaced by one quadratic.

    S(theta) = log p(theta) + q(theta) + sum_{i always read} log p(x_i | theta),

with q the sum of the quadratics of the light rows, those that are not always read. S costs dim^2 multiplications and
reads the influential rows. Without influential rows exp(S) is a normal density times the prior, up to a constant.
"""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numba import types as nb

from approxmcmc.contracts import CompiledGradient, DifferentiableTarget, Target
from approxmcmc.engine.compiler.compile import BATCH_FASTMATH, VECTOR, compiled as compiled_part, kernel, type_of
from approxmcmc.engine.compiler.identity import cached_by_content
from approxmcmc.engine.compiler.pinned import with_context
from approxmcmc.engine.files.mapped_files import is_mapped, nameless_array
from approxmcmc.engine.files.paths import user_cache
from approxmcmc.engine.terms.batches import BATCH, LOG_PRIOR, linear_predictor, sum_terms
from approxmcmc.engine.terms.gradients import ADD_PRIOR_GRADIENT, ALL_ROWS, make_add_differences
from approxmcmc.errors import IncompatibleError
from approxmcmc.expansion.quadratic import (
    CenteredQuadratic,
    Quadratic,
    functions_of,
)
from approxmcmc.surrogate.moves import SurrogateState
from approxmcmc.targets.regression import Regression

THINNEST_WALL = 1.0  # a wall direction is one in which a predictor's variance is larger, in squared units of its scale
MANY = 1 << 18  # from this number of rows on, a copy of a mapped array is a temporary file; shorter ones are in memory


def rows_of(data: tuple[np.ndarray, ...], n_obs: int, rows: np.ndarray) -> tuple[np.ndarray, ...]:
    """Restrict a target's arrays to the rows with indices `rows`; arrays whose length is not `n_obs` are unchanged."""
    return tuple(taken(array, rows) if array.shape[:1] == (n_obs,) else array for array in data)


def taken(array: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Return a copy of the rows with indices `rows`; many rows of a mapped array are copied to a temporary file."""
    if not is_mapped(array) or len(rows) < MANY:
        return np.ascontiguousarray(array[rows])
    chosen = nameless_array(
        (len(rows), *array.shape[1:]), array.dtype, user_cache("light_rows"), purpose="ControlVariate"
    )
    for lo in range(0, len(rows), MANY):
        chosen[lo : lo + MANY] = array[rows[lo : lo + MANY]]
    return chosen


def gradient_or_none(target: Target) -> CompiledGradient | None:
    """Return the compiled gradient of a target; None if the target has no gradient (then differences of S are used)."""
    try:
        return target.compile_gradient() if isinstance(target, DifferentiableTarget) else None
    except IncompatibleError:
        return None


class PriorAndQuadratic(NamedTuple):
    """S without influential rows: the quadratic of all rows, and the target's kernel of the log prior.

    The kernel has the signature that its use needs: `log_prior` or `add_prior_gradient`.
    """

    quadratic: CenteredQuadratic
    prior: Any


class InfluentialRows(NamedTuple):
    """The influential rows: `data` are the target's arrays, restricted to these `n_rows` rows.

    `memory_order` is an empty array: rows are read as stored. `kernel` is the target's `log_terms` or `add_gradient`.
    """

    data: tuple[np.ndarray, ...]
    memory_order: np.ndarray
    n_rows: int
    kernel: Any


class PriorQuadraticAndRows(NamedTuple):
    """S with influential rows: the quadratic of the light rows, the kernel of the log prior, and these rows."""

    quadratic: CenteredQuadratic
    prior: Any
    rows: InfluentialRows


class LinesOfRows(NamedTuple):
    """The influential rows of the design matrix, X (n_rows, dim), and of the responses, y (n_rows,).

    `offset` holds known parts of the predictors, (n_rows,), or nothing.
    """

    X: np.ndarray
    y: np.ndarray
    offset: np.ndarray
    memory_order: np.ndarray


def make_log_density(plus_value: Callable[..., float], *, with_rows: bool) -> Callable[..., float]:
    """Return S as a function of theta and its parts; `with_rows` if rows are always read."""

    def log_prior_and_quadratic(theta: np.ndarray, parts: PriorAndQuadratic) -> float:
        return plus_value(parts.prior(theta), theta, parts.quadratic)

    def log_surrogate(theta: np.ndarray, parts: PriorQuadraticAndRows) -> float:
        rows = parts.rows
        work = np.empty(min(BATCH, rows.n_rows))
        total = plus_value(parts.prior(theta), theta, parts.quadratic)
        return total + sum_terms(rows.kernel, theta, rows.data, rows.memory_order, rows.n_rows, work)

    return log_surrogate if with_rows else log_prior_and_quadratic


def make_add_gradient(add_gradient: Callable[..., None], *, with_rows: bool) -> Callable[..., None]:
    """Return the function of theta, `out` and the parts of S that adds grad S(theta) to `out`."""

    def add_prior_and_quadratic_gradient(theta: np.ndarray, out: np.ndarray, parts: PriorAndQuadratic) -> None:
        parts.prior(theta, out)
        add_gradient(theta, parts.quadratic, out)

    def add_surrogate_gradient(theta: np.ndarray, out: np.ndarray, parts: PriorQuadraticAndRows) -> None:
        rows = parts.rows
        parts.prior(theta, out)
        add_gradient(theta, parts.quadratic, out)
        rows.kernel(theta, rows.data, rows.memory_order, 0, rows.n_rows, out)

    return add_surrogate_gradient if with_rows else add_prior_and_quadratic_gradient


def predict(theta: np.ndarray, out: np.ndarray, rows: LinesOfRows) -> None:
    """Write the linear predictors of the influential rows at theta to `out`."""
    linear_predictor(theta, rows.X, rows.memory_order, 0, rows.X.shape[0], out)
    for i in range(rows.offset.shape[0]):
        out[i] += rows.offset[i]


@cached_by_content(maxsize=64)
def make_on_line(loglik_eta: Callable[[float, float], float]) -> Callable[..., float]:
    """Return ``on_line(eta, slopes, t, rows)``, the sum of the influential rows' terms at predictors eta + t slopes."""
    term = compiled_part(fastmath=set(BATCH_FASTMATH))(loglik_eta)

    def on_line(eta: np.ndarray, slopes: np.ndarray, t: float, rows: LinesOfRows) -> float:
        y = rows.y
        total = 0.0
        for i in range(y.shape[0]):
            total += term(eta[i] + t * slopes[i], y[i])
        return total

    return on_line


def lines_of(target: Target, rows: np.ndarray) -> tuple[Callable[..., float] | None, LinesOfRows, float]:
    """Return the term of a row as a function of its predictor, the influential `rows`, and the predictor's scale.

    The term is None, and there are no rows, unless terms depend on theta through one predictor.
    """
    nothing = LinesOfRows(np.empty((0, target.variables.size)), np.empty(0), np.empty(0), ALL_ROWS)
    if not isinstance(target, Regression) or target.design.n_predictors > 1 or not rows.size:
        return None, nothing, 1.0
    of_one = target.likelihood.of_one_response(target.responses_of(rows))
    if of_one is None:
        return None, nothing, 1.0
    whole = target.design.matrix_of(target.design.predictors[0], rows)
    offset = np.ascontiguousarray(whole[:, -1])
    offsets = offset if offset.any() else np.empty(0)
    lines = LinesOfRows(np.ascontiguousarray(whole[:, :-1]), of_one[1], offsets, ALL_ROWS)
    return of_one[0], lines, target.likelihood.predictor_scale or 1.0


def predict_nothing(theta: np.ndarray, out: np.ndarray, rows: LinesOfRows) -> None:
    """Do nothing: terms without a linear predictor have no walls."""


def nothing_on_line(eta: np.ndarray, slopes: np.ndarray, t: float, rows: LinesOfRows) -> float:
    """Return 0: terms without a linear predictor have no walls."""
    return 0.0


class Directions(NamedTuple):
    """Directions of the moves, one in each row: `walls` (q, dim) cross the walls, `others` (dim - q, dim) the rest.

    The length of each is one posterior standard deviation.
    """

    walls: np.ndarray
    others: np.ndarray


class Surrogate:
    """S, compiled: from a target, the point of the expansion, the quadratic of the light rows, and the other rows.

    Attributes
    ----------
    log_density, add_gradient
        S and its gradient, as functions of theta only; kernels.
    rows
        The indices of the influential rows in the target's data; int64, shape (n_rows,).
    """

    def __init__(self, target: Target, center: np.ndarray, light: Quadratic, rows: np.ndarray) -> None:
        plain = target.compile()
        self.target = target
        self.center = center
        self.rows = rows
        self.log_prior = plain.log_prior
        self._quadratic = CenteredQuadratic.around(center, light)
        self._functions = functions_of(len(center))
        log_density = make_log_density(self._functions.plus_value, with_rows=rows.size > 0)
        parts = self._parts(plain.log_prior, plain.log_terms, plain.data)
        self.log_density = with_context(log_density, LOG_PRIOR.signature, parts)
        self._term, self._lines, self._scale = lines_of(target, rows)

    @functools.cached_property
    def add_gradient(self) -> Any:
        """The gradient of S: from the target's gradient, or by differences of S if the target has no gradient."""
        plain = gradient_or_none(self.target)
        if plain is None:
            return kernel(make_add_differences(self.log_density), ADD_PRIOR_GRADIENT, cache=False)
        add_gradient = make_add_gradient(self._functions.add_gradient, with_rows=self.rows.size > 0)
        parts = self._parts(plain.add_prior_gradient, plain.add_gradient, plain.data)
        return with_context(add_gradient, ADD_PRIOR_GRADIENT, parts)

    def _parts(
        self, prior: Any, of_rows: Any, data: tuple[np.ndarray, ...]
    ) -> PriorAndQuadratic | PriorQuadraticAndRows:
        """Return the parts of S, or of its gradient, given the kernels of the prior and of rows, and all data."""
        rows = self.rows
        if not rows.size:
            return PriorAndQuadratic(self._quadratic, prior)
        influential = InfluentialRows(rows_of(data, self.target.n_obs, rows), ALL_ROWS, len(rows), of_rows)
        return PriorQuadraticAndRows(self._quadratic, prior, influential)

    @functools.cached_property
    def _kernels_of_lines(self) -> tuple[Any, Any]:
        """Kernels of slices: one writes the predictors of the influential rows, one sums their terms on a line."""
        rows = type_of(self._lines)
        predict_rows = predict_nothing
        sum_up = nothing_on_line
        if self._term is not None:
            predict_rows = predict
            sum_up = make_on_line(self._term)
        along = nb.float64(VECTOR, VECTOR, nb.float64, rows)
        return kernel(predict_rows, nb.void(VECTOR, VECTOR, rows)), kernel(sum_up, along, fastmath=BATCH_FASTMATH)

    def directions(self, cholesky: np.ndarray, *, across_walls: bool = True) -> Directions:
        """Return wall directions and their complement under the covariance L L', L = `cholesky`.

        A wall direction is one in which the linear predictor of an influential row has a standard deviation above one
        unit of its scale. The choice is greedy: the row whose predictor varies most gives a direction, which is
        projected out of all rows before the next choice. With ``across_walls=False`` `walls` is empty, and `others` are
        all directions.
        """
        dim = len(self.center)
        rows = self._lines.X @ cholesky
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
        dim = len(self.center)
        predict, on_line = self._kernels_of_lines
        return SurrogateState(
            log_density=self.log_density,
            add_gradient=self.add_gradient,
            predict=predict,
            on_line=on_line,
            rows=self._lines,
            log_prior=self.log_prior,
            n_rows=len(self.rows),
            center=self.center,
            slope=self._quadratic.gradient,
            basis=others,
            walls=np.ascontiguousarray(walls),
            wall_slopes=np.ascontiguousarray(walls @ self._lines.X.T),
            wall_bends=np.ascontiguousarray(walls @ self._quadratic.hessian),
            log_step=np.full(1, log_step),
            length=length,
            value=np.empty(1),
            exact=np.empty(1),
            position=np.empty(dim),
            gradient=np.empty(dim),
            momentum=np.empty(len(others)),
            eta=np.empty(len(self.rows)),
            order=np.arange(len(walls) + 1),
        )
