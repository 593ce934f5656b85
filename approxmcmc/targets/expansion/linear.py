"""Expansion of the terms of a generalised linear model, in closed form: four numbers per datum whatever the dimension.

    r_i = f(eta) - [f + f' delta + f'' delta^2 / 2],    delta = eta - eta_hat,

f and its derivatives at eta_hat = x_i' theta_hat. The cancellation does no harm: the error of r_i is that of f, some
1e-15 whatever r_i is, and 10^6 of them add up to less than 1e-9 in a log ratio that is compared with numbers of size 1.
"""

import math
from collections.abc import Callable

import numpy as np
from numba import types as nb

from approxmcmc.contracts import CompiledGradient, CompiledTarget
from approxmcmc.engine.batches import Data, bind_terms, datum_at, linear_predictor
from approxmcmc.engine.compile import BATCH_FASTMATH, MATRIX, VECTOR, bind, type_of
from approxmcmc.engine.gradients import gradient_signature
from approxmcmc.engine.sparse_rows import sparse_predictor, sparse_rows
from approxmcmc.targets.expansion.quadratic import ROWS, Quadratic, Survey, check_finite
from approxmcmc.targets.linear import LinearTarget

NODES = 7  # of Gauss and Hermite
FULL = 2  # arrays of data that are not packed: X and y
LARGEST_LEVERAGE = 0.5  # variance of a light row's predictor, in units of its scale: 1/4, 1/2 and 1 are as right
# Where no scale is known: what the quadratic may miss within so many standard deviations of a row's predictor.
REACH, FARTHEST = 3.0, 0.125
WORTH = 2.0  # variances from 16 draws are that uncertain; the averaged coefficients are better for the law as a whole


def quadratic_at(numbers: np.ndarray, delta: np.ndarray) -> np.ndarray:
    """Return the quadratics of some rows at their distances from eta_hat; shape of `delta`, (rows, places)."""
    return numbers[:, 1, None] + delta * (numbers[:, 2, None] + delta * numbers[:, 3, None])


def make_expand_eta(
    loglik_eta: Callable[[float, float], float], derivatives_eta: Callable[[float, float], tuple[float, float]]
) -> Callable[..., None]:
    """Return what writes the expansion of each term, a row of four numbers."""

    def expand_eta(eta: np.ndarray, y: np.ndarray, out: np.ndarray) -> None:
        for i in range(eta.shape[0]):
            first, second = derivatives_eta(eta[i], y[i])
            out[i, 0] = eta[i]
            out[i, 1] = loglik_eta(eta[i], y[i])
            out[i, 2] = first
            out[i, 3] = 0.5 * second

    return expand_eta


def predict_from_full_rows(
    theta: np.ndarray, rows: tuple[np.ndarray], order: np.ndarray, lo: int, hi: int, out: np.ndarray
) -> None:
    """Write linear predictors; rows = (X,)."""
    linear_predictor(theta, rows[0], order, lo, hi, out)


def predict_from_sparse_rows(
    theta: np.ndarray,
    rows: tuple[np.ndarray, np.ndarray, np.ndarray],
    order: np.ndarray,
    lo: int,
    hi: int,
    out: np.ndarray,
) -> None:
    """Write linear predictors; rows = (base, values, columns)."""
    sparse_predictor(theta, rows[0], rows[1], rows[2], order, lo, hi, out)


def make_linear_residuals(
    predict: Callable[..., None], loglik_eta: Callable[[float, float], float]
) -> Callable[..., None]:
    """Return the kernel of r_i; data = (*rows, y, expansion), `rows` what `predict` reads."""

    def linear_residuals(theta: np.ndarray, data: Data, order: np.ndarray, lo: int, hi: int, out: np.ndarray) -> None:
        # The rows of the expansion are turned into columns first: only loops over contiguous arrays vectorise.
        y, expansion = data[-2], data[-1]
        n = hi - lo
        predict(theta, data[:-2], order, lo, hi, out)
        columns = np.empty((5, n))
        for i in range(n):
            datum = datum_at(order, lo + i)
            columns[0, i] = y[datum]
            for k in range(4):
                columns[1 + k, i] = expansion[datum, k]
        responses, eta_hat, value, slope, bend = columns[0], columns[1], columns[2], columns[3], columns[4]
        for i in range(n):
            delta = out[i] - eta_hat[i]
            fitted = value[i] + delta * (slope[i] + delta * bend[i])
            out[i] = loglik_eta(out[i], responses[i]) - fitted

    return linear_residuals


