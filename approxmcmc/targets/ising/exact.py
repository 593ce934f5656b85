"""Exact answers about the Ising model: normaliser, moments, level counts, and draws backwards through the recursion.

With t = exp(-2 |theta|) and k(y) the number of disagreeing pairs of neighbours among n_pairs,

    Z(theta) = exp(|theta| n_pairs) sum_y t^k(y),    s(y) = n_pairs - 2 k(y).

Turning every second spin over changes the sign of s(y), so theta < 0 is the same as -theta with s(y) of opposite sign.
The sum goes row by row over the 2^width states x of a row,

    v_1(x) = t^d(x),    v_{i+1}(x) = t^d(x) sum_z t^{popcount(x ^ z)} v_i(z),    Z ~ sum_x v_length(x),

d(x) the disagreements within a row. The sum over z factorises over the bits: width * 2^width multiplications instead
of 4^width. Drawing the last row from v_length, and then each row before from v_i(z) t^{popcount(x ^ z)}, gives an exact
draw of the lattice (Reeves and Pettitt 2004, Friel and Rue 2007 for general factorisable models).
"""

import functools
import math
from typing import NamedTuple

import numpy as np
from numba import types as nb

from approxmcmc.contracts import Simulator
from approxmcmc.contracts.records import STATISTICS, UPDATES
from approxmcmc.engine.compiler.compile import INDICES, MATRIX, compiled, kernel
from approxmcmc.engine.compiler.vectors import assign

WIDEST = 16  # 2^16 numbers to a row
WIDEST_COUNTS = 12  # n_pairs numbers to each of 2^12 states of a row: 9 MB for a square


def n_pairs(rows: int, columns: int) -> int:
    """Return the number of pairs of neighbours in a lattice with free boundary."""
    return rows * (columns - 1) + columns * (rows - 1)


def log_normalizer(theta: float, rows: int, columns: int) -> float:
    """Return log Z(theta) of a lattice at most 16 wide (the shorter side), to about 1e-12 relative."""
    return _moments(abs(float(theta)), *sorted((rows, columns)))[0]


def moments(theta: float, rows: int, columns: int) -> tuple[float, float]:
    """Return mean and variance of s(y) at theta, for a lattice at most 16 wide (the shorter side)."""
    _, mean, variance = _moments(abs(float(theta)), *sorted((rows, columns)))
    return math.copysign(mean, theta), variance


def level_counts(rows: int, columns: int) -> np.ndarray:
    """Return the numbers of lattices with k = 0, 1, ..., n_pairs disagreeing pairs, so s = n_pairs - 2 k; float64.

    Exact if all counts are below 2^53 (lattices of up to 53 sites), otherwise to about 1e-13 relative. The shorter side
    must be at most 12.
    """
    width, length = sorted((rows, columns))
    if width > WIDEST_COUNTS:
        raise ValueError(f"level_counts: at most {WIDEST_COUNTS} wide, found {width}")
    within = _disagreements(width)
    counts = np.zeros((n_pairs(rows, columns) + 1, 1 << width))
    counts[0] = 1.0
    for row in range(length):
        for bit in range(width if row else 0):
            zero, one = np.moveaxis(counts.reshape(len(counts), -1, 2, 1 << bit), 2, 0)
            before = zero.copy()
            zero[1:] += one[:-1]
            one[1:] += before[:-1]
        for d in range(1, width):
            states = np.flatnonzero(within == d)
            counts[d:, states] = counts[:-d, states]
            counts[:d, states] = 0.0
    return np.asarray(counts.sum(axis=1))


def _disagreements(width: int) -> np.ndarray:
    """Return the number of disagreeing neighbours within a row, for every state of the row; int64, (2^width,)."""
    states = np.arange(1 << width)
    return np.bitwise_count((states ^ (states >> 1)) & ((1 << (width - 1)) - 1)).astype(np.int64)


@functools.lru_cache(maxsize=1 << 16)
def _moments(theta: float, width: int, length: int) -> tuple[float, float, float]:
    """Return log Z, E s and Var s at theta >= 0."""
    table = np.empty((3, 1 << width))
    moments_of = kernel(forward_moments, nb.float64(nb.float64, INDICES, nb.int64, nb.int64, MATRIX))
    log_scale = moments_of(math.exp(-2.0 * theta), _disagreements(width), width, length, table)
    total, first, second = (float(derivative.sum()) for derivative in table)
    pairs = n_pairs(length, width)
    mean = first / total
    return theta * pairs + log_scale + math.log(total), pairs - 2.0 * mean, 4.0 * (second / total - mean * mean)


