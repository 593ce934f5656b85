"""Read a trace's records: sums per chain, totals of the tuning steps, the list of traces that a caller passed."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import xarray as xr

from approxmcmc.contracts import AcceptanceTest
from approxmcmc.errors import InvalidInputError

Traces = xr.DataTree | Sequence[xr.DataTree]


def as_list(traces: Traces, *, what: str = "traces") -> list[xr.DataTree]:
    """Return one trace or several as a list; raise if the list is empty or holds anything else."""
    listed = list(traces) if isinstance(traces, Iterable) and not isinstance(traces, xr.DataTree) else [traces]
    if not listed or not all(isinstance(trace, xr.DataTree) for trace in listed):
        kinds = sorted({type(trace).__name__ for trace in listed}) or ["an empty list"]
        raise InvalidInputError(
            f"`{what}` needs one trace (xarray.DataTree) or a list of them; found {', '.join(kinds)}. "
            "Pass what `sample` or `load` returned."
        )
    return listed


def check_confidence(confidence: float) -> None:
    """Raise unless a confidence level lies between 0 and 1."""
    if not 0 < confidence < 1:
        raise InvalidInputError(f"`confidence` needs a number between 0 and 1, such as 0.95; found {confidence}.")


def group(trace: xr.DataTree, name: str) -> xr.Dataset:
    """Return a group's dataset with the sample dims first; raise if the trace lacks it."""
    if not isinstance(trace, xr.DataTree):
        raise InvalidInputError(
            f"A trace is needed, one xarray.DataTree; found a {type(trace).__name__}. Pass what `sample` or `load` "
            "returned."
        )
    if name not in trace.children:
        raise InvalidInputError(f"The trace needs a group {name!r}; found {sorted(trace.children)}.")
    dataset = trace[name].to_dataset()
    missing = {"chain", "draw"} - set(dataset.dims)
    if missing:
        raise InvalidInputError(
            f"The group {name!r} needs the dims 'chain' and 'draw'; {sorted(missing)} missing among "
            f"{sorted(map(str, dataset.dims))}."
        )
    return dataset.transpose("chain", "draw", ...)


def leaves_invariant(attrs: Mapping[Any, Any], settings: Mapping[str, Any]) -> bool:
    """Return whether the sampler of a trace leaves its target invariant, according to the trace's attributes.

    If they do not record this, return whether its test is exact; None if it has no test either.
    """
    if "why_not_invariant" in attrs:
        return not attrs["why_not_invariant"]
    test = AcceptanceTest.found_in(settings)
    return test is not None and test.leaves_invariant(int(attrs["n_obs"]))


def sums(trace: xr.DataTree, name: str) -> np.ndarray | None:
    """Sum a record over draws, per chain; None if the sampler did not write it."""
    stats = group(trace, "sample_stats")
    return np.asarray(stats[name].sum("draw")) if name in stats else None


def tuning_totals(trace: xr.DataTree, name: str) -> np.ndarray | None:
    """Return the total of a record over the tuning steps, per chain; None if unknown.

    The attribute ``tuning_<name>`` holds it in the order of the chains that were run, a plain number for a single
    chain; a trace without the attribute may have kept its warm-up records.
    """
    stats = group(trace, "sample_stats")
    chains = stats.sizes["chain"]
    if f"tuning_{name}" in stats.attrs:
        totals = np.atleast_1d(np.asarray(stats.attrs[f"tuning_{name}"]))
        if len(totals) == chains:
            return totals
        # Chains may have been selected after the run; their labels still count from zero.
        labels = np.asarray(stats["chain"]) if "chain" in stats.coords else np.arange(chains)
        if labels.dtype.kind in "iu" and labels.max(initial=0) < len(totals):
            return totals[labels]
    if "warmup_sample_stats" in trace.children:
        warmup = trace["warmup_sample_stats"].to_dataset()
        if name in warmup and warmup.sizes["chain"] == chains:
            return np.asarray(warmup[name].sum("draw"))
    return None


def stat_attribute(trace: xr.DataTree, name: str, default: float) -> float:
    """Return a number among the attributes of ``sample_stats``, or `default`."""
    return float(group(trace, "sample_stats").attrs.get(name, default))
