"""Choose the clock of a page; describe what it includes, and how long a user waits in addition."""

import statistics
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from approxmcmc.diagnostics.running import knows
from approxmcmc.study.report.census import numbers

if TYPE_CHECKING:
    import xarray as xr

    from approxmcmc.study.results import StudyResults

LEAST_CPU_SHARE = 0.9


class PageClock(NamedTuple):
    """A clock of a trace: the axis of `risk`, the record that it adds up, its name in words."""

    axis: str
    record: str
    name: str


WALL = PageClock("time", "perf_counter_diff", "wall")
PROCESSOR = PageClock("processor_time", "thread_time_diff", "processor")


def clock_of(results: "StudyResults") -> PageClock:
    """Return the clock of a study's page: the processor's if the median cell had less than .9 of a core, else the wall.

    The wall clock is also used if a trace has no record of the processor's.
    """
    all_recorded = all(knows(traces, PROCESSOR.axis) for traces in results.traces().values())
    return PROCESSOR if all_recorded and cpu_share(results) < LEAST_CPU_SHARE else WALL


def cpu_share(results: "StudyResults") -> float:
    """Return the median of CPU over wall-clock seconds over finished cells; 1 without cells."""
    done = results.records[results.records.status == "done"]
    shares = [c / w for c, w in zip(numbers(done.cpu_seconds), numbers(done.wall_seconds), strict=True) if w > 0.0]
    return statistics.median(shares) if shares else 1.0


def is_foreign(traces: "Sequence[xr.DataTree]") -> bool:
    """Return whether a foreign sampler made the traces; these record how their draws were timed."""
    return any("clock" in trace["sample_stats"].attrs for trace in traces)


def draws_timed(traces: "Sequence[xr.DataTree]") -> str:
    """Return how the seconds of single draws were measured, in words."""
    return "; ".join(dict.fromkeys(str(trace["sample_stats"].attrs.get("clock", "each draw")) for trace in traces))


def setup_seconds(traces: "Sequence[xr.DataTree]") -> float:
    """Return the longest compilation of any cell; an unrecorded one counts as 0.

    Later cells of a process compile nothing, so a mean over cells would be less than the time that a user waits.
    """
    seconds = [float(trace["sample_stats"].attrs.get("setup_compile_seconds", 0.0)) for trace in traces]
    return float(np.nan_to_num(seconds).max())
