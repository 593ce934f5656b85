"""A cell whose sampler makes its chain by itself: the same budget and start, and what its trace must hold."""

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from approxmcmc.contracts import ForeignSampler, Target
from approxmcmc.errors import StudyError
from approxmcmc.study.declare import Declaration

if TYPE_CHECKING:
    import xarray as xr


def foreign_chain(
    study: Declaration, sampler: ForeignSampler, target: Target, *, seed: int, initial: np.ndarray
) -> "xr.DataTree":
    """Run a foreign sampler within the study's budget, and return its trace.

    Raises
    ------
    StudyError
        If the trace is not one chain of the target's variables with a clock.
    """
    trace = sampler.run(target, seconds=study.budget.seconds, draws=study.budget.most_draws, seed=seed, initial=initial)
    fault = _fault(trace, target)
    if fault:
        raise StudyError(
            f"{type(sampler).__name__}.run needs to return one chain as `foreign.chain_trace` makes it; found {fault}."
        )
    return trace


def _fault(trace: Any, target: Target) -> str:
    children = getattr(trace, "children", None)
    if children is None:
        return f"a {type(trace).__name__}"
    missing = {"posterior", "sample_stats"} - set(children)
    if missing:
        return f"no group {sorted(missing)}"
    posterior, stats = trace["posterior"], trace["sample_stats"]
    if posterior.sizes.get("chain") != 1 or "draw" not in posterior.sizes:
        return f"posterior dims {dict(posterior.sizes)}"
    if lacking := set(target.variables.shapes) - set(posterior.data_vars):
        return f"no variables {sorted(lacking)}"
    if "perf_counter_diff" not in stats:
        return "no record perf_counter_diff in sample_stats, the seconds of each draw"
    spent = float(stats.attrs.get("sampling_time", math.nan))
    return "" if math.isfinite(spent) else "no attribute sampling_time of sample_stats, the seconds on the clock"