def make_terms_on_grid(loglik_eta: Callable[[float, float], float]) -> Callable[..., None]:
    """Return what turns the predictors of some rows, each at several thetas, into terms, in place."""

    def terms_on_grid(eta: np.ndarray, y: np.ndarray) -> None:
        for i in range(eta.shape[0]):
            for j in range(eta.shape[1]):
                eta[i, j] = loglik_eta(eta[i, j], y[i])

    return terms_on_grid


def make_average(derivatives_eta: Callable[[float, float], tuple[float, float]]) -> Callable[..., None]:
    """Return what writes E f'(eta) and E f''(eta) / 2, eta ~ N(eta_i, h_i), for each row; two columns."""

    def average(
        eta: np.ndarray, y: np.ndarray, leverage: np.ndarray, nodes: np.ndarray, weights: np.ndarray, out: np.ndarray
    ) -> None:
        for i in range(eta.shape[0]):
            slope = bend = 0.0
            spread = math.sqrt(leverage[i])
            for k in range(nodes.shape[0]):
                first, second = derivatives_eta(eta[i] + spread * nodes[k], y[i])
                slope += weights[k] * first
                bend += weights[k] * second
            out[i, 0] = slope
            out[i, 1] = 0.5 * bend

    return average


def make_add_residual_gradient(derivatives_eta: Callable[[float, float], tuple[float, float]]) -> Callable[..., None]:
    """Return the kernel that adds grad r_i of some rows; data = (X, y, expansion)."""

    def add_residual_gradient(
        theta: np.ndarray, data: Data, order: np.ndarray, lo: int, hi: int, out: np.ndarray
    ) -> None:
        X, y, expansion = data
        eta = np.empty(hi - lo)
        linear_predictor(theta, X, order, lo, hi, eta)
        for place in range(lo, hi):
            row = datum_at(order, place)
            delta = eta[place - lo] - expansion[row, 0]
            slope = derivatives_eta(eta[place - lo], y[row])[0]
            slope -= expansion[row, 2] + 2.0 * delta * expansion[row, 3]
            for j in range(theta.shape[0]):
                out[j] += slope * X[row, j]

    return add_residual_gradient


