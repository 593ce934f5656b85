"""Draw rows by upper bounds of given weights, with four bytes for each row.

Rows are sorted into classes, each an interval of weights 9 % wide, and the bound of a row is the upper edge of its
class. A draw picks a class by the sum of its bounds, from an alias table of about a hundred slots, then one of its rows
uniformly. Thinning by bounds tolerates slightly too large ones; an alias table of all rows would take 32 bytes for
each, a fifth of a row of 20 columns, and its set-up three times that.
"""

import math
from typing import NamedTuple

import numpy as np

from approxmcmc.engine.compiler.compile import compiled
from approxmcmc.engine.files.grown_arrays import followed_by
from approxmcmc.engine.terms.alias_table import alias_table

STEPS = 8  # classes per factor of two: bounds are 4 % too large on average
SMALLEST = 1e-12  # smallest weight that counts, as a share of the largest
ROUNDING = 1e-12  # relative error of a logarithm and a power
CLASSES = 1 + math.floor(-STEPS * math.log2(SMALLEST))
PIECE = 1 << 16  # weights whose logarithms are taken at a time


class RowClasses(NamedTuple):
    """Rows by classes: `table` (classes, 4) is the alias table of the classes, by the sums of their bounds.

    `bounds` (classes,) are the bounds, the rows of class k are ``rows[starts[k]:starts[k + 1]]``, and `total` is the
    sum of the bounds of all rows.
    """

    table: np.ndarray
    bounds: np.ndarray
    starts: np.ndarray
    rows: np.ndarray
    total: float


def row_classes(weights: np.ndarray) -> RowClasses:
    """Return the classes of rows with the positive weights `weights`, shape (rows,).

    Examples
    --------
    >>> found = row_classes(np.array([1.0, 100.0, 1.01, 99.0]))
    >>> found.rows.tolist(), bool(found.total < 1.1 * 201)
    ([0, 2, 1, 3], True)
    """
    top = max(float(weights.max()), SMALLEST)
    classes = np.concatenate([_classes(weights[lo : lo + PIECE], top) for lo in range(0, len(weights), PIECE)])
    rows = np.argsort(classes, kind="stable").astype(np.int32 if len(weights) < 1 << 31 else np.int64)
    counts = np.bincount(classes, minlength=CLASSES)
    starts = np.cumsum(counts) - counts
    bounds = top * 2.0 ** (-np.arange(CLASSES) / STEPS) * (1.0 + ROUNDING)
    nonempty = np.flatnonzero(counts)
    sums = bounds[nonempty] * counts[nonempty]
    ends = np.append(starts[nonempty], len(weights))
    return RowClasses(alias_table(sums), bounds[nonempty], ends, rows, float(sums.sum()))


def known_classes(bounds: np.ndarray, starts: np.ndarray, rows: np.ndarray) -> RowClasses:
    """Return the classes with these bounds, starts and rows, as they were stored; no row is looked at."""
    sums = bounds * np.diff(starts)
    return RowClasses(alias_table(sums), bounds, starts, rows, float(sums.sum()))


def with_more_rows(classes: RowClasses, weights: np.ndarray) -> RowClasses:
    """Return `classes` extended by the classes of more rows behind them, with the positive weights `weights`.

    The new rows get classes of their own, so that no old row moves: a few hundred slots more for each call.

    Examples
    --------
    >>> found = with_more_rows(row_classes(np.array([1.0, 2.0])), np.array([1.0]))
    >>> found.rows.tolist(), len(found.bounds)
    ([1, 0, 2], 3)
    """
    more = row_classes(weights)
    n = len(classes.rows)
    bounds = np.concatenate([classes.bounds, more.bounds])
    starts = np.concatenate([classes.starts[:-1], n + more.starts])
    fits = n + len(more.rows) < 1 << 31 or classes.rows.dtype == np.int64
    rows = followed_by(classes.rows if fits else classes.rows.astype(np.int64), n + more.rows.astype(np.int64))
    return known_classes(bounds, starts, rows)


def _classes(weights: np.ndarray, top: float) -> np.ndarray:
    """Return the class of each weight: 0 for weights near `top`, the last for all of at most ``SMALLEST * top``."""
    relative = np.maximum(np.asarray(weights, np.float64) / top, SMALLEST)
    return (-STEPS * np.log2(relative)).astype(np.int16)


@compiled
def draw_rows_by_class(
    rng: np.random.Generator, classes: RowClasses, count: int, rows: np.ndarray, bounds: np.ndarray
) -> None:
    """Draw `count` rows, independently with replacement; write their indices to `rows`, their bounds to `bounds`."""
    n = classes.table.shape[0]
    for j in range(count):
        slot = int(rng.random() * n)
        k = slot if rng.random() < classes.table[slot, 0] else int(classes.table[slot, 2])
        first = classes.starts[k]
        rows[j] = classes.rows[first + int(rng.random() * (classes.starts[k + 1] - first))]
        bounds[j] = classes.bounds[k]
