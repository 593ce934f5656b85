"""Measures of moments, and published numbers of steps in a given time."""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from approxmcmc.study import PaperValue

MARGIN = 0.25  # relative difference up to which ratios of speeds, or of effective samples, count as equal

if TYPE_CHECKING:
    import xarray as xr


def moment(variable: str, index: int, kind: str) -> "Callable[[xr.DataTree], float]":
    """Return a function of a trace: the "mean" or the "sd" of one coordinate of a variable over all draws."""

    def measure(trace: "xr.DataTree") -> float:
        values = trace["posterior"][variable].to_numpy()[..., index]
        return float(np.mean(values) if kind == "mean" else np.std(values))

    return measure


def moments_of(variable: str, names: Sequence[str]) -> "dict[str, Callable[[xr.DataTree], float]]":
    """Return the measures "mean of NAME" and "sd of NAME" of the coordinates of a variable."""
    return {f"{kind} of {name}": moment(variable, k, kind) for k, name in enumerate(names) for kind in ("mean", "sd")}


def steps_made(
    counts: Mapping[str, int], seconds: float, printed: str, baseline: str, differs: str = ""
) -> dict[str, PaperValue]:
    """Return the values of a legend with numbers T of steps in a given time.

    For each label: the steps per second on the paper's machine and, except for the baseline, their ratio to the
    baseline's.
    """
    speed = "steps per second"
    values = {
        f"{label}: T = {steps:,} in {seconds:g} s": PaperValue(
            steps / seconds, speed, printed, measure=speed, setting=label, machine=True
        )
        for label, steps in counts.items()
    }
    return values | {
        f"{label}: T over that of {baseline}": PaperValue(
            steps / counts[baseline], "times", printed, measure=speed, setting=label, relative_to=baseline,
            differs=differs, margin=MARGIN * steps / counts[baseline],
        )
        for label, steps in counts.items()
        if label != baseline
    }  # fmt: skip
