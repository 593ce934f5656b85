r"""Expand terms that depend on K linear predictors: 1 + 2 K + K (K + 1) / 2 numbers per datum for any dimension.

.. math:: r_i = f(\eta) - [f + g'\delta + \delta' H \delta / 2],    \delta = \eta - \hat\eta,

with f, its gradient g and its Hessian H in the K predictors, all at the predictors :math:`\hat\eta` of the centre. A
row holds (eta_hat, f, g, H), with the upper triangle of H and halves on the diagonal; for K = 1 the quadratic is the
same as in `linear`. Gradient and Hessian of the log-likelihood follow from those of the rows and the design, in one
pass; differences of gradients would take 2 + 2 dim passes.
"""

from typing import Any, Protocol

import numpy as np

from approxmcmc.contracts import CompiledGradient, CompiledTarget
from approxmcmc.engine.files.mapped_files import is_mapped
from approxmcmc.engine.terms.batches import Data
from approxmcmc.engine.terms.gradients import ALL_ROWS
from approxmcmc.engine.terms.passes import sum_over_blocks
from approxmcmc.expansion.base import Expansion, over_all_rows
from approxmcmc.expansion.linear import NODES, WORTH, RowsAround
from approxmcmc.expansion.quadratic import Quadratic, Survey, check_finite, survey_of

# A row is a wall if its quadratic is wrong by more than FARTHEST at REACH standard deviations of its predictors.
REACH = 3.0
FARTHEST = 0.125


class PredictorRows(Protocol):
    """What `PredictorExpansion` reads of a target whose terms are a likelihood of K predictors of a design."""

    n_obs: int
    design: Any
    likelihood: Any
    responses: tuple[np.ndarray, ...]

    def predictor_data(self, data: Data) -> Data:
        """Return the arrays of some rows of the target as (*design, *responses)."""

    def responses_of(self, rows: Any) -> tuple[np.ndarray, ...]:
        """Return the responses of some rows, in memory."""

    def residual_kernel(self, data: Data) -> Any:
        """Compile the terms minus their quadratics, which the last array of the data holds."""

    def residual_gradient_kernel(self, data: Data) -> Any:
        """Compile the gradients of these residuals."""


