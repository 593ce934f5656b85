r"""The second-order expansion of groups' terms in closed form, by Louis' identity (1982).

With :math:`\pi_m` the normalised weights of the nodes and s_m the gradient of the complete data at node m,

.. math:: \nabla^2 \ell_g = \sum_m \pi_m \nabla^2 \log p(y_g, u_m) + \operatorname{Cov}_\pi(s_m).

The first part needs few numbers for each row, namely the means of l''(eta_im) times 1, u_m and u_m u_m'. That takes
n M + n p^2 operations instead of n M p^2. Kernels write expansions in phi; :func:`pull_back` converts them to theta.
"""

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from approxmcmc.engine.compiler.compile import compiled
from approxmcmc.engine.terms.batches import Data, datum_at
from approxmcmc.targets.groups.newton import largest_group, work_space


@compiled
def add_covariance(s: np.ndarray, weight: np.ndarray, mean: np.ndarray, out: np.ndarray) -> None:
    """Add the weighted covariance of the rows of s to the upper triangle of `out`, and write their mean."""
    n, d = s.shape
    for j in range(d):
        mean[j] = 0.0
        for m in range(n):
            mean[j] += weight[m] * s[m, j]
    for m in range(n):
        for j in range(d):
            for k in range(j, d):
                out[j, k] += weight[m] * (s[m, j] - mean[j]) * (s[m, k] - mean[k])


@compiled
def add_score(slope: float, W: np.ndarray, i: int, q: int, u: np.ndarray, m: int, score: np.ndarray) -> None:
    """Add to the slope in (beta, L) the share of one row, from its slope in eta, at node m."""
    p, K = W.shape[2] - q, u.shape[0]
    for j in range(p):
        score[j] += slope * W[0, i, q + j]
    for j in range(q):
        for k in range(K):
            score[p + j * K + k] += slope * u[k, m] * W[0, i, j]


@compiled
def add_bends(
    zeroth: float, first: np.ndarray, second: np.ndarray, W: np.ndarray, i: int, q: int, hessian: np.ndarray
) -> None:
    """Add the second derivatives of a row, from the means of its second derivative in eta times 1, u and uu'."""
    p, K = W.shape[2] - q, first.shape[0]
    for j in range(p):
        for n in range(j, p):
            hessian[j, n] += zeroth * W[0, i, q + j] * W[0, i, q + n]
        for n in range(q):
            for k in range(K):
                hessian[j, p + n * K + k] += first[k] * W[0, i, q + j] * W[0, i, n]
    for j in range(q):
        for n in range(q):
            for k in range(K):
                for o in range(K):
                    hessian[p + j * K + k, p + n * K + o] += second[k, o] * W[0, i, j] * W[0, i, n]


def make_expand(
    q: int,
    K: int,
    has_shape: bool,
    nodes: Callable[..., float],
    derivatives: Callable[..., Any],
    in_shape: Callable[..., float],
    of_row: Callable[..., Any],
) -> Callable[..., None]:
    """Return the kernel that writes l, gradients and the upper triangles of second derivatives in phi.

    For second derivatives in the shape it writes only the covariance.
    """

    def expand(
        phi: np.ndarray,
        data: Data,
        order: np.ndarray,
        lo: int,
        hi: int,
        values: np.ndarray,
        slopes: np.ndarray,
        bends: np.ndarray,
    ) -> None:
        W, responses, spans, _, rule, _ = data
        last, n_nodes = phi.shape[0] - 1, rule.shape[1]
        space = work_space(largest_group(spans, order, lo, hi), n_nodes, K)
        eta, a, u, weight, first = space[0], space[1], space[2], space[3], space[5]
        s, second = np.empty((n_nodes, phi.shape[0])), np.empty((K, K))
        shape = math.exp(phi[last]) if has_shape else 1.0
        for place in range(lo, hi):
            g = datum_at(order, place)
            value = nodes(phi, data, g, space)
            for m in range(n_nodes):
                weight[m] = math.exp(weight[m] - value)
            hessian = bends[place - lo]
            s[:], hessian[:] = 0.0, 0.0
            for i in range(spans[g, 0], spans[g, 1]):
                y, size, zeroth = responses[0, i, 0], responses[0, i, 1], 0.0
                first[:], second[:] = 0.0, 0.0
                in_row = of_row(y, shape)[1] if has_shape else 0.0
                for m in range(n_nodes):
                    x = eta[i - spans[g, 0]]
                    for k in range(K):
                        x += a[i - spans[g, 0], k] * u[k, m]
                    slope, bend = derivatives(x, y, size, shape)
                    add_score(slope, W, i, q, u, m, s[m])
                    if has_shape:
                        s[m, last] += in_row + in_shape(x, y, size, shape)
                    bend *= weight[m]
                    zeroth += bend
                    for k in range(K):
                        first[k] += bend * u[k, m]
                        for n in range(K):
                            second[k, n] += bend * u[k, m] * u[n, m]
                add_bends(zeroth, first, second, W, i, q, hessian)
            values[place - lo] = value
            add_covariance(s, weight, slopes[place - lo], hessian)

    return expand


def pull_back(
    values: np.ndarray, slopes: np.ndarray, bends: np.ndarray, jacobian: np.ndarray, curvature: np.ndarray
) -> np.ndarray:
    """Return rows (l, g_1 ... g_d, H_11 / 2, H_12, ..., H_dd / 2) in theta, of expansions in phi.

    `bends` holds upper triangles; `jacobian` (n, d) and `curvature` (n, d, d) are the derivatives of phi.
    """
    full = np.triu(bends) + np.triu(bends, 1).swapaxes(1, 2)
    hessian = jacobian.T @ full @ jacobian + np.tensordot(slopes, curvature, 1)
    rows, columns = np.triu_indices(jacobian.shape[1])
    halves = np.where(rows == columns, 0.5, 1.0)
    return np.column_stack([values, slopes @ jacobian, hessian[:, rows, columns] * halves])
