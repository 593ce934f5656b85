"""Terms, derivatives and sums of some rows of a linear model, in NumPy, for the passes of set-up.

Only the two functions of a predictor and a response are compiled, each as one loop. A kernel of a whole pass took 2 s
to compile, and saves 10 ns a row with 10 columns (23 in place of 32), a fifth with 50. Matrix products run over a stack
of tiles, each so small that OpenBLAS computes it in one thread, so that sums do not depend on the number of threads.
"""

import functools
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
from numba import types as nb

from approxmcmc.engine.compiler.compile import BATCH_FASTMATH, MATRIX, bind, type_of

SMALL = 1 << 18  # multiplications of a matrix product that OpenBLAS computes in one thread
FEWEST, MOST = 16, 256  # rows of a tile
MOST_AT_ONCE, NUMBERS = 1 << 12, 100_000  # most rows, and numbers in them, for one call of NumPy: they stay in cache
NODES = 7  # of a Gauss-Hermite rule
# Averaged coefficients are best over the whole law; they are rejected only if their residuals have more than so many
# times the variance of Taylor's over the draws: variances from 16 draws are uncertain by this factor.
WORTH = 2.0
# Largest error, in nats, of a row's quadratic at `Law.reach` standard deviations of its predictor on either side. A row
# whose predictor has a variance above `Law.widest` is a wall if its error is larger; other rows are not checked.
FARTHEST = 0.125


