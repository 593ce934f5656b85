"""Expansion of the terms of a generalised linear model, in closed form: two numbers per datum for any dimension.

    r_i = f(eta) - eta (a_i + b_i eta),    a_i = f' - f'' eta_hat,    b_i = f'' / 2,

with f(eta) the term as a function of its predictor, and f' and f'' at eta_hat = x_i' theta_hat. What is subtracted is
Taylor's polynomial without its constant, which cancels in differences between two thetas. The subtraction loses no
accuracy that matters: r_i has the absolute error of f, about 1e-15, and 10^6 such errors add up to less than 1e-9 in a
log ratio that is compared with numbers of size 1.

The passes of set-up are NumPy. Only the two functions of a predictor and a response are compiled, each as one loop. A
kernel of a whole pass took 2 s to compile, and saves 10 ns a row with 10 columns (23 in place of 32), a fifth with 50.
Matrix products run over a stack of tiles, each so small that OpenBLAS computes it in one thread, so that sums do not
depend on the number of threads.
"""

import functools
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, Protocol, Self

import numpy as np
from numba import types as nb

from approxmcmc.contracts import CompiledGradient, CompiledTarget
from approxmcmc.engine.compiler.compile import BATCH_FASTMATH, MATRIX, allocating, bind, type_of
from approxmcmc.engine.files.mapped_files import is_mapped
from approxmcmc.engine.terms.batches import Data, bind_terms, datum_at, linear_predictor
from approxmcmc.engine.terms.gradients import ALL_ROWS, gradient_signature
from approxmcmc.engine.terms.passes import sum_over_blocks
from approxmcmc.engine.terms.sparse_rows import sparse_predictor, sparse_rows
from approxmcmc.expansion.base import Expansion, over_all_rows
from approxmcmc.expansion.influential_rows import INFLUENTIAL_COST
from approxmcmc.expansion.quadratic import Quadratic, Survey, check_finite


class LinearRows(Protocol):
    """What `LinearExpansion` reads of a target with terms f(eta_i, y_i), eta_i = x_i' theta."""

    @property
    def X(self) -> np.ndarray:  # noqa: N802  # the design matrix
        """The columns, shape (n, dim)."""

    @property
    def y(self) -> np.ndarray:
        """The responses, shape (n,)."""

    @property
    def scalar(self) -> Any:
        """The functions `loglik` and `derivatives` of (eta, y), and what is known of their derivatives."""


# --- terms, derivatives and sums of some rows ---

SMALL = 1 << 18  # multiplications of a matrix product that OpenBLAS computes in one thread
FEWEST = 16  # rows of a tile
MOST = 256
MOST_AT_ONCE = 1 << 12  # most rows for one call of NumPy: they stay in cache
NUMBERS = 100_000  # most numbers in them
NODES = 7  # nodes of a Gauss-Hermite rule
# Averaged coefficients are best over the whole pilot; they are rejected only if their residuals have more than so many
# times the variance of Taylor's over the draws: variances from 16 draws are uncertain by this factor.
WORTH = 2.0
# Largest error, in nats, of a row's quadratic at `PilotAndLimits.reach` standard deviations of its predictor on either
# side. A row whose predictor has a variance above `PilotAndLimits.widest` is a wall if its error is larger; other rows
# are not checked.
FARTHEST = 0.125


