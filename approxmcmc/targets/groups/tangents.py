r"""Exact draws of a log-concave effect by rejection under three tangents.

A concave log density lies under its tangents at three points, those at the mode and 1.1 standard deviations to both
sides, which make a density of three exponential pieces: 1.16 trials a draw (Gilks and Wild 1992, without adaptation).
The points need not be right for draws to be exact, but far from the mode trials grow exponentially in the distance: the
mode is found again at each theta.
"""

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from approxmcmc.engine.compiler.compile import compiled
from approxmcmc.engine.terms.batches import Data
from approxmcmc.targets.groups.quadrature import predictor

APART = 1.1  # standard deviations between tangents
NEWTON_STEPS = 20
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
    """Return the z to which the piece has the integral u, from its left end."""
    if abs(slope) < FLAT:
        return left + u / math.exp(height)
    low = 0.0 if left == -math.inf else math.exp(height + slope * (left - where))
    return where + (math.log(low + u * slope) - height) / slope


def make_log_conditional(
    term: Callable[..., float], derivatives: Callable[..., tuple[float, float]]
) -> Callable[..., tuple[float, float]]:
    """Return the log density of z given the rows of a group, up to a constant, and its slope."""

    def log_conditional(
        z: float, eta: np.ndarray, responses: np.ndarray, lo: int, n: int, sigma: float
    ) -> tuple[float, float]:
        value, slope = -0.5 * z * z, 0.0
        for i in range(n):
            y, size = responses[0, lo + i, 0], responses[0, lo + i, 1]
            value += term(eta[i] + sigma * z, y, size)
            slope += derivatives(eta[i] + sigma * z, y, size)[0]
        return value, sigma * slope - z

    return log_conditional


def make_draw(log_conditional: Callable[..., tuple[float, float]], newton: Callable[..., Any]) -> Callable[..., float]:
    """Return what draws z of one group."""

    def draw(
        rng: Any, eta: np.ndarray, responses: np.ndarray, lo: int, n: int, sigma: float, guess: float, work: np.ndarray
    ) -> float:
        c, f, df, mass, edge = work[0], work[1], work[2], work[3], work[4]
        mode, width, _, _ = newton(eta, responses, lo, n, sigma, guess, NEWTON_STEPS)
        width *= APART
        while True:  # until the outer tangents fall away
            for j in range(3):
                c[j] = mode + (j - 1) * width
                f[j], df[j] = log_conditional(c[j], eta, responses, lo, n, sigma)
            if df[0] > FLAT and df[2] < -FLAT:
                break
            width *= 2.0
        peak = f[1]
        edge[0], edge[3] = -math.inf, math.inf
        for j in range(2):
            edge[j + 1] = (f[j + 1] - f[j] - df[j + 1] * c[j + 1] + df[j] * c[j]) / (df[j] - df[j + 1])
        total = 0.0
        for j in range(3):
            mass[j] = piece(df[j], f[j] - peak, edge[j], edge[j + 1], c[j])
            total += mass[j]
        while True:
            u, j = rng.random() * total, 0
            while j < 2 and u > mass[j]:
                u -= mass[j]
                j += 1
            z = inverse(u, df[j], f[j] - peak, edge[j], c[j])
            value, _ = log_conditional(z, eta, responses, lo, n, sigma)
            if math.log(1.0 - rng.random()) < value - f[j] - df[j] * (z - c[j]):
                return z

    return draw


def make_draw_latents(draw: Callable[..., float]) -> Callable[..., None]:
    """Return the kernel that writes sigma z of some groups at some thetas; shape (thetas, groups)."""

    def draw_latents(rng: Any, thetas: np.ndarray, data: Data, groups: np.ndarray, out: np.ndarray) -> None:
        X, responses, spans, starts, _, _ = data
        work = np.empty((5, 4))
        for a in range(groups.shape[0]):
            g = groups[a]
            lo, n = spans[g, 0], spans[g, 1] - spans[g, 0]
            eta = np.empty(n)
            for b in range(thetas.shape[0]):
                sigma = abs(thetas[b, X.shape[2]])
                predictor(thetas[b], X, lo, lo + n, eta)
                guess = sigma * starts[g, 0] / (1.0 + sigma * sigma * starts[g, 1])
                out[b, a] = sigma * draw(rng, eta, responses, lo, n, sigma, guess, work)

    return draw_latents