class LinearExpansion:
    """Terms f(eta_i, y_i), eta_i = x_i' theta: the row of datum i is (eta, f, f', f'' / 2) at theta_hat."""

    def __init__(self, target: LinearTarget, order: int = 2) -> None:
        self.target, self.order, self.passes, self.columns = target, order, 0, 4
        functions = target._loglik_eta, target.derivatives_eta
        self._expand_eta = bind(make_expand_eta, *functions, signature=nb.void(VECTOR, VECTOR, MATRIX))

    def at(self, theta: np.ndarray, out: np.ndarray | None = None) -> Quadratic:
        """Return the expansion of the log-likelihood at theta in one pass over the data; write its rows to `out`."""
        X, y = self.target.X, self.target.y
        value, gradient = 0.0, np.zeros(len(theta))
        hessian = np.zeros((len(theta), len(theta)))
        for lo in range(0, len(y), ROWS):
            rows = np.asarray(X[lo : lo + ROWS])
            numbers = np.empty((len(rows), 4)) if out is None else out[lo : lo + ROWS]
            self._expand_eta(rows @ theta, np.array(y[lo : lo + ROWS]), numbers)
            check_finite(numbers, lo, theta)
            numbers[:, 3] *= self.order == 2
            value += float(numbers[:, 1].sum())
            gradient += numbers[:, 2] @ rows
            hessian += (rows * (2.0 * numbers[:, 3, None])).T @ rows
        self.passes += 1
        return Quadratic(value, gradient, 0.5 * (hessian + hessian.T))

    def survey(
        self, center: np.ndarray, cholesky: np.ndarray, draws: np.ndarray, out: np.ndarray, *, averaged: bool
    ) -> Survey:
        """Expand every row at a centre, and look at what is left at draws; the rows of the expansion go to `out`.

        With `averaged` the coefficients are E f' and E f'' / 2 over eta_i ~ N(x_i' center, h_i), the best quadratic in
        mean square (Price 1958), wherever that leaves less than Taylor's at the draws.
        """
        X, y, scale = self.target.X, self.target.y, self.target.predictor_scale
        signature = nb.void(VECTOR, VECTOR, VECTOR, VECTOR, VECTOR, MATRIX)
        average = bind(make_average, self.target.derivatives_eta, signature=signature)
        terms_on_grid = bind(make_terms_on_grid, self.target._loglik_eta, signature=nb.void(MATRIX, VECTOR))
        nodes, weights = np.polynomial.hermite_e.hermegauss(NODES)
        weights /= weights.sum()
        terms, residuals = np.empty((len(y), len(draws))), np.empty((len(y), len(draws)))
        walls, leverages, shifts = np.zeros(len(y), dtype=bool), np.empty(len(y)), np.zeros((len(y), 2))
        for lo in range(0, len(y), ROWS):
            here = slice(lo, lo + ROWS)
            rows, responses, numbers = np.asarray(X[here]), np.array(y[here]), out[here]
            eta, leverage = rows @ center, np.square(rows @ cholesky).sum(axis=1)
            self._expand_eta(eta, responses, numbers)
            check_finite(numbers, lo, center)
            delta = rows @ (draws - center).T
            found = eta[:, None] + delta
            terms_on_grid(found, responses)
            left = found - quadratic_at(numbers, delta)
            if scale is None:
                reach = REACH * np.sqrt(leverage)[:, None] * np.array([-1.0, 1.0])
                there = eta[:, None] + reach
                terms_on_grid(there, responses)
                walls[here] = (np.abs(there - quadratic_at(numbers, reach)) > FARTHEST).any(axis=1)
            else:
                walls[here] = leverage > LARGEST_LEVERAGE * scale**2
            if averaged:
                means = np.empty((len(rows), 2))
                average(eta, responses, leverage, nodes, weights, means)
                mean_numbers = np.column_stack([numbers[:, :2], means])
                mean_left = found - quadratic_at(mean_numbers, delta)
                better = ~walls[here] & (mean_left.var(axis=1) < WORTH * left.var(axis=1))
                shifts[here][better] = (mean_numbers - numbers)[better, 2:]
                numbers[better], left[better] = mean_numbers[better], mean_left[better]
            terms[here], residuals[here], leverages[here] = found, left, leverage
        self.passes += 2
        return Survey(terms, residuals, walls, leverages, shifts)

    def total(self, center: np.ndarray, numbers: np.ndarray, rows: np.ndarray) -> Quadratic:
        """Return the sum of the expansions of some rows."""
        value, gradient, hessian = 0.0, np.zeros(len(center)), np.zeros((len(center), len(center)))
        for lo in range(0, len(rows), ROWS):
            X, some = np.asarray(self.target.X[rows[lo : lo + ROWS]]), numbers[rows[lo : lo + ROWS]]
            value += float(some[:, 1].sum())
            gradient += some[:, 2] @ X
            hessian += (X * (2.0 * some[:, 3, None])).T @ X
        return Quadratic(value, gradient, 0.5 * (hessian + hessian.T))

    def compile_residual_gradients(
        self, gradient: CompiledGradient, center: np.ndarray, numbers: np.ndarray
    ) -> CompiledGradient:
        """Return the gradients of the r_i; that of the log prior is as it was."""
        data = (*gradient.data, numbers)
        parts = bind(
            make_add_residual_gradient,
            self.target.derivatives_eta,
            signature=gradient_signature(type_of(data)),
            fastmath=BATCH_FASTMATH,
        )
        return gradient._replace(add_gradient=parts, data=data)

    def packed(self, data: Data) -> Data:
        """Return (X, y) as (base, values, columns, y) where few entries of a row differ from the common one."""
        X, y = data
        rows = sparse_rows(X)
        return data if rows is None else (*rows, y)

    def compile_residuals(self, compiled: CompiledTarget, center: np.ndarray, numbers: np.ndarray) -> CompiledTarget:
        """Return the terms r_i with the data that they read, which may be packed; the log prior is as it was."""
        data = (*compiled.data, numbers)
        predict = predict_from_full_rows if len(compiled.data) == FULL else predict_from_sparse_rows
        residuals = bind_terms(make_linear_residuals, predict, self.target._loglik_eta, data=data)
        return compiled._replace(log_terms=residuals, data=data, compile_at_both=None)
