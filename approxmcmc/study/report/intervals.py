"""Intervals of the report: of a mean over replicates, of a proportion, and of a range."""

import math
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from approxmcmc.diagnostics.decisions import clopper_pearson

LEAST_REPLICATES = 5  # with fewer replicates a page shows no interval: a valid one spans orders of magnitude


class Interval(NamedTuple):
    """A number with the limits of its interval; NaN if undefined."""

    value: float
    lower: float
    upper: float

    def columns(self, name: str) -> dict[str, float]:
        """Return three entries of a row of a report's table, by column: name, name_lower, name_upper."""
        return {name: self.value, f"{name}_lower": self.lower, f"{name}_upper": self.upper}


NOTHING = Interval(math.nan, math.nan, math.nan)


def mean_interval(values: Iterable[float], confidence: float = 0.95) -> Interval:
    """Return the mean of independent values with its Student interval; no interval for fewer than five values.

    Examples
    --------
    >>> [round(x, 3) for x in mean_interval([1.0, 2.0, 3.0, 4.0, 5.0])]
    [3.0, 1.037, 4.963]
    """
    from scipy import special

    finite = np.asarray([v for v in values if v is not None and math.isfinite(v)], dtype=np.float64)
    if finite.size == 0:
        return NOTHING
    mean = float(finite.mean())
    if finite.size < LEAST_REPLICATES:
        return Interval(mean, math.nan, math.nan)
    quantile = special.stdtrit(finite.size - 1, 0.5 + confidence / 2.0)
    half = float(quantile * finite.std(ddof=1) / math.sqrt(finite.size))
    return Interval(mean, mean - half, mean + half)


def share_interval(values: Iterable[float], confidence: float = 0.95) -> Interval:
    """Return the mean of independent shares with its Student interval, cut to [0, 1]; only at 0 if a share exceeds 1.

    If a step reads data twice, for its gradient and in its test, the "share" may exceed 1.

    Examples
    --------
    >>> [round(x, 3) for x in share_interval([0.01, 0.01, 0.01, 0.01, 0.08])]
    [0.024, 0.0, 0.063]
    """
    listed = [v for v in values if v is not None and math.isfinite(v)]
    mean, lower, upper = mean_interval(listed, confidence)
    top = math.inf if any(v > 1.0 for v in listed) else 1.0
    return Interval(mean, *(float(end) for end in np.clip([lower, upper], 0.0, top)))


def rate_interval(values: Iterable[float], confidence: float = 0.95) -> Interval:
    """Return the geometric mean of positive values with its Student interval on the log scale: for speeds and ratios.

    Examples
    --------
    >>> [round(x, 2) for x in rate_interval([1.0, 2.0, 2.0, 2.0, 4.0])]
    [2.0, 1.09, 3.68]
    """
    positive = [math.log(v) for v in values if v is not None and math.isfinite(v) and v > 0.0]
    return Interval(*(math.exp(x) for x in mean_interval(positive, confidence)))


def median_range(values: Iterable[float]) -> Interval:
    """Return the median with the smallest and the largest value: for skewed quantities such as compile times."""
    finite = np.asarray([v for v in values if v is not None and math.isfinite(v)], dtype=np.float64)
    if finite.size == 0:
        return NOTHING
    return Interval(float(np.median(finite)), float(finite.min()), float(finite.max()))


def proportion_interval(successes: int, trials: int, confidence: float = 0.95) -> Interval:
    """Return a proportion with its Clopper-Pearson interval; NaN without trials.

    Reference: Clopper and Pearson (1934); the interval covers at least `confidence` whatever the true proportion.

    Examples
    --------
    >>> [round(x, 4) for x in proportion_interval(0, 100)]
    [0.0, 0.0, 0.0362]
    """
    if trials <= 0:
        return NOTHING
    lower, upper = clopper_pearson(successes, trials, confidence)
    return Interval(successes / trials, float(lower), float(upper))
