"""Expansion of the terms of a generalised linear model, in closed form: four numbers per datum whatever the dimension.

    r_i = f(eta) - [f + f' delta + f'' delta^2 / 2],    delta = eta - eta_hat,

f and its derivatives at eta_hat = x_i' theta_hat. The cancellation does no harm: the error of r_i is that of f, some
1e-15 whatever r_i is, and 10^6 of them add up to less than 1e-9 in a log ratio that is compared with numbers of size 1.
"""

import numpy as np
from numba import config
from numba import types as nb

from approxmcmc.contracts import CompiledTarget
from approxmcmc.engine.batches import datum_at, linear_predictor, log_terms_type
from approxmcmc.engine.bind import BATCH_FASTMATH, MATRIX, VECTOR, bind, type_of
from approxmcmc.targets.expansion.quadratic import ROWS, Quadratic, check_finite
from approxmcmc.targets.linear import LinearTarget


def _expand_eta(eta, y, out):  # type: ignore[no-untyped-def]  # a template
    for i in range(eta.shape[0]):
        first, second = DERIVATIVES(eta[i], y[i])  # type: ignore[name-defined]  # noqa: F821 (bound)
        out[i, 0] = eta[i]
        out[i, 1] = LOGLIK_ETA(eta[i], y[i])  # type: ignore[name-defined]  # noqa: F821 (bound)
        out[i, 2] = first
        out[i, 3] = 0.5 * second


def _linear_residuals(theta, data, order, lo, hi, out):  # type: ignore[no-untyped-def]  # a template
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
        out[i] = LOGLIK_ETA(out[i], responses[i]) - fitted  # type: ignore[name-defined]  # noqa: F821 (bound)


class LinearExpansion:
    """Terms f(eta_i, y_i), eta_i = x_i' theta: the row of datum i is (eta, f, f', f'' / 2) at theta_hat."""

    def __init__(self, target: LinearTarget, order: int = 2) -> None:
        self.target, self.order, self.passes, self.columns = target, order, 0, 4
        signature = None if config.DISABLE_JIT else nb.void(VECTOR, VECTOR, MATRIX)
        functions = target._loglik_eta, target.derivatives_eta
        self._expand_eta = bind(_expand_eta, signature, LOGLIK_ETA=functions[0], DERIVATIVES=functions[1])

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
        signature = log_terms_type(type_of(data)).signature
        kernel = bind(_linear_residuals, signature, fastmath=BATCH_FASTMATH, LOGLIK_ETA=self.target._loglik_eta)
        return compiled._replace(log_terms=kernel, data=data, compile_at_both=None)
