"""Expansion of the terms of any target, by its gradient or by central differences of its terms, or in closed form.

    w_i(theta) = l_i + g_i' delta + delta' H_i delta / 2,    delta = theta - theta_hat,

with the term l_i, its gradient g_i and its Hessian H_i at theta_hat; the residual r_i(theta) is the term at theta minus
w_i(theta). The expansion has a row of 1 + d + d (d + 1) / 2 numbers per datum, 1 + d to first order, computed once at
set-up: (l, g_1 ... g_d, H_11 / 2, H_12, ..., H_dd / 2).
"""

import abc
from collections.abc import Callable
from typing import Any, NamedTuple, Self

import numpy as np
from numba import types as nb

from approxmcmc.contracts import CompiledGradient, CompiledTarget, DifferentiableTarget, ExpandableTarget, Target
from approxmcmc.contracts.speaker import speaker, speaking
from approxmcmc.engine.compiler.compile import INDICES, MATRIX, VECTOR, allocating, bind, type_of
from approxmcmc.engine.files.mapped_files import is_mapped
from approxmcmc.engine.terms.batches import Data, bind_terms, datum_at, linear_predictor
from approxmcmc.engine.terms.gradients import gradient_signature
from approxmcmc.engine.terms.passes import sum_over_blocks, write_terms
from approxmcmc.errors import IncompatibleError, NotFiniteError
from approxmcmc.expansion.base import Expansion, over_all_rows
from approxmcmc.expansion.influential_rows import rows_that_vary
from approxmcmc.expansion.quadratic import ROWS, Quadratic, Survey, check_finite, survey_of

# --- steps of central differences ---

# Step of differences, as a share of the scale on which a typical term bends. Second differences are then right to about
# 1e-7.
RELATIVE_STEP = 1e-3


def difference_steps(log_likelihood: Callable[[np.ndarray], float], theta: np.ndarray, n_obs: int) -> np.ndarray:
    """Return the step of each coordinate around theta; `log_likelihood` is the sum of `n_obs` terms.

    A coordinate in which the sum does not visibly bend has the step max(1, abs(theta_j)) / 1000, made ten times shorter
    until the log-likelihood is finite on both sides.

    Raises
    ------
    NotFiniteError
        If no step that is tried gives finite log-likelihoods.
    """
    middle = log_likelihood(theta)
    steps = np.empty(len(theta))
    for j in range(len(theta)):
        step = RELATIVE_STEP * max(1.0, abs(theta[j]))
        for _ in range(8):
            shift = np.zeros(len(theta))
            shift[j] = step
            second_difference = abs(log_likelihood(theta + shift) - 2.0 * middle + log_likelihood(theta - shift))
            if np.isfinite(second_difference):
                visible = second_difference > 1e-10 * (1.0 + abs(middle))
                steps[j] = step * RELATIVE_STEP * np.sqrt(n_obs / second_difference) if visible else step
                break
            step *= 0.1  # over the edge of the support
        else:
            raise NotFiniteError(
                f"{speaker()}: the log-likelihood is not finite around theta = {theta}; start elsewhere"
            )
    return steps


# --- kernels of residuals and of gradients ---


def make_gradients(add_gradient: Callable[..., None]) -> Callable[..., None]:
    """Return the kernel that adds the gradient of term ``order[lo + i]`` to row i of `out`, for every i < hi - lo."""

    def gradients(theta: np.ndarray, data: Data, lo: int, hi: int, order: np.ndarray, out: np.ndarray) -> None:
        for i in range(hi - lo):
            add_gradient(theta, data, order, lo + i, lo + i + 1, out[i])

    return gradients


class DataOfResiduals(NamedTuple):
    """The data of a kernel of residuals: those of the terms, then the rows of the expansion (n, columns) and theta_hat.

    `center` is theta_hat, shape (1, dim).
    """

    of_terms: Data
    expansion: np.ndarray
    center: np.ndarray


@allocating
def data_of_residuals(data: Data) -> DataOfResiduals:
    """Return the arrays of the flat data of a kernel by name."""
    return DataOfResiduals(data[:-2], data[-2], data[-1])


