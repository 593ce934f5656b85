"""Store rows that differ from one common row in few columns, such as those of designs with one-hot categories.

    x_i' theta = b' theta + sum_{j: x_ij != b_j} (x_ij - b_j) theta_j,

where b is the common row. A row is stored as its differences and their columns, padded to the length of the longest, so
that rows can be copied and shuffled like those of any array. It makes no difference whether columns are standardised.
Apart from rounding, predictors are unchanged.
"""

import numpy as np

from approxmcmc.engine.compiler.compile import BATCH_FASTMATH, compiled
from approxmcmc.engine.terms.batches import datum_at

# A stored difference costs two numbers and a gather. Measured ratios of sparse to dense time, where the row with the
# most differences has 18 in 124 columns: .13 (a9a); 25 in 117: .19 (KDD99, one-hot); 12 in 54: .56 (Covertype); 23 in
# 40: 1.5 (KDD99, shares).
LARGEST_SHARE = 0.25  # of the columns, in the row with the most differences
LOOKED_AT = 1001  # rows whose medians give the common row; odd, so that a median is a value of the column
PIECE = 8192  # rows compared at a time


def sparse_rows(X: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray] | None:
    """Return the rows as differences from a common one; None if a row differs in more than a quarter of the columns.

    Parameters
    ----------
    X
        Shape (n, d).

    Returns
    -------
    base, values, columns
        The common row (1, d), differences (n, k), and their columns (n, k), int32; a row with fewer than k differences
        is padded with zeros.
    """
    n, d = X.shape
    sample = X[np.linspace(0, n - 1, min(n, LOOKED_AT) // 2 * 2 + 1).astype(np.int64)]
    base = np.median(sample, axis=0).astype(
        np.float64
    )  # any base gives the right sum; with each column's most common value few differences are stored
    pieces = [slice(lo, lo + PIECE) for lo in range(0, n, PIECE)]
    width = max(1, *(int((X[piece] != base).sum(axis=1).max()) for piece in pieces))  # at least one column
    if width > LARGEST_SHARE * d:
        return None
    values = np.zeros((n, width))
    columns = np.zeros((n, width), dtype=np.int32)
    for piece in pieces:
        rows, which = np.nonzero(X[piece] != base)
        places = np.arange(len(rows)) - np.searchsorted(rows, rows)  # a row's differences, counted from 0
        values[piece][rows, places] = X[piece][rows, which] - base[which]
        columns[piece][rows, places] = which
    return base[None, :], values, columns


@compiled(fastmath=set(BATCH_FASTMATH))
def sparse_predictor(
    theta: np.ndarray,
    base: np.ndarray,
    values: np.ndarray,
    columns: np.ndarray,
    order: np.ndarray,
    lo: int,
    hi: int,
    out: np.ndarray,
) -> None:
    """Write x_i' theta to ``out[:hi - lo]`` for i in ``order[lo:hi]``, or i = lo ... hi - 1 if the order is empty.

    `base`, `values` and `columns` are the result of `sparse_rows`.
    """
    common = 0.0
    for j in range(theta.shape[0]):
        common += base[0, j] * theta[j]
    for position in range(lo, hi):
        datum = datum_at(order, position)
        entries = values[datum]
        where = columns[datum]
        eta = 0.0
        for k in range(entries.shape[0]):
            eta += entries[k] * theta[where[k]]
        out[position - lo] = common + eta
