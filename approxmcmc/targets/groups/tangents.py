r"""Draws of log-concave effects: exact draws of one effect, by rejection under three tangents.

A concave log density lies under its tangents. The tangents at the mode and 1.1 standard deviations to both sides of it
make a proposal density of three exponential pieces, which takes 1.16 trials per draw (Gilks and Wild 1992, without
adaptation). Draws are exact for any three points, but the number of trials grows exponentially in the distance of the
points from the mode, so the mode is found again at each theta. Several effects of a group are drawn one by one along
lines, in sweeps of a Gibbs sampler, which starts from a normal approximation: these draws are not exact.
"""

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from approxmcmc.engine.compiler.compile import batched, compiled
from approxmcmc.engine.numerics import bounded_exp
from approxmcmc.engine.terms.batches import Data
from approxmcmc.targets.groups.newton import predict, predictors, solve_turned
from approxmcmc.targets.groups.row_sums import Space, work_space

APART = 1.1  # standard deviations between tangents
# the search for the mode ends within some hundredths of a standard deviation
NEWTON_STEPS = 20
NEAR = 0.1
SWEEPS = 8  # if a group has several effects
FLAT = 1e-9  # slope of a tangent, in nats per unit, below which its piece is uniform


@compiled
def piece(slope: float, height: float, left: float, right: float, where: float) -> float:
    """Return the integral of exp(height + slope (z - where)) from left to right; an end may be infinite."""
    if abs(slope) < FLAT:
        return math.exp(height) * (right - left)
    low = 0.0 if left == -math.inf else math.exp(height + slope * (left - where))
    high = 0.0 if right == math.inf else math.exp(height + slope * (right - where))
    return (high - low) / slope


@compiled
def inverse(u: float, slope: float, height: float, left: float, where: float) -> float:
    """Return the z such that the integral of exp(height + slope (z - where)) from `left` to z is u."""
    if abs(slope) < FLAT:
        return left + u / math.exp(height)
    low = 0.0 if left == -math.inf else math.exp(height + slope * (left - where))
    return where + (math.log(low + u * slope) - height) / slope


def make_value(add_terms: Callable[..., None], K: int) -> Callable[..., float]:
    """Return the function that returns the log density of u + t d given the rows of a group, up to a constant.

    It leaves u + t d in `space.u`.
    """

    @batched
    def value(
        t: float, u: np.ndarray, d: np.ndarray, responses: np.ndarray, lo: int, n: int, shape: float, space: Space
    ) -> float:
        at = space.u
        found = space.weight
        found[0] = 0.0
        for k in range(K):
            at[k, 0] = u[k] + t * d[k]
            found[0] -= 0.5 * at[k, 0] ** 2
        add_terms(responses, lo, n, shape, space, at, found)
        return found[0]  # type: ignore[no-any-return]  # an array of doubles

    return value


def make_draw(value: Callable[..., float], add_scores: Callable[..., None], K: int) -> Callable[..., float]:
    """Return the function that draws t exactly along the line u + t d; t = 0 is near the mode, t = 1 one sd away."""

    @batched
    def draw(
        rng: Any,
        u: np.ndarray,
        d: np.ndarray,
        responses: np.ndarray,
        lo: int,
        n: int,
        shape: float,
        space: Space,
        work: np.ndarray,
    ) -> float:
        c = work[0]
        f = work[1]
        df = work[2]
        mass = work[3]
        edge = work[4]
        at = work[5]
        width = APART
        while True:  # until the outer tangents slope down to both sides
            for j in range(3):
                c[j] = (j - 1) * width
                f[j] = value(c[j], u, d, responses, lo, n, shape, space)
                df[j] = 0.0
                for k in range(K):
                    at[k] = space.u[k, 0]
                    space.step[k] = -at[k]
                add_scores(responses, lo, n, shape, space, at)
                for k in range(K):
                    df[j] += space.step[k] * d[k]
            if df[0] > FLAT and df[2] < -FLAT:
                break
            width *= 2.0
        peak = f[1]
        edge[0] = -math.inf
        edge[3] = math.inf
        for j in range(2):
            edge[j + 1] = (f[j + 1] - f[j] - df[j + 1] * c[j + 1] + df[j] * c[j]) / (df[j] - df[j + 1])
        total = 0.0
        for j in range(3):
            mass[j] = piece(df[j], f[j] - peak, edge[j], edge[j + 1], c[j])
            total += mass[j]
        while True:
            v = rng.random() * total
            j = 0
            while j < 2 and v > mass[j]:
                v -= mass[j]
                j += 1
            t = inverse(v, df[j], f[j] - peak, edge[j], c[j])
            least = math.log(1.0 - rng.random()) + f[j] + df[j] * (t - c[j])
            if c[0] < t < c[2]:  # the log density is above its secants
                k = 0 if t < c[1] else 1
                if least < f[k] + (f[k + 1] - f[k]) * (t - c[k]) / (c[k + 1] - c[k]):
                    return t
            if least < value(t, u, d, responses, lo, n, shape, space):
                return t

    return draw


def make_draw_latents(
    one_column: bool,
    K: int,
    has_shape: bool,
    prepare: Callable[..., None],
    newton: Callable[..., None],
    draw: Callable[..., float],
) -> Callable[..., None]:
    """Return the kernel that writes draws of u for `groups` at each row of `phis` to `out` (thetas, groups, K).

    Several effects are drawn in turn, along axes in which the normal approximation at the mode is independent, in
    `SWEEPS` sweeps that start from a draw of that approximation.
    """

    def draw_latents(rng: Any, phis: np.ndarray, data: Data, groups: np.ndarray, out: np.ndarray) -> None:
        W, responses, spans, starts, _, sizes = data
        q = 1 if one_column else sizes[0, 1]
        work = np.empty((6, 4))
        axis = np.empty(K)
        p = W.shape[2] - q
        limit = np.int64(NEWTON_STEPS)  # not a literal, for which numba would compile `newton` again
        for place in range(groups.shape[0]):
            g = groups[place]
            lo = spans[g, 0]
            n = spans[g, 1] - spans[g, 0]
            space = work_space(n, 1, K)
            u = space.mode
            C = space.C
            for b in range(phis.shape[0]):
                phi = phis[b]
                shape = bounded_exp(phi[phi.shape[0] - 1]) if has_shape else 1.0
                predictors(phi, W, lo, n, q, space.eta, space.a)
                prepare(responses, lo, n, space)
                predict(phi[p:], q, starts[g], u, space.A, C)
                newton(responses, lo, n, shape, limit, NEAR, space)
                if K > 1:
                    for k in range(K):
                        axis[k] = rng.standard_normal()
                    solve_turned(C, axis)
                    for k in range(K):
                        u[k] += axis[k]
                for _ in range(1 if K == 1 else SWEEPS):
                    for k in range(K):
                        axis[:] = 0.0
                        axis[k] = 1.0
                        solve_turned(C, axis)
                        t = draw(rng, u, axis, responses, lo, n, shape, space, work)
                        for m in range(K):
                            u[m] += t * axis[m]
                for k in range(K):
                    out[b, place, k] = u[k]

    return draw_latents
