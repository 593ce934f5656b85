"""Expansion of the terms of a generalised linear model, in closed form: two numbers per datum for any dimension.

    r_i = f(eta) - eta (a_i + b_i eta),    a_i = f' - f'' eta_hat,    b_i = f'' / 2,

with f' and f'' at eta_hat = x_i' theta_hat. This is Taylor's polynomial without its constant, which cancels in
differences between two thetas. The subtraction loses no accuracy that matters: r_i has the absolute error of f, about
1e-15, and 10^6 such errors add up to less than 1e-9 in a log ratio that is compared with numbers of size 1.
"""

import copy
from typing import Any, NamedTuple

import numpy as np
from numba import types as nb

from approxmcmc.contracts import CompiledGradient, CompiledTarget
from approxmcmc.engine.compiler.compile import BATCH_FASTMATH, INDICES, MATRIX, VECTOR, bind, type_of
from approxmcmc.engine.files.mapped_files import is_mapped
from approxmcmc.engine.terms.batches import Data, bind_terms
from approxmcmc.engine.terms.gradients import ALL_ROWS, gradient_signature
from approxmcmc.engine.terms.passes import sum_over_blocks
from approxmcmc.engine.terms.sparse_rows import sparse_rows
from approxmcmc.targets.expansion.core_rule import CORE_COST
from approxmcmc.targets.expansion.linear_kernels import (
    NODES,
    add_up_signature,
    make_add_up,
    make_places,
    make_survey,
    make_terms_on_grid,
    survey_signature,
)
from approxmcmc.targets.expansion.linear_residuals import (
    make_add_residual_gradient,
    make_linear_residuals,
    predict_from_full_rows,
    predict_from_sparse_rows,
)
from approxmcmc.targets.expansion.passes import Expansion, over_all_rows
from approxmcmc.targets.expansion.quadratic import Quadratic, Survey, check_finite
from approxmcmc.targets.linear import LinearTarget

FULL = 2  # number of data arrays if they are not packed: X and y
# Variance of a light row's predictor, in units of its scale: 1/4, 1/2 and 1 are as right. If more rows vary more than
# the share `FEW`, those of them are light whose quadratic holds within so many standard deviations: of KDD99, one-hot,
# 51 642 distinct rows vary more, and 7500 of them come near the place where classes part. `FEW` rows in the core cost
# as much as a pass over all rows. If fewer rows vary more, all are core whose quadratic misses anywhere, because one
# such light row makes all bounds useless: 42 on Covertype made an exact decision read 92 390 rows in place of 305.
LARGEST_LEVERAGE, FEW, REACH, REACH_OF_FEW = 0.5, 1.0 / CORE_COST, 6.0, 50.0
REACH_ALONE = 3.0  # if no scale is known, so that this is the only criterion


def _unpacked(sums: np.ndarray, dim: int) -> Quadratic:
    """Return value, gradient and Hessian, which are stored in one vector."""
    hessian = sums[1 + dim :].reshape(dim, dim)
    return Quadratic(float(sums[0]), sums[1 : 1 + dim], 0.5 * (hessian + hessian.T))


