"""Fair races: rivals take turns in one process, and only ratios of medians are told."""

import time
from collections.abc import Callable, Mapping

import numpy as np


def race(rivals: Mapping[str, Callable[[], object]], *, rounds: int = 15) -> dict[str, np.ndarray]:
    """Return the CPU seconds of each rival in each round; the first call of each is left out."""
    for run in rivals.values():
        run()
    seconds: dict[str, list[float]] = {name: [] for name in rivals}
    for _ in range(rounds):
        for name, run in rivals.items():
            started = time.thread_time()
            run()
            seconds[name].append(time.thread_time() - started)
    return {name: np.array(values) for name, values in seconds.items()}


def ratio(seconds: Mapping[str, np.ndarray], name: str, baseline: str) -> tuple[float, float, float]:
    """Return the median over rounds of time(name) / time(baseline), and the quartiles."""
    quotients = seconds[name] / seconds[baseline]
    return float(np.median(quotients)), *(float(q) for q in np.quantile(quotients, [0.25, 0.75]))


def table(title: str, seconds: Mapping[str, np.ndarray], baseline: str, *, per: int = 1) -> str:
    """Return the race as text: microseconds per step and the ratio to the baseline, with quartiles."""
    lines = [f"\n{title} (ratio of CPU time to {baseline}; median [quartiles] over rounds)"]
    for name, values in seconds.items():
        middle, low, high = ratio(seconds, name, baseline)
        lines.append(f"  {name:34s} {1e6 * np.median(values) / per:9.1f} us   {middle:5.2f} [{low:.2f}, {high:.2f}]")
    return "\n".join(lines)
