"""Kernels of the residuals r_i = f(eta) - eta (a_i + b_i eta) of a generalised linear model, and of their gradients.

Compiled in a chain; a row of the expansion is (a_i, b_i). Predictors come from full rows or from sparse ones.
"""

from collections.abc import Callable

import numpy as np

from approxmcmc.engine.terms.batches import Data, datum_at, linear_predictor
from approxmcmc.engine.terms.sparse_rows import sparse_predictor

FEW = 8  # rows that are not worth an allocation: a test that draws its rows reads one or two at a time


def predict_from_full_rows(
    theta: np.ndarray, rows: tuple[np.ndarray], order: np.ndarray, lo: int, hi: int, out: np.ndarray
) -> None:
    """Write the linear predictors of ``order[lo:hi]`` to `out`; ``rows = (X,)``."""
    linear_predictor(theta, rows[0], order, lo, hi, out)


def predict_from_sparse_rows(
    theta: np.ndarray,
    rows: tuple[np.ndarray, np.ndarray, np.ndarray],
    order: np.ndarray,
    lo: int,
    hi: int,
    out: np.ndarray,
) -> None:
    """Write the linear predictors of ``order[lo:hi]`` to `out`; ``rows = (base, values, columns)`` as `sparse_rows`."""
    sparse_predictor(theta, rows[0], rows[1], rows[2], order, lo, hi, out)


def make_linear_residuals(
    predict: Callable[..., None], loglik_eta: Callable[[float, float], float]
) -> Callable[..., None]:
    """Return the kernel that writes r_i for ``order[lo:hi]``; data = (*rows, y, expansion), `predict` reads `rows`."""

    def linear_residuals(theta: np.ndarray, data: Data, order: np.ndarray, lo: int, hi: int, out: np.ndarray) -> None:
        y, expansion = data[-2], data[-1]
        n = hi - lo
        predict(theta, data[:-2], order, lo, hi, out)
        if n < FEW:
            for i in range(n):
                datum = datum_at(order, lo + i)
                fitted = out[i] * (expansion[datum, 0] + out[i] * expansion[datum, 1])
                out[i] = loglik_eta(out[i], y[datum]) - fitted
            return
        # The rows of the expansion are turned into columns first: only loops over contiguous arrays vectorise.
        columns = np.empty((3, n), y.dtype)  # one allocation; complex for `DistinctRows`
        responses, slope, bend = columns[0], columns[1].real, columns[2].real
        for i in range(n):
            datum = datum_at(order, lo + i)
            responses[i] = y[datum]
            slope[i] = expansion[datum, 0]
            bend[i] = expansion[datum, 1]
        for i in range(n):
            fitted = out[i] * (slope[i] + out[i] * bend[i])
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
        for place in range(lo, hi):
            row = datum_at(order, place)
            slope = derivatives_eta(eta[place - lo], y[row])[0]
            slope -= expansion[row, 0] + 2.0 * eta[place - lo] * expansion[row, 1]
            for j in range(theta.shape[0]):
                out[j] += slope * X[row, j]

    return add_residual_gradient
