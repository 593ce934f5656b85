"""Exact draws of the Ising model by coupling from the past, for lattices of any size.

Two heat-bath chains, from all spins down and from all spins up, use the same uniform number at every update. At
theta >= 0 the heat bath is monotone: the lower chain stays below the upper, and every other start between them. If they
meet by time 0 after starting at time -T, so does a chain from any start at any earlier time, and where they meet is a
draw from f(.|theta). Else T is doubled, *with the same numbers at the times that were run before*. Negative theta is
positive theta with every second spin turned over, which changes the sign of s(y).

The time to meet explodes beyond theta ~ 0.44, where large lattices order themselves. It is not cut off: to give up on
long runs would favour lattices that are met soon.

Reference: Propp and Wilson (1996), Exact sampling with coupled Markov chains, section 2.2.
"""

import math
from typing import NamedTuple

import numpy as np

from approxmcmc.contracts import Simulator
from approxmcmc.contracts.records import STATISTICS, UPDATES
from approxmcmc.engine.compiler.compile import allocating, compiled
from approxmcmc.targets.ising.exact import n_pairs

FIELDS = 9  # sums of up to four spins, -4 ... 4


class CouplingState(NamedTuple):
    """The number of pairs of neighbours; the spins of both chains, with a rim of zeros; P(up) for each field."""

    n_pairs: int
    lower: np.ndarray
    upper: np.ndarray
    up: np.ndarray


def coupling_simulator(rows: int, columns: int) -> Simulator:
    """Return the simulator that couples from the past; slow beyond |theta| ~ 0.44."""

    def make_state() -> CouplingState:
        lower, upper = (np.zeros((rows + 2, columns + 2), np.int8) for _ in range(2))
        return CouplingState(n_pairs(rows, columns), lower, upper, np.empty(FIELDS))

    return Simulator(couple_from_the_past, make_state, exact=True)


@allocating  # nobody knows how many sweeps a draw needs; each costs far more than room for its numbers
def couple_from_the_past(
    rng: np.random.Generator, theta: np.ndarray, state: CouplingState, statistics: np.ndarray, count: np.ndarray
) -> None:
    """Draw a lattice exactly, and write its statistic (Propp and Wilson 1996, section 2.2)."""
    n_sites = (state.lower.shape[0] - 2) * (state.lower.shape[1] - 2)
    uniforms = np.empty((0, n_sites))
    sweeps = 1
    while True:
        # Row k holds what sweep k before the present used, and uses again: a fresh draw would bias the law.
        longer = np.empty((sweeps, n_sites))
        longer[: uniforms.shape[0]] = uniforms
        for k in range(uniforms.shape[0], sweeps):
            for site in range(n_sites):
                longer[k, site] = rng.random()
        uniforms = longer
        disagreements = coupled_sweeps(abs(theta[0]), uniforms, state)
        count[UPDATES] += 2 * sweeps * n_sites
        if disagreements >= 0:
            break
        sweeps *= 2
    statistics[0] = math.copysign(1.0, theta[0]) * (state.n_pairs - 2 * disagreements)
    count[STATISTICS] += 1


@compiled
def coupled_sweeps(theta: float, uniforms: np.ndarray, state: CouplingState) -> int:
    """Run both chains to the present; return the disagreeing pairs where they met, else -1.

    The heat bath with one uniform for both is monotone at theta >= 0: lower <= upper stays true.
    """
    lower, upper, up = state.lower, state.upper, state.up
    rows, columns = lower.shape[0] - 2, lower.shape[1] - 2
    for k in range(FIELDS):
        up[k] = 1.0 / (1.0 + math.exp(-2.0 * theta * (k - 4)))
    lower[1:-1, 1:-1] = -1
    upper[1:-1, 1:-1] = 1
    for k in range(uniforms.shape[0] - 1, -1, -1):
        for i in range(1, rows + 1):
            for j in range(1, columns + 1):
                u = uniforms[k, (i - 1) * columns + j - 1]
                below = 4 + lower[i - 1, j] + lower[i + 1, j] + lower[i, j - 1] + lower[i, j + 1]
                above = 4 + upper[i - 1, j] + upper[i + 1, j] + upper[i, j - 1] + upper[i, j + 1]
                lower[i, j] = 1 if u < up[below] else -1
                upper[i, j] = 1 if u < up[above] else -1
    disagreements = 0
    for i in range(1, rows + 1):
        for j in range(1, columns + 1):
            if lower[i, j] != upper[i, j]:
                return -1
            disagreements += lower[i, j] * lower[i + 1, j] < 0
            disagreements += lower[i, j] * lower[i, j + 1] < 0
    return disagreements
