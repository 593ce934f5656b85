"""Kernels of residuals of any terms, r_i = term i minus its expansion w_i, of their gradients, and of those of terms.

Compiled in a chain; a row of the expansion is (l, g_1 ... g_d, H_11 / 2, H_12, ..., H_dd / 2).
"""

from collections.abc import Callable

import numpy as np

from approxmcmc.engine.terms.batches import Data, datum_at, linear_predictor


def make_gradients(add_gradient: Callable[..., None]) -> Callable[..., None]:
    """Return the kernel that adds the gradient of term ``order[lo + i]`` to row i of `out`, for every i < hi - lo."""

    def gradients(theta: np.ndarray, data: Data, lo: int, hi: int, order: np.ndarray, out: np.ndarray) -> None:
        for i in range(hi - lo):
            add_gradient(theta, data, order, lo + i, lo + i + 1, out[i])

    return gradients


def make_residuals(log_terms: Callable[..., None], second_order: bool) -> Callable[..., None]:
    """Return the kernel that writes the residuals of the rows ``order[lo:hi]``: their terms minus their expansions.

    The last two arrays of its data are the rows of the expansion, and theta_hat.
    """

    def residuals(theta: np.ndarray, data: Data, order: np.ndarray, lo: int, hi: int, out: np.ndarray) -> None:
        # w_i is a linear predictor: the row of datum i times (1, delta_j, delta_j delta_k for j <= k).
        expansion, center = data[-2], data[-1]
        log_terms(theta, data[:-2], order, lo, hi, out)
        dim = theta.shape[0]
        monomials = np.empty(expansion.shape[1])
        monomials[0] = 1.0
        for j in range(dim):
            monomials[1 + j] = theta[j] - center[0, j]
        if second_order:
            place = 1 + dim
            for j in range(dim):
                for k in range(j, dim):
                    monomials[place] = monomials[1 + j] * monomials[1 + k]
                    place += 1
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
        expansion, center, dim = data[-2], data[-1], theta.shape[0]
        add_gradient(theta, data[:-2], order, lo, hi, out)
        for where in range(lo, hi):
            row = expansion[datum_at(order, where)]
            place = 1 + dim
            for j in range(dim):
                out[j] -= row[1 + j]
                if second_order:
                    for k in range(j, dim):  # gradient of H_jk delta_j delta_k, of half of it on the diagonal
                        out[j] -= row[place] * (theta[k] - center[0, k])
                        out[k] -= row[place] * (theta[j] - center[0, j])
                        place += 1

    return add_residual_gradient
