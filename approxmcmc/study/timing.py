"""Timing: one thread, two clocks, and a probe that shows whether the machine was disturbed.

Wall-clock time is what users wait for, but on a shared machine it also measures other programs. So every cell keeps
both the wall-clock and the processor time of its process, and a fixed piece of work is timed before and after it: if
the two differ by more than 10 %, the speed of the machine changed meanwhile and the cell is marked noisy.
"""

import contextlib
import dataclasses
import statistics
import time
from collections.abc import Iterator

import numpy as np

PROBE_PARTS = 5
PROBE_PASSES = 280
PROBE_SIZE = 16_384
LARGEST_DRIFT = 0.10


def speed_probe() -> float:
    """Return the seconds of a fixed piece of NumPy work: the median of five parts of about 10 ms, times five.

    The median ignores a single interruption, which would say nothing about the minutes between two probes.
    """
    values = np.linspace(0.0, 1.0, PROBE_SIZE)
    out = np.empty_like(values)
    parts = []
    for _ in range(PROBE_PARTS):
        start = time.perf_counter()
        for _ in range(PROBE_PASSES):
            np.exp(values, out=out)
            np.add(out, values, out=out)
            np.sqrt(out, out=out)
        parts.append(time.perf_counter() - start)
    return PROBE_PARTS * statistics.median(parts)


def is_noisy(before: float, after: float) -> bool:
    """Return whether two probes differ by more than 10 % of the faster one."""
    return abs(after - before) > LARGEST_DRIFT * min(before, after)


@dataclasses.dataclass
class Stopwatch:
    """Wall-clock and processor seconds of a block; both 0 until it ends."""

    wall_seconds: float = 0.0
    cpu_seconds: float = 0.0


@contextlib.contextmanager
def stopwatch() -> Iterator[Stopwatch]:
    """Time a block on both clocks; processor time counts all threads of this process, but no child processes."""
    watch = Stopwatch()
    wall, cpu = time.perf_counter(), time.process_time()
    try:
        yield watch
    finally:
        watch.wall_seconds = time.perf_counter() - wall
        watch.cpu_seconds = time.process_time() - cpu


@contextlib.contextmanager
def one_thread() -> Iterator[None]:
    """Limit every BLAS and OpenMP pool of this process to one thread."""
    import threadpoolctl

    with threadpoolctl.threadpool_limits(limits=1):
        yield
