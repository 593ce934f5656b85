r"""The design of K linear predictors: which entries of theta each row adds up, and with which factors.

.. math:: \eta_{ik} = \sum_{j \in D_k} X_{ij} \theta_{p_k(j)} + \sum_{c \in C_k} w_{ic} \theta_{g_{ic}}
          + \sum_{s \in S_k} v_s \theta_{q_s},

The first sum is over dense columns, which predictors may share. The second is over categories, stored as codes: each
costs one addition, for any number of categories. The third is over entries that all rows share, such as an intercept
or a log scale. theta is followed by a constant 1, so that an offset is a dense column and needs no special case.

Kernels read the design as a tuple of arrays (`kernels`); set-up works on runs of rows with NumPy and SciPy.
"""

import dataclasses
from collections.abc import Iterator, Sequence

import numpy as np
from scipy.sparse import csr_array

from approxmcmc.engine.files.grown_arrays import followed_by, without_rows
from approxmcmc.engine.terms.passes import BLOCK
from approxmcmc.errors import InvalidInputError

NUMBERS = 250_000  # numbers of a predictor's design per block, so that a block stays in cache
RUN = 65_536  # rows that are read at once where results have a few numbers a row
MANY = 50  # parameters for each number of a row, above which Hessians of blocks cost more than their rows
# What locates the parts of a predictor in the arrays of a design, in the order of its `SPANS` numbers: half-open ranges
# of dense columns, of columns of codes and of shared entries, and where the places of the dense columns begin.
FIRST_COLUMN = 0
END_OF_COLUMNS = 1
FIRST_PLACE = 2
FIRST_CODE = 3
END_OF_CODES = 4
FIRST_SHARED = 5
END_OF_SHARED = 6
SPANS = 7  # numbers for each predictor
DESIGN_ARRAYS = 7  # length of `Design.arrays`; in the data of a target, the arrays of the responses follow

Rows = slice | np.ndarray


@dataclasses.dataclass(frozen=True, eq=False)
class Predictor:
    """One predictor: its parts, each with the entries of theta that it multiplies; entry `dim` means 1.

    Parameters
    ----------
    columns, places
        The range of columns of X, as a pair (from, to), and the indices of the entries of theta that they multiply.
    codes
        The range of columns of the codes, as a pair (from, to).
    shared, values
        Indices of the entries of theta that all rows share, and their factors.
    """

    columns: tuple[int, int] = (0, 0)
    places: Sequence[int] = ()
    codes: tuple[int, int] = (0, 0)
    shared: Sequence[int] = ()
    values: Sequence[float] = ()


