"""Runs made because an earlier one failed its checks: which they were, and whether chains of the others saw more.

A chain that stayed in a place of its own may have been lost, far below the posterior, or it may have found another
mode. A later run from new starts, in which all chains agree, does not decide this. The log density does: a place is
negligible if the chain's mean log density lies further below that of other chains than

    20 + 2 d nats,    d parameters,

so that it holds less than e^-20 of the mass, even if it is 7 times as wide in every parameter. A place that is not
negligible, and that no chain of the kept run has reached, is reported.
"""

import json
import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import xarray as xr

from approxmcmc.contracts import Finding
from approxmcmc.diagnostics.convergence import drawn
from approxmcmc.diagnostics.modes import ADVICE_ON_MODES

ATTRIBUTE = "further_runs"
NAME = "further runs"
DEPTH = 20.0
DEPTH_PER_PARAMETER = 2.0


def negligible_depth(parameters: int) -> float:
    """Return how far, in nats, a negligible place lies below the others in mean log density; see the module."""
    return DEPTH + DEPTH_PER_PARAMETER * parameters


def mean_log_densities(trace: xr.DataTree) -> np.ndarray:
    """Return the mean log density of each chain, shape (chains,); NaN if the trace does not record it."""
    stats = trace["sample_stats"]
    if "lp" not in stats:
        return np.full(trace["posterior"].sizes["chain"], math.nan)
    return stats["lp"].mean("draw").to_numpy().astype(np.float64)


def places_not_reached(earlier: xr.DataTree, kept: xr.DataTree, *, comparable: bool) -> list[dict[str, Any]]:
    """Return the chains of an earlier run that lie outside all draws of the kept one, in the parameter furthest away.

    A chain lies outside if all of its draws are more than a standard deviation beyond the range of the kept draws.
    ``below`` is the distance, in nats, of its mean log density from the largest of its run, and also of the kept run if
    their log densities are `comparable`; None if it is unknown.
    """
    before = drawn(earlier["posterior"].to_dataset())
    after = drawn(kept["posterior"].to_dataset())
    common = [label for label in before.labels if label in set(after.labels)]
    if not common:
        return []
    old = before.draws[:, :, [before.labels.index(label) for label in common]]
    new = after.draws[:, :, [after.labels.index(label) for label in common]]
    sd = new.std(axis=(0, 1))
    above = (old.min(axis=1) - new.max(axis=(0, 1))) / sd
    under = (new.min(axis=(0, 1)) - old.max(axis=1)) / sd
    distance = np.fmax(above, under)  # shape (chains, parameters)
    levels = mean_log_densities(earlier)
    top = np.max(levels)
    if comparable:
        top = np.fmax(top, np.max(mean_log_densities(kept)))
    places = []
    for chain in np.nonzero((distance > 1.0).any(axis=1))[0].tolist():
        k = int(np.nanargmax(distance[chain]))
        below = float(top - levels[chain])
        places.append(
            {
                "chain": chain,
                "parameter": common[k],
                "mean": float(old[chain, :, k].mean()),
                "below": below if math.isfinite(below) else None,
                "limit": negligible_depth(len(common)),
            }
        )
    return places


def further_runs(posterior: xr.Dataset, *, others_fail: bool) -> list[Finding]:
    """Return the findings on the runs of a trace that several runs led to; [] if there was one run.

    `others_fail` says whether another check of the kept run failed.
    """
    runs = json.loads(posterior.attrs.get(ATTRIBUTE, "[]"))
    if len(runs) < 2:
        return []
    kept = next(k for k, run in enumerate(runs) if run["kept"])
    sentence = "; ".join(_described(k, run) for k, run in enumerate(runs))
    if others_fail:
        sentence = f"{len(runs)} runs were made, and none passed all checks: {sentence}. Run {kept} is kept"
        found = [Finding(NAME, "warning", sentence, "", len(runs))]
    else:
        found = [Finding(NAME, "ok", f"{len(runs)} runs were made: {sentence}. Run {kept} is kept", "", len(runs))]
    places = [(k, place) for k, run in enumerate(runs) for place in run.get("not_reached", []) if _counts(place)]
    if places:
        sentence = "; ".join(_place(k, place) for k, place in places)
        sentence = f"earlier chains stayed in places that no draw of this run has reached: {sentence}"
        found.append(Finding("places not reached", "warning", sentence, ADVICE_ON_MODES, len(places), 0.0))
    return found


def _counts(place: Mapping[str, Any]) -> bool:
    """Return whether a place is not negligible; an unknown log density counts."""
    return place["below"] is None or place["below"] <= place["limit"]


def _described(number: int, run: Mapping[str, Any]) -> str:
    """Return one run in words."""
    end = run.get("error") or (f"failed {run['problems']}" if run["problems"] else "passed")
    return f"run {number}, {run['change']}, {end}"


def _place(number: int, place: Mapping[str, Any]) -> str:
    """Return one place in words."""
    below = "unknown" if place["below"] is None else f"{place['below']:.3g} below"
    return f"chain {place['chain']} of run {number} at {place['parameter']} = {place['mean']:.3g}, log density {below}"
