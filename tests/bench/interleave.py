"""Fair races: rivals take turns in one process, and medians over rounds are reported with their intervals.

A test of speed fails if the interval of the measured ratio excludes its goal; a single noisy round does not make it
fail. The interval is that of the sign test: the median of the distribution of rounds lies between the k-th smallest and
the k-th largest of n independent rounds with probability 1 - 2 P(Binomial(n, 1/2) < k), whatever the distribution. A
race whose true ratio is its goal fails at most one time in 100; one that misses its goal in all rounds always fails. A
busy machine widens the interval.
"""

import time
from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np
from scipy.stats import binom

CONFIDENCE = 0.98  # with 7 rounds the smallest and the largest, with 15 the third of either side


class Median(NamedTuple):
    """A median over rounds, and the ends of its interval."""

    middle: float
    low: float
    high: float

    def __str__(self) -> str:
        """Write the three with two decimals."""
        return f"{self.middle:5.2f} [{self.low:.2f}, {self.high:.2f}]"


def race(
    rivals: Mapping[str, Callable[[], object]], *, rounds: int = 15, clock: Callable[[], float] = time.thread_time
) -> dict[str, np.ndarray]:
    """Return the CPU seconds of each rival in each round; the first call of each is left out."""
    for run in rivals.values():
        run()
    seconds: dict[str, list[float]] = {name: [] for name in rivals}
    for _ in range(rounds):
        for name, run in rivals.items():
            started = clock()
            run()
            seconds[name].append(clock() - started)
    return {name: np.array(values) for name, values in seconds.items()}


def median(rounds: np.ndarray) -> Median:
    """Return the median of some rounds with its interval; with fewer than 7 that is narrower than it should be."""
    ordered = np.sort(rounds)
    k = max(int(binom.ppf((1.0 - CONFIDENCE) / 2.0, len(ordered), 0.5)), 1)
    return Median(float(np.median(ordered)), float(ordered[k - 1]), float(ordered[-k]))


def ratio(seconds: Mapping[str, np.ndarray], name: str, baseline: str) -> Median:
    """Return the median over rounds of time(name) / time(baseline), with its interval."""
    return median(seconds[name] / seconds[baseline])


def table(title: str, seconds: Mapping[str, np.ndarray], baseline: str, *, per: int = 1) -> str:
    """Return the race as text: microseconds per step and the ratio to the baseline, with its interval."""
    lines = [f"\n{title} (ratio of CPU time to {baseline}; median over rounds and its interval)"]
    for name, values in seconds.items():
        lines.append(f"  {name:34s} {1e6 * np.median(values) / per:9.1f} us   {ratio(seconds, name, baseline)}")
    return "\n".join(lines)