class Design:
    """K predictors of n rows and `dim` parameters.

    Parameters
    ----------
    dim
        Length of theta.
    X
        Dense columns, shape (n, p); also those that only weight codes.
    codes
        For each row the indices of the entries of theta to add, int32, shape (n, C); the index `dim` adds 0, for a
        reference level.
    weight_columns
        For each column of codes the index of the column of X that multiplies its entries; -1 for none.
    predictors
        The K predictors.
    """

    def __init__(
        self, dim: int, X: np.ndarray, codes: np.ndarray, weight_columns: Sequence[int], predictors: Sequence[Predictor]
    ) -> None:
        self.dim = dim
        self.n_rows = len(X)
        self.predictors = tuple(predictors)
        self.X = X
        self.codes = codes
        self.weight_columns = tuple(weight_columns)
        self._has_offset = any(dim in (*predictor.places, *predictor.shared) for predictor in predictors)

    def followed_by(self, more: "Design") -> "Design":
        """Return the design of these rows, then those of `more`, which has the same predictors.

        Raises
        ------
        InvalidInputError
            If `more` has other predictors, or rows that the columns of this design cannot hold.
        """
        stored = more.stored_as(self)
        n = self.n_rows + more.n_rows
        grown = followed_by(self.X, stored.X) if self.X.shape[1] else np.empty((n, 0), self.X.dtype)
        has_codes = self.codes.shape[1] > 0
        grown_codes = followed_by(self.codes, stored.codes) if has_codes else np.empty((n, 0), self.codes.dtype)
        return Design(self.dim, grown, grown_codes, self.weight_columns, self.predictors)

    def without(self, lo: int, hi: int) -> "Design":
        """Return the design without the rows lo ... hi - 1."""
        X, codes = (without_rows(array, lo, hi) for array in (self.X, self.codes))
        return Design(self.dim, X, codes, self.weight_columns, self.predictors)

    def stored_as(self, other: "Design") -> "Design":
        """Return the design of these rows with dense columns and codes in the places where `other` has them.

        Columns that are equal in all rows are stored once, so the rows of one day may have fewer columns.

        Raises
        ------
        InvalidInputError
            If `other` has other predictors.
        """
        if not (self.dim == other.dim and len(self.predictors) == len(other.predictors)):
            raise InvalidInputError("the new rows have other parameters than the old ones")
        X = np.full((self.n_rows, other.X.shape[1]), np.nan)
        for mine, theirs in self._columns_of(other):
            is_new = np.isnan(X[:, theirs]).all() if self.n_rows else True
            if not is_new and not np.array_equal(X[:, theirs], self.X[:, mine]):
                raise InvalidInputError(
                    "two columns of the design were equal in all old rows, and are stored once; they differ in the new "
                    "rows: make the target from all rows"
                )
            X[:, theirs] = self.X[:, mine]
        return Design(self.dim, X, self.codes, other.weight_columns, other.predictors)

    def _columns_of(self, other: "Design") -> Iterator[tuple[int, int]]:
        """Yield each dense column of this design, and the column of `other` for the same part of a predictor."""
        for mine, theirs in zip(self.predictors, other.predictors, strict=True):
            same = (
                list(mine.places) == list(theirs.places)
                and mine.codes == theirs.codes
                and list(mine.shared) == list(theirs.shared)
                and list(mine.values) == list(theirs.values)
            )
            if not same:
                raise InvalidInputError("the new rows have predictors made of other columns than those of the old rows")
            yield from zip(range(*mine.columns), range(*theirs.columns), strict=True)
        for mine_weight, their_weight in zip(self.weight_columns, other.weight_columns, strict=True):
            if (mine_weight < 0) != (their_weight < 0):
                raise InvalidInputError("the new rows have codes with other weights than those of the old rows")
            if mine_weight >= 0:
                yield mine_weight, their_weight

    @property
    def n_predictors(self) -> int:
        """Number K of predictors."""
        return len(self.predictors)

    @property
    def additions(self) -> float:
        """Number of summands in the predictors of a row, without those that all rows share."""
        return float(sum(np.ptp(predictor.columns) + np.ptp(predictor.codes) for predictor in self.predictors))

    @property
    def rows_at_a_time(self) -> int:
        """Rows per block at set-up, where each row has a number for each parameter."""
        return max(64, NUMBERS // max(self.dim, self.X.shape[1]))

    @property
    def rows_per_summed_block(self) -> int:
        """Rows per block where blocks are summed: with many categories more, as each Hessian has dim^2 numbers."""
        width = max(1, self.X.shape[1] + self.codes.shape[1])
        return (
            max(self.rows_at_a_time, min(BLOCK, NUMBERS // width)) if self.dim > MANY * width else self.rows_at_a_time
        )

    @property
    def arrays(self) -> tuple[np.ndarray, ...]:
        """Arrays for kernels: X and codes, with n rows, then five arrays (1, ...) that say how to combine them.

        `kernels` says what each of them holds.
        """
        spans: list[int] = []
        places: list[int] = []
        shared: list[int] = []
        for predictor in self.predictors:
            stop = len(shared) + len(predictor.shared)
            spans += [*predictor.columns, len(places), *predictor.codes, len(shared), stop]
            places += predictor.places
            shared += predictor.shared
        whole = [np.array([numbers], dtype=np.int64) for numbers in (spans, places, self.weight_columns, shared)]
        values = np.array([[value for predictor in self.predictors for value in predictor.values]], dtype=np.float64)
        return self.X, self.codes, *whole, values

    @property
    def is_dense(self) -> bool:
        """Whether the design is one predictor x' theta of all columns of X, in the order of theta, and nothing else."""
        if self.n_predictors > 1 or self.codes.size:
            return False
        [predictor] = self.predictors
        p = self.X.shape[1]
        return (
            predictor.columns == (0, p)
            and not predictor.shared
            and self.dim == p
            and list(predictor.places) == list(range(p))
        )

    def of_all_rows(self, theta: np.ndarray) -> np.ndarray:
        """Return the predictors of all rows; shape (K, n)."""
        return np.concatenate([self.eta(theta, rows) for rows in self._runs()], axis=1)

    def row_norms(self) -> np.ndarray:
        """Return the lengths of the gradients of the first predictor in theta; shape (n,)."""
        return np.concatenate([self._parts(rows)[0].norms(self.dim) for rows in self._runs()])

    def _runs(self) -> Iterator[slice]:
        """Yield runs of rows, so that data larger than memory are never copied as a whole."""
        return (slice(start, start + RUN) for start in range(0, self.n_rows, RUN))

    def matrix(self) -> np.ndarray | None:
        """Return the design as a matrix (n, dim) if it is one predictor without codes and offset, else None."""
        if self.n_predictors > 1 or self.codes.size or self._has_offset:
            return None
        [predictor] = self.predictors
        whole = np.zeros((self.n_rows, self.dim))
        whole[:, predictor.places] = self.X[:, slice(*predictor.columns)]
        whole[:, predictor.shared] = predictor.values
        return whole

    def matrix_of(self, predictor: Predictor, rows: Rows) -> np.ndarray:
        """Return one predictor of some rows as a matrix (rows, dim + 1); the last column holds offsets."""
        part = self._part(predictor, np.asarray(self.X[rows]), self.codes[rows])
        whole = np.zeros((len(part.dense), self.dim + 1)) if part.sparse is None else part.sparse.toarray()
        for j, column in enumerate(part.places):
            whole[:, column] += part.dense[:, j]
        return whole

    def eta(self, theta: np.ndarray, rows: Rows) -> np.ndarray:
        """Return the predictors of some rows; shape (K, rows), contiguous."""
        extended = np.append(theta, 1.0)
        return np.array([part.times(extended) for part in self._parts(rows)])

    def times(self, directions: np.ndarray, rows: Rows) -> np.ndarray:
        """Return the changes of the predictors of `rows` along the columns of `directions` (dim, m); (K, rows, m)."""
        extended = np.vstack([directions, np.zeros(directions.shape[1])])
        return np.array([part.times(extended) for part in self._parts(rows)])

    def gradient(self, slopes: np.ndarray, rows: Rows) -> np.ndarray:
        """Return the sum of the gradients of rows with these slopes (K, rows) in their predictors; shape (dim,)."""
        total = np.zeros(self.dim + 1)
        for part, weights in zip(self._parts(rows), slopes, strict=True):
            part.add_gradient(weights, total)
        return total[:-1]

    def hessian(self, curvatures: np.ndarray, rows: Rows) -> np.ndarray:
        """Return the sum of the rows' Hessians in theta; shape (dim, dim).

        `curvatures` (K, K, rows) are the second derivatives of the rows' terms in their predictors.
        """
        total = np.zeros((self.dim + 1, self.dim + 1))
        parts = self._parts(rows)
        for k, part in enumerate(parts):
            part.add_hessian(part, curvatures[k, k], 0.5, total)  # half, because the transpose is added below
            for other, weights in zip(parts[k + 1 :], curvatures[k, k + 1 :], strict=True):
                part.add_hessian(other, weights, 1.0, total)
        return (total + total.T)[:-1, :-1]

    def covariances(self, cholesky: np.ndarray, rows: Rows) -> np.ndarray:
        """Return the covariances of the predictors of rows if theta has the covariance LL', L = `cholesky`.

        Shape (rows, K, K).
        """
        spread = self.times(cholesky, rows)
        return np.einsum("krj,lrj->rkl", spread, spread, optimize=True)

    def _parts(self, rows: Rows) -> "list[_Part]":
        X = np.asarray(self.X[rows])
        codes = self.codes[rows]
        return [self._part(predictor, X, codes) for predictor in self.predictors]

    def _part(self, predictor: Predictor, X: np.ndarray, codes: np.ndarray) -> "_Part":
        first, last = predictor.codes
        n = len(X)
        width = last - first + len(predictor.shared)
        places = np.empty((n, width), dtype=np.int32)
        values = np.ones((n, width))
        places[:, : last - first] = codes[:, first:last]
        places[:, last - first :] = predictor.shared
        values[:, last - first :] = predictor.values
        for c in range(first, last):
            if self.weight_columns[c] >= 0:
                values[:, c - first] = X[:, self.weight_columns[c]]
            values[places[:, c - first] == self.dim, c - first] = 0.0
        starts = np.arange(n + 1, dtype=np.int32) * width
        sparse = csr_array((values.ravel(), places.ravel(), starts), shape=(n, self.dim + 1))
        return _Part(
            X[:, slice(*predictor.columns)], np.asarray(predictor.places, dtype=int), sparse if width else None
        )


def dense_design(X: np.ndarray) -> Design:
    """Return the design of the one predictor X theta."""
    n, p = X.shape
    return Design(p, X, np.empty((n, 0), dtype=np.int32), (), [Predictor((0, p), range(p))])


class _Part:
    """The design of one predictor for some rows: dense columns D, and all else as sparse rows S."""

    def __init__(self, dense: np.ndarray, places: np.ndarray, sparse: csr_array | None) -> None:
        self.dense = dense
        self.places = places
        self.sparse = sparse

    def times(self, extended: np.ndarray) -> np.ndarray:
        """Return (D + S) v, v = `extended` of length dim + 1 (or a matrix with such columns)."""
        product = self.dense @ extended[self.places]
        return product if self.sparse is None else product + self.sparse @ extended

    def norms(self, dim: int) -> np.ndarray:
        """Return the length of each row of D + S without its column `dim`, which holds offsets."""
        dense = self.dense[:, self.places < dim] if dim in self.places else self.dense
        squares = np.square(dense, dtype=np.float64).sum(axis=1)
        if self.sparse is None:
            return np.sqrt(squares)
        sparse = self.sparse[:, :dim]
        sparse.sum_duplicates()
        if not np.isin(self.places, sparse.indices).any():
            return np.sqrt(squares + sparse.power(2).sum(axis=1))
        whole = sparse.toarray()  # an entry of theta occurs in both parts
        np.add.at(whole.T, self.places[self.places < dim], dense.T)
        return np.linalg.norm(whole, axis=1)

    def add_gradient(self, weights: np.ndarray, total: np.ndarray) -> None:
        """Add (D + S)' w to `total`, w = `weights` (rows,)."""
        total[self.places] += weights @ self.dense
        if self.sparse is not None:
            total += weights @ self.sparse

    def add_hessian(self, other: "_Part", weights: np.ndarray, factor: float, total: np.ndarray) -> None:
        """Add `factor` times (D_1 + S_1)' W (D_2 + S_2) to `total`; 1 is this part, 2 `other`, W = diag(`weights`)."""
        weighted = self.dense * (factor * weights)[:, None]
        total[np.ix_(self.places, other.places)] += weighted.T @ other.dense
        if other.sparse is not None:
            total[self.places] += (other.sparse.T @ weighted).T
        if self.sparse is not None:
            scaled = self.sparse.T * (factor * weights)
            total[:, other.places] += scaled @ other.dense
            if other.sparse is not None:
                total += (scaled @ other.sparse).toarray()
