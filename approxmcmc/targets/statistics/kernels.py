r"""Terms of normal outcomes from their sufficient statistics, with gradients and second derivatives.

The term of outcome k with n rows, with s and R of its least-squares fit (`least_squares`), u = R (beta - beta^), a
constant b and the log scale lambda = v'theta, is

.. math:: \ell = b - n \lambda - \tfrac12 q, \quad q = (s + |u|^2) e^{-2 \lambda},

where beta are the entries of theta in the mean. So the gradient is -R'u exp(-2 lambda) in beta, plus (q - n) v; the
second derivatives are -R'R exp(-2 lambda), 2 R'u exp(-2 lambda) times v' both ways, and -2 q v v'.

data = (roots R (K, p, p), centers beta^ (K, p), places (K, p), scales v (K, dim), numbers n, s, b (K, 3)). `places` are
the indices in theta of beta; those beyond the columns of an outcome are multiplied by zeros of the root.
"""

import math
from collections.abc import Callable

import numpy as np

from approxmcmc.engine.compiler.compile import BATCH_FASTMATH, compiled
from approxmcmc.engine.terms.batches import Data, datum_at

# Columns of the numbers of an outcome: rows n, sum of squares s of the residuals, constant b.
ROWS = 0
SQUARES = 1
CONSTANT = 2


@compiled(fastmath=set(BATCH_FASTMATH))
def log_scale(theta: np.ndarray, data: Data, k: int) -> float:
    """Return lambda, the log scale, of outcome k."""
    _, _, _, scales, _ = data
    total = 0.0
    for j in range(theta.shape[0]):
        total += scales[k, j] * theta[j]
    return total


@compiled(fastmath=set(BATCH_FASTMATH))
def whitened(theta: np.ndarray, data: Data, k: int, u: np.ndarray) -> float:
    """Write R (beta - beta^) of outcome k to `u`, and return s + |u|^2."""
    roots, centers, places_of, _, numbers = data
    root = roots[k]
    center = centers[k]
    places = places_of[k]
    total = 0.0
    for i in range(center.shape[0]):
        u[i] = 0.0
        for j in range(i, center.shape[0]):
            u[i] += root[i, j] * (theta[places[j]] - center[j])
        total += u[i] * u[i]
    return numbers[k, SQUARES] + total


@compiled(fastmath=set(BATCH_FASTMATH))
def slopes(data: Data, k: int, u: np.ndarray, out: np.ndarray) -> None:
    """Write R'u of outcome k to `out`."""
    roots, _, _, _, _ = data
    root = roots[k]
    for j in range(u.shape[0]):
        out[j] = 0.0
    for i in range(u.shape[0]):
        for j in range(i, u.shape[0]):
            out[j] += root[i, j] * u[i]


def log_terms(theta: np.ndarray, data: Data, order: np.ndarray, lo: int, hi: int, out: np.ndarray) -> None:
    """Write the terms of the outcomes ``order[lo:hi]`` to `out`."""
    _, centers, _, _, numbers = data
    u = np.empty(centers.shape[1])
    for position in range(lo, hi):
        k = datum_at(order, position)
        scale = log_scale(theta, data, k)
        out[position - lo] = (
            numbers[k, CONSTANT] - numbers[k, ROWS] * scale - 0.5 * whitened(theta, data, k, u) * math.exp(-2.0 * scale)
        )


def add_gradient(theta: np.ndarray, data: Data, order: np.ndarray, lo: int, hi: int, out: np.ndarray) -> None:
    """Add the sum of the gradients of the terms of the outcomes ``order[lo:hi]`` to `out`."""
    _, centers, places, scales, numbers = data
    p = centers.shape[1]
    u = np.empty(p)
    slope = np.empty(p)
    for position in range(lo, hi):
        k = datum_at(order, position)
        squares = whitened(theta, data, k, u)
        precision = math.exp(-2.0 * log_scale(theta, data, k))
        slopes(data, k, u, slope)
        for j in range(p):
            out[places[k, j]] -= slope[j] * precision
        for j in range(theta.shape[0]):
            out[j] += scales[k, j] * (squares * precision - numbers[k, ROWS])


def make_expand(log_terms: Callable[..., None], add_gradient: Callable[..., None]) -> Callable[..., None]:
    """Return the kernel that writes rows of `GeneralExpansion`: value, gradient, H_11 / 2, H_12, ..., H_dd / 2."""

    def expand(theta: np.ndarray, data: Data, order: np.ndarray, lo: int, hi: int, out: np.ndarray) -> None:
        roots, centers, places_of, scales, _ = data
        dim = theta.shape[0]
        p = centers.shape[1]
        u = np.empty(p)
        slope = np.empty(p)
        hessian = np.empty((dim, dim))
        for position in range(lo, hi):
            k = datum_at(order, position)
            row = out[position - lo]
            row[:] = 0.0
            log_terms(theta, data, order, position, position + 1, row)
            add_gradient(theta, data, order, position, position + 1, row[1 : 1 + dim])
            root = roots[k]
            places = places_of[k]
            v = scales[k]
            squares = whitened(theta, data, k, u)
            precision = math.exp(-2.0 * log_scale(theta, data, k))
            slopes(data, k, u, slope)
            for a in range(dim):
                for b in range(dim):
                    hessian[a, b] = -2.0 * squares * precision * v[a] * v[b]
            for j in range(p):
                for a in range(dim):
                    hessian[places[j], a] += 2.0 * precision * slope[j] * v[a]
                    hessian[a, places[j]] += 2.0 * precision * slope[j] * v[a]
                for m in range(p):
                    for i in range(min(j, m) + 1):
                        hessian[places[j], places[m]] -= precision * root[i, j] * root[i, m]
            at = 1 + dim
            for a in range(dim):
                for b in range(a, dim):
                    row[at] = hessian[a, b] * (0.5 if a == b else 1.0)
                    at += 1

    return expand
