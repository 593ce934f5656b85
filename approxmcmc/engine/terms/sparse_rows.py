"""Store rows that differ from one common row in few columns, such as those of designs with one-hot categories.

    x_i' theta = b' theta + sum_{j: x_ij != b_j} (x_ij - b_j) theta_j,

where b is the common row. A row is stored as its differences and their columns, padded to the length of the longest, so
that rows can be copied and shuffled like those of any array. It makes no difference whether columns are standardised.
Apart from rounding, predictors are unchanged.
"""

import numpy as np

from approxmcmc.engine.compiler.compile import BATCH_FASTMATH, compiled
from approxmcmc.engine.terms.batches import datum_at

# Largest share of the columns in which a row may differ from the common one. A stored difference costs two numbers and
# an indirect load. Sparse rows took, in units of the time of dense ones and by the largest number of differences in a
# row: .13 with 18 differences in 124 columns (a9a), .19 with 25 in 117 (KDD99, one-hot), .56 with 12 in 54 (Covertype),
# 1.5 with 23 in 40 (KDD99, shares).
LARGEST_SHARE = 0.25
SAMPLE_SIZE = 1001  # rows whose medians give the common row; odd, so that a median is a value of the column
ROWS_PER_BLOCK = 8192  # rows compared at a time


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
    n_sampled = min(n, SAMPLE_SIZE) // 2 * 2 + 1  # odd: if n is even and small, one row counts twice
    sample = X[np.linspace(0, n - 1, n_sampled).astype(np.int64)]
    # Any base gives the right sum; with each column's most common value few differences are stored.
    base = np.median(sample, axis=0).astype(np.float64)
    blocks = [slice(lo, lo + ROWS_PER_BLOCK) for lo in range(0, n, ROWS_PER_BLOCK)]
    most_differences = max(int((X[block] != base).sum(axis=1).max()) for block in blocks)
    width = max(1, most_differences)  # arrays for kernels have at least one column
    if width > LARGEST_SHARE * d:
        return None
    values = np.zeros((n, width))
    columns = np.zeros((n, width), dtype=np.int32)
    for block in blocks:
        rows, differing_columns = np.nonzero(X[block] != base)
        rank_in_row = np.arange(len(rows)) - np.searchsorted(rows, rows)  # a row's differences, counted from 0
        values[block][rows, rank_in_row] = X[block][rows, differing_columns] - base[differing_columns]
        columns[block][rows, rank_in_row] = differing_columns
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
        columns_of_entries = columns[datum]
        eta = 0.0
        for k in range(entries.shape[0]):
            eta += entries[k] * theta[columns_of_entries[k]]
        out[position - lo] = common + eta
