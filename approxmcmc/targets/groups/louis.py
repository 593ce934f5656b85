r"""The second-order expansion of groups' terms in closed form, by Louis' identity (1982).

With :math:`\pi_m` the normalised weights of the nodes and s_m the gradient of the complete data at node m,

.. math:: \nabla^2 \ell_g = \sum_m \pi_m \nabla^2 \log p(y_g, u_m) + \operatorname{Cov}_\pi(s_m).

The first part needs few numbers for each row, namely the means of l''(eta_im) times 1, u_m and u_m u_m'. That takes
n M + n p^2 operations instead of n M p^2. Kernels write expansions in phi; :func:`pull_back` converts them to theta.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from approxmcmc.engine.compiler.compile import batched
from approxmcmc.engine.numerics import bounded_exp, exp
from approxmcmc.engine.terms.batches import Data, datum_at
from approxmcmc.targets.groups.newton import largest_group
from approxmcmc.targets.groups.row_sums import work_space

LARGEST_MAP = 1 << 22  # most entries of the matrix in `in_theta`, 32 MB: about 60 columns; 200 would take 3 GB


@batched
def add_covariance(s: np.ndarray, weight: np.ndarray, mean: np.ndarray, out: np.ndarray) -> None:
    """Add the weighted covariance of the columns of s (d, M) to the upper triangle of `out`.

    Their weighted mean is written to `mean` and subtracted from s.
    """
    d, n = s.shape
    for j in range(d):
        total = 0.0
        for m in range(n):
            total += weight[m] * s[j, m]
        mean[j] = total
        for m in range(n):
            s[j, m] -= total
    for j in range(d):
        for k in range(j, d):
            total = 0.0
            for m in range(n):
                total += weight[m] * s[j, m] * s[k, m]
            out[j, k] += total


@batched
def add_scores(slope: np.ndarray, W: np.ndarray, i: int, q: int, u: np.ndarray, s: np.ndarray) -> None:
    """Add row i's part of the slopes in (beta, L) at the nodes `u` to `s`, from the row's slopes in eta, `slope`."""
    p = W.shape[2] - q
    K = u.shape[0]
    for j in range(p):
        for m in range(slope.shape[0]):
            s[j, m] += slope[m] * W[0, i, q + j]
    for j in range(q):
        for k in range(K):
            for m in range(slope.shape[0]):
                s[p + j * K + k, m] += slope[m] * u[k, m] * W[0, i, j]


@batched
def add_hessian(
    zeroth: float, first: np.ndarray, second: np.ndarray, W: np.ndarray, i: int, q: int, hessian: np.ndarray
) -> None:
    """Add the second derivatives of row i to the upper triangle of `hessian`.

    `zeroth`, `first`, `second` are the means over nodes of its second derivative in eta times 1, u and uu'.
    """
    p = W.shape[2] - q
    K = first.shape[0]
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
    one_column: bool,
    K: int,
    has_shape: bool,
    nodes: Callable[..., float],
    read: Callable[..., Any],
    derivatives: Callable[..., Any],
    in_shape: Callable[..., float],
    of_row: Callable[..., Any],
) -> Callable[..., None]:
    """Return the kernel that writes l, gradients and the upper triangles of second derivatives in phi.

    For second derivatives in the shape it writes only the covariance. `nodes` places the nodes of a group, see
    `quadrature`; the functions after it are those of a `Stack`.
    """

    def expand(
        phi: np.ndarray,
        data: Data,
        order: np.ndarray,
        lo: int,
        hi: int,
        values: np.ndarray,
        slopes: np.ndarray,
        hessians: np.ndarray,
    ) -> None:
        W, responses, spans, _, rule, sizes = data
        q = 1 if one_column else sizes[0, 1]
        last = phi.shape[0] - 1
        n_nodes = rule.shape[2]
        space = work_space(largest_group(spans, order, lo, hi), n_nodes, K)
        eta = space.eta
        a = space.a
        u = space.u
        weight = space.weight
        first = space.step
        s = np.empty((phi.shape[0], n_nodes))
        second = np.empty((K, K))
        slope = np.empty(n_nodes)
        curvature = np.empty(n_nodes)
        shape = bounded_exp(phi[last]) if has_shape else 1.0
        for place in range(lo, hi):
            g = datum_at(order, place)
            value = nodes(phi, data, g, space)
            for m in range(n_nodes):
                weight[m] = exp(weight[m] - value)
            hessian = hessians[place - lo]
            s[:] = 0.0
            hessian[:] = 0.0
            for i in range(spans[g, 0], spans[g, 1]):
                row = read(responses, i)
                zeroth = 0.0
                for m in range(n_nodes):
                    x = eta[i - spans[g, 0]]
                    for k in range(K):
                        x += a[i - spans[g, 0], k] * u[k, m]
                    slope[m], curvature[m] = derivatives(x, row, shape)
                    curvature[m] *= weight[m]
                    zeroth += curvature[m]
                    if has_shape:
                        s[last, m] += of_row(row, shape)[1] + in_shape(x, row, shape)
                for k in range(K):
                    first[k] = 0.0
                    for m in range(n_nodes):
                        first[k] += curvature[m] * u[k, m]
                    for n in range(K):
                        total = 0.0
                        for m in range(n_nodes):
                            total += curvature[m] * u[k, m] * u[n, m]
                        second[k, n] = total
                add_scores(slope, W, i, q, u, s)
                add_hessian(zeroth, first, second, W, i, q, hessian)
            values[place - lo] = value
            add_covariance(s, weight, slopes[place - lo], hessian)

    return expand


@np.errstate(over="ignore", invalid="ignore")  # a search may try points far from the mode
def pull_back(
    values: np.ndarray, slopes: np.ndarray, hessians: np.ndarray, jacobian: np.ndarray, second: np.ndarray
) -> np.ndarray:
    """Return rows (l, g_1 ... g_d, H_11 / 2, H_12, ..., H_dd / 2) in theta, given values and derivatives in phi.

    `hessians` holds upper triangles; `jacobian` (n, d) and `second` (n, d, d) are first and second derivatives of phi.
    """
    j, k = np.triu_indices(jacobian.shape[1])
    hessian = (in_theta(hessians, jacobian) + slopes @ second[:, j, k]) * np.where(j == k, 0.5, 1.0)
    return np.column_stack([values, slopes @ jacobian, hessian])


def in_theta(hessians: np.ndarray, jacobian: np.ndarray) -> np.ndarray:
    """Return the upper triangles of J' H J, rows of d (d + 1) / 2, for the symmetric matrices H of `hessians`.

    Their shape is (n, m, m), and only their upper triangles are read. One matrix maps triangles to triangles, unless it
    is larger than `LARGEST_MAP`, because products of many small matrices take longer than the expansion.
    """
    (a, b) = np.triu_indices(len(jacobian))
    (j, k) = np.triu_indices(jacobian.shape[1])
    if a.size * j.size > LARGEST_MAP:
        upper = np.triu(hessians)
        return np.asarray((jacobian.T @ (upper + np.triu(hessians, 1).swapaxes(-1, -2)) @ jacobian)[:, j, k])
    both = jacobian[a][:, j] * jacobian[b][:, k] + (jacobian[b][:, j] * jacobian[a][:, k]) * (a != b)[:, None]
    return np.asarray(hessians[:, a, b] @ both)
