r"""Weighted least squares of tall data, and the residual sum of squares of the rows.

.. math:: \sum_i w_i (r_i - a_i' \beta)^2 = s + |R (\beta - \hat\beta)|^2,

These numbers hold all information of the rows for a normal likelihood. None of them is a difference of large numbers,
for any offset of r and any size of the columns.

First a fit of some rows gives columns z = T'a that are nearly orthonormal, and residuals e that are close to the final
ones. Then one pass adds up Z'WZ, Z'We and e'We, as fast as memory is read. If the first rows were misleading, for
instance because of rare categories or nearly collinear columns, the result of this pass gives better columns for
another pass. This is the repeated Cholesky QR algorithm (Yamamoto et al. 2015), as accurate as a QR decomposition of
the rows.
"""

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from approxmcmc.engine.terms.passes import BLOCK, sum_over_blocks
from approxmcmc.errors import InvalidInputError

Rows = Callable[[int, int], tuple[np.ndarray, np.ndarray, np.ndarray]]

NUMBERS = 1 << 20  # numbers of the rows of a block: 8 MB, which fit in the last-level cache
# The first fit reads SLICES slices with FEWEST rows in all, or FOR_EACH rows for each column if that is more.
SLICES = 32
FEWEST = 2000
FOR_EACH = 20
MOST_PASSES = 5
EVEN = 1e-4  # if the smallest over the largest eigenvalue of Z'WZ is above it, no relevant digit is lost
SMALLEST = 1e-13  # relative size of an eigenvalue that rounding of sums alone can make
NEAR = 2.0  # if e'We over the least sum of squares is below it, their difference loses no digit


class LeastSquares(NamedTuple):
    """The fit (p,), the root R (rank, p), upper triangular, the least sum of squares s, and the passes it took."""

    center: np.ndarray
    root: np.ndarray
    squares: float
    passes: int


class Basis(NamedTuple):
    """Columns z = T'a with a = S'z, and a fit so far: T (p, rank), S (rank, p), beta (p,)."""

    T: np.ndarray
    S: np.ndarray
    center: np.ndarray

    def sums(self, a: np.ndarray, r: np.ndarray, w: np.ndarray) -> np.ndarray:
        """Return Z'WZ, Z'We and e'We of some rows, concatenated."""
        z = a @ self.T
        e = r - a @ self.center
        weighted = z * w[:, None]
        return np.concatenate([(weighted.T @ z).ravel(), e @ weighted, [(w * e) @ e]])

    def noise(self, vectors: np.ndarray, sums: np.ndarray) -> np.ndarray:
        """Return for each eigenvalue of Z'WZ the size up to which it may be mere rounding of a'T."""
        gram = sums[: len(self.S) ** 2].reshape(len(self.S), -1)
        lengths = np.sqrt(np.maximum(np.einsum("kj,kl,lj->j", self.S, gram, self.S), 0.0))
        return np.square(16.0 * np.finfo(np.float64).eps * (lengths @ np.abs(self.T @ vectors)))

    def improved(self, values: np.ndarray, vectors: np.ndarray, slope: np.ndarray) -> "Basis":
        """Return the basis in which Z'WZ, given by its eigenvalues and vectors, is the identity, with a better fit.

        `slope` is Z'We.
        """
        roots = np.sqrt(values)
        step = vectors @ ((vectors.T @ slope) / values)
        S = (roots[:, None] * vectors.T) @ self.S
        return Basis(self.T @ vectors / roots, S, self.center + self.T @ step)


def least_squares(rows: Rows, n_rows: int, p: int) -> LeastSquares:
    """Return the least-squares fit of all rows.

    Parameters
    ----------
    rows
        ``rows(lo, hi)`` returns the predictors a (m, p), the responses r (m,) and the weights w (m,) of the rows
        lo ... hi - 1, as float64.
    n_rows, p
        How many rows and predictors there are.

    Notes
    -----
    Directions on which the rows have no information, for instance if a column is a sum of others, have no row in the
    root. The rounding error of s + |R (beta - beta^)|^2 is about 1e-15 (n + this sum), at condition numbers up to 1e10.

    References
    ----------
    Yamamoto, Nakatsukasa, Yanagisawa and Fukaya (2015).
    """
    basis = _of_some_rows(rows, n_rows, p)
    block = max(256, min(BLOCK, NUMBERS // max(p, 1)))
    passes = 0
    enough = False
    while not enough:
        basis_so_far = basis
        passes = passes + 1
        if not len(basis_so_far.S):
            raise InvalidInputError(
                "LinearRegression: the sums of squares of the columns of X are zero or beyond the range of floats; "
                "change the units of X, such that its entries are neither near 1e150 nor near 1e-150"
            )
        sums = sum_over_blocks(lambda lo, hi: basis_so_far.sums(*rows(lo, hi)), n_rows, block)  # noqa: B023  # called at once
        values, vectors, slope, squares = _eigen(sums, len(basis_so_far.S))
        is_significant = values > basis_so_far.noise(vectors, sums)
        values = np.maximum(values[is_significant], SMALLEST * values.max(initial=0.0))
        vectors = vectors[:, is_significant]
        basis = basis_so_far.improved(values, vectors, slope)
        least = squares - float(np.sum((vectors.T @ slope) ** 2 / values))
        is_even = values.min(initial=1.0) > EVEN * values.max(initial=0.0)
        enough = (is_even and squares <= NEAR * least) or passes == MOST_PASSES
    return LeastSquares(basis.center, np.linalg.qr(basis.S, mode="r"), max(least, 0.0), passes)


def _eigen(sums: np.ndarray, rank: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, float]:
    """Return the eigenvalues and eigenvectors of Z'WZ, then Z'We and e'We, from the result of `Basis.sums`."""
    gram = sums[: rank * rank].reshape(rank, rank)
    slope = sums[rank * rank : -1]
    squares = float(sums[-1])
    values, vectors = np.linalg.eigh(0.5 * (gram + gram.T))
    return values, vectors, slope, squares


def _of_some_rows(rows: Rows, n_rows: int, p: int) -> Basis:
    """Return the basis and the fit of some rows; eigenvalues below 1e-8 of the largest are raised to that."""
    size = math.ceil(max(FEWEST, FOR_EACH * p) / SLICES)
    starts = np.unique(np.linspace(0, max(n_rows - size, 0), SLICES).astype(int))
    slices = [rows(lo, min(lo + size, n_rows)) for lo in starts]
    a, r, w = (np.concatenate(arrays) for arrays in zip(*slices, strict=True))
    lengths = np.sqrt((w[:, None] * a * a).sum(axis=0))
    lengths[lengths == 0.0] = np.sqrt(w.sum())
    plain = Basis(np.diag(1.0 / lengths), np.diag(lengths), np.zeros(p))
    values, vectors, slope, _ = _eigen(plain.sums(a, r, w), p)
    return plain.improved(np.maximum(values, 1e-8 * values.max(initial=0.0)), vectors, slope)
