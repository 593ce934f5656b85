"""Choose the influential rows: those that can change a decision much, so that every step must read them.

Light rows are rows that a quadratic approximates well *wherever the chain may go*. The influential rows are the union
of three sets of other rows:

- *Variance.* As many of the heaviest rows, those with the largest standard deviation of the residual, as are needed to
  limit the standard deviation of the sum of all light residuals over draws of a pilot to `LARGEST_SPREAD`. The
  residuals of one rare category are correlated, so their sum is computed at each draw; the sum of their variances would
  be 5 to 40 times too small.
- *Walls.* A row that forbids a half-space has residual zero at every draw, because no draw is in that half-space. The
  rule above calls it light, but without it the chain would enter the half-space. So a row is also influential if
  its linear predictor varies so much under the posterior that the quadratic is wrong somewhere within reach.
- *Cost.* The heaviest rows, if reading them in every step costs less than sampling them among the light rows.
"""

from typing import Any

import numpy as np

from approxmcmc.errors import InvalidInputError
from approxmcmc.expansion.quadratic import Survey

LARGEST_SPREAD = 0.3  # sd over pilot draws of the sum of light residuals; an exact test then accepts >= 83 % of moves
LARGEST_SHARE = 1.0 / 3.0  # largest share of influential rows; more gain nothing
# Costs in one step, in reads in memory order: of an influential row, which a transition reads about 12 times; and of a
# light row that a test reads, at two states and at a random place in memory.
INFLUENTIAL_COST = 12.0
READ_COST = 4.0
FEWEST_READS = 64.0  # fewest reads of light rows
TOLERATED = 0.15  # standard deviation of the estimate of their sum at which reading ends
HEAVIEST = 8.0  # standard deviations from the mean; such a term is half of the standard deviation of a sum of 256 terms


def by_weight(spreads: np.ndarray) -> np.ndarray:
    """Return the rows in order of decreasing `spreads` (rows,), the standard deviations of residuals over draws."""
    return np.argsort(-spreads, kind="stable")


def rows_that_vary(seen: Survey, largest: float) -> np.ndarray:
    """Return the heaviest rows, so many that the sum of all other residuals has at most the sd `largest`.

    Booleans (rows,). The standard deviation of a sum is at most the sum of the standard deviations, so the residuals
    of the lightest rows are not evaluated one by one; with 10^7 light rows, none is evaluated.
    """
    left = seen.left
    nothing = np.zeros(len(seen.walls), dtype=bool)
    if left is None or seen.spreads is None or seen.residuals_of is None:  # light by their bounds
        return nothing
    together = largest / np.sqrt(len(left) / (len(left) - 1.0))
    if seen.deviations <= together:
        return nothing
    spreads = seen.spreads()
    order = by_weight(spreads)
    n_light = int(np.searchsorted(np.cumsum(spreads[order[::-1]]), together, side="right"))
    heavy = order[: len(order) - n_light]
    residuals = seen.residuals_of(heavy)
    residuals = residuals - residuals.mean(axis=1, keepdims=True)
    tails = (left - left.mean() - residuals.sum(axis=0)) + np.cumsum(residuals[::-1], axis=0)[::-1]
    too_large = np.flatnonzero(~(tails.std(axis=1, ddof=1) <= largest))
    return _mask(heavy[: too_large[-1] + 1 if too_large.size else 0], len(spreads))


def rows_that_pay(seen: Survey) -> np.ndarray:
    """Return the rows that cost less if every step reads them than if a test samples them; booleans (rows,)."""
    n_rows = len(seen.walls)
    total = seen.variances

    def reads(n_light: np.ndarray, variance: np.ndarray) -> np.ndarray:
        n_reads = np.maximum(FEWEST_READS * (n_light > 0), 2.0 * n_light * variance / TOLERATED**2)
        return np.minimum(n_reads, n_rows)

    nothing = READ_COST * float(reads(np.array(n_rows), np.array(total)))
    largest = int((nothing - READ_COST * min(FEWEST_READS, n_rows)) / INFLUENTIAL_COST)  # more rows cost more than none
    most = min(max(largest, 0), n_rows)
    if most == 0 or seen.spreads is None:
        return np.zeros(n_rows, dtype=bool)
    spreads = seen.spreads()
    order = by_weight(spreads)[:most]
    k = np.arange(most + 1)
    tails = np.maximum(total - np.append(0.0, np.cumsum(np.square(spreads[order]))), 0.0)
    return _mask(order[: np.argmin(INFLUENTIAL_COST * k + READ_COST * reads(n_rows - k, tails))], n_rows)


def rows_far_out(terms: np.ndarray) -> np.ndarray:
    """Return the fewest rows such that no other row's terms change by over `HEAVIEST` standard deviations.

    `terms` has shape (rows, draws). A change is the difference between successive draws, less the mean over rows, as a
    root mean square over draws; the standard deviation is that of the other rows. Booleans (rows,).
    """
    differences = np.diff(terms, axis=1)
    size = np.sqrt(np.square(differences - differences.mean(axis=0)).mean(axis=1))
    order = np.argsort(-size, kind="stable")
    squares = np.cumsum(np.square(size[order])[::-1])[::-1] / np.arange(len(size), 0, -1)
    inside = size[order] <= HEAVIEST * np.sqrt(squares)
    return _mask(order[: int(np.argmax(inside))], len(size))


def _mask(rows: np.ndarray, n_rows: int) -> np.ndarray:
    chosen = np.zeros(n_rows, dtype=bool)
    chosen[rows] = True
    return chosen


def rows_named(always_read: Any, n_rows: int) -> np.ndarray:
    """Return which rows the user's `always_read` names, by indices or booleans; booleans (rows,). Raise otherwise."""
    named = np.asarray(always_read)
    is_read = np.zeros(n_rows, dtype=bool)
    if named.dtype == bool and named.shape == (n_rows,):
        is_read = named.copy()
    elif named.ndim == 1 and (named.size == 0 or np.issubdtype(named.dtype, np.integer)):
        if named.size and not (named.min() >= 0 and named.max() < n_rows):
            raise InvalidInputError(
                f"ControlVariate: always_read must name rows from 0 to {n_rows - 1}, found {named.min()} ... "
                f"{named.max()}"
            )
        is_read[named.astype(np.int64)] = True
    else:
        raise InvalidInputError(
            f'ControlVariate: always_read must be None, "auto", the indices of the rows, or {n_rows} booleans, found '
            f"{always_read!r}"
        )
    if is_read.all():
        raise InvalidInputError("ControlVariate: at least one row must be light; to read all rows use ExactTest")
    return is_read
