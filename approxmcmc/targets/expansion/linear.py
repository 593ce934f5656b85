"""Expansion of the terms of a generalised linear model, in closed form: two numbers per datum for any dimension.

    r_i = f(eta) - eta (a_i + b_i eta),    a_i = f' - f'' eta_hat,    b_i = f'' / 2,

with f(eta) the term as a function of its predictor, and f' and f'' at eta_hat = x_i' theta_hat. What is subtracted is
Taylor's polynomial without its constant, which cancels in differences between two thetas. The subtraction loses no
accuracy that matters: r_i has the absolute error of f, about 1e-15, and 10^6 such errors add up to less than 1e-9 in a
log ratio that is compared with numbers of size 1.
"""

import copy
from typing import Any, NamedTuple

import numpy as np

from approxmcmc.contracts import CompiledGradient, CompiledTarget
from approxmcmc.engine.compiler.compile import BATCH_FASTMATH, bind, type_of
from approxmcmc.engine.files.mapped_files import is_mapped
from approxmcmc.engine.terms.batches import Data, bind_terms
from approxmcmc.engine.terms.gradients import gradient_signature
from approxmcmc.engine.terms.passes import sum_over_blocks
from approxmcmc.engine.terms.sparse_rows import sparse_rows
from approxmcmc.targets.expansion.influential_rows import INFLUENTIAL_COST
from approxmcmc.targets.expansion.linear_residuals import (
    make_add_residual_gradient,
    make_linear_residuals,
    predict_from_full_rows,
    predict_from_sparse_rows,
)
from approxmcmc.targets.expansion.linear_rows import (
    MOST_AT_ONCE,
    Law,
    RowFunctions,
    add_up,
    look,
    pieces,
    squared_lengths,
    times,
)
from approxmcmc.targets.expansion.passes import Expansion, over_all_rows
from approxmcmc.targets.expansion.quadratic import Quadratic, Survey, check_finite
from approxmcmc.targets.linear import LinearTarget

FULL = 2  # number of data arrays if they are not packed: X and y
# A row is a wall if the variance of its predictor is above LARGEST_LEVERAGE, in units of the squared scale (1/4 and 1
# serve as well), and its quadratic is wrong within REACH_OF_FEW standard deviations: one such light row makes all
# bounds useless, and 42 on Covertype made an exact decision read 92 390 rows in place of 305. If that makes more than
# the share FEW of all rows walls (always read, they cost as much as a pass over all rows), REACH replaces REACH_OF_FEW:
# of KDD99, one-hot, 51 642 distinct rows have larger variances, and 7500 come near the place where classes part.
LARGEST_LEVERAGE, FEW, REACH, REACH_OF_FEW = 0.5, 1.0 / INFLUENTIAL_COST, 6.0, 50.0
REACH_ALONE = 3.0  # standard deviations, if no scale is known: the variance of the predictor is then no criterion


def _unpacked(sums: np.ndarray, dim: int) -> Quadratic:
    """Return the value, the gradient and the Hessian that `sums` holds, one after the other."""
    hessian = sums[1 + dim :].reshape(dim, dim)
    return Quadratic(float(sums[0]), sums[1 : 1 + dim], 0.5 * (hessian + hessian.T))


def _without_constant(here: Quadratic, center: np.ndarray) -> Quadratic:
    """Return `here` with the sum of eta (a_i + b_i eta) at `center` as its value, so that the constant is left out."""
    value = here.gradient @ center - 0.5 * center @ here.hessian @ center
    return here._replace(value=float(value))


class Sums(NamedTuple):
    """Sums over rows of |x_i|^3, |x_i|^6, values, gradients and Hessians, in one vector; the largest |x_i|^2."""

    sums: np.ndarray
    longest: float

    def __add__(self, other: Any) -> "Sums":
        """Return the sums over the rows of this and of `other`."""
        return Sums(self.sums + other.sums, max(self.longest, other.longest))