def rows_of_tile(dim: int) -> int:
    """Return how many rows of `dim` numbers a tile has."""
    return min(max(SMALL // (dim * dim), FEWEST), MOST)


def pieces(lo: int, hi: int, dim: int) -> Iterator[slice]:
    """Yield slices of the rows lo ... hi - 1 of `dim` numbers; all but the last consist of whole tiles."""
    tile = rows_of_tile(dim)
    step = max(min(MOST_AT_ONCE, NUMBERS // dim) // tile, 1) * tile
    for start in range(lo, hi, step):
        yield slice(start, min(start + step, hi))


class RowFunctions:
    """The terms f(eta, y) of a model and their first two derivatives in eta, for arrays of predictors."""

    def __init__(self, loglik_eta: Callable[..., Any], derivatives_eta: Callable[..., Any], y: np.ndarray) -> None:
        self._functions = (loglik_eta, derivatives_eta)
        self._response = type_of(y)

    def terms(self, eta: np.ndarray, y: np.ndarray) -> np.ndarray:
        """Return f(eta, y); eta has shape (k, n) or (n,), y (n,)."""
        eta = np.ascontiguousarray(eta)
        out = np.empty(eta.shape)
        self._write_terms(np.atleast_2d(eta), y, np.atleast_2d(out))
        return out

    def derivatives(self, eta: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return f'(eta, y) and f''(eta, y), each with the shape of `eta`."""
        eta = np.ascontiguousarray(eta)
        first = np.empty(eta.shape)
        second = np.empty(eta.shape)
        self._write_derivatives(np.atleast_2d(eta), y, np.atleast_2d(first), np.atleast_2d(second))
        return first, second

    @functools.cached_property
    def _write_terms(self) -> Callable[..., None]:
        signature = nb.void(MATRIX, self._response, MATRIX)
        return bind(_make_terms, self._functions[0], signature=signature, fastmath=BATCH_FASTMATH)

    @functools.cached_property
    def _write_derivatives(self) -> Callable[..., None]:
        signature = nb.void(MATRIX, self._response, MATRIX, MATRIX)
        return bind(_make_derivatives, self._functions[1], signature=signature, fastmath=BATCH_FASTMATH)


def _make_terms(loglik_eta: Callable[[float, float], float]) -> Callable[..., None]:
    def terms(eta: np.ndarray, y: np.ndarray, out: np.ndarray) -> None:
        for k in range(eta.shape[0]):
            predictor = eta[k]
            values = out[k]
            for i in range(predictor.shape[0]):
                values[i] = loglik_eta(predictor[i], y[i])

    return terms


def _make_derivatives(derivatives_eta: Callable[[float, float], tuple[float, float]]) -> Callable[..., None]:
    def derivatives(eta: np.ndarray, y: np.ndarray, first: np.ndarray, second: np.ndarray) -> None:
        for k in range(eta.shape[0]):
            predictor = eta[k]
            slopes = first[k]
            curvatures = second[k]
            for i in range(predictor.shape[0]):
                slopes[i], curvatures[i] = derivatives_eta(predictor[i], y[i])

    return derivatives


def times(rows: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Return the matrix product of `rows` (n, dim) with `right`, shape (dim,) or (dim, k)."""
    tile = rows_of_tile(rows.shape[1])
    whole = len(rows) - len(rows) % tile
    stack = np.matmul(rows[:whole].reshape(-1, tile, rows.shape[1]), right)
    return np.concatenate([stack.reshape(whole, *right.shape[1:]), rows[whole:] @ right])


@np.errstate(over="ignore", invalid="ignore")
def add_up(
    rows: np.ndarray, values: np.ndarray, slopes: np.ndarray, curvatures: np.ndarray, scaled: np.ndarray
) -> np.ndarray:
    """Return sum values, X' slopes and X' diag(curvatures) X of some rows, in one vector; `scaled` is scratch for X."""
    n, dim = rows.shape
    tile = rows_of_tile(dim)
    whole = n - n % tile
    scaled = np.multiply(rows, curvatures[:, None], out=scaled[:n])
    stack, left, slope = (array[:whole].reshape(-1, tile, array[0].size) for array in (rows, scaled, slopes[:, None]))
    gradient = np.matmul(slope.transpose(0, 2, 1), stack).sum(axis=0)[0] + slopes[whole:] @ rows[whole:]
    hessian = np.matmul(left.transpose(0, 2, 1), stack).sum(axis=0) + scaled[whole:].T @ rows[whole:]
    return np.concatenate([[values.sum()], gradient, hessian.ravel()])


def squared_lengths(rows: np.ndarray) -> np.ndarray:
    """Return the squared length of each row."""
    return np.einsum("ij,ij->i", rows, rows)  # type: ignore[no-any-return]  # NumPy's types stop here


class PilotAndLimits(NamedTuple):
    """An approximate posterior N(center, L L'), L = `cholesky`, and the limits beyond which a row is a wall.

    `moves` holds draws less the centre, shape (dim, draws). A row is a wall if the variance of its predictor is above
    `widest` and its quadratic is wrong by more than `FARTHEST` at `reach` standard deviations on one side. With
    `averaged` coefficients may be averages over the pilot.
    """

    center: np.ndarray
    cholesky: np.ndarray
    moves: np.ndarray
    averaged: bool
    widest: float
    reach: float


class ExpandedBlock(NamedTuple):
    """Some rows, expanded at a centre: one number per row, shape (rows,), but for `left`.

    `eta`: predictor; `value`: term; `first`, `half`: slope and half of the second derivative; `left`: residuals at the
    draws (draws, rows); `spread`: their standard deviation over the draws; `wall`: whether the row is a wall.
    """

    eta: np.ndarray
    value: np.ndarray
    first: np.ndarray
    half: np.ndarray
    left: np.ndarray
    spread: np.ndarray
    wall: np.ndarray


@np.errstate(over="ignore", invalid="ignore")
def expand_block(rows: np.ndarray, y: np.ndarray, functions: RowFunctions, pilot: PilotAndLimits) -> ExpandedBlock:
    """Expand `rows` with responses `y` at the centre of `pilot`, and compute their residuals at its draws.

    Where the coefficients are averages over the pilot, they are those of the best quadratic under it, by Gauss-Hermite
    quadrature.
    """
    eta = times(rows, pilot.center)
    delta = np.ascontiguousarray(times(rows, pilot.moves).T)
    leverage = squared_lengths(times(rows, pilot.cholesky))
    value = functions.terms(eta, y)
    first, half = functions.derivatives(eta, y)
    half *= 0.5
    wall = _misses(eta, y, value, first, half, leverage, functions, pilot)
    left = functions.terms(eta + delta, y) - (value + delta * (first + delta * half))
    spread = left.std(axis=0)
    if pilot.averaged:
        nodes, weights = np.polynomial.hermite_e.hermegauss(NODES)
        slopes, curvatures = functions.derivatives(eta + np.sqrt(leverage) * nodes[:, None], y)
        slope, curvature = (
            np.einsum("k,kn->n", weights / weights.sum(), of_draws) for of_draws in (slopes, curvatures)
        )
        mean = left + delta * (first - slope + delta * (half - 0.5 * curvature))
        other = mean.std(axis=0)
        better = ~wall & (other * other < WORTH * spread * spread)
        first = np.where(better, slope, first)
        half = np.where(better, 0.5 * curvature, half)
        spread = np.where(better, other, spread)
        left = np.where(better, mean, left)
    return ExpandedBlock(eta, value, first, half, left, spread, wall)


def _misses(
    eta: np.ndarray,
    y: np.ndarray,
    value: np.ndarray,
    first: np.ndarray,
    half: np.ndarray,
    leverage: np.ndarray,
    functions: RowFunctions,
    pilot: PilotAndLimits,
) -> np.ndarray:
    """Return whether each row is a wall; only rows with a `leverage` (variance of eta) above `pilot.widest` can be."""
    wall = np.zeros(len(y), dtype=bool)
    wide = np.flatnonzero(leverage > pilot.widest)
    if wide.size:
        move = pilot.reach * np.sqrt(leverage[wide]) * np.array([[-1.0], [1.0]])
        missed = functions.terms(eta[wide] + move, np.ascontiguousarray(y[wide]))
        missed -= value[wide] + move * (first[wide] + move * half[wide])
        wall[wide] = ~(np.abs(missed) <= FARTHEST).all(axis=0)
    return wall


# --- kernels of residuals and of their gradients ---

FEW_ROWS = 8  # rows that are not worth an allocation: a test that draws its rows reads one or two at a time


def predict_from_full_rows(
    theta: np.ndarray, rows: tuple[np.ndarray], order: np.ndarray, lo: int, hi: int, out: np.ndarray
) -> None:
    """Write the linear predictors of ``order[lo:hi]`` to `out`; ``rows = (X,)``."""
    (X,) = rows
    linear_predictor(theta, X, order, lo, hi, out)


def predict_from_sparse_rows(
    theta: np.ndarray,
    rows: tuple[np.ndarray, np.ndarray, np.ndarray],
    order: np.ndarray,
    lo: int,
    hi: int,
    out: np.ndarray,
) -> None:
    """Write the linear predictors of ``order[lo:hi]`` to `out`; ``rows = (base, values, columns)`` as `sparse_rows`."""
    base, values, columns = rows
    sparse_predictor(theta, base, values, columns, order, lo, hi, out)


class LinearDataOfResiduals(NamedTuple):
    """The data of a kernel of residuals: the arrays of the design, the responses, and the rows of the expansion."""

    design: Data
    y: np.ndarray
    expansion: np.ndarray
    """Slope and half of the curvature of each term in its predictor; (n, 2)."""


@allocating
def data_of_residuals(data: Data) -> LinearDataOfResiduals:
    """Return the arrays of the flat data of a kernel by name."""
    return LinearDataOfResiduals(data[:-2], data[-2], data[-1])


def make_linear_residuals(
    predict: Callable[..., None], loglik_eta: Callable[[float, float], float]
) -> Callable[..., None]:
    """Return the kernel that writes r_i for ``order[lo:hi]``; data = (*rows, y, expansion), `predict` reads `rows`."""

    def linear_residuals(theta: np.ndarray, data: Data, order: np.ndarray, lo: int, hi: int, out: np.ndarray) -> None:
        design, y, expansion = data_of_residuals(data)
        n = hi - lo
        predict(theta, design, order, lo, hi, out)
        if n < FEW_ROWS:
            for i in range(n):
                datum = datum_at(order, lo + i)
                fitted = out[i] * (expansion[datum, 0] + out[i] * expansion[datum, 1])
                out[i] = loglik_eta(out[i], y[datum]) - fitted
            return
        # The rows of the expansion are turned into columns first: only loops over contiguous arrays vectorise.
        columns = np.empty((3, n), y.dtype)  # one allocation; complex for `DistinctRows`
        responses = columns[0]
        slope = columns[1].real
        half_curvature = columns[2].real
        for i in range(n):
            datum = datum_at(order, lo + i)
            responses[i] = y[datum]
            slope[i] = expansion[datum, 0]
            half_curvature[i] = expansion[datum, 1]
        for i in range(n):
            fitted = out[i] * (slope[i] + out[i] * half_curvature[i])
            out[i] = loglik_eta(out[i], responses[i]) - fitted

    return linear_residuals


def make_add_residual_gradient(derivatives_eta: Callable[[float, float], tuple[float, float]]) -> Callable[..., None]:
    """Return the kernel that adds the sum of grad r_i over ``order[lo:hi]`` to `out`; data = (X, y, expansion)."""

    def add_residual_gradient(
        theta: np.ndarray, data: Data, order: np.ndarray, lo: int, hi: int, out: np.ndarray
    ) -> None:
        X, y, expansion = data
        eta = np.empty(hi - lo)
        linear_predictor(theta, X, order, lo, hi, eta)
        for position in range(lo, hi):
            row = datum_at(order, position)
            slope = derivatives_eta(eta[position - lo], y[row])[0]
            slope -= expansion[row, 0] + 2.0 * eta[position - lo] * expansion[row, 1]
            for j in range(theta.shape[0]):
                out[j] += slope * X[row, j]

    return add_residual_gradient


# --- the expansion ---

FULL = 2  # number of data arrays if they are not packed: X and y
# A row is a wall if the variance of its predictor is above LARGEST_LEVERAGE, in units of the squared scale (1/4 and 1
# serve as well), and its quadratic is wrong within REACH_OF_FEW standard deviations: one such light row makes all
# bounds useless, and 42 on Covertype made an exact decision read 92 390 rows in place of 305. If that makes more than
# the share FEW of all rows walls (always read, they cost as much as a pass over all rows), REACH replaces REACH_OF_FEW:
# of KDD99, one-hot, 51 642 distinct rows have larger variances, and 7500 come near the place where classes part.
LARGEST_LEVERAGE = 0.5
FEW = 1.0 / INFLUENTIAL_COST
REACH = 6.0
REACH_OF_FEW = 50.0
REACH_ALONE = 3.0  # standard deviations, if no scale is known: the variance of the predictor is then no criterion


def _unpacked(sums: np.ndarray, dim: int) -> Quadratic:
    """Return the value, the gradient and the Hessian that `sums` holds, one after the other."""
    hessian = sums[1 + dim :].reshape(dim, dim)
    return Quadratic(float(sums[0]), sums[1 : 1 + dim], 0.5 * (hessian + hessian.T))


def _without_constant(quadratic: Quadratic, center: np.ndarray) -> Quadratic:
    """Return `here` with the sum of eta (a_i + b_i eta) at `center` as its value, so that the constant is left out."""
    value = quadratic.gradient @ center - 0.5 * center @ quadratic.hessian @ center
    return quadratic._replace(value=float(value))


class RowsAround(NamedTuple):
    """Some rows with one predictor at a centre: predictors (rows,), f' and f'' there, and L'x_i (rows, dim)."""

    eta: np.ndarray
    directions: np.ndarray
    first: np.ndarray
    second: np.ndarray


class Sums(NamedTuple):
    """Sums over rows of |x_i|^3, |x_i|^6, values, gradients and Hessians, in one vector; the largest |x_i|^2."""

    sums: np.ndarray
    longest: float

    def __add__(self, other: Any) -> "Sums":
        """Return the sums over the rows of this and of `other`."""
        return Sums(self.sums + other.sums, max(self.longest, other.longest))


class LinearExpansion(Expansion):
    """Terms f(eta_i, y_i), eta_i = x_i' theta: the row of datum i is (a_i, b_i), see the module."""

    def __init__(self, target: LinearRows, order: int = 2) -> None:
        super().__init__(target, order)
        self.X = target.X
        self.y = target.y
        self.columns = 2
        self.mapped = is_mapped(target.X)
        self.functions = RowFunctions(target.scalar.loglik, target.scalar.derivatives, target.y)

    def of_rows(self, rows: np.ndarray) -> Self:
        """Return the expansion of the terms of a sample of rows; its sums are scaled to all rows."""
        sample = super().of_rows(rows)
        sample.rows = ALL_ROWS  # of the arrays of the sample
        sample.X = np.asarray(self.X[rows])
        sample.y = np.array(self.y[rows])
        return sample

    def at(self, theta: np.ndarray) -> Quadratic:
        """Return value, gradient and Hessian of the log-likelihood at theta: one pass."""
        return _unpacked(self._pass(theta, out=np.empty((0, 2))).sums[2:], len(theta))

    def expand(self, theta: np.ndarray, out: np.ndarray) -> Quadratic:
        """Expand every row at theta, in one pass; write (a_i, b_i) to `out`, return the sum of eta (a_i + b_i eta)."""
        return _without_constant(_unpacked(self._pass(theta, out=out).sums[2:], len(theta)), theta)

    @over_all_rows
    def _pass(self, theta: np.ndarray, *, out: np.ndarray) -> Sums:
        """Return sums over all rows; unless `out` has length 0, write (a_i, b_i) to it, and sum lengths of rows too."""
        dim = len(theta)

        def block(lo: int, hi: int) -> Sums:
            sums = np.zeros(3 + dim + dim * dim)
            longest = 0.0
            scaled = np.empty((MOST_AT_ONCE, dim))
            for piece in pieces(lo, hi, dim):
                rows, y = self._read(piece)
                eta = times(rows, theta)
                value = self.functions.terms(eta, y)
                slopes, curvatures = self.functions.derivatives(eta, y)
                curvatures *= self.order == 2
                sums[2:] += add_up(rows, value, slopes, curvatures, scaled)
                if not np.isfinite(sums).all():
                    check_finite(np.column_stack([value, slopes, curvatures]), self.first_row + piece.start, theta)
                if len(out):
                    out[piece, 0] = slopes - curvatures * eta
                    out[piece, 1] = 0.5 * curvatures
                    lengths = squared_lengths(rows)
                    longest = max(longest, float(lengths.max()))
                    cubes = lengths * np.sqrt(lengths)
                    sums[:2] += cubes.sum(), np.square(cubes).sum()
            return Sums(sums, longest)

        found = sum_over_blocks(block, len(self.y))
        return found._replace(sums=self.weight * found.sums)

    def _read(self, rows: Any) -> tuple[np.ndarray, np.ndarray]:
        """Return the rows `here` in float64, as products need one type and sums all digits, and their responses."""
        return np.asarray(self.X[rows], np.float64), np.asarray(self.y[rows])

    def light_everywhere(self, pilot: Any, out: np.ndarray, largest: float) -> Survey | None:
        """Return the survey of Taylor's quadratics if bounds prove that every row is light, in one cheap pass.

        If K bounds the third derivative, the error of a quadratic is at most K abs(delta)^3 / 6, delta ~ N(0, h_i) with
        sixth moment 15 h_i^3; h_i <= lambda |x_i|^2, lambda the largest eigenvalue of the covariance. So the sum of all
        errors has a standard deviation of at most 15^(1/2) K lambda^(3/2) sum |x_i|^3 / 6. None if that is above
        `largest`, a row may be a wall, K or the predictor's scale is unknown, or the order is 1.
        """
        bound = self.target.scalar.third_derivative_bound
        scale = self.target.scalar.predictor_scale
        if bound is None or scale is None or self.order != 2:
            return None
        quadratic = self._pass(pilot.mode, out=out)
        (cubes, sixths), total = np.split(quadratic.sums, [2])
        widest = float(np.linalg.eigvalsh(pilot.cov)[-1])
        each = float(np.sqrt(15.0) * bound * widest**1.5 / 6.0)
        if each * cubes > largest or widest * quadratic.longest > LARGEST_LEVERAGE * scale**2:
            return None
        light = np.zeros(len(out), dtype=bool)
        quadratics = _without_constant(_unpacked(total, len(pilot.mode)), pilot.mode)
        return Survey(each * float(cubes), each**2 * float(sixths), None, light, quadratics)

    def survey(
        self, center: np.ndarray, cholesky: np.ndarray, draws: np.ndarray, out: np.ndarray, *, averaged: bool
    ) -> Survey:
        """Expand every row at `center`, write the expansion to `out`, and return the survey of residuals at `draws`.

        One pass, or two if there are many walls. With `averaged` the coefficients of a row that is not a wall are E f'
        and E f'' / 2 over eta_i ~ N(x_i' center, h_i), h_i = |L' x_i|^2, L = `cholesky`: the best quadratic in mean
        square (Price 1958); but Taylor's if these at least halve the variance of the residuals over the draws.
        """
        pilot = (center, np.ascontiguousarray(cholesky), draws)
        n_rows = len(self.y)
        dim = len(center)
        reach = REACH_ALONE if self.target.scalar.predictor_scale is None else REACH_OF_FEW

        def spreads() -> np.ndarray:
            deviations = np.empty(n_rows)
            self._expand_rows(
                pilot, averaged, reach, numbers=np.empty_like(out), spreads=deviations, walls=np.empty_like(walls)
            )
            return deviations

        walls = np.empty(n_rows, dtype=bool)
        surveyed = self._expand_rows(pilot, averaged, reach, numbers=out, spreads=np.empty(0), walls=walls)
        if reach > REACH and walls.mean() > FEW:
            reach = REACH
            surveyed = self._expand_rows(pilot, averaged, reach, numbers=out, spreads=np.empty(0), walls=walls)
        together, left, sums = np.split(surveyed, [2, 2 + len(draws)])
        total = _without_constant(_unpacked(sums, dim), center)
        deviations, variances = map(float, together)

        def residuals_of(rows: np.ndarray) -> np.ndarray:
            return self._left_of(rows, draws, out)

        return Survey(deviations, variances, left, walls, total, spreads, residuals_of)

    @over_all_rows
    def _expand_rows(
        self,
        pilot: tuple[np.ndarray, np.ndarray, np.ndarray],
        averaged: bool,
        reach: float,
        *,
        numbers: np.ndarray,
        spreads: np.ndarray,
        walls: np.ndarray,
    ) -> np.ndarray:
        """Survey all rows in one pass; `pilot` is (centre, Cholesky factor, draws). Fill `numbers`, `spreads`, `walls`.

        Return the sums of the residuals' sds and variances, of the residuals at each draw, and of the quadratics.
        """
        center, cholesky, draws = pilot
        scale = self.target.scalar.predictor_scale
        dim = len(center)
        widest = -1.0 if scale is None else LARGEST_LEVERAGE * scale**2
        about = PilotAndLimits(center, cholesky, np.ascontiguousarray((draws - center).T), averaged, widest, reach)

        def block(lo: int, hi: int) -> np.ndarray:
            total = np.zeros(2 + len(draws) + 1 + dim + dim * dim)
            scaled = np.empty((MOST_AT_ONCE, dim))
            for piece in pieces(lo, hi, dim):
                rows, y = self._read(piece)
                found = expand_block(rows, y, self.functions, about)
                curvatures = 2.0 * found.half
                sums = add_up(rows, found.value, found.first, curvatures, scaled)
                if not np.isfinite(sums).all():
                    rows_of_expansion = np.column_stack([found.value, found.first, curvatures])
                    check_finite(rows_of_expansion, self.first_row + piece.start, center)
                numbers[piece, 0] = found.first - curvatures * found.eta
                numbers[piece, 1] = found.half
                walls[piece] = found.wall
                if len(spreads):
                    spreads[piece] = found.spread
                together = found.spread.sum(), np.square(found.spread).sum()
                total += np.concatenate([together, found.left.sum(axis=1), sums])
            return total

        return sum_over_blocks(block, len(self.y))

    def _left_of(self, rows: np.ndarray, draws: np.ndarray, numbers: np.ndarray) -> np.ndarray:
        """Return the residuals of `rows` at `draws`, up to a constant for each row; shape (rows, draws)."""
        eta = self._predictors(rows, draws)
        slope, half_curvature = numbers[rows].T[:, None]
        return (self.functions.terms(eta, self.y[rows]) - eta * (slope + eta * half_curvature)).T

    @over_all_rows
    def _write_terms(self, draws: np.ndarray, *, out: np.ndarray) -> int:
        def block(lo: int, hi: int) -> int:
            rows = slice(lo, hi)
            out[rows] = self.functions.terms(self._predictors(rows, draws), self.y[rows]).T
            return hi - lo

        return sum_over_blocks(block, len(self.y))

    def _predictors(self, rows: Any, draws: np.ndarray) -> np.ndarray:
        """Return the predictors of some rows at draws; shape (draws, rows)."""
        return np.ascontiguousarray((np.asarray(self.X[rows]) @ draws.T).T)

    def total(self, center: np.ndarray, numbers: np.ndarray, rows: np.ndarray) -> Quadratic:
        """Return the sum of eta (a_i + b_i eta) over `rows`, with value and derivatives at `center`.

        `numbers` holds (a_i, b_i) of every row.
        """
        X = self.X
        dim = len(center)

        def block(lo: int, hi: int) -> np.ndarray:
            block_of_X = np.asarray(X[rows[lo:hi]])
            slope, half_curvature = numbers[rows[lo:hi]].T
            eta = block_of_X @ center
            gradient = (slope + 2.0 * half_curvature * eta) @ block_of_X
            hessian = (block_of_X * (2.0 * half_curvature[:, None])).T @ block_of_X
            return np.concatenate([[0.0], gradient, hessian.ravel()])

        sums = sum_over_blocks(block, len(rows)) if len(rows) else np.zeros(1 + dim + dim * dim)
        return _without_constant(_unpacked(sums, dim), center)

    def around(self, center: np.ndarray, cholesky: np.ndarray, rows: Any) -> RowsAround:
        """Return predictors, directions and derivatives of some rows at `center`, in units of L = `cholesky`."""
        X, y = self._read(rows)
        eta = times(X, center)
        first, second = self.functions.derivatives(eta, y)
        return RowsAround(eta, times(X, cholesky), first, second)

    def derivatives(self, eta: np.ndarray, rows: Any) -> tuple[np.ndarray, np.ndarray]:
        """Return the first two derivatives of the terms of some rows at predictors `eta` (rows,)."""
        return self.functions.derivatives(eta, np.array(self.y[rows]))

    def shifts(self, here: RowsAround, numbers: np.ndarray) -> np.ndarray:
        """Return by how much slope and curvature of rows differ from Taylor's; `numbers` holds their (a_i, b_i)."""
        a, b = numbers.T
        return np.column_stack([a + 2.0 * b * here.eta - here.first, b - 0.5 * here.second])

    def compile_residual_gradients(
        self, gradient: CompiledGradient, center: np.ndarray, numbers: np.ndarray
    ) -> CompiledGradient:
        """Return `gradient` with the residuals r_i as terms; `numbers` holds (a_i, b_i), and the prior stays."""
        data = (*gradient.data, numbers)
        parts = bind(
            make_add_residual_gradient,
            self.target.scalar.derivatives,
            signature=gradient_signature(type_of(data)),
            fastmath=BATCH_FASTMATH,
        )
        return gradient._replace(add_gradient=parts, data=data)

    def packed(self, data: Data) -> Data:
        """Return (X, y), or (base, values, columns, y) if each row has at least 3/4 of the values of a common row."""
        X, y = data
        rows = sparse_rows(X)
        return data if rows is None else (*rows, y)

    def compile_residuals(self, compiled: CompiledTarget, center: np.ndarray, numbers: np.ndarray) -> CompiledTarget:
        """Return `compiled`, packed or not, with the residuals r_i as terms; `numbers` holds (a_i, b_i)."""
        data = (*compiled.data, numbers)
        predict = predict_from_full_rows if len(compiled.data) == FULL else predict_from_sparse_rows
        residuals = bind_terms(make_linear_residuals, predict, self.target.scalar.loglik, data=data)
        return compiled._replace(log_terms=residuals, data=data, compile_at_both=None)
