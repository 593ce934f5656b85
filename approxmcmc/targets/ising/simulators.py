"""Heat bath of the Ising model: y_i = 1 with probability 1 / (1 + exp(-2 theta sum_{j ~ i} y_j)), site after site.

Sites are visited in checkerboard order, first all of one colour, then all of the other: updates of one colour do not
wait for each other. A uniform number is needed only to 13 bits, unless these agree with the bits of the probability, so
one double of the generator serves four sites. On a 16 x 16 lattice, ns per site update in one process: sites in order
with one double each 5.7; checkerboard 4.8; four sites per double 4.2; with an unsigned index into the table 3.5.

Exact draws come from coupling from the past, for lattices of any size. Two heat-bath chains, from all spins down and
from all spins up, use the same uniform number at every update. At theta >= 0 the heat bath is monotone: the lower chain
stays below the upper, and every other start between them. If they started at time -T and have met at time 0, then
chains from every start at any earlier time are in the same state at time 0, which is a draw from f(.|theta). Else T is
doubled, *with the same numbers at the times that were run before*. Negative theta is positive theta with every second
spin turned over, which changes the sign of s(y).

The time to meet grows very fast beyond theta ~ 0.44, where large lattices become ordered. Long runs are not stopped,
because dropping them would favour lattices that are reached early, and so bias the draws.

Reference: Propp and Wilson (1996), Exact sampling with coupled Markov chains, section 2.2.
"""

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from approxmcmc.contracts import Simulator
from approxmcmc.contracts.records import STATISTICS, UPDATES
from approxmcmc.engine.compiler.compile import allocating, compiled
from approxmcmc.targets.exponential_family import STARTS, AuxiliaryChain
from approxmcmc.targets.ising.exact import n_pairs

EMPTY, FULL, OBSERVED, BOTH = range(len(STARTS))
BITS = 13
DIGIT = 1 << BITS
FOUR_DIGITS = float(1 << (4 * BITS))
SIGN = 63  # the bit of the sign of an int64
FIELDS = 9  # sums of up to four spins, -4 ... 4
ROW, COLOUR, OFFSET = range(3)  # of the next site to update


class HeatBathState(NamedTuple):
    """Settings of a chain over lattices (see `AuxiliaryChain`), and its current state.

    `spins` have a rim of zeros. `next_site` holds ROW, COLOUR and OFFSET; `theta` is that of the last draw, NaN at
    first; `n_started` counts chains started. `whole` and `rest` hold P(spin = 1) for each field, see `update_sites`.
    """

    observed: np.ndarray
    n_updates: int
    thin: int
    start: int
    spins: np.ndarray
    next_site: np.ndarray
    theta: np.ndarray
    n_started: np.ndarray
    whole: np.ndarray
    rest: np.ndarray


def heat_bath_states(observed: np.ndarray, auxiliary: AuxiliaryChain) -> Callable[[], HeatBathState]:
    """Return the function without arguments that makes the state of a chain with the settings `auxiliary`."""
    (rows, columns) = observed.shape
    spins = observed.astype(np.int8)
    settings = spins, auxiliary.n_updates, auxiliary.thin or 0, STARTS.index(auxiliary.start)
    return lambda: HeatBathState(
        *settings,
        spins=np.zeros((rows + 2, columns + 2), np.int8),
        next_site=np.zeros(3, np.int64),
        theta=np.full(1, math.nan),
        n_started=np.zeros(1, np.int64),
        whole=np.empty(FIELDS, np.int64),
        rest=np.empty(FIELDS),
    )


@compiled
def heat_bath(
    rng: np.random.Generator, theta: np.ndarray, state: HeatBathState, statistics: np.ndarray, count: np.ndarray
) -> None:
    """Draw a lattice at theta as the last state of a heat-bath chain, and write its s(y) to `statistics`."""
    n_updates = state.n_updates
    if state.thin > 0 and state.theta[0] == theta[0]:
        n_updates = state.thin
    else:
        set_spins(state.spins, state.observed, state.n_started[0] % 2 if state.start == BOTH else state.start)
        state.next_site[ROW] = state.next_site[COLOUR] = state.next_site[OFFSET] = 0
        state.n_started[0] += 1
        state.theta[0] = theta[0]
    update_sites(rng, theta[0], state, n_updates)
    statistics[0] = pair_sum(state.spins)
    count[UPDATES] += n_updates
    count[STATISTICS] += 1


