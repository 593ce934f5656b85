"""Exact answers from a table of levels: every value of s(y) that occurs, and the number of data sets y that have it."""

import math
from typing import NamedTuple

import numpy as np

from approxmcmc.contracts import Simulator
from approxmcmc.contracts.records import STATISTICS, UPDATES
from approxmcmc.engine.compiler.compile import compiled
from approxmcmc.engine.compiler.vectors import assign, equal


class LevelTable(NamedTuple):
    """The distribution of s(y): f(s | theta) is proportional to exp(log_count + theta's).

    `levels` holds the values of s, float64 (L, dim); `log_counts` the log of the number of data sets y with each value,
    (L,); `n_sites` how many sites or dyads one data set has.
    """

    levels: np.ndarray
    log_counts: np.ndarray
    n_sites: int

    def log_normalizers(self, thetas: np.ndarray) -> np.ndarray:
        """Return log Z at each row of `thetas` (n, dim); shape (n,)."""
        log_weights = self.log_counts + thetas @ self.levels.T
        largest = log_weights.max(axis=1)
        return np.asarray(largest + np.log(np.exp(log_weights - largest[:, np.newaxis]).sum(axis=1)))

    def moments(self, theta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return mean (dim,) and covariance (dim, dim) of s(y) at theta."""
        probability = np.exp(self.log_counts + self.levels @ theta - self.log_normalizers(theta[np.newaxis]))
        mean = probability @ self.levels
        centred = self.levels - mean
        return mean, centred.T @ (probability[:, np.newaxis] * centred)

    def simulator(self) -> Simulator:
        """Return the simulator that draws s(y) by inversion; its state keeps the weights of the levels at one theta."""
        n_levels, dim = self.levels.shape
        return Simulator(draw_level, lambda: LevelState(self, np.empty(n_levels), np.full(dim, math.nan)), exact=True)


class LevelState(NamedTuple):
    """A table, and the cumulated weights of the levels at `theta`, the last one at which a level was drawn."""

    table: LevelTable
    cumulative: np.ndarray
    theta: np.ndarray


@compiled
def draw_level(
    rng: np.random.Generator, theta: np.ndarray, state: LevelState, statistics: np.ndarray, count: np.ndarray
) -> None:
    """Draw a value of s(y) at theta exactly, write it to `statistics`, and add the cost to `count`."""
    table = state.table
    cumulative = state.cumulative
    if not equal(state.theta, theta):
        accumulate(table, theta, cumulative)
        assign(state.theta, theta)
    u = rng.random() * cumulative[-1]
    low = 0
    high = cumulative.shape[0] - 1
    while low < high:  # the first level whose cumulated weight exceeds u
        middle = (low + high) // 2
        if cumulative[middle] > u:
            high = middle
        else:
            low = middle + 1
    assign(statistics, table.levels[low])
    count[UPDATES] += table.n_sites
    count[STATISTICS] += 1


@compiled
def accumulate(table: LevelTable, theta: np.ndarray, cumulative: np.ndarray) -> None:
    """Write the cumulated weights of the levels at theta to `cumulative`, scaled so that the largest weight is 1."""
    levels = table.levels
    log_counts = table.log_counts
    largest = -math.inf
    for level in range(levels.shape[0]):
        log_weight = log_counts[level]
        for k in range(theta.shape[0]):
            log_weight += theta[k] * levels[level, k]
        cumulative[level] = log_weight
        largest = max(largest, log_weight)
    total = 0.0
    for level in range(levels.shape[0]):
        total += math.exp(cumulative[level] - largest)
        cumulative[level] = total
