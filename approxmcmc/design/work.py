"""Seconds of counted work, from which all costs of the choice are computed: independent of clock and cache.

    seconds = operations x OPERATION + bytes x BYTE + multiply-adds of matrices x PRODUCT + steps x STEP + ...

The constants are those of one core of a server (AMD EPYC, 2.x GHz, AVX2), most with how they were measured; on another
processor all of them change by a similar factor, so the cheapest candidate rarely changes. The compilation of a new
model is counted by a table. Code that is compiled once per machine counts as free, even if it is not yet compiled.
"""

from typing import NamedTuple

import numpy as np

from approxmcmc.audits.policy import FEWEST_OF_PILOT, LEAST
from approxmcmc.audits.steps import FEW_ROWS
from approxmcmc.contracts import Target, TermWork
from approxmcmc.contracts.records import (
    COUNT_NAMES,
    ENOUGH_AUDITS,
    EVALUATIONS,
    GRADIENTS,
    STATISTICS,
    TOUCHED,
    UPDATES,
)

# Seconds of a scalar operation (`operations`): terms of logistic regressions, 10 and 50 columns, took .17 and .13 ns
# for each; users' loops .3; PyTensor's graphs and their gradients .22 to .29.
OPERATION = {
    "library": 0.15e-9, "groups": 0.15e-9, "python": 0.3e-9, "predictor": 0.25e-9, "graph": 0.25e-9, "matrices": 0.25e-9
}  # fmt: skip
# Seconds to read a byte: the extra time for a row of 50 columns if there are 1e5 rows, more than the cache holds, not
# 1e4.
BYTE = 0.012e-9
PRODUCT = 0.4e-9  # seconds of a multiply-add with a matrix that a step reads
STEP = 1.0e-6  # seconds of a step that reads nothing
NUMBER = 15e-9  # seconds of a coordinate in a step: a normal variate, and the copies of theta
# A residual (a term less its expansion) takes 2.5 terms and, if rows are read at random, 50 ns; an influential row on a
# line 2 ns; a transition with its decision 5 us. This count gives 312 us per transition on Covertype and 1180 on a9a;
# measured are 329 and 1325.
RESIDUAL = 2.5
AT_RANDOM = 50e-9
ON_LINE = 2e-9
TRANSITION_STEP = 5e-6
# Seconds for each term of an audit after its two passes, to read it in sixteen orders. A whole audit takes 45 ms for
# 1e6 rows of a logistic regression, and 130 ms for 1e5 groups of ten rows.
AUDITED = 35e-9
TRANSITION = 2.2  # posterior standard deviations that a trajectory travels
# Seconds to compile for a new model, by origin of the code and part: terms, their gradient, their expansion with the
# code that reads it, and trajectories, which are compiled around the gradient. First runs of PyMC's graphs took 7 s for
# terms, 5 for a gradient, and 20 for terms and expansion; with a Cholesky factor and a linear system 38 for terms and
# 55 for a gradient. Poisson rows (one linear predictor) took 7.6 s and Student rows (two) 8 s in all, a Poisson and an
# exponential outcome 12 s.
COMPILATION = {
    "library": {"terms": 0.0, "gradient": 0.0, "expansion": 0.0, "trajectory": 0.0},
    "groups": {"terms": 0.0, "gradient": 6.0, "expansion": 6.0, "trajectory": 6.0},  # terms are compiled at reading
    "python": {"terms": 0.5, "gradient": 0.7, "expansion": 2.5, "trajectory": 0.7},
    "predictor": {"terms": 4.0, "gradient": 3.0, "expansion": 5.0, "trajectory": 3.0},
    "graph": {"terms": 5.0, "gradient": 5.0, "expansion": 12.0, "trajectory": 5.0},
    "matrices": {"terms": 38.0, "gradient": 55.0, "expansion": 100.0, "trajectory": 55.0},
}
# The same for a prior that PyTensor compiles, besides the terms; more variables cost hardly more. Draws around the mode
# took 4.9 s with three variables, trajectories 8.6 s with four, and 15.3 s with seven and the terms of a predictor.
PRIOR = {"terms": 3.0, "gradient": 2.0, "expansion": 2.0, "trajectory": 3.5}