class LinearExpansion(Expansion):
    """Terms f(eta_i, y_i), eta_i = x_i' theta: the row of datum i is (a_i, b_i), see the module."""

    def __init__(self, target: LinearTarget, order: int = 2) -> None:
        super().__init__(target, order)
        self.X, self.y, self.weight, self.columns = target.X, target.y, 1.0, 2
        self.mapped = is_mapped(target.X)
        self._functions = RowFunctions(target._loglik_eta, target.derivatives_eta, target.y)

    def of_rows(self, rows: np.ndarray) -> "LinearExpansion":
        """Return the expansion of the terms of a sample of rows; its sums are scaled to all rows."""
        some = copy.copy(self)
        some.X, some.y, some.passes, some.parts = np.asarray(self.X[rows]), np.array(self.y[rows]), 0, None
        some.weight = len(self.y) / len(rows)
        return some

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
            sums, longest, scaled = np.zeros(3 + dim + dim * dim), 0.0, np.empty((MOST_AT_ONCE, dim))
            for here in pieces(lo, hi, dim):
                rows, y = self._read(here)
                eta = times(rows, theta)
                value, (slopes, bends) = self._functions.terms(eta, y), self._functions.derivatives(eta, y)
                bends *= self.order == 2
                sums[2:] += add_up(rows, value, slopes, bends, scaled)
                if not np.isfinite(sums).all():
                    check_finite(np.column_stack([value, slopes, bends]), self.first_row + here.start, theta)
                if len(out):
                    out[here, 0], out[here, 1] = slopes - bends * eta, 0.5 * bends
                    lengths = squared_lengths(rows)
                    longest = max(longest, float(lengths.max()))
                    cubes = lengths * np.sqrt(lengths)
                    sums[:2] += cubes.sum(), np.square(cubes).sum()
            return Sums(sums, longest)

        found = sum_over_blocks(block, len(self.y))
        return found._replace(sums=self.weight * found.sums)

    def _read(self, here: Any) -> tuple[np.ndarray, np.ndarray]:
        """Return the rows `here` in float64, as products need one type and sums all digits, and their responses."""
        return np.asarray(self.X[here], np.float64), np.asarray(self.y[here])

    def light_everywhere(self, law: Any, out: np.ndarray, largest: float) -> Survey | None:
        """Return the survey of Taylor's quadratics if bounds prove that every row is light, in one cheap pass.

        If K bounds the third derivative, the error of a quadratic is at most K abs(delta)^3 / 6, delta ~ N(0, h_i) with
        sixth moment 15 h_i^3; h_i <= lambda |x_i|^2, lambda the largest eigenvalue of the covariance. So the sum of all
        errors has a standard deviation of at most 15^(1/2) K lambda^(3/2) sum |x_i|^3 / 6. None if that is above
        `largest`, a row may be a wall, K or the predictor's scale is unknown, or the order is 1.
        """
        bound, scale = self.target.third_derivative_bound, self.target.predictor_scale
        if bound is None or scale is None or self.order != 2:
            return None
        found = self._pass(law.mode, out=out)
        (cubes, sixths), total = np.split(found.sums, [2])
        widest = float(np.linalg.eigvalsh(law.cov)[-1])
        each = float(np.sqrt(15.0) * bound * widest**1.5 / 6.0)
        if each * cubes > largest or widest * found.longest > LARGEST_LEVERAGE * scale**2:
            return None
        light = np.zeros(len(out), dtype=bool)
        quadratics = _without_constant(_unpacked(total, len(law.mode)), law.mode)
        return Survey(each * float(cubes), each**2 * float(sixths), None, light, quadratics)

    def survey(
        self, center: np.ndarray, cholesky: np.ndarray, draws: np.ndarray, out: np.ndarray, *, averaged: bool
    ) -> Survey:
        """Expand every row at `center`, write the expansion to `out`, and return the survey of residuals at `draws`.

        One pass, or two if there are many walls. With `averaged` the coefficients of a row that is not a wall are E f'
        and E f'' / 2 over eta_i ~ N(x_i' center, h_i), h_i = |L' x_i|^2, L = `cholesky`: the best quadratic in mean
        square (Price 1958); but Taylor's if these at least halve the variance of the residuals over the draws.
        """
        law, n_rows, dim = (center, np.ascontiguousarray(cholesky), draws), len(self.y), len(center)
        reach = REACH_ALONE if self.target.predictor_scale is None else REACH_OF_FEW

        def spreads() -> np.ndarray:
            found = np.empty(n_rows)
            self._look(law, averaged, reach, numbers=np.empty_like(out), spreads=found, walls=np.empty_like(walls))
            return found

        walls = np.empty(n_rows, dtype=bool)
        found = self._look(law, averaged, reach, numbers=out, spreads=np.empty(0), walls=walls)
        if reach > REACH and walls.mean() > FEW:
            reach = REACH
            found = self._look(law, averaged, reach, numbers=out, spreads=np.empty(0), walls=walls)
        together, left, sums = np.split(found, [2, 2 + len(draws)])
        total = _without_constant(_unpacked(sums, dim), center)
        deviations, variances = map(float, together)

        def residuals_of(rows: np.ndarray) -> np.ndarray:
            return self._left_of(rows, draws, out)

        return Survey(deviations, variances, left, walls, total, spreads, residuals_of)

    @over_all_rows
    def _look(
        self,
        law: tuple[np.ndarray, np.ndarray, np.ndarray],
        averaged: bool,
        reach: float,
        *,
        numbers: np.ndarray,
        spreads: np.ndarray,
        walls: np.ndarray,
    ) -> np.ndarray:
        """Survey all rows in one pass; `law` is (centre, Cholesky factor, draws). Fill `numbers`, `spreads`, `walls`.

        Return the sums of the residuals' sds and variances, of the residuals at each draw, and of the quadratics.
        """
        center, cholesky, draws = law
        scale, dim = self.target.predictor_scale, len(center)
        widest = -1.0 if scale is None else LARGEST_LEVERAGE * scale**2
        about = Law(center, cholesky, np.ascontiguousarray((draws - center).T), averaged, widest, reach)

        def block(lo: int, hi: int) -> np.ndarray:
            total, scaled = np.zeros(2 + len(draws) + 1 + dim + dim * dim), np.empty((MOST_AT_ONCE, dim))
            for here in pieces(lo, hi, dim):
                rows, y = self._read(here)
                found = look(rows, y, self._functions, about)
                bends = 2.0 * found.half
                sums = add_up(rows, found.value, found.first, bends, scaled)
                if not np.isfinite(sums).all():
                    rows_of_expansion = np.column_stack([found.value, found.first, bends])
                    check_finite(rows_of_expansion, self.first_row + here.start, center)
                numbers[here, 0], numbers[here, 1] = found.first - bends * found.eta, found.half
                walls[here] = found.wall
                if len(spreads):
                    spreads[here] = found.spread
                together = found.spread.sum(), np.square(found.spread).sum()
                total += np.concatenate([together, found.left.sum(axis=1), sums])
            return total

        return sum_over_blocks(block, len(self.y))

    def _left_of(self, rows: np.ndarray, draws: np.ndarray, numbers: np.ndarray) -> np.ndarray:
        """Return the residuals of `rows` at `draws`, up to a constant for each row; shape (rows, draws)."""
        eta, (slope, bend) = self._predictors(rows, draws), numbers[rows].T[:, None]
        return (self._functions.terms(eta, self.y[rows]) - eta * (slope + eta * bend)).T

    def terms_at(self, draws: np.ndarray) -> np.ndarray:
        """Return all terms at draws, shape (rows, draws): one pass."""
        terms = np.empty((len(self.y), len(draws)))
        self._write_terms(draws, out=terms)
        return terms

    @over_all_rows
    def _write_terms(self, draws: np.ndarray, *, out: np.ndarray) -> int:
        def block(lo: int, hi: int) -> int:
            here = slice(lo, hi)
            out[here] = self._functions.terms(self._predictors(here, draws), self.y[here]).T
            return hi - lo

        return sum_over_blocks(block, len(self.y))

    def _predictors(self, rows: Any, draws: np.ndarray) -> np.ndarray:
        """Return the predictors of some rows at draws; shape (draws, rows)."""
        return np.ascontiguousarray((np.asarray(self.X[rows]) @ draws.T).T)

    def total(self, center: np.ndarray, numbers: np.ndarray, rows: np.ndarray) -> Quadratic:
        """Return the sum of eta (a_i + b_i eta) over `rows`, with value and derivatives at `center`.

        `numbers` holds (a_i, b_i) of every row.
        """
        X, dim = self.X, len(center)

        def block(lo: int, hi: int) -> np.ndarray:
            some, (slope, bend) = np.asarray(X[rows[lo:hi]]), numbers[rows[lo:hi]].T
            eta = some @ center
            gradient, hessian = (slope + 2.0 * bend * eta) @ some, (some * (2.0 * bend[:, None])).T @ some
            return np.concatenate([[0.0], gradient, hessian.ravel()])

        sums = sum_over_blocks(block, len(rows)) if len(rows) else np.zeros(1 + dim + dim * dim)
        return _without_constant(_unpacked(sums, dim), center)

    def places(
        self, center: np.ndarray, cholesky: np.ndarray, numbers: np.ndarray, rows: Any
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return the predictors of `rows` at `center`, their variances, and how slope and bend differ from Taylor's.

        `numbers` holds (a_i, b_i) of these rows only. Shapes: (rows,), (rows,) and (rows, 2).
        """
        some, y = self._read(rows)
        eta, leverages = times(some, center), squared_lengths(times(some, cholesky))
        first, second = self._functions.derivatives(eta, y)
        a, b = numbers.T
        return eta, leverages, np.column_stack([a + 2.0 * b * eta - first, b - 0.5 * second])

    def compile_residual_gradients(
        self, gradient: CompiledGradient, center: np.ndarray, numbers: np.ndarray
    ) -> CompiledGradient:
        """Return `gradient` with the residuals r_i as terms; `numbers` holds (a_i, b_i), and the prior stays."""
        data = (*gradient.data, numbers)
        parts = bind(
            make_add_residual_gradient,
            self.target.derivatives_eta,
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
        residuals = bind_terms(make_linear_residuals, predict, self.target._loglik_eta, data=data)
        return compiled._replace(log_terms=residuals, data=data, compile_at_both=None)
