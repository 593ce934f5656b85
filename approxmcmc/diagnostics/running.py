"""Running means on a common grid of time, or of data touched: what each replicate knew by then.

Every chain of every trace is one replicate with a clock of its own: the cumulative sum of its per-draw costs, after
the cost of its tuning. At grid point t its running mean is taken over the draws completed by t.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import xarray as xr

from approxmcmc.diagnostics.estimands import Estimand, Layout, evaluate
from approxmcmc.diagnostics.records import group, tuning_totals
from approxmcmc.errors import InvalidInputError

# What the clock adds up, and the unit of the axis, by the name of the axis.
AXES = {"time": ("perf_counter_diff", "s"), "datapoints_touched": ("datapoints_touched", "1")}


class RunningMeans(NamedTuple):
    """Running means of one estimand, shape (replicate, grid point, coordinate), and what the coordinates are.

    A mean is NaN before the replicate's first draw and after its last.
    """

    means: np.ndarray
    layout: Layout


def completion_clocks(traces: Sequence[xr.DataTree], over: str, include_tuning: bool) -> list[np.ndarray]:
    """Return, for each replicate, the time (or data) spent by the end of each draw; shape (draws,) each."""
    if over not in AXES:
        raise InvalidInputError(f"`over` needs one of {sorted(AXES)}; found {over!r}.")
    record, _ = AXES[over]
    clocks: list[np.ndarray] = []
    for trace in traces:
        stats = group(trace, "sample_stats")
        if record not in stats:
            raise InvalidInputError(
                f"Risk over {over!r} needs the record {record!r} in sample_stats; found "
                f"{sorted(map(str, stats.data_vars))}. Choose another `over`, or traces that `sample` made."
            )
        spent = np.cumsum(np.asarray(stats[record], dtype=np.float64), axis=1)
        tuning = tuning_totals(trace, record) if include_tuning else None
        clocks.extend(spent if tuning is None else spent + np.asarray(tuning, dtype=np.float64)[:, None])
    return clocks


def common_grid(clocks: Sequence[np.ndarray], n_grid: int) -> np.ndarray:
    """Log-spaced points from the first at which every replicate has a draw to the end of the shortest replicate."""
    if n_grid < 1:
        raise InvalidInputError(f"`n_grid` needs at least 1 point, found {n_grid}.")
    if min(map(len, clocks)) == 0:
        raise InvalidInputError(
            "Risk needs a draw in every chain; a trace has none, as after a stop in the tuning phase. Leave it out."
        )
    first, last = max(clock[0] for clock in clocks), min(clock[-1] for clock in clocks)
    if not 0 < first <= last:
        raise InvalidInputError(
            f"The replicates need a common stretch of the axis, with a positive start: the slowest has its first draw "
            f"at {first:g}, the shortest ends at {last:g}. Pass `grid`, or leave out the replicate that differs."
        )
    if first == last or n_grid == 1:
        return np.array([last])
    grid = np.geomspace(first, last, n_grid)
    grid[0], grid[-1] = first, last  # exactly, whatever the rounding of the powers in between
    return grid


def running_means(
    traces: Sequence[xr.DataTree], name: str, function: Estimand, clocks: Sequence[np.ndarray], grid: np.ndarray
) -> RunningMeans:
    """Evaluate an estimand trace by trace and average it over the draws completed by each grid point."""
    layout: Layout | None = None
    means: list[np.ndarray] = []
    for trace in traces:
        found = evaluate(name, function, trace, layout.dims if layout else None)
        if layout is not None and found.layout.labels != layout.labels:
            raise InvalidInputError(
                f"The estimand {name!r} needs the same coordinates in every trace; found {len(layout.labels)} in the "
                f"first and {len(found.layout.labels)} in another, or other labels. Compare runs of one model."
            )
        layout = found.layout
        weights = _weights(trace)
        for chain, values in enumerate(found.values):
            means.append(_running_mean(values, clocks[len(means)], grid, None if weights is None else weights[chain]))
    if layout is None:
        raise InvalidInputError("Running means need at least one trace; found none.")
    return RunningMeans(np.stack(means), layout)


def _weights(trace: xr.DataTree) -> np.ndarray | None:
    stats = group(trace, "sample_stats")
    return np.asarray(stats["weight"], dtype=np.float64) if "weight" in stats else None


def _running_mean(values: np.ndarray, clock: np.ndarray, grid: np.ndarray, weights: np.ndarray | None) -> np.ndarray:
    """Return means (grid, coordinate) of values (draws, coordinate): one pass, a sum per stretch of the grid."""
    completed = np.searchsorted(clock, grid, side="right")
    totals = np.empty((len(grid), values.shape[1]))
    weight_totals = np.empty(len(grid))
    total, weight, start = np.zeros(values.shape[1]), 0.0, 0
    for point in np.argsort(grid, kind="stable"):
        stop = completed[point]
        piece = values[start:stop]
        if weights is None:
            total, weight = total + piece.sum(axis=0), float(stop)
        else:
            total, weight = total + weights[start:stop] @ piece, weight + weights[start:stop].sum()
        totals[point], weight_totals[point], start = total, weight, stop
    end = clock[-1] if len(clock) else -np.inf
    undefined = (completed == 0) | (grid > end) | (weight_totals <= 0)
    return totals / np.where(undefined, np.nan, weight_totals)[:, None]
