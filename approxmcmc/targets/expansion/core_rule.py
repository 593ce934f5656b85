"""Which rows can matter much: the core, which is always read.

Light rows are those that a quadratic replaces well *wherever the chain may go*. Two sets must be read, and their union
is the core:

- *Variance.* Over draws of a pilot the residuals of all light rows together vary by at most `LARGEST_SPREAD`. The rows
  of one rare category add up coherently: cumulated draws show it, independent variances are 5 to 40 times too small.
- *Walls.* A row that forbids a half-space has residual zero on every draw, because no draw is ever there; the rule
  above calls it light, and without it the chain walks through the wall. So a row belongs to the core wherever its
  linear predictor varies so much under the posterior that the quadratic may be wrong somewhere.
"""

import numpy as np

LARGEST_SPREAD = 0.3  # sd of the sum of the light residuals over pilot draws: then stage two accepts .83 at least
LARGEST_SHARE = 1.0 / 3.0  # of the rows; a larger core is no gain
# What a row costs in the core (passes over it in a transition), beside a light row that is read (twice, at random).
CORE_COST, READ_COST = 12.0, 4.0
FEWEST_READS, TOLERATED = 64.0, 0.15  # reads until the standard error of the light sum is this
HEAVIEST = 8.0  # a term that lies further out, in standard deviations, outweighs half of the spread of 256 terms


def by_weight(residuals: np.ndarray) -> np.ndarray:
    """Return the rows, the one whose residuals (rows, draws) vary most first."""
    return np.argsort(-residuals.var(axis=1), kind="stable")


def spread_without(residuals: np.ndarray, order: np.ndarray) -> np.ndarray:
    """Return for k = 0 ... N the sd over draws of the sum of all residuals but those of the first k rows of `order`."""
    tails = np.cumsum(residuals[order][::-1], axis=0)[::-1]
    return np.append(tails.std(axis=1, ddof=1), 0.0)


def rows_that_vary(residuals: np.ndarray, largest: float) -> np.ndarray:
    """Return the fewest rows without which the sum of the residuals varies by at most `largest`; booleans (rows,)."""
    order = by_weight(residuals)
    too_large = np.flatnonzero(spread_without(residuals, order) > largest)
    return _mask(order[: too_large[-1] + 1 if too_large.size else 0], len(residuals))


def rows_that_pay(residuals: np.ndarray) -> np.ndarray:
    """Return the rows that are cheaper to read always than to leave to a test that samples light rows."""
    order, n_rows = by_weight(residuals), len(residuals)
    k = np.arange(n_rows + 1)
    tails = np.append(np.cumsum(residuals.var(axis=1)[order][::-1])[::-1], 0.0)
    reads = np.maximum(FEWEST_READS * (k < n_rows), 2.0 * (n_rows - k) * tails / TOLERATED**2)
    return _mask(order[: np.argmin(CORE_COST * k + READ_COST * np.minimum(reads, n_rows))], n_rows)


def rows_far_out(terms: np.ndarray) -> np.ndarray:
    """Return the fewest rows without which no row's differences between draws lie `HEAVIEST` sd from the mean."""
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