def rows_of_tile(dim: int) -> int:
    """Return how many rows of `dim` numbers a tile has."""
    return min(max(SMALL // (dim * dim), FEWEST), MOST)


def pieces(lo: int, hi: int, dim: int) -> Iterator[slice]:
    """Yield slices of the rows lo ... hi - 1 of `dim` numbers; all but the last consist of whole tiles."""
    tile = rows_of_tile(dim)
    step = max(min(MOST_AT_ONCE, NUMBERS // dim) // tile, 1) * tile
    for start in range(lo, hi, step):
        yield slice(start, min(start + step, hi))


class RowFunctions:
    """The terms f(eta, y) of a model and their first two derivatives in eta, for arrays of predictors."""

    def __init__(self, loglik_eta: Callable[..., Any], derivatives_eta: Callable[..., Any], y: np.ndarray) -> None:
        self._functions, self._response = (loglik_eta, derivatives_eta), type_of(y)

    def terms(self, eta: np.ndarray, y: np.ndarray) -> np.ndarray:
        """Return f(eta, y); eta has shape (k, n) or (n,), y (n,)."""
        eta = np.ascontiguousarray(eta)
        out = np.empty(eta.shape)
        self._write_terms(np.atleast_2d(eta), y, np.atleast_2d(out))
        return out

    def derivatives(self, eta: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return f'(eta, y) and f''(eta, y), each with the shape of `eta`."""
        eta = np.ascontiguousarray(eta)
        first, second = np.empty(eta.shape), np.empty(eta.shape)
        self._write_derivatives(np.atleast_2d(eta), y, np.atleast_2d(first), np.atleast_2d(second))
        return first, second

    @functools.cached_property
    def _write_terms(self) -> Callable[..., None]:
        signature = nb.void(MATRIX, self._response, MATRIX)
        return bind(_make_terms, self._functions[0], signature=signature, fastmath=BATCH_FASTMATH)

    @functools.cached_property
    def _write_derivatives(self) -> Callable[..., None]:
        signature = nb.void(MATRIX, self._response, MATRIX, MATRIX)
        return bind(_make_derivatives, self._functions[1], signature=signature, fastmath=BATCH_FASTMATH)


def _make_terms(loglik_eta: Callable[[float, float], float]) -> Callable[..., None]:
    def terms(eta: np.ndarray, y: np.ndarray, out: np.ndarray) -> None:
        for k in range(eta.shape[0]):
            here, found = eta[k], out[k]
            for i in range(here.shape[0]):
                found[i] = loglik_eta(here[i], y[i])

    return terms


def _make_derivatives(derivatives_eta: Callable[[float, float], tuple[float, float]]) -> Callable[..., None]:
    def derivatives(eta: np.ndarray, y: np.ndarray, first: np.ndarray, second: np.ndarray) -> None:
        for k in range(eta.shape[0]):
            here, slopes, bends = eta[k], first[k], second[k]
            for i in range(here.shape[0]):
                slopes[i], bends[i] = derivatives_eta(here[i], y[i])

    return derivatives


def times(rows: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Return the matrix product of `rows` (n, dim) with `right`, shape (dim,) or (dim, k)."""
    tile = rows_of_tile(rows.shape[1])
    whole = len(rows) - len(rows) % tile
    stack = np.matmul(rows[:whole].reshape(-1, tile, rows.shape[1]), right)
    return np.concatenate([stack.reshape(whole, *right.shape[1:]), rows[whole:] @ right])


@np.errstate(over="ignore", invalid="ignore")
def add_up(
    rows: np.ndarray, values: np.ndarray, slopes: np.ndarray, bends: np.ndarray, scaled: np.ndarray
) -> np.ndarray:
    """Return sum values, X' slopes and X' diag(bends) X of some rows, in one vector; `scaled` is scratch for X."""
    n, dim = rows.shape
    tile = rows_of_tile(dim)
    whole = n - n % tile
    scaled = np.multiply(rows, bends[:, None], out=scaled[:n])
    stack, left, slope = (array[:whole].reshape(-1, tile, array[0].size) for array in (rows, scaled, slopes[:, None]))
    gradient = np.matmul(slope.transpose(0, 2, 1), stack).sum(axis=0)[0] + slopes[whole:] @ rows[whole:]
    hessian = np.matmul(left.transpose(0, 2, 1), stack).sum(axis=0) + scaled[whole:].T @ rows[whole:]
    return np.concatenate([[values.sum()], gradient, hessian.ravel()])


def squared_lengths(rows: np.ndarray) -> np.ndarray:
    """Return the squared length of each row."""
    return np.einsum("ij,ij->i", rows, rows)  # type: ignore[no-any-return]  # NumPy's types stop here


class Law(NamedTuple):
    """An approximate posterior N(center, L L'), L = `cholesky`, and the limits beyond which a row is a wall.

    `moves` holds draws less the centre, shape (dim, draws). A row is a wall if the variance of its predictor is above
    `widest` and its quadratic is wrong by more than `FARTHEST` at `reach` standard deviations on one side. With
    `averaged` coefficients may be averages over the law.
    """

    center: np.ndarray
    cholesky: np.ndarray
    moves: np.ndarray
    averaged: bool
    widest: float
    reach: float


class Looked(NamedTuple):
    """Some rows, expanded at a centre: one number per row, shape (rows,), but for `left`.

    `eta`: predictor; `value`: term; `first`, `half`: slope and half of the second derivative; `left`: residuals at the
    draws (draws, rows); `spread`: their standard deviation over the draws; `wall`: whether the row is a wall.
    """

    eta: np.ndarray
    value: np.ndarray
    first: np.ndarray
    half: np.ndarray
    left: np.ndarray
    spread: np.ndarray
    wall: np.ndarray


@np.errstate(over="ignore", invalid="ignore")
def look(rows: np.ndarray, y: np.ndarray, functions: RowFunctions, law: Law) -> Looked:
    """Expand `rows` with responses `y` at the centre of `law`, and compute their residuals at its draws.

    Where the coefficients are averages over the law, they are those of the best quadratic under it, by Gauss-Hermite
    quadrature.
    """
    eta, delta = times(rows, law.center), np.ascontiguousarray(times(rows, law.moves).T)
    leverage = squared_lengths(times(rows, law.cholesky))
    value, (first, half) = functions.terms(eta, y), functions.derivatives(eta, y)
    half *= 0.5
    wall = _misses(eta, y, value, first, half, leverage, functions, law)
    left = functions.terms(eta + delta, y) - (value + delta * (first + delta * half))
    spread = left.std(axis=0)
    if law.averaged:
        nodes, weights = np.polynomial.hermite_e.hermegauss(NODES)
        slopes, bends = functions.derivatives(eta + np.sqrt(leverage) * nodes[:, None], y)
        slope, bend = (np.einsum("k,kn->n", weights / weights.sum(), found) for found in (slopes, bends))
        mean = left + delta * (first - slope + delta * (half - 0.5 * bend))
        other = mean.std(axis=0)
        better = ~wall & (other * other < WORTH * spread * spread)
        first, half = np.where(better, slope, first), np.where(better, 0.5 * bend, half)
        spread, left = np.where(better, other, spread), np.where(better, mean, left)
    return Looked(eta, value, first, half, left, spread, wall)


def _misses(
    eta: np.ndarray,
    y: np.ndarray,
    value: np.ndarray,
    first: np.ndarray,
    half: np.ndarray,
    leverage: np.ndarray,
    functions: RowFunctions,
    law: Law,
) -> np.ndarray:
    """Return whether each row is a wall; only rows with a `leverage` (variance of eta) above `law.widest` can be."""
    wall, wide = np.zeros(len(y), dtype=bool), np.flatnonzero(leverage > law.widest)
    if wide.size:
        move = law.reach * np.sqrt(leverage[wide]) * np.array([[-1.0], [1.0]])
        missed = functions.terms(eta[wide] + move, np.ascontiguousarray(y[wide]))
        missed -= value[wide] + move * (first[wide] + move * half[wide])
        wall[wide] = ~(np.abs(missed) <= FARTHEST).all(axis=0)
    return wall
