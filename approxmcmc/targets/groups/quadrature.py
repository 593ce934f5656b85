r"""Integrate over the effects of a group by Gauss-Hermite quadrature around the mode of the integrand.

.. math:: \ell_g(\beta, L) = \log \int \phi(u) \prod_i p(y_i \mid x_i' \beta + z_i' L u)\, du
          \approx \log \sum_m w_m\, e^{|h_m|^2}\, |\sqrt 2 C^{-1}|\, \phi(u_m) \prod_i p(y_i \mid u_m),

with :math:`u_m = \hat u + \sqrt 2 C^{-T} h_m`, where CC' is minus the second derivative of the log integrand (Liu and
Pierce 1994; Pinheiro and Bates 1995). If a group has several effects, the h_m are a product of rules. Mode and C depend
on theta: they are found by a few Newton steps from a start that is predicted from stored numbers of the group, so the
sum is one function of theta. Nodes fixed at one theta would be wrong by tens to thousands of nats if counts are large
or L is small.

Data: the arrays of `GroupArrays`. The parameters are phi = (beta, L (q, K) row by row, and the logarithm of the
family's shape, if it has one).
"""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from approxmcmc.engine.compiler.compile import batched
from approxmcmc.engine.numerics import bounded_exp, exp, log
from approxmcmc.engine.terms.batches import Data, datum_at
from approxmcmc.families.normal import HALF_LOG_2_PI
from approxmcmc.targets.groups.newton import ARRIVED, largest_group, predict, predictors, solve_turned
from approxmcmc.targets.groups.row_sums import Space, work_space


class GroupArrays(NamedTuple):
    """The data of the kernels, in this order: G groups of N rows together, q columns of Z and p of X, M nodes.

    Arrays with one entry on the first axis are never shuffled with the groups.
    """

    columns: np.ndarray
    """W = [Z, X] (1, N, q + p), rows sorted by group."""
    responses: np.ndarray
    """(1, N, 2) = (y, size), or (1, N, 3) with a code, see `families.stack`; rows sorted by group."""
    spans: np.ndarray
    """First row of each group, and the row after its last; (G, 2)."""
    starts: np.ndarray
    """(c, I) of each group, from which Newton's method starts, see `newton`; (G, q + q (q + 1) / 2)."""
    rule: np.ndarray
    """(sqrt(2) h, log weight) of each node; (1, K + 1, M)."""
    sizes: np.ndarray
    """The least number of Newton steps, and q; (1, 2)."""


def gauss_hermite(n_nodes: int, n_effects: int = 1) -> np.ndarray:
    """Return (sqrt(2) h_m, log(w_m exp(|h_m|^2) 2^(K / 2))) of a product of K = `n_effects` rules of `n_nodes` nodes.

    Shape (1, K + 1, n_nodes^K).
    """
    from scipy.special import roots_hermite

    h, w = roots_hermite(n_nodes)
    log_w = np.log(w) + h * h + 0.5 * math.log(2.0)
    places = np.indices((n_nodes,) * n_effects).reshape(n_effects, -1)
    return np.vstack([math.sqrt(2.0) * h[places], log_w[places].sum(axis=0)])[None]


def make_nodes(
    one_column: bool,
    K: int,
    has_shape: bool,
    prepare: Callable[..., None],
    newton: Callable[..., None],
    add_terms: Callable[..., None],
    read: Callable[..., Any],
    of_row: Callable[..., Any],
) -> Callable[..., float]:
    """Return the function that places the nodes of group g, and returns l_g.

    It writes the u_m to ``space.u`` and their log weights, the logs of the summands of exp(l_g), to ``space.weight``.
    """

    @batched
    def nodes(phi: np.ndarray, data: Data, g: int, space: Space) -> float:
        W, responses, spans, starts, rule, sizes = data
        u = space.u
        weight = space.weight
        mode = space.mode
        step = space.step
        C = space.C
        lo = spans[g, 0]
        n = spans[g, 1] - spans[g, 0]
        q = 1 if one_column else sizes[0, 1]
        p = W.shape[2] - q
        n_nodes = rule.shape[2]
        shape = bounded_exp(phi[phi.shape[0] - 1]) if has_shape else 1.0
        predictors(phi, W, lo, n, q, space.eta, space.a)
        prepare(responses, lo, n, space)
        predict(phi[p:], q, starts[g], mode, space.A, C)
        newton(responses, lo, n, shape, sizes[0, 0], ARRIVED, space)
        base = -K * HALF_LOG_2_PI
        best = -math.inf
        width = 1.0
        for k in range(K):
            width *= C[k, k]
        # Far from the mode a curvature may overflow; such a point has the density 0, and searches step back from it.
        base -= log(width) if width > 0.0 else math.inf
        if has_shape:
            for i in range(n):
                base += of_row(read(responses, lo + i), shape)[0]
        for m in range(n_nodes):
            weight[m] = base + rule[0, K, m]
        for j in range(K):
            for m in range(n_nodes):
                u[j, m] = mode[j]
        for j in range(K):
            for k in range(K):
                step[k] = 1.0 if k == j else 0.0
            solve_turned(C, step)  # a column of C^-T
            for k in range(K):
                for m in range(n_nodes):
                    u[k, m] += step[k] * rule[0, j, m]
        for k in range(K):
            for m in range(n_nodes):
                weight[m] -= 0.5 * u[k, m] * u[k, m]
        add_terms(responses, lo, n, shape, space, u, weight)
        for m in range(n_nodes):
            best = max(best, weight[m])
        mass = 0.0
        for m in range(n_nodes):
            mass += exp(weight[m] - best)
        return best + math.log(mass) if best > -math.inf else best

    return nodes


