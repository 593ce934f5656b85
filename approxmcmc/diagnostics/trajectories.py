"""Did NUTS trajectories reach the whole posterior? Divergences, and trajectories that were cut short."""

from collections.abc import Mapping
from typing import Any

import xarray as xr

from approxmcmc.contracts import Finding

OFTEN = 0.05  # of the draws: trees cut short cost time, not exactness


def trajectories(stats: xr.Dataset, settings: Mapping[str, Any]) -> list[Finding]:
    """Return the findings on trajectories; empty for a sampler without trajectories.

    A divergence is a trajectory with an energy error above 1000: the step size is too large for the curvature there,
    and the draws may miss the region (Betancourt 2017). One divergence is enough to warn.
    """
    found = []
    if "diverging" in stats:
        found.append(_divergences(stats["diverging"], settings))
    if "reached_max_treedepth" in stats:
        found.append(_cut_short(stats["reached_max_treedepth"]))
    return found


def _divergences(diverging: xr.DataArray, settings: Mapping[str, Any]) -> Finding:
    number, draws = int(diverging.sum()), diverging.size
    if not number:
        return Finding("divergences", "ok", "no trajectory diverged", "", 0.0, 0.0)
    per_chain = diverging.sum("draw")
    where = ", ".join(f"chain {k}" for k in diverging["chain"].to_numpy()[per_chain.to_numpy() > 0].tolist())
    accept = float(settings.get("target_accept", 0.8))
    advice = (
        f"raise target_accept, amc.NUTS(target_accept={(1.0 + accept) / 2.0:.3g}), or write hierarchical effects in "
        "the other form, sigma * z with z ~ N(0, 1) in place of N(0, sigma) or the reverse"
    )
    sentence = f"{number} of {draws} trajectories diverged: the draws may miss part of the posterior"
    return Finding("divergences", "warning", sentence, advice, float(number), 0.0, where)


def _cut_short(reached: xr.DataArray) -> Finding:
    share = float(reached.mean())
    sentence = f"{share:.2g} of the trajectories reached the largest tree depth before they turned around"
    advice = "give variables scales of order 1, or raise tune" if share > OFTEN else ""
    return Finding("tree depth", "warning" if share > OFTEN else "ok", sentence, advice, share, OFTEN)
