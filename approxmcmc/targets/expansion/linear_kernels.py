"""Kernels for a block of rows of a linear model: sums of terms and derivatives, and residuals of quadratics.

Each kernel reads the predictors once. A tile of rows stays in the first-level cache, or the second, while it is used:
for its predictors eta, for the gradient X' f', and for the Hessian X' diag(f'') X, a product of two small matrices.
"""

import math
from collections.abc import Callable

import numpy as np
from numba import types as nb

from approxmcmc.engine.compiler.compile import BATCH_FASTMATH, INDICES, MATRIX, VECTOR, allocating, compiled
from approxmcmc.engine.terms.batches import linear_predictor

NODES = 7  # of a Gauss-Hermite rule
WORTH = 2.0  # ratio by which variances from 16 draws are uncertain; averaged coefficients are better over all draws
FARTHEST = 0.125  # largest error of the quadratic of a light row within reach
SMALL = 1 << 18  # multiplications of a matrix product that OpenBLAS computes in one thread
FEWEST, MOST = 16, 256  # rows of a tile
FLAGS = nb.Array(nb.boolean, 1, "C")


def add_up_signature(X: nb.Type, y: nb.Type) -> nb.Type:
    """Return the signature of `make_add_up`'s kernel."""
    return nb.void(VECTOR, X, y, INDICES, nb.int64, nb.int64, nb.boolean, MATRIX, VECTOR, VECTOR)


def survey_signature(X: nb.Type, y: nb.Type) -> nb.Type:
    """Return the signature of `make_survey`'s kernel."""
    law, found = (VECTOR, MATRIX, MATRIX, MATRIX), (MATRIX, VECTOR, FLAGS, VECTOR, VECTOR, VECTOR)
    return nb.void(*law, X, y, INDICES, nb.int64, nb.int64, nb.boolean, nb.float64, nb.float64, *found)


