"""Measures of one chain, each a single number, to compare with published numbers.

A measure is a function of a one-chain trace. A study has those below and those that it declares; the report computes
their intervals over replicates.
"""

import math
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import xarray as xr

Measure = Callable[["xr.DataTree"], float]


def ratio_of_sums(trace: "xr.DataTree", above: str, below: str) -> float:
    """Return the sum of one record over that of another (or over the number of draws); NaN if one is missing."""
    stats = trace["sample_stats"]
    if above not in stats or (below != "draw" and below not in stats):
        return math.nan
    bottom = float(stats.sizes["draw"] if below == "draw" else stats[below].sum())
    return float(stats[above].sum()) / bottom if bottom else math.nan


def steps_per_second(trace: "xr.DataTree") -> float:
    """Return steps per second of sampling, audits and tuning excluded."""
    stats = trace["sample_stats"]
    seconds = float(stats["perf_counter_diff"].sum()) if "perf_counter_diff" in stats else math.nan
    return stats.sizes["draw"] * int(stats.attrs.get("thin", 1)) / seconds if seconds else math.nan


def acceptance(trace: "xr.DataTree") -> float:
    """Return the mean acceptance rate."""
    stats = trace["sample_stats"]
    return float(stats["acceptance_rate"].mean()) if "acceptance_rate" in stats else math.nan


def data_per_decision(trace: "xr.DataTree") -> float:
    """Return the share of the data that one decision reads."""
    n_obs = float(trace["sample_stats"].attrs.get("n_obs", math.nan))
    return ratio_of_sums(trace, "datapoints_touched", "decisions_made") / n_obs


def wrong_decisions(trace: "xr.DataTree") -> float:
    """Return the share of audited decisions that differ from the decision on all data."""
    return ratio_of_sums(trace, "wrong_decisions", "decisions_audited")


MEASURES: Final[Mapping[str, Measure]] = {
    "steps per second": steps_per_second,
    "acceptance": acceptance,
    "data per decision": data_per_decision,
    "wrong decisions": wrong_decisions,
}
