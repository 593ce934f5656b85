r"""The Cholesky factor of a sparse matrix with many parameters that do not interact with each other.

Given the others, the effects of one factor of a crossed or nested model are independent. With these parameters
(`inner`) first, a precision is bordered diagonal, and so is its factor:

.. math:: P = \begin{pmatrix} D & B \\ B' & C \end{pmatrix} = G G', \qquad
          G = \begin{pmatrix} D^{1/2} & 0 \\ B' D^{-1/2} & \Lambda \end{pmatrix}, \qquad
          \Lambda \Lambda' = C - B' D^{-1} B .

Solving with G takes one multiply-add for each number of B that is not 0, and half the square of the number of other
parameters (Golub and Van Loan 2013, section 4.2). A general sparse factorisation would save little more, because the
Schur complement of crossed effects is full; and kernels need solves in place, without calls of a library.
"""

from typing import NamedTuple

import numpy as np

from approxmcmc.engine.compiler.compile import compiled

# Least saving: multiply-adds of a product with the dense factor, over those with the sparse one.
WORTHWHILE = 2.0


class SparseFactor(NamedTuple):
    """G. `inner` and `rest` are indices of parameters, `roots` the diagonal of D^1/2, and `upper` is Lambda'.

    Row k of D^-1/2 B has the numbers ``values[starts[k] : starts[k + 1]]`` at the parameters ``columns`` of that range.
    """

    inner: np.ndarray
    roots: np.ndarray
    starts: np.ndarray
    columns: np.ndarray
    values: np.ndarray
    rest: np.ndarray
    upper: np.ndarray

    @property
    def numbers(self) -> float:
        """Numbers that a product with G and G' reads, where a dense factor has dim^2."""
        return 2.0 * self.values.size + float(self.rest.size) ** 2


_NO_INDEX = np.empty(0, dtype=np.int64)
_NO_NUMBER = np.empty(0)
NO_FACTOR = SparseFactor(_NO_INDEX, _NO_NUMBER, _NO_INDEX, _NO_INDEX, _NO_NUMBER, _NO_INDEX, np.empty((0, 0)))


def independent_set(linked: np.ndarray) -> np.ndarray:
    """Return indices of parameters of which no two are linked, in increasing order; `linked` is (dim, dim), bool.

    Parameters with few links are chosen first.
    """
    free = np.ones(len(linked), dtype=bool)
    inner = []
    for k in np.argsort(linked.sum(axis=0), kind="stable"):
        if free[k]:
            inner.append(k)
            free[linked[k]] = False
    return np.array(sorted(inner), dtype=np.int64)


def sparse_factor(precision: np.ndarray) -> SparseFactor | None:
    """Return the sparse factor of a positive definite matrix (dim, dim), or None if it would save little.

    Raises `numpy.linalg.LinAlgError` if the matrix is not positive definite.

    Examples
    --------
    >>> P = np.eye(9) + 0.1 * np.outer(np.arange(9) == 8, np.ones(9))
    >>> G = sparse_factor(P + P.T)  # an arrow: the last parameter is linked to all
    >>> G.inner, G.rest
    (array([0, 1, 2, 3, 4, 5, 6, 7]), array([8]))
    """
    dim = len(precision)
    inner = independent_set(precision != 0.0)
    rest = np.setdiff1d(np.arange(dim), inner)
    border = precision[np.ix_(inner, rest)]
    if WORTHWHILE * (2.0 * np.count_nonzero(border) + rest.size**2 + 2.0 * dim) > dim**2:
        return None
    if not (np.diag(precision) > 0.0).all():
        raise np.linalg.LinAlgError("the diagonal must be positive")
    roots = np.sqrt(np.diag(precision)[inner])
    border /= roots[:, None]
    rows, columns = np.nonzero(border)
    complement = precision[np.ix_(rest, rest)] - border.T @ border
    starts = np.searchsorted(rows, np.arange(inner.size + 1))
    upper = np.ascontiguousarray(np.linalg.cholesky(complement).T)
    return SparseFactor(inner, roots, starts, rest[columns], border[rows, columns], rest, upper)


@compiled
def solve(factor: SparseFactor, x: np.ndarray) -> None:
    """Replace x by G^-1 x."""
    # Forward substitution by columns of G: D^1/2 with B' D^-1/2 below it, then Lambda.
    for k in range(factor.inner.shape[0]):
        value = x[factor.inner[k]] / factor.roots[k]
        x[factor.inner[k]] = value
        for place in range(factor.starts[k], factor.starts[k + 1]):
            x[factor.columns[place]] -= factor.values[place] * value
    for j in range(factor.rest.shape[0]):
        row = factor.upper[j]
        value = x[factor.rest[j]] / row[j]
        x[factor.rest[j]] = value
        for i in range(j + 1, factor.rest.shape[0]):
            x[factor.rest[i]] -= row[i] * value


@compiled
def solve_transposed(factor: SparseFactor, x: np.ndarray) -> None:
    """Replace x by G'^-1 x, which has the covariance P^-1 if x has the covariance I."""
    # Backward substitution by rows of G': Lambda' first, because the inner parameters need the rest.
    for j in range(factor.rest.shape[0] - 1, -1, -1):
        row = factor.upper[j]
        value = x[factor.rest[j]]
        for i in range(j + 1, factor.rest.shape[0]):
            value -= row[i] * x[factor.rest[i]]
        x[factor.rest[j]] = value / row[j]
    for k in range(factor.inner.shape[0]):
        value = x[factor.inner[k]]
        for place in range(factor.starts[k], factor.starts[k + 1]):
            value -= factor.values[place] * x[factor.columns[place]]
        x[factor.inner[k]] = value / factor.roots[k]