def forward_moments(t: float, within: np.ndarray, width: int, length: int, table: np.ndarray) -> float:
    """Write v_length, D v_length and D^2 v_length, D = t d/dt, to `table`, all divided by a number; return its log.

    `within` holds the disagreements within each state of a row of `width` sites; there are `length` rows.
    """
    v = table[0]
    dv = table[1]
    ddv = table[2]
    log_scale = 0.0
    v[:] = 1.0
    dv[:] = 0.0
    ddv[:] = 0.0
    for row in range(length):
        for bit in range(width if row > 0 else 0):
            half = 1 << bit
            for base in range(0, v.shape[0], 2 * half):
                for x in range(base, base + half):
                    y = x + half
                    a = v[x]
                    b = v[y]
                    da = dv[x]
                    db = dv[y]
                    dda = ddv[x]
                    ddb = ddv[y]
                    # D(t b) = t (b + D b) and D^2(t b) = t (b + 2 D b + D^2 b)
                    v[x] = a + t * b
                    v[y] = b + t * a
                    dv[x] = da + t * (b + db)
                    dv[y] = db + t * (a + da)
                    ddv[x] = dda + t * (b + 2.0 * db + ddb)
                    ddv[y] = ddb + t * (a + 2.0 * da + dda)
        largest = 0.0
        for x in range(v.shape[0]):
            d = float(within[x])
            # D(t^d v) = t^d (d v + D v), and D^2 in the same way; the highest derivative first, as it reads the others
            weight = t ** within[x]
            ddv[x] = weight * (ddv[x] + 2.0 * d * dv[x] + d * d * v[x])
            dv[x] = weight * (dv[x] + d * v[x])
            v[x] = weight * v[x]
            largest = max(largest, v[x])
        for x in range(v.shape[0]):
            v[x] /= largest
            dv[x] /= largest
            ddv[x] /= largest
        log_scale += math.log(largest)
    return log_scale


# --- exact draws, backwards through the recursion ---


class BackwardState(NamedTuple):
    """What `draw_backwards` reads: disagreements `within` each state of a row, sizes of the lattice, tables at a theta.

    Rows of `tables` are v_1, ..., v_length for the t in ``t[0]``; `powers` and `partial_sums` are scratch.
    """

    within: np.ndarray
    width: int
    length: int
    n_pairs: int
    tables: np.ndarray
    t: np.ndarray
    powers: np.ndarray
    partial_sums: np.ndarray


def backward_simulator(rows: int, columns: int) -> Simulator:
    """Return the simulator that draws backwards; its tables are kept, so that further draws at one theta cost less."""
    width, length = sorted((rows, columns))
    size = 1 << width
    within = _disagreements(width)

    def make_state() -> BackwardState:
        tables = np.empty((length, size))
        t = np.full(1, math.nan)
        return BackwardState(within, width, length, n_pairs(rows, columns), tables, t, np.empty(width), np.empty(size))

    return Simulator(draw_backwards, make_state, exact=True)


@compiled
def draw_backwards(
    rng: np.random.Generator, theta: np.ndarray, state: BackwardState, statistics: np.ndarray, count: np.ndarray
) -> None:
    """Draw a lattice at theta exactly, and write its s(y) to `statistics`."""
    within = state.within
    width = state.width
    length = state.length
    tables = state.tables
    t = math.exp(-2.0 * abs(theta[0]))
    if state.t[0] != t:
        forward(t, within, state.powers, tables)
        state.t[0] = t
    row = draw_row(rng, 1.0, 0, width, tables[length - 1], state.partial_sums)
    disagreements = within[row]
    for i in range(length - 2, -1, -1):
        below = row
        row = draw_row(rng, t, below, width, tables[i], state.partial_sums)
        disagreements += within[row] + bits_set(row ^ below)
    statistics[0] = math.copysign(1.0, theta[0]) * (state.n_pairs - 2 * disagreements)
    count[UPDATES] += width * length
    count[STATISTICS] += 1


@compiled
def forward(t: float, within: np.ndarray, powers: np.ndarray, tables: np.ndarray) -> None:
    """Write v_1, ..., v_length, each up to a factor, to the rows of `tables`, and t^d to `powers`."""
    width = powers.shape[0]
    for d in range(width):
        powers[d] = t**d
    for x in range(within.shape[0]):
        tables[0, x] = powers[within[x]]
    for i in range(1, tables.shape[0]):
        v = tables[i]
        assign(v, tables[i - 1])
        for bit in range(width):
            half = 1 << bit
            for base in range(0, v.shape[0], 2 * half):
                for x in range(base, base + half):
                    a = v[x]
                    b = v[x + half]
                    v[x] = a + t * b
                    v[x + half] = b + t * a
        scale = 1.0 / v[0]  # the state with all spins down is the likeliest
        for x in range(v.shape[0]):
            v[x] *= scale * powers[within[x]]


@compiled
def draw_row(rng: np.random.Generator, t: float, below: int, width: int, weights: np.ndarray, work: np.ndarray) -> int:
    """Draw the state x of a row with probability proportional to weights[x] t^popcount(x ^ below).

    Bits are summed out from the highest down; `work` keeps the partial sums, those over states of `bit` bits at
    work[2^bit : 2^(bit + 1)]. Then bits are drawn from the lowest up.
    """
    for bit in range(width - 1, -1, -1):
        half = 1 << bit
        zero, one = (t, 1.0) if below & half else (1.0, t)
        source = weights if bit == width - 1 else work[2 * half : 4 * half]
        for x in range(half):
            work[half + x] = zero * source[x] + one * source[x + half]
    row = 0
    for bit in range(width):
        half = 1 << bit
        source = weights if bit == width - 1 else work[2 * half : 4 * half]
        one = source[row + half] * (1.0 if below & half else t)
        if rng.random() * work[half + row] < one:
            row += half
    return row


@compiled
def bits_set(word: int) -> int:
    """Return the number of ones among the bits of `word`."""
    total = 0
    while word:
        word &= word - 1
        total += 1
    return total