@compiled
def rows_of_tile(dim: int) -> int:
    """Return how many rows a tile has."""
    return min(max(SMALL // (dim * dim), FEWEST), MOST)


@allocating(fastmath=set(BATCH_FASTMATH))
def add_tile(rows: np.ndarray, slopes: np.ndarray, bends: np.ndarray, scaled: np.ndarray, sums: np.ndarray) -> None:
    """Add X' slopes and X' diag(bends) X of a tile to the gradient and the Hessian in `sums`."""
    n, dim = rows.shape
    gradient, hessian = sums[1 : 1 + dim], sums[1 + dim :].reshape((dim, dim))
    for i in range(n):
        slope, bend = slopes[i], bends[i]
        for j in range(dim):
            gradient[j] += slope * rows[i, j]
            scaled[i, j] = bend * rows[i, j]
    hessian += np.dot(scaled[:n].T, rows)


@compiled
def read_tile(X: np.ndarray, start: int, stop: int, out: np.ndarray) -> None:
    """Copy rows of any type to float64, because matrix products need one type and sums need all digits."""
    for i in range(start, stop):
        for j in range(out.shape[1]):
            out[i - start, j] = X[i, j]


@compiled(fastmath=set(BATCH_FASTMATH))
def write_leverages(whitened: np.ndarray, out: np.ndarray) -> None:
    """Write the squared lengths of some rows."""
    for i in range(whitened.shape[0]):
        total = 0.0
        for j in range(whitened.shape[1]):
            total += whitened[i, j] * whitened[i, j]
        out[i] = total


def make_add_up(
    loglik_eta: Callable[[float, float], float],
    derivatives_eta: Callable[[float, float], tuple[float, float]],
) -> Callable[..., None]:
    """Return the kernel that adds value, gradient and Hessian of some terms to ``sums``, shape (1 + dim + dim^2,).

    With a row of `out` for each, it writes a_i and b_i of the quadratics eta (a_i + b_i eta) there, and to
    `norms` the sums of |x|^3 and |x|^6 and the largest |x|^2. With ``curved=False`` f'' counts as 0.
    """

    def add_up(
        theta: np.ndarray,
        X: np.ndarray,
        y: np.ndarray,
        memory_order: np.ndarray,
        lo: int,
        hi: int,
        curved: bool,
        out: np.ndarray,
        sums: np.ndarray,
        norms: np.ndarray,
    ) -> None:
        tile = rows_of_tile(theta.shape[0])
        eta, slopes, bends = np.empty(tile), np.empty(tile), np.empty(tile)
        scaled, copy = np.empty((tile, theta.shape[0])), np.empty((tile, theta.shape[0]))
        for start in range(lo, hi, tile):
            stop = min(start + tile, hi)
            n, here = stop - start, y[start:stop]
            read_tile(X, start, stop, copy)
            rows = copy[:n]
            linear_predictor(theta, X, memory_order, start, stop, eta)
            total = 0.0
            for i in range(n):
                slopes[i], bends[i] = derivatives_eta(eta[i], here[i])
                total += loglik_eta(eta[i], here[i])
            sums[0] += total
            if not curved:
                bends[:n] = 0.0
            add_tile(rows, slopes, bends, scaled, sums)
            if out.shape[0] > 0:
                numbers = out[start:stop]
                for i in range(n):
                    numbers[i, 0] = slopes[i] - bends[i] * eta[i]
                    numbers[i, 1] = 0.5 * bends[i]
                write_leverages(rows, eta)  # the squared lengths of the rows
                for i in range(n):
                    cubed = eta[i] * math.sqrt(eta[i])
                    norms[0] += cubed
                    norms[1] += cubed * cubed
                    norms[2] = max(norms[2], eta[i])

    return add_up


def make_survey(  # noqa: PLR0915 (one pass over a tile: its steps share all of their arrays)
    loglik_eta: Callable[[float, float], float],
    derivatives_eta: Callable[[float, float], tuple[float, float]],
) -> Callable[..., None]:
    """Return the kernel that expands some rows at a centre, and computes their residuals at draws.

    `cholesky` and `moves`, the draws less the centre, are columns, shape (dim, dim) and (dim, draws); `rule` has the
    nodes and the weights of Gauss and Hermite. For each row: a_i, b_i, whether it is a wall and, where `spreads` is not
    empty, the standard deviation of the residual over the draws. A row is a wall where the variance of its predictor is
    above `widest` and its quadratic misses more than `FARTHEST` within `reach` standard deviations. `sums` are those of
    the quadratics chosen, as in `make_add_up`; `left` (draws,) of the residuals, `together` of their standard
    deviations and variances.
    """

    def survey(  # noqa: PLR0912, PLR0915 (as above)
        center: np.ndarray,
        cholesky: np.ndarray,
        moves: np.ndarray,
        rule: np.ndarray,
        X: np.ndarray,
        y: np.ndarray,
        memory_order: np.ndarray,
        lo: int,
        hi: int,
        averaged: bool,
        widest: float,
        reach: float,
        out: np.ndarray,
        spreads: np.ndarray,
        walls: np.ndarray,
        sums: np.ndarray,
        left: np.ndarray,
        together: np.ndarray,
    ) -> None:
        # Whole tiles of terms go through one loop, which vectorises: 16 draws, row by row, took three times as long.
        dim, n_draws = moves.shape
        tile, n_nodes = rows_of_tile(dim), rule.shape[1]
        eta, slopes, bends, scaled = np.empty(tile), np.empty(tile), np.empty(tile), np.empty((tile, dim))
        copy = np.empty((tile, dim))
        values, leverages = np.empty(tile), np.empty(tile)
        size = tile * max(n_draws, n_nodes)
        places, terms, responses = np.empty(size), np.empty(size), np.empty(size, y.dtype)
        firsts, seconds = np.empty(tile * n_nodes), np.empty(tile * n_nodes)
        taylor, mean = np.empty(n_draws), np.empty(n_draws)
        for start in range(lo, hi, tile):
            stop = min(start + tile, hi)
            n, here, numbers = stop - start, y[start:stop], out[start:stop]
            read_tile(X, start, stop, copy)
            rows = copy[:n]
            linear_predictor(center, X, memory_order, start, stop, eta)
            deltas = np.dot(rows, moves)
            write_leverages(np.dot(rows, cholesky), leverages)
            for i in range(n):
                values[i] = loglik_eta(eta[i], here[i])
                sums[0] += values[i]
            for i in range(n):
                slopes[i], bends[i] = derivatives_eta(eta[i], here[i])
            for i in range(n):
                for k in range(n_draws):
                    places[i * n_draws + k] = eta[i] + deltas[i, k]
                    responses[i * n_draws + k] = here[i]
            for k in range(n * n_draws):
                terms[k] = loglik_eta(places[k], responses[k])
            if averaged:
                for i in range(n):
                    wide = math.sqrt(leverages[i])
                    for k in range(n_nodes):
                        places[i * n_nodes + k] = eta[i] + wide * rule[0, k]
                        responses[i * n_nodes + k] = here[i]
                for k in range(n * n_nodes):
                    firsts[k], seconds[k] = derivatives_eta(places[k], responses[k])
            for i in range(n):
                delta, first, half, wall = deltas[i], slopes[i], 0.5 * bends[i], False
                for side in range(2 if leverages[i] > widest else 0):
                    move = (2 * side - 1) * reach * math.sqrt(leverages[i])
                    missed = loglik_eta(eta[i] + move, here[i]) - (values[i] + move * (first + move * half))
                    wall = wall or not abs(missed) <= FARTHEST
                walls[start + i] = wall
                for k in range(n_draws):
                    fitted = values[i] + delta[k] * (first + delta[k] * half)
                    taylor[k] = terms[i * n_draws + k] - fitted
                spread = _spread(taylor)
                chosen = taylor
                if averaged and not wall:
                    slope = bend = 0.0
                    for k in range(n_nodes):
                        slope += rule[1, k] * firsts[i * n_nodes + k]
                        bend += rule[1, k] * seconds[i * n_nodes + k]
                    for k in range(n_draws):
                        mean[k] = taylor[k] + delta[k] * (first - slope + delta[k] * (half - 0.5 * bend))
                    other = _spread(mean)
                    if other * other < WORTH * spread * spread:
                        first, half, spread, chosen = slope, 0.5 * bend, other, mean
                for k in range(n_draws):
                    left[k] += chosen[k]
                together[0] += spread
                together[1] += spread * spread
                if spreads.shape[0] > 0:
                    spreads[start + i] = spread
                slopes[i], bends[i] = first, 2.0 * half
                numbers[i, 0], numbers[i, 1] = first - 2.0 * half * eta[i], half
            add_tile(rows, slopes, bends, scaled, sums)

    return survey


@compiled(fastmath=set(BATCH_FASTMATH))
def _spread(values: np.ndarray) -> float:
    """Return the standard deviation of some numbers."""
    n, mean, squares = values.shape[0], 0.0, 0.0
    for k in range(n):
        mean += values[k]
    mean /= n
    for k in range(n):
        squares += (values[k] - mean) ** 2
    return math.sqrt(squares / n)


def make_places(derivatives_eta: Callable[[float, float], tuple[float, float]]) -> Callable[..., None]:
    """Return the kernel for eta of some rows at a centre, its variance under L L', f' and f'' / 2; four columns."""

    def places(
        center: np.ndarray,
        cholesky: np.ndarray,
        X: np.ndarray,
        y: np.ndarray,
        memory_order: np.ndarray,
        out: np.ndarray,
    ) -> None:
        tile = rows_of_tile(center.shape[0])
        for start in range(0, X.shape[0], tile):
            stop = min(start + tile, X.shape[0])
            linear_predictor(center, X, memory_order, start, stop, out[0, start:stop])
            write_leverages(np.dot(X[start:stop], cholesky), out[1, start:stop])
        eta, first, half = out[0], out[2], out[3]
        for i in range(X.shape[0]):
            first[i], half[i] = derivatives_eta(eta[i], y[i])
            half[i] *= 0.5

    return places


def make_slopes(derivatives_eta: Callable[[float, float], tuple[float, float]]) -> Callable[..., None]:
    """Return the kernel that writes f' and f'' / 2 of some rows, two columns."""

    def slopes(eta: np.ndarray, y: np.ndarray, out: np.ndarray) -> None:
        for i in range(eta.shape[0]):
            first, second = derivatives_eta(eta[i], y[i])
            out[i, 0] = first
            out[i, 1] = 0.5 * second

    return slopes


def make_terms_on_grid(loglik_eta: Callable[[float, float], float]) -> Callable[..., None]:
    """Return the kernel that turns the predictors of some rows, each at several thetas, into terms, in place."""

    def terms_on_grid(eta: np.ndarray, y: np.ndarray) -> None:
        for i in range(eta.shape[0]):
            for j in range(eta.shape[1]):
                eta[i, j] = loglik_eta(eta[i, j], y[i])

    return terms_on_grid
