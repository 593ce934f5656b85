"""Sums over coupled chains, audit by audit, and their partial sums after a given number of steps."""

import math
from typing import NamedTuple

import numpy as np
from scipy.stats import norm

from approxmcmc.couplings.measure import Quantities
from approxmcmc.couplings.meeting import Meeting

POINTS_AT_ONCE = 20_000
BATCHES = 20
STEPS = 30  # number of step counts at which the drift is reported


class Summands:
    """Collects weight * sum_{t < tau} [h(X_t) - h(Y_t)] of each audit, for all estimands h in `measure`."""

    def __init__(self, measure: Quantities, max_steps: int) -> None:
        self.measure = measure
        k = len(measure.labels)
        self.steps = np.unique(np.geomspace(1, max_steps, STEPS).astype(np.int64))
        self.rows: list[np.ndarray] = []
        self.partial = np.zeros((len(self.steps), k))
        self.partial_squares = np.zeros((len(self.steps), k))
        self.waiting: list[tuple[int, float, Meeting]] = []
        self.points = 0

    def add(self, weight: float, meeting: Meeting | None) -> None:
        """Add an audit; the weight is 0 if the audit has no coupling."""
        self.rows.append(np.zeros(len(self.measure.labels)))
        if weight and meeting is not None:
            self.waiting.append((len(self.rows) - 1, weight, meeting))
            self.points += meeting.paths.shape[1]
            if self.points > POINTS_AT_ONCE:
                self._evaluate()

    def _evaluate(self) -> None:
        """Evaluate the estimands along all collected chains, in one call for X and one for Y."""
        if not self.waiting:
            return
        meetings = [meeting for _, _, meeting in self.waiting]
        at_x, at_y = (
            self.measure(
                np.concatenate([each.paths[k] for each in meetings]),
                np.concatenate([each.densities[k] for each in meetings]),
            )
            for k in (0, 1)
        )
        with np.errstate(invalid="ignore"):
            apart = at_x - at_y
            start = 0
        for row, weight, meeting in self.waiting:
            n = meeting.paths.shape[1]
            sums = weight * np.cumsum(apart[start : start + n], axis=0)
            start += n
            after = sums[np.minimum(self.steps, n) - 1]
            self.partial += after
            self.partial_squares += after**2
            self.rows[row] = sums[-1]
        self.waiting = []
        self.points = 0

    def finish(self) -> tuple[np.ndarray, "DriftCurve"]:
        """Return the summands (n_audits, n_estimands), and the drift after 0 to `max_steps` exact steps."""
        self._evaluate()
        rows = np.array(self.rows)
        n = len(rows)
        mean = self.partial / n
        variance = np.maximum(self.partial_squares / n - mean**2, 0.0) / max(n - 1, 1)
        return rows, DriftCurve(
            np.append(0, self.steps), *(np.vstack([0.0 * m[:1], m]) for m in (mean, np.sqrt(variance)))
        )


class DriftCurve(NamedTuple):
    """How far T exact steps move the mean of each estimand: T (n,), value and standard error (n, n_estimands).

    The sign is the sign of the bias: `value` is the part of the bias that these exact steps remove.
    """

    steps: np.ndarray
    value: np.ndarray
    error: np.ndarray

    def until(self, last: int) -> "DriftCurve":
        """Return the drift up to step `last`, after which all couplings have ended."""
        kept = slice(int(np.searchsorted(self.steps, last)) + 1)
        return DriftCurve(self.steps[kept], self.value[kept], self.error[kept])


class Average(NamedTuple):
    """Means of the summands, their standard errors, and the variances of one summand, over `n` audits.

    All arrays have the shape (n_estimands,).
    """

    mean: np.ndarray
    error: np.ndarray
    variance: np.ndarray
    n: int

    def interval(self, confidence: float) -> tuple[np.ndarray, np.ndarray]:
        """Return the limits of normal intervals for the means."""
        margin = norm.ppf(0.5 + 0.5 * confidence) * self.error
        return self.mean - margin, self.mean + margin


def average(rows: np.ndarray) -> Average:
    """Return the mean of rows (n, ...), which must be in the order of the draws.

    The standard error is the larger of two: one for independent rows, one from batch means (Flegal, Haran and Jones
    2008), because audits of neighbouring draws are correlated.
    """
    n = len(rows)
    variance = rows.var(axis=0, ddof=1) if n > 1 else np.full(rows.shape[1:], np.inf)
    of_mean = variance / n
    size = min(math.isqrt(n), n // BATCHES)
    if size > 1:
        batches = rows[: n // size * size].reshape(-1, size, *rows.shape[1:]).mean(axis=1)
        of_mean = np.maximum(of_mean, batches.var(axis=0, ddof=1) / len(batches))
    return Average(rows.mean(axis=0), np.sqrt(of_mean), variance, n)


def unknown(rows: np.ndarray) -> Average:
    """Return the mean of `rows` with infinite error and variance, for rows of 0: the exact kernel never moved."""
    no_limit = np.full(rows.shape[1:], np.inf)
    return Average(rows.mean(axis=0), no_limit, no_limit, len(rows))


def shares(rows: np.ndarray) -> np.ndarray:
    """Return the share of the largest summand in the sum of all absolute values; NaN if all are 0."""
    total = np.abs(rows).sum(axis=0)
    return np.divide(np.abs(rows).max(axis=0), total, out=np.full(np.shape(total), np.nan), where=total > 0.0)
