"""Running means on a common grid of time, or of data touched, for each replicate.

Every chain of every trace is one replicate with its own clock: the cumulative sum of its per-draw costs, starting at
the cost of its tuning. At grid point t its running mean is taken over the draws completed by t.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import xarray as xr

from approxmcmc.diagnostics.clock import ADVICE
from approxmcmc.diagnostics.estimands import Estimand, Layout, evaluate
from approxmcmc.diagnostics.records import group, stat_attribute, tuning_totals
from approxmcmc.diagnostics.traces import weights_of
from approxmcmc.errors import InvalidInputError

# The record that the clock adds up, and the unit of the axis, by the name of the axis.
AXES = {
    "time": ("perf_counter_diff", "s"),
    "processor_time": ("thread_time_diff", "s"),
    "datapoints_touched": ("datapoints_touched", "1"),
}


class Completions(NamedTuple):
    """When each draw of a replicate was complete, ascending, and until when its running mean is known.

    The running mean of a chain ends with its last draw. A fitted distribution is known from the end of the fit on,
    without end.
    """

    ends: np.ndarray
    until: float

    @classmethod
    def of_chain(cls, ends: np.ndarray) -> "Completions":
        """Return the clock of a chain from the completion times of its draws."""
        return cls(ends, float(ends[-1]) if len(ends) else -np.inf)


NEVER = Completions(np.empty(0), -np.inf)  # a chain of unknown cost: its running mean is unknown at every point


class RunningMeans(NamedTuple):
    """Running means of one estimand, shape (replicate, grid point, coordinate), and the layout of the coordinates.

    A mean is NaN before the replicate's first draw and after its last.
    """

    means: np.ndarray
    layout: Layout


def completion_clocks(traces: Sequence[xr.DataTree], over: str, include_tuning: bool) -> list[Completions]:
    """Return, for each replicate, what it had spent on the axis `over` by the end of each draw.

    The cost of a fitted distribution is that of its fit, whether or not `include_tuning` is set.
    """
    if over not in AXES:
        raise InvalidInputError(f"`over` needs one of {sorted(AXES)}; found {over!r}.")
    record, _ = AXES[over]
    clocks: list[Completions] = []
    for trace in traces:
        stats = group(trace, "sample_stats")
        if record not in stats:
            raise InvalidInputError(
                f"Risk over {over!r} needs the record {record!r} in sample_stats; found "
                f"{sorted(map(str, stats.data_vars))}. {ADVICE if over == 'time' else 'Choose another `over`.'}"
            )
        spent = np.cumsum(np.asarray(stats[record], dtype=np.float64), axis=1)
        fitted = is_approximation(trace)
        tuning = tuning_totals(trace, record) if include_tuning or fitted else None
        ends = spent if tuning is None else spent + np.asarray(tuning, dtype=np.float64)[:, None]
        clocks.extend(Completions(own, np.inf) if fitted else Completions.of_chain(own) for own in ends)
    return clocks


def knows(traces: Sequence[xr.DataTree], over: str) -> bool:
    """Return whether all traces have the record that the axis `over` adds up; True for an unknown axis."""
    return over not in AXES or all(AXES[over][0] in group(trace, "sample_stats") for trace in traces)


def is_approximation(trace: xr.DataTree) -> bool:
    """Return whether the draws come from a fitted distribution, all at once; see `whole_chains.chain_trace`."""
    return bool(stat_attribute(trace, "approximation", 0.0))


def common_grid(clocks: Sequence[Completions], n_grid: int) -> np.ndarray:
    """Return log-spaced points from the first at which every replicate has a draw to the end of the shortest replicate.

    Fitted distributions have one point, where the last of them is complete.
    """
    if n_grid < 1:
        raise InvalidInputError(f"`n_grid` needs at least 1 point, found {n_grid}.")
    if min(len(clock.ends) for clock in clocks) == 0:
        raise InvalidInputError(
            "Risk needs a draw in every chain; a trace has no draws, as after a stop during tuning. Leave it out."
        )
    first = max(float(clock.ends[0]) for clock in clocks)
    last = min(clock.until for clock in clocks)
    last = first if np.isinf(last) else last
    if not 0 < first <= last:
        raise InvalidInputError(
            f"The replicates need a common interval of the axis, with a positive start: the slowest has its first draw "
            f"at {first:g}, the shortest ends at {last:g}. Pass `grid`, or leave out the replicate that differs."
        )
    if first == last or n_grid == 1:
        return np.array([last])
    grid = np.geomspace(first, last, n_grid)
    # exactly, despite the rounding of the powers in between
    grid[0] = first
    grid[-1] = last
    return grid


def running_means(
    traces: Sequence[xr.DataTree], name: str, function: Estimand, clocks: Sequence[Completions], grid: np.ndarray
) -> RunningMeans:
    """Return the mean of an estimand over the draws that each replicate has completed by each point of the grid.

    `clocks` are those of `completion_clocks`, one for each chain of each trace; means are weighted if draws are.
    """
    layout: Layout | None = None
    means: list[np.ndarray] = []
    for trace in traces:
        estimates = evaluate(name, function, trace, layout.dims if layout else None)
        if layout is not None and estimates.layout.labels != layout.labels:
            raise InvalidInputError(
                f"The estimand {name!r} needs the same coordinates in every trace; found {len(layout.labels)} in the "
                f"first and {len(estimates.layout.labels)} in another, or other labels. Compare runs of one model."
            )
        layout = estimates.layout
        weights = weights_of(trace)
        # An infinite draw makes a mean as unknown as one that is NaN.
        is_finite = np.isfinite(estimates.values)
        all_values = estimates.values if is_finite.all() else np.where(is_finite, estimates.values, np.nan)
        for chain, values in enumerate(all_values):
            means.append(_running_mean(values, clocks[len(means)], grid, None if weights is None else weights[chain]))
    if layout is None:
        raise InvalidInputError("Running means need at least one trace; found none.")
    return RunningMeans(np.stack(means), layout)


def _running_mean(values: np.ndarray, clock: Completions, grid: np.ndarray, weights: np.ndarray | None) -> np.ndarray:
    """Return means (grid, coordinate) of values (draws, coordinate) in one pass: one sum per grid interval."""
    completed = np.searchsorted(clock.ends, grid, side="right")
    totals = np.empty((len(grid), values.shape[1]))
    weight_totals = np.empty(len(grid))
    total = np.zeros(values.shape[1])
    weight = 0.0
    start = 0
    for point in np.argsort(grid, kind="stable"):
        stop = completed[point]
        piece = values[start:stop]
        if weights is None:
            total = total + piece.sum(axis=0)
            weight = float(stop)
        else:
            total = total + weights[start:stop] @ piece
            weight = weight + weights[start:stop].sum()
        totals[point] = total
        weight_totals[point] = weight
        start = stop
    undefined = (completed == 0) | (grid > clock.until) | (weight_totals <= 0)
    return totals / np.where(undefined, np.nan, weight_totals)[:, None]