class PredictorExpansion(Expansion):
    """Terms f(eta_i1 ... eta_iK, y_i): the row of datum i is (eta, f, g, H) at the centre, see the module."""

    def __init__(self, target: PredictorRows, order: int = 2) -> None:
        super().__init__(target, order)
        likelihood = target.likelihood
        self.design = target.design
        self.K = likelihood.n_predictors
        self.mapped = is_mapped(target.design.X)
        self.columns = self.K + likelihood.n_numbers
        self.upper = np.triu_indices(self.K)
        self._expand = likelihood.compile("expansion", target.responses)
        self._terms = likelihood.compile("terms", target.responses)

    def at(self, theta: np.ndarray) -> Quadratic:
        """Return value, gradient and Hessian of the log-likelihood at theta: one pass."""
        return self._pass(theta, out=np.empty((0, self.columns)))

    def expand(self, theta: np.ndarray, out: np.ndarray) -> Quadratic:
        """Expand every row at theta, in one pass; write the rows of the expansion to `out`, and return their sum."""
        return self._pass(theta, out=out)

    @over_all_rows
    def _pass(self, theta: np.ndarray, *, out: np.ndarray) -> Quadratic:
        """Return the sum of the rows of the expansion; write the rows to `out` unless it is empty."""

        def block(lo: int, hi: int) -> Quadratic:
            numbers = out[lo:hi] if len(out) else np.empty((hi - lo, self.columns))
            self._fill(theta, lo, hi, numbers)
            return self._sum(numbers, self._where(lo, hi))

        total = sum_over_blocks(block, self.n_rows, self.design.rows_per_summed_block)
        return Quadratic(self.weight * total.value, self.weight * total.gradient, self.weight * total.hessian)

    def _where(self, lo: int, hi: int) -> slice | np.ndarray:
        """Return where in the data the rows lo ... hi - 1 of this expansion are: a slice, or indices for a sample."""
        return self.rows[lo:hi] if self.rows.size else slice(lo, hi)

    def _fill(self, theta: np.ndarray, lo: int, hi: int, numbers: np.ndarray) -> None:
        """Write the rows lo ... hi - 1 of the expansion at theta to `numbers`; raise if one is not finite."""
        eta = self.design.eta(theta, self._where(lo, hi))
        derivatives = np.empty((hi - lo, self.columns - self.K))
        self._expand(eta, self.target.responses, self.rows, lo, hi, derivatives)
        numbers[:, : self.K] = eta.T
        numbers[:, self.K :] = derivatives
        check_finite(numbers, self.first_row + lo, theta)
        curvatures = numbers[:, 2 * self.K + 1 :]
        curvatures[:, self.upper[0] == self.upper[1]] *= 0.5
        curvatures *= self.order == 2

    def _sum(self, numbers: np.ndarray, rows: slice | np.ndarray) -> Quadratic:
        """Return the sum of the expansions of `rows`; `numbers` holds those of these rows, in the same order."""
        K = self.K
        curvatures = np.zeros((K, K, len(numbers)))
        if self.order == 2:
            curvatures[*self.upper] = numbers[:, 2 * K + 1 :].T
            curvatures += curvatures.transpose(1, 0, 2)  # the diagonal holds halves
        gradient = self.design.gradient(np.ascontiguousarray(numbers[:, K + 1 : 2 * K + 1].T), rows)
        return Quadratic(float(numbers[:, K].sum()), gradient, self.design.hessian(curvatures, rows))

    def around(self, center: np.ndarray, cholesky: np.ndarray, rows: Any) -> RowsAround:
        """Return the same as `LinearExpansion.around`, for rows with one predictor."""
        [eta] = self.design.eta(center, rows)
        [directions] = self.design.times(cholesky, rows)
        first, second = self.derivatives(eta, rows)
        return RowsAround(eta, directions, first, second)

    def derivatives(self, eta: np.ndarray, rows: Any) -> tuple[np.ndarray, np.ndarray]:
        """Return the first two derivatives of the terms of some rows with one predictor, at `eta` (rows,)."""
        slopes, curvatures = self.derivatives_in_predictors(np.ascontiguousarray(eta)[None], rows)
        return slopes[0], curvatures[:, 0, 0]

    def derivatives_in_predictors(self, eta: np.ndarray, rows: Any) -> tuple[np.ndarray, np.ndarray]:
        """Return slopes (K, rows) and second derivatives (rows, K, K) of the terms of some rows, at `eta` (K, rows)."""
        K = self.K
        values = np.empty((eta.shape[1], self.columns - K))
        self._expand(eta, self.target.responses_of(rows), ALL_ROWS, 0, len(values), values)
        curvatures = np.empty((len(values), K, K))
        curvatures[:, *self.upper] = values[:, 1 + K :]
        curvatures.swapaxes(1, 2)[:, *self.upper] = values[:, 1 + K :]
        return values[:, 1 : 1 + K].T.copy(), curvatures

    def shifts(self, here: RowsAround, numbers: np.ndarray) -> np.ndarray:
        """Return by how much slope and curvature of rows differ from Taylor's; shape (rows, 2).

        `numbers` holds their (eta, f, g, H / 2).
        """
        return np.column_stack([numbers[:, 2] - here.first, numbers[:, 3] - 0.5 * here.second])

    def total(self, center: np.ndarray, numbers: np.ndarray, rows: np.ndarray) -> Quadratic:
        """Return the sum of the expansions of `rows` (indices); `numbers` holds the expansions of all rows."""

        def block(lo: int, hi: int) -> Quadratic:
            return self._sum(numbers[rows[lo:hi]], rows[lo:hi])

        return sum_over_blocks(block, len(rows), self.design.rows_per_summed_block)

    def survey(
        self, center: np.ndarray, cholesky: np.ndarray, draws: np.ndarray, out: np.ndarray, *, averaged: bool
    ) -> Survey:
        """Expand every row at `center`, write the expansion to `out`, and return the survey of residuals at `draws`.

        Walls are rows with an error of the quadratic above 1/8 at 3 standard deviations of their predictors, on one of
        the principal axes under N(center, L L'), L = `cholesky`. With `averaged` the coefficients of rows with one
        predictor are those of `LinearExpansion.survey`; of K predictors they are Taylor's, because averages would take
        a grid in K dimensions.
        """
        left = np.empty((self.n_rows, len(draws)))
        walls = np.empty(self.n_rows, dtype=bool)
        averaged = averaged and self.K == 1
        total = self._expand_rows(center, cholesky, draws, averaged, numbers=out, left=left, walls=walls)
        return survey_of(left, walls, total)

    @over_all_rows
    def _expand_rows(
        self,
        center: np.ndarray,
        cholesky: np.ndarray,
        draws: np.ndarray,
        averaged: bool,
        *,
        numbers: np.ndarray,
        left: np.ndarray,
        walls: np.ndarray,
    ) -> Quadratic:
        """Expand every row at `center`; fill `numbers` (the expansion), `left` (residuals at `draws`), and `walls`."""

        def block(lo: int, hi: int) -> Quadratic:
            block_of_numbers = numbers[lo:hi]
            rows = self._where(lo, hi)
            self._fill(center, lo, hi, block_of_numbers)
            moves = self.design.times((draws - center).T, rows)
            left[lo:hi] = self._left(block_of_numbers, moves, lo, hi)
            covariances = self.design.covariances(cholesky, rows)
            values, axes = np.linalg.eigh(covariances)
            reach = REACH * np.moveaxis(axes * np.sqrt(np.maximum(values, 0.0))[:, None, :], 0, 1)
            far = self._left(block_of_numbers, np.concatenate([reach, -reach], axis=2), lo, hi)
            walls[lo:hi] = ~(np.abs(far) <= FARTHEST).all(axis=1)
            if averaged:
                self._average(block_of_numbers, moves[0], covariances[:, 0, 0], left[lo:hi], walls[lo:hi], lo)
            return self._sum(block_of_numbers, rows)

        return sum_over_blocks(block, self.n_rows, self.design.rows_at_a_time)

    def _average(
        self,
        numbers: np.ndarray,
        moves: np.ndarray,
        variances: np.ndarray,
        left: np.ndarray,
        walls: np.ndarray,
        lo: int,
    ) -> None:
        """Replace the coefficients in `numbers` of rows with one predictor by averages over N(eta_hat, `variances`).

        As in `linear.expand_block`: not those of walls, nor where residuals then have `WORTH` times the variance.
        `left` (rows, draws) are the residuals at predictors `moves` (rows, draws) away, and are replaced, too.
        """
        nodes, weights = np.polynomial.hermite_e.hermegauss(NODES)
        averages = np.empty((len(numbers), self.columns - self.K))
        mean = np.zeros((len(numbers), 2))
        for node, weight in zip(nodes, weights / weights.sum(), strict=True):
            eta = np.ascontiguousarray(numbers[:, 0] + np.sqrt(variances) * node)
            self._expand(eta[None], self.target.responses, self.rows, lo, lo + len(numbers), averages)
            mean += weight * averages[:, 1:]
        slope = mean[:, 0]
        half = 0.5 * mean[:, 1]
        other = left + moves * ((numbers[:, 2] - slope)[:, None] + moves * (numbers[:, 3] - half)[:, None])
        better = ~walls & (other.var(axis=1) < WORTH * left.var(axis=1))
        numbers[better, 2] = slope[better]
        numbers[better, 3] = half[better]
        left[better] = other[better]

    def _left(self, numbers: np.ndarray, delta: np.ndarray, lo: int, hi: int) -> np.ndarray:
        """Return the residuals of the quadratics at predictors `delta` (K, rows, places) away from those at the centre.

        The rows are lo ... hi - 1; shape (rows, places).
        """
        K = self.K
        left = self._terms_at(numbers[:, :K].T[:, :, None] + delta, lo, hi)
        left -= numbers[:, K, None] + np.einsum("rk,krj->rj", numbers[:, K + 1 : 2 * K + 1], delta)
        for column, (k, m) in enumerate(zip(*self.upper, strict=True), 2 * K + 1):
            left -= numbers[:, column, None] * delta[k] * delta[m]
        return left

    @over_all_rows
    def _write_terms(self, draws: np.ndarray, *, out: np.ndarray) -> int:
        def block(lo: int, hi: int) -> int:
            rows = self._where(lo, hi)
            eta = self.design.eta(np.zeros(self.design.dim), rows)[:, :, None] + self.design.times(draws.T, rows)
            out[lo:hi] = self._terms_at(eta, lo, hi)
            return hi - lo

        return sum_over_blocks(block, self.n_rows, self.design.rows_at_a_time)

    def _terms_at(self, eta: np.ndarray, lo: int, hi: int) -> np.ndarray:
        """Return the terms lo ... hi - 1 at predictors `eta` (K, rows, places); shape (rows, places)."""
        terms = np.empty(eta.shape[1:])
        column = np.empty(hi - lo)
        for j in range(eta.shape[2]):
            self._terms(np.ascontiguousarray(eta[:, :, j]), self.target.responses, self.rows, lo, hi, column)
            terms[:, j] = column
        return terms

    def compile_residuals(self, compiled: CompiledTarget, center: np.ndarray, numbers: np.ndarray) -> CompiledTarget:
        """Return `compiled` with the residuals r_i of the expansion `numbers` as terms; the log prior stays."""
        data = (*self.target.predictor_data(compiled.data), numbers)
        kernel = self.target.residual_kernel(data)
        return compiled._replace(log_terms=kernel, data=data, compile_at_both=None)

    def compile_residual_gradients(
        self, gradient: CompiledGradient, center: np.ndarray, numbers: np.ndarray
    ) -> CompiledGradient:
        """Return `gradient` with the residuals r_i of the expansion `numbers` as terms; the log prior stays."""
        data = (*self.target.predictor_data(gradient.data), numbers)
        kernel = self.target.residual_gradient_kernel(data)
        return gradient._replace(add_gradient=kernel, data=data)
