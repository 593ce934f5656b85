r"""Terms of normal groups and their gradients, from the triangle to which the rows of a group are reduced.

An orthogonal transformation of its n rows turns [Z, X, y] into an upper triangle R, and leaves normal noise unchanged.
With r = R_y - R_X beta, r_1 its first q entries, r_2 the rest, and A = R_Z L / tau,

.. math:: \ell = -\tfrac n2 \log 2 \pi - n \log \tau - \frac{|r_2|^2}{2 \tau^2} - \tfrac12 \log|I + AA'|
          - \frac{r_1' (I + AA')^{-1} r_1}{2 \tau^2}.

Kernels read the parameters as phi = (beta, L row by row, log tau), L of shape (q, K) for K standard normal effects.

Squares of rows are never formed, so no digits cancel. With a = (I + AA')^{-1} r_1 / tau, the slope in A is
(aa' - (I + AA')^{-1}) A.
"""

import math
from collections.abc import Callable

import numpy as np

from approxmcmc.engine.compiler.compile import compiled
from approxmcmc.engine.terms.batches import Data, datum_at
from approxmcmc.families.normal import HALF_LOG_2_PI


@compiled
def invert(M: np.ndarray, inverse: np.ndarray) -> float:
    """Write the inverse of a positive definite M, by Gauss-Jordan steps that overwrite M; return log|M|."""
    q = M.shape[0]
    log_det = 0.0
    for i in range(q):
        for j in range(q):
            inverse[i, j] = 1.0 if i == j else 0.0
    for i in range(q):
        pivot = M[i, i]
        log_det += math.log(pivot)
        for j in range(q):
            M[i, j] /= pivot
            inverse[i, j] /= pivot
        for k in range(q):
            if k != i:
                factor = M[k, i]
                for j in range(q):
                    M[k, j] -= factor * M[i, j]
                    inverse[k, j] -= factor * inverse[i, j]
    return log_det


@compiled
def residual(phi: np.ndarray, R: np.ndarray, q: int, p: int, tau: float, r: np.ndarray) -> float:
    """Write (R_y - R_X beta) / tau to `r`, and return the sum of squares of all its entries but the first q."""
    rest = 0.0
    for i in range(q + p + 1):
        r[i] = R[i, q + p]
        for j in range(max(i - q, 0), p):
            r[i] -= R[i, q + j] * phi[j]
        r[i] /= tau
        if i >= q:
            rest += r[i] * r[i]
    return rest


@compiled
def effects_precision(
    phi: np.ndarray, R: np.ndarray, q: int, p: int, tau: float, A: np.ndarray, M: np.ndarray, inverse: np.ndarray
) -> float:
    """Write A = R_Z L / tau and `inverse` = (I + AA')^-1; return log|I + AA'|. M is scratch."""
    n_effects = A.shape[1]
    for i in range(q):
        for j in range(n_effects):
            A[i, j] = 0.0
            for k in range(i, q):
                A[i, j] += R[i, k] * phi[p + k * n_effects + j] / tau
    for i in range(q):
        for j in range(q):
            M[i, j] = 1.0 if i == j else 0.0
            for k in range(n_effects):
                M[i, j] += A[i, k] * A[j, k]
    return invert(M, inverse)


def make_log_terms(q: int, n_effects: int, knows_noise: bool) -> Callable[..., None]:
    """Return the kernel of the terms; data = (triangles (G, m, m), number of rows and sum of log weights (G, 2)).

    Z has q columns, u `n_effects` entries; tau is 1 if `knows_noise`.
    """

    def log_terms(phi: np.ndarray, data: Data, order: np.ndarray, lo: int, hi: int, out: np.ndarray) -> None:
        triangles, counts = data
        p = triangles.shape[1] - q - 1
        A = np.empty((q, n_effects))
        M = np.empty((q, q))
        inverse = np.empty((q, q))
        r = np.empty(q + p + 1)
        log_tau = 0.0 if knows_noise else phi[phi.shape[0] - 1]
        tau = math.exp(log_tau)
        for place in range(lo, hi):
            g = datum_at(order, place)
            R = triangles[g]
            square = residual(phi, R, q, p, tau, r)
            log_det = effects_precision(phi, R, q, p, tau, A, M, inverse)
            for i in range(q):
                for j in range(q):
                    square += r[i] * inverse[i, j] * r[j]
            out[place - lo] = counts[g, 1] - counts[g, 0] * (HALF_LOG_2_PI + log_tau) - 0.5 * (square + log_det)

    return log_terms


def make_add_gradient(q: int, n_effects: int, knows_noise: bool) -> Callable[..., None]:
    """Return the kernel that adds the gradients of the terms in ``order[lo:hi]``, in phi, to `out`."""

    def add_gradient(phi: np.ndarray, data: Data, order: np.ndarray, lo: int, hi: int, out: np.ndarray) -> None:
        triangles, counts = data
        p = triangles.shape[1] - q - 1
        last = phi.shape[0] - 1
        A = np.empty((q, n_effects))
        M = np.empty((q, q))
        inverse = np.empty((q, q))
        r = np.empty(q + p + 1)
        a = np.empty(q)
        tau = 1.0 if knows_noise else math.exp(phi[last])
        for place in range(lo, hi):
            g = datum_at(order, place)
            R = triangles[g]
            square = residual(phi, R, q, p, tau, r)
            effects_precision(phi, R, q, p, tau, A, M, inverse)
            for i in range(q):
                a[i] = 0.0
                for j in range(q):
                    a[i] += inverse[i, j] * r[j]
                square += a[i] * r[i]
            for j in range(p):
                for i in range(q + j + 1):
                    out[j] += R[i, q + j] * (a[i] if i < q else r[i]) / tau
            inner = 0.0
            for i in range(q):
                for j in range(n_effects):
                    slope = 0.0  # in A_ij
                    for k in range(q):
                        slope += (a[i] * a[k] - inverse[i, k]) * A[k, j]
                    inner += slope * A[i, j]
                    for k in range(i, q):
                        out[p + k * n_effects + j] += R[i, k] * slope / tau
            if not knows_noise:
                out[last] += square - counts[g, 0] - inner

    return add_gradient