def _without_constant(here: Quadratic, center: np.ndarray) -> Quadratic:
    """Return the sum of the quadratics eta (a_i + b_i eta) from their summed gradient and Hessian at a centre."""
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
        self._functions = target._loglik_eta, target.derivatives_eta
        types = type_of(target.X), type_of(target.y)
        self._add_up = bind(make_add_up, *self._functions, signature=add_up_signature(*types), fastmath=BATCH_FASTMATH)

    def of_rows(self, rows: np.ndarray) -> "LinearExpansion":
        """Return the expansion of the terms of a sample of rows, scaled to all rows."""
        some = copy.copy(self)
        some.X, some.y, some.passes, some.parts = np.asarray(self.X[rows]), np.array(self.y[rows]), 0, None
        some.weight = len(self.y) / len(rows)
        return some

    def at(self, theta: np.ndarray) -> Quadratic:
        """Return value, gradient and Hessian of the log-likelihood at theta: one pass."""
        return _unpacked(self._pass(theta, out=np.empty((0, 2))).sums[2:], len(theta))

    def expand(self, theta: np.ndarray, out: np.ndarray) -> Quadratic:
        """Expand every row at theta, in one pass; write the rows to `out`, and return their sum."""
        return _without_constant(_unpacked(self._pass(theta, out=out).sums[2:], len(theta)), theta)

    @over_all_rows
    def _pass(self, theta: np.ndarray, *, out: np.ndarray) -> Sums:
        """Return sums over all rows; sums of their lengths only if `out` takes their expansion."""
        X, y, dim = self.X, self.y, len(theta)

        def block(lo: int, hi: int) -> Sums:
            sums, norms = np.zeros(1 + dim + dim * dim), np.zeros(3)
            self._add_up(theta, X, y, ALL_ROWS, lo, hi, self.order == 2, out, sums, norms)
            if not np.isfinite(sums).all():
                self._refuse(theta, lo, hi)
            return Sums(np.concatenate([norms[:2], sums]), float(norms[2]))

        found = sum_over_blocks(block, len(y))
        return found._replace(sums=self.weight * found.sums)

    def _refuse(self, theta: np.ndarray, lo: int, hi: int) -> None:
        """Raise, naming the first row of a block with a value or derivative that is not finite, if there is one."""
        X, y = self.X, self.y
        for row in range(lo, hi):
            sums = np.zeros(1 + len(theta) + len(theta) ** 2)
            self._add_up(theta, X, y, ALL_ROWS, row, row + 1, True, np.empty((0, 2)), sums, np.empty(0))
            check_finite(sums[None, :], self.first_row + row, theta)

    def light_everywhere(self, law: Any, out: np.ndarray, largest: float) -> Survey | None:
        """Return the survey of Taylor's quadratics if bounds prove that every row is light, in one cheap pass.

        If K bounds the third derivative, the error of a quadratic is at most K abs(delta)^3 / 6. Under the normal
        distribution delta ~ N(0, h_i), with sixth moment 15 h_i^3 and h_i <= lambda |x_i|^2, lambda the largest
        eigenvalue of the covariance. So the sum of all errors has a standard deviation of at most 15^(1/2) K
        lambda^(3/2) sum |x_i|^3 / 6. None if that is above `largest`, if a row may be a wall, or if K is unknown.
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
        """Expand every row at a centre, and compute the residuals at draws, in one pass; the rows go to `out`.

        With `averaged` the coefficients are E f' and E f'' / 2 over eta_i ~ N(x_i' center, h_i), the best quadratic in
        mean square (Price 1958), if its residuals at the draws are smaller than those of Taylor's polynomial.
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
        """Survey all rows in one pass; law = (centre, Cholesky factor, draws). Write the results of each row.

        Return the sums of the residuals' standard deviations and variances, of the residuals at each draw, and of the
        quadratics.
        """
        (center, cholesky, draws), X, y = law, self.X, self.y
        signature = survey_signature(type_of(X), type_of(y))
        look = bind(make_survey, *self._functions, signature=signature, fastmath=BATCH_FASTMATH)
        nodes, weights = np.polynomial.hermite_e.hermegauss(NODES)
        columns = center, cholesky, np.ascontiguousarray((draws - center).T)
        rule, scale, dim = np.array([nodes, weights / weights.sum()]), self.target.predictor_scale, len(center)
        widest = -1.0 if scale is None else LARGEST_LEVERAGE * scale**2

        def block(lo: int, hi: int) -> np.ndarray:
            sums, left, together = np.zeros(1 + dim + dim * dim), np.zeros(len(draws)), np.zeros(2)
            found = numbers, spreads, walls, sums, left, together
            look(*columns, rule, X, y, ALL_ROWS, lo, hi, averaged, widest, reach, *found)
            if not np.isfinite(sums).all():
                self._refuse(center, lo, hi)
            return np.concatenate([together, left, sums])

        return sum_over_blocks(block, len(y))

    def _left_of(self, rows: np.ndarray, draws: np.ndarray, numbers: np.ndarray) -> np.ndarray:
        """Return the residuals of the quadratics of some rows at draws; shape (rows, draws)."""
        eta, (slope, bend) = self._predictors(rows, draws), numbers[rows].T[:, :, None]
        return self._terms(eta, rows) - eta * (slope + eta * bend)

    def terms_at(self, draws: np.ndarray) -> np.ndarray:
        """Return all terms at draws, shape (rows, draws): one pass."""
        terms = np.empty((len(self.y), len(draws)))
        self._write_terms(draws, out=terms)
        return terms

    @over_all_rows
    def _write_terms(self, draws: np.ndarray, *, out: np.ndarray) -> int:
        def block(lo: int, hi: int) -> int:
            rows = np.arange(lo, hi)
            out[lo:hi] = self._terms(self._predictors(rows, draws), rows)
            return hi - lo

        return sum_over_blocks(block, len(self.y))

    def _predictors(self, rows: np.ndarray, draws: np.ndarray) -> np.ndarray:
        return np.asarray(self.X[rows]) @ draws.T

    def _terms(self, eta: np.ndarray, rows: np.ndarray) -> np.ndarray:
        terms, y = eta.copy(), np.array(self.y[rows])
        bind(make_terms_on_grid, self.target._loglik_eta, signature=nb.void(MATRIX, type_of(y)))(terms, y)
        return terms

    def total(self, center: np.ndarray, numbers: np.ndarray, rows: np.ndarray) -> Quadratic:
        """Return the sum of the expansions of some rows."""
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
        """Return the predictors of some rows, their variances, and how far slope and bend differ from Taylor's."""
        X, y = np.asarray(self.X[rows], np.float64), np.asarray(self.y[rows])
        signature = nb.void(VECTOR, MATRIX, type_of(X), type_of(y), INDICES, MATRIX)
        found = np.empty((4, len(y)))
        write = bind(make_places, self.target.derivatives_eta, signature=signature, fastmath=BATCH_FASTMATH)
        write(center, np.ascontiguousarray(cholesky), X, y, ALL_ROWS, found)
        eta, leverages, first, half = found
        a, b = numbers.T
        return eta, leverages, np.column_stack([a + 2.0 * b * eta - first, b - half])

    def compile_residual_gradients(
        self, gradient: CompiledGradient, center: np.ndarray, numbers: np.ndarray
    ) -> CompiledGradient:
        """Return the gradients of the r_i; the gradient of the log prior is unchanged."""
        data = (*gradient.data, numbers)
        parts = bind(
            make_add_residual_gradient,
            self.target.derivatives_eta,
            signature=gradient_signature(type_of(data)),
            fastmath=BATCH_FASTMATH,
        )
        return gradient._replace(add_gradient=parts, data=data)

    def packed(self, data: Data) -> Data:
        """Return (X, y) as (base, values, columns, y) if most entries have the common value of their column."""
        X, y = data
        rows = sparse_rows(X)
        return data if rows is None else (*rows, y)

    def compile_residuals(self, compiled: CompiledTarget, center: np.ndarray, numbers: np.ndarray) -> CompiledTarget:
        """Return the terms r_i with the data that they read, possibly packed; the log prior is unchanged."""
        data = (*compiled.data, numbers)
        predict = predict_from_full_rows if len(compiled.data) == FULL else predict_from_sparse_rows
        residuals = bind_terms(make_linear_residuals, predict, self.target._loglik_eta, data=data)
        return compiled._replace(log_terms=residuals, data=data, compile_at_both=None)
