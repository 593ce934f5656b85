"""A doubly intractable posterior on a grid of theta, with the number of data sets for each value of the statistics."""

from typing import Any, NamedTuple

import numpy as np

from approxmcmc.contracts import DoublyIntractableTarget
from approxmcmc.errors import IncompatibleError


class LawOfStatistics(NamedTuple):
    """The distribution of s(y') given theta at n points: P(s(y') = value | theta), shape (n, k), and log Z(theta)."""

    probabilities: np.ndarray
    log_z: np.ndarray


class CountedModel(NamedTuple):
    """A doubly intractable posterior on a grid of theta, with the number of data sets for each value of the statistics.

    `points` (n, dim); `log_prior` (n,); `observed`, s(y), (dim,); `statistics`, every value of s, (k, dim);
    `log_counts`, log of the number of data sets with each, (k,).
    """

    points: np.ndarray
    log_prior: np.ndarray
    observed: np.ndarray
    statistics: np.ndarray
    log_counts: np.ndarray

    def law_of_statistics(self) -> LawOfStatistics:
        """Return the distribution of s(y') at each point."""
        from scipy.special import logsumexp

        tilted = self.points @ self.statistics.T + self.log_counts
        log_z = logsumexp(tilted, axis=1)
        return LawOfStatistics(np.exp(tilted - log_z[:, None]), log_z)

    def log_density(self) -> np.ndarray:
        """Return the log posterior density at the points, up to a constant; shape (n,)."""
        return np.asarray(self.points @ self.observed + self.log_prior - self.law_of_statistics().log_z)


def counted_model(target: Any, points: np.ndarray) -> CountedModel:
    """Return the target on the grid `points` (n, dim); raise IncompatibleError if its statistics cannot be counted."""
    counts = target.statistic_counts() if isinstance(target, DoublyIntractableTarget) else None
    if counts is None:
        raise IncompatibleError(
            "exact computations on a posterior with an unknown normaliser need the number of data sets for each value "
            f"of the statistic, known for Ising lattices with a shorter side of at most 12; found {target!r}"
        )
    statistics, log_counts = counts
    log_prior = target.compile_log_prior()
    observed = np.asarray(target.observed_statistics, dtype=np.float64)
    return CountedModel(points, np.array([log_prior(point) for point in points]), observed, statistics, log_counts)