def make_residuals(log_terms: Callable[..., None], second_order: bool) -> Callable[..., None]:
    """Return the kernel that writes the residuals of the rows ``order[lo:hi]``: their terms minus their expansions."""

    def residuals(theta: np.ndarray, data: Data, order: np.ndarray, lo: int, hi: int, out: np.ndarray) -> None:
        # w_i is a linear predictor: the row of datum i times (1, delta_j, delta_j delta_k for j <= k).
        of_terms, expansion, center = data_of_residuals(data)
        log_terms(theta, of_terms, order, lo, hi, out)
        dim = theta.shape[0]
        monomials = np.empty(expansion.shape[1])
        monomials[0] = 1.0
        for j in range(dim):
            monomials[1 + j] = theta[j] - center[0, j]
        if second_order:
            entry = 1 + dim
            for j in range(dim):
                for k in range(j, dim):
                    monomials[entry] = monomials[1 + j] * monomials[1 + k]
                    entry += 1
        fitted = np.empty(hi - lo)
        linear_predictor(monomials, expansion, order, lo, hi, fitted)
        for i in range(hi - lo):
            out[i] -= fitted[i]

    return residuals


def make_add_residual_gradient(add_gradient: Callable[..., None], second_order: bool) -> Callable[..., None]:
    """Return the kernel that adds the sum of grad r_i over ``order[lo:hi]`` to `out`."""

    def add_residual_gradient(
        theta: np.ndarray, data: Data, order: np.ndarray, lo: int, hi: int, out: np.ndarray
    ) -> None:
        of_terms, expansion, center = data_of_residuals(data)
        dim = theta.shape[0]
        add_gradient(theta, of_terms, order, lo, hi, out)
        for where in range(lo, hi):
            row = expansion[datum_at(order, where)]
            entry = 1 + dim
            for j in range(dim):
                out[j] -= row[1 + j]
                if second_order:
                    for k in range(j, dim):  # gradient of H_jk delta_j delta_k, of half of it on the diagonal
                        out[j] -= row[entry] * (theta[k] - center[0, k])
                        out[k] -= row[entry] * (theta[j] - center[0, j])
                        entry += 1

    return add_residual_gradient


# --- the expansion ---

SHORTEST = 1e-4  # shortest step that is kept, as a share of `wanted`: rounding errors of second derivatives are 1e-8
# Factor by which a normal distribution is made wider than the posterior, and the largest standard deviation that a
# light row's residual may have over draws from it.
WIDER = 1.5
LARGEST_FAR_SPREAD = 1.0


