"""Describe what the clock of a setting includes, and how long its user waits in addition."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import xarray as xr


def is_foreign(traces: "Sequence[xr.DataTree]") -> bool:
    """Return whether a foreign sampler made the traces; these record how their draws were timed."""
    return any("clock" in trace["sample_stats"].attrs for trace in traces)


def draws_timed(traces: "Sequence[xr.DataTree]") -> str:
    """Return how the seconds of single draws were measured, in words."""
    return "; ".join(dict.fromkeys(str(trace["sample_stats"].attrs.get("clock", "each draw")) for trace in traces))


def setup_seconds(traces: "Sequence[xr.DataTree]") -> float:
    """Return the longest compilation of any cell; an unrecorded one counts as 0.

    Later cells of a process find compiled code in memory, which would make a user's wait look short.
    """
    told = [float(trace["sample_stats"].attrs.get("setup_compile_seconds", 0.0)) for trace in traces]
    return float(np.nan_to_num(told).max())
