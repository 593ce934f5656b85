"""A doubly intractable target small enough to be known in full: f(s | theta) = count_s exp(theta s) / Z(theta).

The data are one of finitely many values s, each with a multiplicity count_s; the target replaces a lattice, whose
likelihood depends on s(y) alone. Draws are exact, by inversion of one uniform number each.
"""

import functools
import math
from typing import NamedTuple

import numpy as np

from approxmcmc.contracts import COUNT_NAMES, DoublyIntractableTarget, Simulator, Variables, content_hash
from approxmcmc.engine.compiler.compile import bind, compiled
from approxmcmc.engine.terms.batches import LOG_PRIOR, prior_kernel

UPDATES = COUNT_NAMES.index("auxiliary_updates")
STATISTICS = COUNT_NAMES.index("statistic_evaluations")
# Lattices of 4 x 4 spins by the sum over pairs of neighbours.
ISING_4X4 = {0: 11472, 2: 9984, 4: 7344, 6: 4928, 8: 2638, 10: 1216, 12: 584, 14: 224, 16: 72, 18: 32, 20: 8, 24: 2}


class InversionState(NamedTuple):
    """The values of s, the logs of their multiplicities, and scratch."""

    values: np.ndarray
    log_counts: np.ndarray
    weights: np.ndarray


@compiled
def by_inversion(rng, theta, state, statistics, count):
    """Draw s with probability proportional to exp(log_count_s + theta s)."""
    values, log_counts, weights = state
    total = 0.0
    for k in range(values.shape[0]):
        weights[k] = math.exp(log_counts[k] + theta[0] * values[k])
        total += weights[k]
    left = rng.random() * total
    k = 0
    while k < values.shape[0] - 1 and left >= weights[k]:
        left -= weights[k]
        k += 1
    statistics[0] = values[k]
    count[UPDATES] += 16
    count[STATISTICS] += 1


def make_normal_log_prior(precision):
    def log_prior(theta):
        return -0.5 * precision * theta[0] * theta[0]

    return log_prior


def _uniform_log_prior(theta):
    return 0.0 if -0.4 <= theta[0] <= 0.8 else -math.inf


class Family(DoublyIntractableTarget):
    """The posterior of theta given s, with prior N(0, 1/precision), or U(-0.4, 0.8) where the precision is None."""

    n_obs = 1
    variables = Variables({"theta": ()})

    def __init__(self, values, counts, observed, precision=None, simulate=by_inversion, knows_normalizer=True):
        self.values, self.log_counts = np.array(values, float), np.log(np.array(counts, float))
        self._observed_statistics = np.array([float(observed)])
        self.precision, self.simulate, self.knows_normalizer = precision, simulate, knows_normalizer

    @property
    def observed_statistics(self):
        return self._observed_statistics

    def compile_log_prior(self):
        if self.precision is None:
            return prior_kernel(_uniform_log_prior)
        return bind(make_normal_log_prior, self.precision, signature=LOG_PRIOR.signature)

    def build_simulator(self, auxiliary):
        weights = np.empty_like(self.values)
        return Simulator(
            self.simulate, lambda: InversionState(self.values, self.log_counts, weights.copy()), exact=True
        )

    def log_normalizer(self, theta):
        return float(self.log_z(theta[0])) if self.knows_normalizer else None

    def log_densities(self, thetas):
        return self.log_posterior(thetas[:, 0])

    def log_z(self, theta):
        exponents = self.log_counts + np.multiply.outer(theta, self.values)
        largest = exponents.max(axis=-1)
        return largest + np.log(np.exp(exponents - largest[..., None]).sum(axis=-1))

    def law(self, theta):
        """Return f(s | theta); shape (..., number of values)."""
        return np.exp(self.log_counts + np.multiply.outer(theta, self.values) - self.log_z(theta)[..., None])

    def log_posterior(self, theta):
        prior = 0.0 if self.precision is None else -0.5 * self.precision * theta**2
        return prior + theta * self.observed_statistics[0] - self.log_z(theta)

    def initial_point(self):
        return np.array([0.2])

    def draw_start(self, rng):
        return rng.uniform(-0.2, 0.6, size=1)

    def content_hash(self):
        return content_hash("family", self.precision or 0.0, self.values, self.log_counts, self.observed_statistics)

    def compile(self):
        raise NotImplementedError


@functools.cache
def ising_4x4():
    """Return the posterior given 4 x 4 spins with s = 12, prior U(-0.4, 0.8)."""
    counts = {**ISING_4X4, **{-s: n for s, n in ISING_4X4.items()}}
    return Family(sorted(counts), [counts[s] for s in sorted(counts)], observed=12)


@functools.cache
def five_values():
    """Return the posterior given y = 3 of {0, ..., 4}, prior N(0, 4)."""
    return Family(range(5), np.ones(5), observed=3, precision=0.25)
