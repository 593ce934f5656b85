"""The chains of a check of bounds: run for one setting, compared with the posterior, joined along the knob."""

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from approxmcmc.bounds.distance import (
    Distance,
    cells_of_states,
    frequencies,
    marginal_distances,
    total_variation_interval,
)
from approxmcmc.errors import InvalidInputError
from approxmcmc.output.datatree import build_trace
from approxmcmc.sampling.assembly import assemble
from approxmcmc.sampling.audits import audit_draws
from approxmcmc.sampling.driver import run
from approxmcmc.sampling.progress import progress

if TYPE_CHECKING:
    import xarray as xr

UNKNOWN = Distance(math.nan, math.nan, math.nan, math.nan)


def run_chains(target: Any, sampler: Any, draws: int, tune: int, chains: int, seed: Any, show: bool) -> "xr.DataTree":
    """Return the trace of chains on one core, audited as `sample` would."""
    first = seed if isinstance(seed, int) else seed[0]
    made = assemble(target, sampler, seed=first, chains=chains, tune=tune, audit_every="auto")
    program, started = made.program, made.chains
    with progress(chains * (tune + draws), show=show, label=f"sampling {chains} chains", time_limit=None) as shown:
        result = run(
            program, started, dim=target.variables.size, draws=draws, tune=tune, thin=1, cores=1, time_limit=None,
            keep_warmup=False, progress=shown,
        )  # fmt: skip
    result = audit_draws(result, started, made.streams[0].audit, tune=tune, thin=1)
    return build_trace(
        result, variables=target.variables, observed_data={}, constant_data={}, keep_warmup=False,
        settings=sampler.to_dict(),
    )  # fmt: skip


def trace_of(traces: Mapping[float, Any], value: float, knob: str) -> Any:
    """Return the trace of one value of the knob, or the list of its one-chain traces."""
    if value not in traces:
        raise InvalidInputError(f"check_bound: `traces` has no entry for {knob}={value}, only {sorted(traces)}.")
    return traces[value]


def flat_draws(trace: Any) -> np.ndarray:
    """Return the posterior draws as (chain, draw, coordinate); several one-chain traces are joined."""
    if isinstance(trace, (list, tuple)):
        return np.concatenate([flat_draws(one) for one in trace])
    posterior = trace["posterior"]
    parts = [
        posterior[name].transpose("chain", "draw", ...).to_numpy().astype(np.float64) for name in posterior.data_vars
    ]
    return np.concatenate([part.reshape(*part.shape[:2], -1) for part in parts], axis=2)


def measured_distance(
    target: Any, trace: Any, reference: Any, found: Mapping[str, Any], enumerated: bool, confidence: float
) -> dict[str, Any]:
    """Return the distance with its limits, and its source: draws if there are any, else the matrices."""
    nothing = {"wasserstein": math.nan, "wasserstein_floor": math.nan}
    if trace is not None and enumerated:
        cells = cells_of_states(flat_draws(trace), target.n_states)
        law = found["stationary"]
        distance = total_variation_interval(frequencies(cells, len(law)), law, confidence)
        return {"distance": distance, "source": "draws against the enumerated law", **nothing}
    if trace is not None and reference is not None:
        distance, wasserstein, floor = marginal_distances(flat_draws(trace), flat_draws(reference), confidence)
        source = "largest marginal total variation between draws and the gold standard"
        return {"distance": distance, "source": source, "wasserstein": wasserstein, "wasserstein_floor": floor}
    if not math.isnan(found["tv"]):
        tv = found["tv"]
        return {"distance": Distance(tv, tv, tv, 0.0), "source": "stationary laws of the matrices", **nothing}
    return {"distance": UNKNOWN, "source": "none: neither a reference nor a matrix", **nothing}


def joined_groups(traces: Mapping[float, Any], values: Sequence[float], knob: str) -> dict[str, Any]:
    """Join the groups of the traces along the knob; several one-chain traces of one value become chains."""
    import pandas as pd
    import xarray as xr

    groups = {}
    for name in ("posterior", "sample_stats"):
        parts = []
        for value in values:
            listed = traces[value] if isinstance(traces[value], (list, tuple)) else [traces[value]]
            datasets = [trace[name].dataset for trace in listed]
            shortest = min(dataset.sizes["draw"] for dataset in datasets)
            chains = [
                dataset.isel(draw=slice(shortest)).drop_vars(("chain", "draw"), errors="ignore") for dataset in datasets
            ]
            parts.append(xr.concat(chains, dim="chain", combine_attrs="drop"))
        shortest = min(part.sizes["draw"] for part in parts)
        common = set.intersection(*(set(part.data_vars) for part in parts))
        parts = [part[sorted(map(str, common))].isel(draw=slice(shortest)) for part in parts]
        groups[name] = xr.concat(parts, dim=pd.Index(list(values), name=knob), combine_attrs="drop")
    return groups
