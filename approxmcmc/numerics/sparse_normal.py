"""A normal approximation with a sparse precision: effects of crossed and nested factors, given their scales.

It is a Laplace approximation without its covariance, which is full. With d parameters a product with a factor of the
covariance takes of the order of d^2 multiply-adds, with a factor of the precision a few for each pair of levels that
meet in the data.
"""

import dataclasses
import functools
import math
from typing import Any

import numpy as np
from scipy.linalg import solve_triangular
from scipy.sparse import csr_array

from approxmcmc.contracts import Component
from approxmcmc.contracts.speaker import names_itself, speaker
from approxmcmc.engine.sparse_factor import SparseFactor, sparse_factor
from approxmcmc.errors import InvalidInputError
from approxmcmc.expansion.quadratic import inverse
from approxmcmc.numerics.laplace_approximation import Laplace


@dataclasses.dataclass(frozen=True, eq=False)
class SparseNormal(Component):
    """The normal distribution N(mode, P^-1) with a sparse precision P.

    Parameters
    ----------
    mode
        The mean; shape (dim,).
    rows, columns, values
        Indices and values of the entries of P that are not 0, on its diagonal and above it, each given once.
    passes, seconds
        Passes over the data, and seconds, that it took to find the distribution.

    Raises
    ------
    InvalidInputError
        When the arrays do not have one shape, an index is out of range, below the diagonal or given twice, P is not
        positive definite, or not so sparse that its factor saves half of the work.

    Notes
    -----
    As a `preconditioner=`, only `Hamiltonian` uses the factor of P; other proposals take the covariance.

    Examples
    --------
    >>> import numpy as np, approxmcmc as amc
    >>> rows, columns = [0, 1, 2, 3, 4, 5, 6], [0, 1, 2, 3, 4, 5, 6]
    >>> fit = SparseNormal(np.zeros(7), rows + [0, 1], columns + [6, 6], 7 * [4.0] + 2 * [1.0])
    >>> fit.sd[2:5], bool(np.allclose(fit.cov @ fit.precision, np.eye(7)))
    (array([0.5, 0.5, 0.5]), True)
    """

    mode: Any
    rows: Any
    columns: Any
    values: Any
    passes: int = dataclasses.field(default=0, compare=False)
    seconds: float = dataclasses.field(default=0.0, compare=False)

    def __post_init__(self) -> None:
        """Factorise the precision."""
        for name, kind in (("mode", np.float64), ("rows", np.int64), ("columns", np.int64), ("values", np.float64)):
            object.__setattr__(self, name, np.array(getattr(self, name), dtype=kind))
        self._check_entries()
        self.factor  # noqa: B018  # raises

    @names_itself()
    def _check_entries(self) -> None:
        """Raise unless the indices name distinct entries of the upper triangle.

        Entries given twice are refused and not summed, as SciPy does, because the two could be the two halves of a
        symmetric matrix, each of which is the whole entry.
        """
        dim = self.mode.size
        shapes = [array.shape for array in (self.mode, self.rows, self.columns, self.values)]
        if any(len(shape) != 1 for shape in shapes) or len(set(shapes[1:])) > 1:
            raise InvalidInputError(
                f"{speaker()}: mode must have shape (dim,), rows, columns and values one shape (n,), found {shapes}"
            )
        outside = (self.rows < 0) | (self.columns < self.rows) | (self.columns >= dim)
        if outside.any():
            row, column = _first(outside, self.rows, self.columns)
            raise InvalidInputError(
                f"{speaker()}: entries must satisfy 0 <= row <= column < {dim}, on the diagonal and above it, found "
                f"({row}, {column})"
            )
        entries = self.rows * dim + self.columns
        is_first = np.zeros(entries.size, dtype=bool)
        is_first[np.unique(entries, return_index=True)[1]] = True
        if not is_first.all():
            row, column = _first(~is_first, self.rows, self.columns)
            raise InvalidInputError(f"{speaker()}: the entry ({row}, {column}) is given twice; add the values up first")

    @functools.cached_property
    def factor(self) -> SparseFactor:
        """The sparse factor of P."""
        try:
            factor = sparse_factor(self.precision)
        except np.linalg.LinAlgError:
            raise InvalidInputError("SparseNormal: the precision must be positive definite") from None
        if factor is None:
            raise InvalidInputError("SparseNormal: the precision is hardly sparse; take a Laplace with its inverse")
        return factor

    @property
    def precision(self) -> np.ndarray:
        """P; shape (dim, dim)."""
        precision = np.zeros((self.mode.size, self.mode.size))
        precision[self.rows, self.columns] = precision[self.columns, self.rows] = self.values
        return precision

    @functools.cached_property
    def cov(self) -> np.ndarray:
        """The inverse of P; shape (dim, dim)."""
        return inverse(self.precision)

    @functools.cached_property
    def sd(self) -> np.ndarray:
        """Standard deviations; shape (dim,)."""
        inner, roots, *_, rest, upper = self.factor
        of_rest = solve_triangular(upper, np.eye(rest.size))  # its rows have the covariance of the parameters `rest`
        variances = np.empty(self.mode.size)
        variances[rest] = np.square(of_rest).sum(axis=1)
        variances[inner] = (1.0 + np.square(self._border @ of_rest).sum(axis=1)) / roots**2
        return np.sqrt(variances)

    @property
    def _border(self) -> csr_array:
        """D^-1/2 B, see `engine.sparse_factor`."""
        inner, _, starts, columns, values, rest, _ = self.factor
        return csr_array((values, np.searchsorted(rest, columns), starts), shape=(inner.size, rest.size))

    def draw(self, rng: np.random.Generator) -> np.ndarray:
        """Return one draw; shape (dim,)."""
        inner, roots, *_, rest, upper = self.factor
        x = rng.standard_normal(self.mode.size)
        x[rest] = solve_triangular(upper, x[rest])
        x[inner] = (x[inner] - self._border @ x[rest]) / roots
        return self.mode + x

    def __repr__(self) -> str:
        """Show the size."""
        return f"SparseNormal(dim={self.mode.size}, {self.values.size} numbers)"


def _first(which: np.ndarray, rows: np.ndarray, columns: np.ndarray) -> tuple[int, int]:
    """Return row and column of the first entry for which `which` is true."""
    k = int(np.argmax(which))
    return int(rows[k]), int(columns[k])


NormalFit = Laplace | SparseNormal


def normal_by_precision(mode: np.ndarray, precision: np.ndarray) -> NormalFit:
    """Return the normal distribution with this mean and positive definite precision (dim, dim).

    It is sparse if that halves the work. Raises `numpy.linalg.LinAlgError` if the precision is not positive definite.
    """
    if sparse_factor(precision) is None:
        return Laplace(mode, inverse(precision), decrement=math.nan)
    rows, columns = np.nonzero(np.triu(precision))
    return SparseNormal(mode, rows, columns, precision[rows, columns])