def make_log_terms(K: int, nodes: Callable[..., float]) -> Callable[..., None]:
    """Return the kernel of the terms l_g, which calls `nodes` for each group."""

    def log_terms(phi: np.ndarray, data: Data, order: np.ndarray, lo: int, hi: int, out: np.ndarray) -> None:
        _, _, spans, _, rule, _ = data
        space = work_space(largest_group(spans, order, lo, hi), rule.shape[2], K)
        for place in range(lo, hi):
            out[place - lo] = nodes(phi, data, datum_at(order, place), space)

    return log_terms


def make_add_gradient(
    one_column: bool,
    K: int,
    has_shape: bool,
    nodes: Callable[..., float],
    read: Callable[..., Any],
    derivatives: Callable[..., Any],
    in_shape: Callable[..., float],
    of_row: Callable[..., Any],
) -> Callable[..., None]:
    """Return the kernel that adds the gradients of terms to `out`, by Fisher's identity.

    The gradient is that of the log density of rows and effects, averaged over the effects given the rows. The
    derivatives of the nodes are ignored, which makes an error of the order of the quadrature error.
    """

    def add_gradient(phi: np.ndarray, data: Data, order: np.ndarray, lo: int, hi: int, out: np.ndarray) -> None:
        W, responses, spans, _, rule, sizes = data
        q = 1 if one_column else sizes[0, 1]
        last = phi.shape[0] - 1
        n_nodes = rule.shape[2]
        p = W.shape[2] - q
        space = work_space(largest_group(spans, order, lo, hi), n_nodes, K)
        eta = space.eta
        a = space.a
        u = space.u
        weight = space.weight
        in_effect = space.step
        shape = bounded_exp(phi[last]) if has_shape else 1.0
        for place in range(lo, hi):
            g = datum_at(order, place)
            value = nodes(phi, data, g, space)
            for m in range(n_nodes):
                weight[m] = exp(weight[m] - value)
            for i in range(spans[g, 0], spans[g, 1]):
                row = read(responses, i)
                slope = 0.0
                for k in range(K):
                    in_effect[k] = 0.0
                if has_shape:
                    out[last] += of_row(row, shape)[1]
                for m in range(n_nodes):
                    x = eta[i - spans[g, 0]]
                    for k in range(K):
                        x += a[i - spans[g, 0], k] * u[k, m]
                    at_node = weight[m] * derivatives(x, row, shape)[0]
                    slope += at_node
                    for k in range(K):
                        in_effect[k] += at_node * u[k, m]
                    if has_shape:
                        out[last] += weight[m] * in_shape(x, row, shape)
                for j in range(p):
                    out[j] += slope * W[0, i, q + j]
                for j in range(q):
                    for k in range(K):
                        out[p + j * K + k] += in_effect[k] * W[0, i, j]

    return add_gradient


def make_log_joint(
    one_column: bool,
    K: int,
    has_shape: bool,
    read: Callable[..., Any],
    term: Callable[..., float],
    of_row: Callable[..., Any],
) -> Any:
    """Return the kernel that writes log p(y_g, u_g), without constants of rows, of all groups to `out`, at u (G, K)."""

    def log_joint(phi: np.ndarray, data: Data, u: np.ndarray, out: np.ndarray) -> None:
        W, responses, spans, _, _, sizes = data
        q = 1 if one_column else sizes[0, 1]
        shape = bounded_exp(phi[phi.shape[0] - 1]) if has_shape else 1.0
        eta = np.empty(1)
        a = np.empty((1, K))
        for g in range(spans.shape[0]):
            out[g] = -K * HALF_LOG_2_PI
            for k in range(K):
                out[g] -= 0.5 * u[g, k] * u[g, k]
            for i in range(spans[g, 0], spans[g, 1]):
                predictors(phi, W, i, 1, q, eta, a)
                x = eta[0]
                for k in range(K):
                    x += a[0, k] * u[g, k]
                row = read(responses, i)
                out[g] += term(x, row, shape)
                if has_shape:
                    out[g] += of_row(row, shape)[0]

    return log_joint
