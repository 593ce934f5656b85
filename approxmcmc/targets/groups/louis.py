r"""The second-order expansion of groups' terms in closed form, by Louis' identity (1982).

With :math:`\pi_k` the normalised weights of the nodes and u_k the gradient of the complete data at node k,

.. math:: \nabla^2 \ell_g = \sum_k \pi_k \nabla^2 \log p(y_g, z_k) + \operatorname{Cov}_\pi(u_k).

The first part needs three numbers for each row, sum_k pi_k l''(eta_ik) z_k^j, j = 0, 1, 2: n K + n p^2 operations in
place of n K p^2.
"""

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from approxmcmc.engine.compiler.compile import compiled
from approxmcmc.engine.terms.batches import Data, datum_at
from approxmcmc.targets.groups.quadrature import largest_group, predictor


@compiled
def add_covariance(u: np.ndarray, weight: np.ndarray, mean: np.ndarray, out: np.ndarray) -> None:
    """Add the weighted covariance of the rows of u to the upper triangle of `out`, and write their mean."""
    n, d = u.shape
    for j in range(d):
        mean[j] = 0.0
        for k in range(n):
            mean[j] += weight[k] * u[k, j]
    for k in range(n):
        for j in range(d):
            for m in range(j, d):
                out[j, m] += weight[k] * (u[k, j] - mean[j]) * (u[k, m] - mean[m])


def make_expand(nodes: Callable[..., float], derivatives: Callable[..., Any]) -> Callable[..., None]:
    """Return the kernel that writes rows (l, g_1 ... g_d, H_11 / 2, H_12, ..., H_dd / 2); d = p + 1, the scale last."""

    def expand(theta: np.ndarray, data: Data, order: np.ndarray, lo: int, hi: int, out: np.ndarray) -> None:
        X, responses, spans, starts, rule, steps = data
        p, n_nodes = X.shape[2], rule.shape[1]
        eta = np.empty(largest_group(spans, order, lo, hi))
        z, weight = np.empty(n_nodes), np.empty(n_nodes)
        u, mean, hessian = np.empty((n_nodes, p + 1)), np.empty(p + 1), np.empty((p + 1, p + 1))
        sigma, sign = abs(theta[p]), np.sign(theta[p])
        for place in range(lo, hi):
            g = datum_at(order, place)
            first, last = spans[g, 0], spans[g, 1]
            predictor(theta, X, first, last, eta)
            value = nodes(eta, responses, first, last - first, sigma, starts[g], rule, steps[0, 0], z, weight)
            for k in range(n_nodes):
                weight[k] = math.exp(weight[k] - value)
            u[:], hessian[:] = 0.0, 0.0
            for i in range(first, last):
                bend = bend_z = bend_zz = 0.0
                for k in range(n_nodes):
                    one, two = derivatives(eta[i - first] + sigma * z[k], responses[0, i, 0], responses[0, i, 1])
                    for j in range(p):
                        u[k, j] += one * X[0, i, j]
                    u[k, p] += one * z[k]
                    bend += weight[k] * two
                    bend_z += weight[k] * two * z[k]
                    bend_zz += weight[k] * two * z[k] * z[k]
                for j in range(p):
                    for m in range(j, p):
                        hessian[j, m] += bend * X[0, i, j] * X[0, i, m]
                    hessian[j, p] += bend_z * X[0, i, j]
                hessian[p, p] += bend_zz
            add_covariance(u, weight, mean, hessian)
            row, column = place - lo, 1 + p + 1
            out[row, 0] = value
            for j in range(p + 1):  # the term is even in the scale, whose sign turns what is odd in it
                out[row, 1 + j] = mean[j] * (sign if j == p else 1.0)
                for m in range(j, p + 1):
                    out[row, column] = hessian[j, m] * (0.5 if m == j else (sign if m == p else 1.0))
                    column += 1

    return expand