class GeneralExpansion(Expansion):
    """The expansion of any terms: the row of datum i is (l, g_1 ... g_d, H_11 / 2, H_12, ..., H_dd / 2).

    If the target has a gradient, H comes from central differences of gradients: 2 + 2 d passes over the data. Otherwise
    g and H come from differences of terms: d^2 + 3 d + 1 passes.
    """

    is_closed = False

    def __init__(self, target: Target, order: int) -> None:
        super().__init__(target, order)
        self.compiled = target.compile()
        self.dim = target.variables.size
        self.mapped = any(is_mapped(array) for array in self.compiled.data)
        self.columns = 1 + self.dim + (self.dim * (self.dim + 1) // 2 if order == 2 else 0)
        self.upper = np.triu_indices(self.dim)
        self.block = max(256, ROWS // self.dim)  # data per block: their Hessians fill 6 MB at 50 parameters
        self.gradients = self._bind_gradients()
        self._steps: np.ndarray | None = None
        self._known_steps: dict[int, float] = {}  # of differences of gradients

    def _bind_gradients(self) -> Any:
        try:
            gradient = self.target.compile_gradient() if isinstance(self.target, DifferentiableTarget) else None
        except IncompatibleError:
            gradient = None
        if gradient is None:
            return None
        self.add_gradient, self.add_prior_gradient, self.gradient_data = gradient[:3]
        signature = nb.void(VECTOR, type_of(gradient.data), nb.int64, nb.int64, INDICES, MATRIX)
        return bind(make_gradients, gradient.add_gradient, signature=signature)

    def of_rows(self, rows: np.ndarray) -> Self:
        """Return the expansion of the terms of a sample of rows; its sums are scaled to all rows."""
        sample = super().of_rows(rows)
        sample.forget_steps()
        return sample

    @over_all_rows
    def log_likelihood(self, theta: np.ndarray) -> float:
        """Return the log-likelihood at theta, the sum of all terms: one pass."""
        total = sum_over_blocks(lambda lo, hi: float(self._values(theta, lo, hi).sum()), self.n_rows)
        return self.weight * total

    def gradient(self, theta: np.ndarray) -> np.ndarray:
        """Return the gradient of the log-likelihood at theta: one pass, or two per coordinate if by differences."""
        if self.gradients is not None:
            return self._total_slope(theta)
        steps = np.diag(self.steps(theta))
        ends = [(self.log_likelihood(theta + step), self.log_likelihood(theta - step)) for step in steps]
        return np.array([(up - down) / (2.0 * step.sum()) for (up, down), step in zip(ends, steps, strict=True)])

    def steps(self, theta: np.ndarray) -> np.ndarray:
        """Return the difference step of each coordinate: a thousandth of the scale on which a typical term bends."""
        if self._steps is None:
            with speaking(repr(self.target)):
                self._steps = difference_steps(self.log_likelihood, theta, self.compiled.n_obs)
        return self._steps

    def forget_steps(self) -> None:
        """Discard the difference steps, so that the next expansion, elsewhere, finds new ones."""
        self._steps = None
        self._known_steps = {}

    def at(self, theta: np.ndarray) -> Quadratic:
        """Return value, gradient and Hessian of the log-likelihood at theta."""
        if self.order == 2 and self.gradients is not None:
            quadratic = self._total(theta)
            if all(np.isfinite(part).all() for part in quadratic):
                return quadratic  # if not finite, the rows below show which datum is the cause
        return self._by_rows(theta, np.empty((0, self.columns)))

    def expand(self, theta: np.ndarray, out: np.ndarray) -> Quadratic:
        """Expand every row at theta; write the rows of the expansion to `out`, and return their sum."""
        return self._by_rows(theta, out)

    def _by_rows(self, theta: np.ndarray, out: np.ndarray) -> Quadratic:
        total = self._expand_rows(theta, self.steps(theta), out=out)
        self.passes += self._passes_of_rows() - 1
        return self._quadratic(total)

    def _passes_of_rows(self) -> int:
        """Return the number of passes that an expansion of every row counts as."""
        second = self.dim * (self.dim + 1) if self.gradients is None else 2 * self.dim
        return 1 + (2 * self.dim if self.gradients is None else 1) + (second if self.order == 2 else 0)

    @over_all_rows
    def _expand_rows(self, theta: np.ndarray, steps: np.ndarray, *, out: np.ndarray) -> np.ndarray:
        """Return the sum of the rows of the expansion; write the rows to `out` unless it has length 0."""
        return self._fill_rows(theta, steps, out)

    def _fill_rows(self, theta: np.ndarray, steps: np.ndarray, out: np.ndarray) -> np.ndarray:
        fill = self._fill_by_values if self.gradients is None else self._fill_by_gradients

        def block(lo: int, hi: int) -> np.ndarray:
            numbers = out[lo:hi] if len(out) else np.empty((hi - lo, self.columns))
            fill(theta, steps, lo, hi, numbers)
            check_finite(numbers, self.first_row + lo, theta)
            return np.asarray(numbers.sum(axis=0))

        return self.weight * sum_over_blocks(block, self.n_rows, self.block)

    def _quadratic(self, total: np.ndarray) -> Quadratic:
        """Return `total`, the sum of some rows of the expansion, as a quadratic."""
        hessian = np.zeros((self.dim, self.dim))
        if self.order == 2:
            hessian[self.upper] = total[1 + self.dim :]
            hessian += hessian.T  # the diagonal holds halves
        return Quadratic(float(total[0]), total[1 : 1 + self.dim], hessian)

    def _total(self, theta: np.ndarray) -> Quadratic:
        """Return the log-likelihood's expansion from its gradients: 2 + 2 d passes, up to 2 + 4 d with new steps."""
        hessian = np.empty((self.dim, self.dim))
        for j in range(self.dim):
            step = self._known_steps.get(j, 0.1 * RELATIVE_STEP * max(1.0, abs(theta[j])))
            hessian[j] = self._second_differences(theta, j, step)
            # Differences of gradients are much less accurate with a step that is too long than with one that is too
            # short: with a rare category, a typical term bends on a scale beyond which its few rows are straight.
            usual_step = RELATIVE_STEP * np.sqrt(self.compiled.n_obs / max(abs(hessian[j, j]), 1e-300))
            if np.isfinite(usual_step) and usual_step < 1e100 and not SHORTEST * usual_step < step < 10.0 * usual_step:
                step = usual_step
                hessian[j] = self._second_differences(theta, j, usual_step)
            self._known_steps[j] = step
        return Quadratic(self.log_likelihood(theta), self.gradient(theta), 0.5 * (hessian + hessian.T))

    def _second_differences(self, theta: np.ndarray, j: int, step: float) -> np.ndarray:
        shift = np.zeros(self.dim)
        shift[j] = step
        return (self.gradient(theta + shift) - self.gradient(theta - shift)) / (2.0 * step)

    def _values(self, theta: np.ndarray, lo: int, hi: int) -> np.ndarray:
        out = np.empty(hi - lo)
        self.compiled.log_terms(theta, self.compiled.data, self.rows, lo, hi, out)
        return out

    def slopes(self, theta: np.ndarray, lo: int, hi: int) -> np.ndarray:
        """Return the gradients of the terms lo ... hi - 1, one by one from the target's gradient; shape (rows, dim)."""
        out = np.zeros((hi - lo, self.dim))
        self.gradients(theta, self.gradient_data, lo, hi, self.rows, out)
        return out

    @over_all_rows
    def _total_slope(self, theta: np.ndarray) -> np.ndarray:
        def block(lo: int, hi: int) -> np.ndarray:
            out = np.zeros(self.dim)
            self.add_gradient(theta, self.gradient_data, self.rows, lo, hi, out)
            return out

        return self.weight * sum_over_blocks(block, self.n_rows)

    def _fill_by_gradients(self, theta: np.ndarray, steps: np.ndarray, lo: int, hi: int, out: np.ndarray) -> None:
        out[:, 0] = self._values(theta, lo, hi)
        out[:, 1 : 1 + self.dim] = self.slopes(theta, lo, hi)
        if self.order == 1:
            return
        hessian = np.empty((hi - lo, self.dim, self.dim))
        for j, shift in enumerate(np.diag(steps)):
            up = self.slopes(theta + shift, lo, hi)
            down = self.slopes(theta - shift, lo, hi)
            hessian[:, j] = (up - down) / (2.0 * steps[j])
        hessian = 0.5 * (hessian + hessian.transpose(0, 2, 1))
        hessian[:, range(self.dim), range(self.dim)] *= 0.5
        out[:, 1 + self.dim :] = hessian[:, *self.upper]

    def _fill_by_values(self, theta: np.ndarray, steps: np.ndarray, lo: int, hi: int, out: np.ndarray) -> None:
        shifts = np.diag(steps)
        middle = out[:, 0] = self._values(theta, lo, hi)
        ends = [(self._values(theta + shift, lo, hi), self._values(theta - shift, lo, hi)) for shift in shifts]
        for i, (up, down) in enumerate(ends):
            out[:, 1 + i] = (up - down) / (2.0 * steps[i])
        if self.order == 1:
            return
        for column, (j, k) in enumerate(zip(*self.upper, strict=True), 1 + self.dim):
            if j == k:
                out[:, column] = (ends[j][0] - 2.0 * middle + ends[j][1]) / (2.0 * steps[j] ** 2)
                continue
            both = shifts[j] + shifts[k]  # f(j + k) + f(-j - k) less the pure parts is 2 h_j h_k H_jk
            corners = self._values(theta + both, lo, hi) + self._values(theta - both, lo, hi) + 2.0 * middle
            out[:, column] = (corners - sum(ends[j]) - sum(ends[k])) / (2.0 * steps[j] * steps[k])

    def survey(
        self, center: np.ndarray, cholesky: np.ndarray, draws: np.ndarray, out: np.ndarray, *, averaged: bool
    ) -> Survey:
        """Expand every row at `center`, write the expansion to `out`, and return the survey of residuals at `draws`.

        Without a linear predictor the reach of a row is unknown. So walls are the rows whose residuals vary much over
        draws from N(center, 1.5^2 L L'), L = `cholesky`, wider than the posterior. `averaged` has no effect here.
        """
        wide = center + WIDER * np.random.default_rng(0).standard_normal(draws.shape) @ cholesky.T
        left, far = np.empty((2, self.n_rows, len(draws)))
        total = self._quadratic(
            self._survey_rows(center, self.steps(center), draws, wide, numbers=out, left=left, far=far)
        )
        self.passes += self._passes_of_rows() + 2 * len(draws) - 1
        walls = ~np.isfinite(far).all(axis=1)  # the error of the quadratic is infinite there
        far[walls] = 0.0
        walls |= rows_that_vary(survey_of(far, walls, total), LARGEST_FAR_SPREAD)
        return survey_of(left, walls, total)

    @over_all_rows
    def _survey_rows(
        self,
        center: np.ndarray,
        steps: np.ndarray,
        near: np.ndarray,
        wide: np.ndarray,
        *,
        numbers: np.ndarray,
        left: np.ndarray,
        far: np.ndarray,
    ) -> np.ndarray:
        """Write expansions at `center` to `numbers`, residuals at `near` to `left`, at `wide` to `far`; return the sum.

        The sum is that of the rows of the expansion.
        """
        total = self._fill_rows(center, steps, numbers)
        residuals = self.compile_residuals(self.compiled, center, numbers)
        write_terms(residuals, near, left)
        write_terms(residuals, wide, far)
        return total

    def terms_at(self, draws: np.ndarray) -> np.ndarray:
        """Return all terms at draws, shape (rows, draws): one pass for each draw."""
        terms = super().terms_at(draws)
        self.passes += len(draws) - 1
        return terms

    @over_all_rows
    def _write_terms(self, draws: np.ndarray, *, out: np.ndarray) -> int:
        return write_terms(self.compiled, draws, out)

    def total(self, center: np.ndarray, numbers: np.ndarray, rows: np.ndarray) -> Quadratic:
        """Return the sum of the expansions of the terms of `rows`, as a quadratic function of theta - center.

        `numbers` holds the coefficients of every row; they belong to the expansion about `center`.
        """
        return self._quadratic(numbers[rows].sum(axis=0))

    def compile_residual_gradients(
        self, gradient: CompiledGradient, center: np.ndarray, numbers: np.ndarray
    ) -> CompiledGradient:
        """Return `gradient` with residuals r_i of the expansion `numbers` at `center` as terms; the prior stays."""
        data = (*gradient.data, numbers, np.array(center[None, :]))
        signature = gradient_signature(type_of(data))
        parts = bind(make_add_residual_gradient, gradient.add_gradient, self.order == 2, signature=signature)
        return gradient._replace(add_gradient=parts, data=data)

    def compile_residuals(self, compiled: CompiledTarget, center: np.ndarray, numbers: np.ndarray) -> CompiledTarget:
        """Return `compiled` with the residuals r_i of the expansion `numbers` at `center` as terms; the prior stays."""
        # theta_hat has one row: an array with N rows would be shuffled along with the data.
        data = (*compiled.data, numbers, np.array(center[None, :]))
        residuals = bind_terms(make_residuals, compiled.log_terms, self.order == 2, data=data)
        return compiled._replace(log_terms=residuals, data=data, compile_at_both=None)


# --- targets with second derivatives ---


class ExpandsItself(ExpandableTarget):
    """A target that defines the second derivatives of its terms."""

    @abc.abstractmethod
    def compile_expansion(self) -> Any:
        """Compile ``expand(theta, data, order, lo, hi, out)``, which writes a row for each term in ``order[lo:hi]``.

        A row is (l, g_1 ... g_d, H_11 / 2, H_12, ..., H_dd / 2), as in `GeneralExpansion`.
        """

    def expansion(self, order: int) -> "OwnExpansion":
        """Return the expansion in closed form."""
        assert isinstance(self, Target)
        return OwnExpansion(self, order)


class OwnExpansion(GeneralExpansion):
    """The expansion of an `ExpandsItself`: the rows that `GeneralExpansion` computes by differences, in closed form."""

    is_closed = True
    values_are_cheap = True  # an expansion of groups by quadrature takes 10 to 50 times as long

    def _bind_gradients(self) -> Any:
        """Compile the target's expansion, which contains the gradients of the terms."""
        assert isinstance(self.target, ExpandsItself)
        self.own = self.target.compile_expansion()
        return self.own

    def steps(self, theta: np.ndarray) -> np.ndarray:
        """Return zeros, shape (dim,): no difference steps are needed."""
        return np.zeros(self.dim)

    def _passes_of_rows(self) -> int:
        return 1

    def _fill_by_gradients(self, theta: np.ndarray, steps: np.ndarray, lo: int, hi: int, out: np.ndarray) -> None:
        if self.order == 2:
            self.own(theta, self.compiled.data, self.rows, lo, hi, out)
        else:
            rows = np.empty((hi - lo, 1 + self.dim + self.dim * (self.dim + 1) // 2))
            self.own(theta, self.compiled.data, self.rows, lo, hi, rows)
            out[:] = rows[:, : 1 + self.dim]

    @over_all_rows
    def _sum_of_rows(self, theta: np.ndarray) -> np.ndarray:
        def block(lo: int, hi: int) -> np.ndarray:
            out = np.empty((hi - lo, self.columns))
            self._fill_by_gradients(theta, np.zeros(0), lo, hi, out)
            return np.asarray(out.sum(axis=0))

        return self.weight * sum_over_blocks(block, self.n_rows, self.block)

    def _total(self, theta: np.ndarray) -> Quadratic:
        """Return value, gradient and Hessian of the log-likelihood at theta: one pass."""
        return self._quadratic(self._sum_of_rows(theta))
