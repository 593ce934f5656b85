r"""Find the mode of a group's integrand over the effects u, by Newton's method from a predicted start.

The start is the mode under a linear expansion of the group's score in b = L u at b*, the mode at the centre. With the
information I and c = score(b*) + I b*, it is u = (1 + L'IL)^{-1} L'c, for every L, including 0.
"""

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from approxmcmc.engine.compiler.compile import batched
from approxmcmc.engine.numerics import bounded_exp
from approxmcmc.engine.terms.batches import Data, datum_at
from approxmcmc.targets.groups.row_sums import Space, work_space

# Longest step in eta: over it the curvature of a logit or Poisson term changes by a factor of exp(2) at most.
LONGEST_STEP = 2.0
# Standard deviations of u given the rows; after so small a step, another would change no sum by more than rounding.
ARRIVED = 1e-9
# Standard deviations of u: after a step as short as that, mode and curvature are right to about a hundredth, as the
# error is squared by each step. With 0.1, 16 nodes seemed to suffice for a scale with a half-Cauchy tail, and the mean
# of the scale was wrong by .03 of its standard deviation; with 0.01 64 are taken, and it is right to .003.
SHORT = 0.01
MOST_STEPS = 30  # where steps are not short


@batched
def factorise(A: np.ndarray, C: np.ndarray) -> None:
    """Write the lower triangle C of A = CC'; only the lower triangle of A is read."""
    for i in range(A.shape[0]):
        for j in range(i + 1):
            total = A[i, j]
            for k in range(j):
                total -= C[i, k] * C[j, k]
            if i > j:
                C[i, j] = total / C[j, j]
            else:
                # Curvatures that overflow leave no positive number; compiled code would take NaN as their root, too.
                C[i, j] = math.sqrt(total) if total > 0.0 else math.nan


@batched
def solve_turned(C: np.ndarray, x: np.ndarray) -> None:
    """Overwrite x by C^-T x."""
    n = C.shape[0]
    for i in range(n - 1, -1, -1):
        for j in range(i + 1, n):
            x[i] -= C[j, i] * x[j]
        x[i] /= C[i, i]


@batched
def solve(C: np.ndarray, x: np.ndarray) -> None:
    """Overwrite x by (CC')^-1 x."""
    for i in range(C.shape[0]):
        for j in range(i):
            x[i] -= C[i, j] * x[j]
        x[i] /= C[i, i]
    solve_turned(C, x)


@batched
def largest_group(spans: np.ndarray, order: np.ndarray, lo: int, hi: int) -> int:
    """Return the number of rows of the largest of the groups ``order[lo:hi]``; `spans` says where their rows are."""
    largest = 0
    for place in range(lo, hi):
        g = datum_at(order, place)
        largest = max(largest, spans[g, 1] - spans[g, 0])
    return largest


@batched
def predictors(phi: np.ndarray, W: np.ndarray, lo: int, n: int, q: int, eta: np.ndarray, a: np.ndarray) -> None:
    """Write x_i' beta to `eta` and a_i = L'z_i to `a`, for n rows from row lo of W = [Z, X]; Z has q columns."""
    p = W.shape[2] - q
    K = a.shape[1]
    for i in range(n):
        total = 0.0
        for j in range(p):
            total += W[0, lo + i, q + j] * phi[j]
        eta[i] = total
        for k in range(K):
            total = 0.0
            for j in range(q):
                total += W[0, lo + i, j] * phi[p + j * K + k]
            a[i, k] = total


