"""Choose the clock of a page; describe what it includes, and how long a user waits in addition."""

import math
import statistics
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

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


class CellSeconds(NamedTuple):
    """The seconds of a cell, all on the clock of the page.

    `whole` is the sum of `setup`, `tuning` and `sampling`. `compilation` is the part of the set-up that the sampler
    states, NaN if it states none.
    """

    whole: float
    setup: float
    compilation: float
    tuning: float
    sampling: float


def cell_seconds(cell: Any, trace: "xr.DataTree", clock: PageClock) -> CellSeconds:
    """Return the seconds of a cell on one clock, from its record and its trace.

    A sampler states its compilation in seconds of the wall clock. They count as a share of the set-up, which both
    clocks measure, so compilation is never longer than the cell: a library that keeps what it compiled for an earlier
    cell of the process states those seconds again.
    """
    stats = trace["sample_stats"]
    spent = {}
    for name, record in ((clock.name, clock.record), (WALL.name, WALL.record)):
        tuning = float(np.sum(stats.attrs.get(f"tuning_{record}", 0.0)))
        spent[name] = (tuning, float(stats[record].sum()) if record in stats else math.nan)
    tuning, sampling = spent[clock.name]
    whole = float(cell.cpu_seconds if clock.name == PROCESSOR.name else cell.wall_seconds)
    setup = max(whole - tuning - sampling, 0.0)
    wall_setup = max(float(cell.wall_seconds) - sum(spent[WALL.name]), 0.0)
    stated = float(stats.attrs.get("setup_compile_seconds", math.nan))
    share = min(stated / wall_setup, 1.0) if wall_setup > 0.0 else 0.0
    return CellSeconds(whole, setup, math.nan if math.isnan(stated) else share * setup, tuning, sampling)


def cells_seconds(
    results: "StudyResults", target: str, label: str, traces: "Sequence[xr.DataTree]", clock: PageClock
) -> list[CellSeconds]:
    """Return the seconds of the finished cells of a setting, in the order of their traces."""
    records = results.records
    done = records[(records.target == target) & (records.label == label) & (records.status == "done")]
    done = done.sort_values("replicate")
    return [cell_seconds(cell, trace, clock) for cell, trace in zip(done.itertuples(), traces, strict=False)]


def wait(cells: "Sequence[CellSeconds]") -> float:
    """Return the longest compilation of any cell, NaN if none is stated.

    Later cells of a process compile nothing, so a mean over cells would be less than the time that a user waits.
    """
    known = [cell.compilation for cell in cells if not math.isnan(cell.compilation)]
    return max(known, default=math.nan)