class Counted(NamedTuple):
    """Counts over the steps of a chain: steps, terms evaluated, gradients of terms, data touched, and other updates."""

    steps: float
    terms: float
    gradients: float
    touched: float
    updates: float

    @classmethod
    def of(cls, counts: np.ndarray) -> "Counted":
        """Return the sums of the records `counts`, shape (draws, len(COUNT_NAMES)); one step per draw."""
        total = counts.reshape(-1, len(COUNT_NAMES)).sum(axis=0)
        updates = float(total[UPDATES] + total[STATISTICS])
        steps = float(counts.size // len(COUNT_NAMES))
        return cls(steps, float(total[EVALUATIONS]), float(total[GRADIENTS]), float(total[TOUCHED]), updates)


class AuditSeconds(NamedTuple):
    """Seconds of an audit: `reading` all terms at two states, and testing several `orders` of their differences."""

    reading: float
    orders: float

    @property
    def read_few_rows(self) -> bool:
        """Whether audits after the first ones read a part of the rows, see `audits.policy`."""
        return ENOUGH_AUDITS * (self.reading + self.orders) > LEAST

    def seconds(self, n: int) -> float:
        """Return the seconds of n audits."""
        whole = min(n, FEWEST_OF_PILOT) if self.read_few_rows else n
        return whole * self.reading + (n - whole) * self.reading / FEW_ROWS + n * self.orders

    def within(self, seconds: float) -> int:
        """Return how many audits some seconds allow."""
        seconds_of_one = self.seconds(ENOUGH_AUDITS) / ENOUGH_AUDITS
        return int(seconds / seconds_of_one)


class Rates(NamedTuple):
    """Seconds of one term of a target and of its gradient, NaN if it has no gradient."""

    term: float
    gradient: float

    @property
    def residual(self) -> float:
        """Seconds to evaluate the residual of a random row: its term minus its expansion."""
        return RESIDUAL * self.term + AT_RANDOM


def rates_of(work: TermWork) -> Rates:
    """Return the seconds of a term and of its gradient, from the counted work."""
    stored = work.bytes * BYTE
    operation = OPERATION[work.code]
    slope = np.nan if work.gradient is None else work.gradient * operation + stored
    return Rates(work.operations * operation + stored, slope)


def compilation(code: str, parts: frozenset[str], *, compiles_prior: bool) -> float:
    """Return the seconds to compile `parts` of terms from this origin, and of the prior if `compiles_prior`."""
    seconds = sum(COMPILATION[code][part] for part in parts)
    return seconds + (sum(PRIOR[part] for part in parts) if compiles_prior else 0.0)


def seconds_of_steps(rates: Rates, dim: int, counted: Counted, products: float) -> float:
    """Return the seconds of steps, given their reads and the number of products of a (dim, dim) matrix and a vector."""
    rows = counted.terms * rates.term + (counted.gradients * rates.gradient if counted.gradients else 0.0)
    return rows + counted.steps * (STEP + NUMBER * dim) + counted.updates * NUMBER + products * PRODUCT * dim**2


class Light(NamedTuple):
    """The number of light rows, and the share of a plain row's numbers that a light row stores: small if sparse."""

    n_rows: int
    share: float

    @classmethod
    def of(cls, split: Target, target: Target) -> "Light":
        """Return the light rows of `split`, made from `target`."""
        light, plain = (
            sum(array.size for array in data if len(array) == n_obs) / n_obs
            for data, n_obs in ((split.compile().data[:-1], split.n_obs), (target.compile().data, target.n_obs))
        )
        return cls(split.n_obs, min(1.0, light / plain))

    def seconds(self, rates: Rates, read: float, steps: float) -> float:
        """Return the seconds to read `read` rows in all in `steps` steps: at random, or in order if each reads all."""
        at_random = AT_RANDOM if read < self.n_rows * steps else 0.0
        return read * (RESIDUAL * rates.term * self.share + at_random)


def seconds_of_transitions(rates: Rates, dim: int, counted: Counted, n_influential: int, rows: Light) -> float:
    """Return the seconds of transitions on a surrogate: each reads the influential rows, and evaluates them on lines.

    `n_influential` is the number of influential rows, `rows` describes the light rows.
    A surrogate without influential rows is nearly always normal, and a draw takes one and a half products of a
    matrix with a vector; with influential rows each gradient takes three.
    """
    light = max(counted.touched - n_influential * counted.steps, 0.0)
    on_lines = max(counted.terms - light, 0.0) * ON_LINE
    gradients = counted.gradients * rates.gradient if counted.gradients else 0.0
    products = 3.0 * counted.gradients / n_influential if n_influential and counted.gradients else 1.5 * counted.steps
    steps = counted.steps * (TRANSITION_STEP + NUMBER * dim) + products * PRODUCT * dim**2
    return rows.seconds(rates, light, counted.steps) + on_lines + gradients + steps