@batched
def predict(L: np.ndarray, q: int, start: np.ndarray, u: np.ndarray, A: np.ndarray, C: np.ndarray) -> None:
    """Write the predicted mode, (1 + L'IL)^-1 L'c, to `u`; `start` holds (c, I). A and C are scratch."""
    K = u.shape[0]
    for k in range(K):
        u[k] = 0.0
        for j in range(q):
            u[k] += L[j * K + k] * start[j]
        for m in range(k + 1):
            A[k, m] = 1.0 if k == m else 0.0
            place = q
            for i in range(q):
                for j in range(i, q):
                    both = L[i * K + k] * L[j * K + m]
                    A[k, m] += start[place] * (both if i == j else both + L[j * K + k] * L[i * K + m])
                    place += 1
    factorise(A, C)
    solve(C, u)


def make_newton(add_scores: Callable[..., None], K: int, share_effect: bool) -> Callable[..., None]:
    """Return the function that moves ``space.mode`` to the mode of a group's integrand, and writes ``space.C``.

    CC' is minus the second derivative of the log integrand before the last step. The function takes `steps` steps, and
    up to 30 if the last one was not short: from the start predicted at a theta far from the centre two steps may end so
    far from the mode that the integral is wrong by hundreds of nats. It stops earlier after a step that is shorter than
    `near` standard deviations of u given the rows.
    """

    @batched
    def newton(responses: np.ndarray, lo: int, n: int, shape: float, steps: int, near: float, space: Space) -> None:
        a = space.a
        u = space.mode
        step = space.step
        A = space.A
        C = space.C
        for taken in range(1, max(steps, MOST_STEPS) + 1):
            for k in range(K):
                step[k] = -u[k]
                for m in range(k + 1):
                    A[k, m] = 1.0 if k == m else 0.0
            add_scores(responses, lo, n, shape, space, u)
            factorise(A, C)
            solve(C, step)
            longest = LONGEST_STEP
            for i in range(1 if share_effect else n):
                x = 0.0
                for k in range(K):
                    x += a[i, k] * step[k]
                longest = max(longest, abs(x))
            far = 0.0
            for k in range(K):
                u[k] += step[k] * LONGEST_STEP / longest
                far = max(far, abs(step[k]) * C[k, k])
            if far < near or (taken >= steps and far < SHORT):
                break

    return newton


def make_refit(
    one_column: bool,
    K: int,
    has_shape: bool,
    prepare: Callable[..., None],
    newton: Callable[..., None],
    read: Callable[..., Any],
    derivatives: Callable[..., Any],
) -> Any:
    """Return the kernel that writes (c, I) of each group at phi, from which `predict` computes starts elsewhere."""

    def refit(phi: np.ndarray, data: Data, out: np.ndarray) -> None:
        W, responses, spans, starts, _, sizes = data
        q = 1 if one_column else sizes[0, 1]
        G = spans.shape[0]
        p = W.shape[2] - q
        space = work_space(largest_group(spans, np.empty(0, np.int64), 0, G), 1, K)
        eta = space.eta
        a = space.a
        u = space.mode
        shape = bounded_exp(phi[phi.shape[0] - 1]) if has_shape else 1.0
        b = np.empty(q)
        for g in range(G):
            lo = spans[g, 0]
            n = spans[g, 1] - spans[g, 0]
            predictors(phi, W, lo, n, q, eta, a)
            prepare(responses, lo, n, space)
            predict(phi[p:], q, starts[g], u, space.A, space.C)
            newton(responses, lo, n, shape, sizes[0, 0], ARRIVED, space)
            for j in range(q):
                b[j] = 0.0
                for k in range(K):
                    b[j] += phi[p + j * K + k] * u[k]
            out[g, :] = 0.0
            for i in range(lo, lo + n):
                x = eta[i - lo]
                along = 0.0
                for k in range(K):
                    x += a[i - lo, k] * u[k]
                slope, curvature = derivatives(x, read(responses, i), shape)
                for j in range(q):
                    along += W[0, i, j] * b[j]
                place = q
                for j in range(q):
                    out[g, j] += (slope - curvature * along) * W[0, i, j]
                    for m in range(j, q):
                        out[g, place] -= curvature * W[0, i, j] * W[0, i, m]
                        place += 1

    return refit
