r"""The reflection-maximal coupling of two normal proposals with one covariance.

    x' = m_x + L xi,    y' = m_y + L xi',    xi, xi' ~ N(0, I),    z = L^-1 (m_x - m_y).

With probability min(1, N(xi + z) / N(xi)) both chains go to one point, xi' = xi + z. Otherwise the noise of Y is the
noise of X mirrored at the plane between the means, xi' = xi - 2 (e'xi) e with e = z / |z|. Each proposal then has its
normal distribution, and the two are equal as often as possible. With equal means, as in independent proposals, they are
always equal.

Reference: Bou-Rabee, Eberle and Zimmer (2020), section 2; Jacob, O'Leary and Atchade (2020), section 4.1.
"""

import math

import numpy as np

from approxmcmc.engine.compiler.compile import compiled


@compiled
def couple_noise(rng: np.random.Generator, xi: np.ndarray, z: np.ndarray) -> bool:
    """Turn X's noise xi into Y's, in place; return True if both go to the same point, which leaves `xi` unchanged."""
    square = change = 0.0
    for j in range(xi.shape[0]):
        square += z[j] * z[j]
        change += xi[j] * z[j]
    if math.log(1.0 - rng.random()) <= -change - 0.5 * square:
        return True
    if square > 0.0:
        for j in range(xi.shape[0]):
            xi[j] -= 2.0 * change / square * z[j]
    return False
