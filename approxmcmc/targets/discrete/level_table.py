"""Exact answers from a table of levels: every value of s(y) that occurs, and the number of data that have it."""

import math
from typing import NamedTuple

import numpy as np

from approxmcmc.contracts import COUNT_NAMES, Simulator
from approxmcmc.engine.compile import compiled
from approxmcmc.engine.vectors import assign, equal

UPDATES = COUNT_NAMES.index("auxiliary_updates")
STATISTICS = COUNT_NAMES.index("statistic_evaluations")


class LevelTable(NamedTuple):
    """The law of s(y): f(s | theta) proportional to exp(log_count + theta's).

    `levels` holds the values of s, float64 (L, dim); `log_counts` the log numbers of data, (L,); `n_sites` how many
    sites or dyads one datum has.
    """

    levels: np.ndarray
    log_counts: np.ndarray
    n_sites: int

    def log_normalizers(self, thetas: np.ndarray) -> np.ndarray:
        """Return log Z of each row of `thetas`, shape (n, dim)."""
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
        """Return the simulator that draws s(y) by inversion; the weights of one theta are kept."""
        n_levels, dim = self.levels.shape
        params = (self.levels, self.log_counts, self.n_sites)
        return Simulator(
            draw_level, params, lambda: (np.empty(n_levels), np.full(dim, math.nan)), exact=True
        )  # fmt: skip


def draw_level(rng, theta, params, state, statistics, count):  # type: ignore[no-untyped-def]  # bound into chains
    """Draw a level exactly, and write it."""
    levels, log_counts, n_sites = params
    cumulative, last = state
    if not equal(last, theta):
        accumulate(levels, log_counts, theta, cumulative)
        assign(last, theta)
    u = rng.random() * cumulative[-1]
    low, high = 0, cumulative.shape[0] - 1
    while low < high:  # the first level whose cumulated weight exceeds u
        middle = (low + high) // 2
        if cumulative[middle] > u:
            high = middle
        else:
            low = middle + 1
    assign(statistics, levels[low])
    count[UPDATES] += n_sites
    count[STATISTICS] += 1


@compiled
def accumulate(levels, log_counts, theta, cumulative):  # type: ignore[no-untyped-def]  # a kernel helper
    """Write the cumulated weights of the levels at theta, the largest single weight 1."""
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
