"""Heat bath of the Ising model: y_i = 1 with probability 1 / (1 + exp(-2 theta sum_{j ~ i} y_j)), site after site.

Sites are visited in checkerboard order, first all of one colour, then all of the other: updates of one colour do not
wait for each other. A uniform number is needed only to 13 bits, unless these agree with the probability's: one double
of the generator serves four sites. On a 16 x 16 lattice, ns per site update in one process: sites in order with one
double each 5.7; checkerboard 4.8; four sites per double 4.2; with an unsigned index into the table 3.5.
"""

import math
from collections.abc import Callable

import numpy as np

from approxmcmc.contracts import COUNT_NAMES
from approxmcmc.engine.compile import compiled

UPDATES = COUNT_NAMES.index("auxiliary_updates")
STATISTICS = COUNT_NAMES.index("statistic_evaluations")
EMPTY, FULL, OBSERVED, BOTH = range(4)  # the order of `auxiliary.STARTS`
BITS = 13
DIGIT = 1 << BITS
FOUR_DIGITS = float(1 << (4 * BITS))
SIGN = 63  # the bit of the sign of an int64
FIELDS = 9  # sums of up to four spins, -4 ... 4
ROW, COLOUR, OFFSET, DRAWS = range(4)  # of a chain's integers: the next site to update, and the chains started


def heat_bath_state(shape: tuple[int, int]) -> Callable[[], tuple[np.ndarray, ...]]:
    """Return what makes a chain's scratch: spins with a rim of zeros, its integers, the theta of the spins."""
    rows, columns = shape
    return lambda: (np.zeros((rows + 2, columns + 2), np.int8), np.zeros(4, np.int64), np.full(1, math.nan))


def heat_bath(rng, theta, params, state, statistics, count):  # type: ignore[no-untyped-def]  # bound into chains
    """Draw a lattice as the end of a heat bath, and write its statistic."""
    observed, n_updates, thin, start = params
    spins, integers, last = state
    if thin > 0 and last[0] == theta[0]:
        n_updates = thin
    else:
        set_spins(spins, observed, integers[DRAWS] % 2 if start == BOTH else start)
        integers[ROW] = integers[COLOUR] = integers[OFFSET] = 0
        integers[DRAWS] += 1
        last[0] = theta[0]
    update_sites(rng, theta[0], spins, integers, n_updates)
    statistics[0] = pair_sum(spins)
    count[UPDATES] += n_updates
    count[STATISTICS] += 1


@compiled
def set_spins(spins, observed, start):  # type: ignore[no-untyped-def]  # a kernel helper
    """Set all spins down, up, or to the data."""
    for i in range(observed.shape[0]):
        for j in range(observed.shape[1]):
            spins[i + 1, j + 1] = observed[i, j] if start == OBSERVED else (1 if start == FULL else -1)


@compiled
def pair_sum(spins):  # type: ignore[no-untyped-def]  # a kernel helper
    """Return the sum of y_i y_j over neighbours, each pair once; the rim counts for nothing."""
    total = 0
    for i in range(1, spins.shape[0] - 1):
        for j in range(1, spins.shape[1] - 1):
            total += spins[i, j] * (spins[i + 1, j] + spins[i, j + 1])
    return float(total)


@compiled
def update_sites(rng, theta, spins, integers, n_updates):  # type: ignore[no-untyped-def]  # a kernel helper
    """Update `n_updates` sites, from where the last call stopped."""
    rows, columns = spins.shape[0] - 2, spins.shape[1] - 2
    # P(up) = (whole + rest) / 2^13. A site goes up if its 13-bit digit is below `whole`; if equal, with probability
    # `rest`. Nothing is rounded.
    whole, rest = np.empty(FIELDS, np.int64), np.empty(FIELDS)
    for k in range(FIELDS):
        scaled = DIGIT / (1.0 + math.exp(-2.0 * theta * (k - 4)))
        whole[k] = int(scaled)
        rest[k] = scaled - whole[k]
    row, colour, offset = integers[ROW], integers[COLOUR], integers[OFFSET]
    digits, left = 0, 0
    while n_updates > 0:
        begin = 1 + ((row + colour) & 1) + 2 * offset
        stop = min(columns + 1, begin + 2 * n_updates)
        for j in range(begin, stop, 2):
            if left == 0:
                digits, left = int(rng.random() * FOUR_DIGITS), 4
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
            row, offset = row + 1, 0
            if row == rows:
                row, colour = 0, 1 - colour
    integers[ROW], integers[COLOUR], integers[OFFSET] = row, colour, offset
