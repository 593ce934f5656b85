"""Expansion of the terms of a generalised linear model, in closed form: four numbers per datum whatever the dimension.

    r_i = f(eta) - [f + f' delta + f'' delta^2 / 2],    delta = eta - eta_hat,

f and its derivatives at eta_hat = x_i' theta_hat. The cancellation does no harm: the error of r_i is that of f, some
1e-15 whatever r_i is, and 10^6 of them add up to less than 1e-9 in a log ratio that is compared with numbers of size 1.
"""

from collections.abc import Callable

import numpy as np
from numba import types as nb

from approxmcmc.contracts import CompiledTarget
from approxmcmc.engine.batches import Data, bind_terms, datum_at, linear_predictor
from approxmcmc.engine.compile import MATRIX, VECTOR, bind
from approxmcmc.targets.expansion.quadratic import ROWS, Quadratic, check_finite
from approxmcmc.targets.linear import LinearTarget


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


def make_linear_residuals(loglik_eta: Callable[[float, float], float]) -> Callable[..., None]:
    """Return the kernel of r_i; data = (X, y, expansion)."""

    def linear_residuals(theta: np.ndarray, data: Data, order: np.ndarray, lo: int, hi: int, out: np.ndarray) -> None:
        # The rows of the expansion are turned into columns first: only loops over contiguous arrays vectorise.
        X, y, expansion = data
        n = hi - lo
        linear_predictor(theta, X, order, lo, hi, out)
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

    def compile_residuals(self, compiled: CompiledTarget, center: np.ndarray, numbers: np.ndarray) -> CompiledTarget:
        """Return the terms r_i with the data that they read; the log prior is as it was."""
        data = (*compiled.data, numbers)
        residuals = bind_terms(make_linear_residuals, self.target._loglik_eta, data=data)
        return compiled._replace(log_terms=residuals, data=data, compile_at_both=None)