@compiled
def set_spins(spins: np.ndarray, observed: np.ndarray, start: int) -> None:
    """Set the spins to all down, all up, or the observed lattice, for `start` EMPTY, FULL or OBSERVED."""
    for i in range(observed.shape[0]):
        for j in range(observed.shape[1]):
            spins[i + 1, j + 1] = observed[i, j] if start == OBSERVED else (1 if start == FULL else -1)


@compiled
def pair_sum(spins: np.ndarray) -> float:
    """Return the sum of y_i y_j over neighbours, each pair once; `spins` has a rim of zeros, which adds nothing."""
    total = 0
    for i in range(1, spins.shape[0] - 1):
        for j in range(1, spins.shape[1] - 1):
            total += spins[i, j] * (spins[i + 1, j] + spins[i, j + 1])
    return float(total)


@compiled
def update_sites(rng: np.random.Generator, theta: float, state: HeatBathState, n_updates: int) -> None:
    """Update `n_updates` sites, from where the last call stopped."""
    spins = state.spins
    whole = state.whole
    rest = state.rest
    next_site = state.next_site
    rows = spins.shape[0] - 2
    columns = spins.shape[1] - 2
    # P(up) = (whole + rest) / 2^13. A site goes up if its 13-bit digit is below `whole`; if equal, with probability
    # `rest`. Nothing is rounded.
    for k in range(FIELDS):
        scaled = DIGIT / (1.0 + math.exp(-2.0 * theta * (k - 4)))
        whole[k] = int(scaled)
        rest[k] = scaled - whole[k]
    row = next_site[ROW]
    colour = next_site[COLOUR]
    offset = next_site[OFFSET]
    digits = 0
    left = 0
    while n_updates > 0:
        begin = 1 + ((row + colour) & 1) + 2 * offset
        stop = min(columns + 1, begin + 2 * n_updates)
        for j in range(begin, stop, 2):
            if left == 0:
                digits = int(rng.random() * FOUR_DIGITS)
                left = 4
            total = spins[row, j] + spins[row + 2, j] + spins[row + 1, j - 1] + spins[row + 1, j + 1]
            field = np.uint8(4 + total)  # an unsigned index needs no test for being negative
            above = (digits & (DIGIT - 1)) - whole[field]
            digits >>= BITS
            left -= 1
            spins[row + 1, j] = -1 - 2 * (above >> SIGN)  # 1 where negative, else -1; a branch would be mispredicted
            if above == 0 and rng.random() < rest[field]:
                spins[row + 1, j] = 1
        updated = max(0, (stop - begin + 1) >> 1)
        n_updates -= updated
        offset += updated
        if begin + 2 * updated > columns:  # the row is done; after the last row comes the other colour
            row = row + 1
            offset = 0
            if row == rows:
                row = 0
                colour = 1 - colour
    next_site[ROW] = row
    next_site[COLOUR] = colour
    next_site[OFFSET] = offset


class CouplingState(NamedTuple):
    """The number of pairs of neighbours; the spins of both chains, with a rim of zeros; P(spin = 1) for each field."""

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


@allocating  # the number of sweeps of a draw is unknown; each costs far more than memory for its numbers
def couple_from_the_past(
    rng: np.random.Generator, theta: np.ndarray, state: CouplingState, statistics: np.ndarray, count: np.ndarray
) -> None:
    """Draw a lattice at theta exactly, and write its s(y) to `statistics` (Propp and Wilson 1996, section 2.2)."""
    n_sites = (state.lower.shape[0] - 2) * (state.lower.shape[1] - 2)
    uniforms = np.empty((0, n_sites))
    sweeps = 1
    while True:
        # Row k holds what sweep k before the present used, and uses again: fresh numbers would bias the draw.
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
    """Run both chains to the present; if they have met, return how many pairs of neighbours disagree, else -1.

    `uniforms` has a row for each sweep, the last sweep first. The heat bath with one uniform for both chains is
    monotone at theta >= 0: lower <= upper stays true.
    """
    lower = state.lower
    upper = state.upper
    up = state.up
    rows = lower.shape[0] - 2
    columns = lower.shape[1] - 2
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
