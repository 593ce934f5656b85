"""The samplers that `check_bound` compares, their chains, and the measured distances from the posterior.

The knob is the setting whose values are compared. It may be anything that changes the sampler but not its exact limit:
epsilon, the target variance of a minibatch Barker test, a batch size, the number of auxiliary draws.

===========================  ============================================================
sampler                      its exact limit
===========================  ============================================================
`MetropolisHastings`         the same proposal with `ExactTest` of the same rule
`Gibbs`                      the same scan with `ExactTest`
`Exchange`                   Metropolis-Hastings with the exact ratio
===========================  ============================================================
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from approxmcmc.bounds.distance import (
    Distance,
    cells_of_states,
    frequencies,
    marginal_distances,
    total_variation_interval,
)
from approxmcmc.contracts import TestedSampler
from approxmcmc.errors import IncompatibleError, InvalidInputError


def settings_of(sampler: Any, epsilons: Sequence[float] | None) -> dict[float, Any]:
    """Return samplers by the value of their knob: a mapping's samplers, or one sampler at several epsilons.

    Raises
    ------
    InvalidInputError
        When there is no value, a value is not a finite number, or a mapping comes with epsilons.
    IncompatibleError
        When a single sampler is given and its test has no epsilon.
    """
    if not isinstance(sampler, Mapping):
        return _at_epsilons(sampler, epsilons)
    if epsilons is not None:
        raise InvalidInputError("check_bound: leave `epsilons` out: the dict of samplers has its own keys.")
    if not sampler:
        raise InvalidInputError("check_bound needs at least one sampler in the dict.")
    for value in sampler:
        if isinstance(value, (str, bool)) or not math.isfinite(value):
            raise InvalidInputError(
                f"check_bound: the keys of the dict of samplers are values of the knob, finite numbers; found {value!r}"
            )
    return dict(sampler)


def _at_epsilons(sampler: Any, epsilons: Sequence[float] | None) -> dict[float, Any]:
    if not isinstance(sampler, TestedSampler) or sampler.with_epsilon(0.0) is None:
        raise IncompatibleError(
            f"check_bound varies the epsilon of a sampler's test, such as SequentialTTest; found {sampler!r}. Another "
            'knob needs a dict: check_bound(target, {10: sampler_10, 20: sampler_20}, knob="batch_size").'
        )
    if epsilons is None or len(epsilons) == 0:
        raise InvalidInputError("check_bound needs at least one epsilon.")
    return {epsilon: sampler.with_epsilon(epsilon) for epsilon in epsilons}


def common_limit(settings: Mapping[float, Any], target: Any) -> Any:
    """Return the exact sampler that all settings approximate; raise if they approximate different ones."""
    limits = [sampler.exact_limit(target) for sampler in settings.values()]
    other = next((limit for limit in limits if limit != limits[0]), None)
    if other is not None:
        raise IncompatibleError(
            f"check_bound: all samplers must approximate the same exact chain, found {limits[0]!r} and {other!r}; "
            "check proposals of different sizes one by one"
        )
    return limits[0]


def reads_all(sampler: Any, target: Any) -> bool:
    """Return whether every decision of a sampler with a test reads all data; False without a test."""
    return isinstance(sampler, TestedSampler) and sampler.test.reads_all(target.n_obs)


UNKNOWN = Distance(math.nan, math.nan, math.nan, math.nan)


def trace_of(traces: Mapping[float, Any], value: float, knob: str) -> Any:
    """Return the trace of one value of the knob, or the list of its one-chain traces."""
    if value not in traces:
        raise InvalidInputError(f"check_bound: `traces` has no entry for {knob}={value}, only {sorted(traces)}.")
    return traces[value]


def flat_draws(trace: Any) -> np.ndarray:
    """Return the posterior draws as (chain, draw, coordinate); several one-chain traces are joined."""
    if isinstance(trace, (list, tuple)):
        return np.concatenate([flat_draws(chain) for chain in trace])
    posterior = trace["posterior"]
    parts = [
        posterior[name].transpose("chain", "draw", ...).to_numpy().astype(np.float64) for name in posterior.data_vars
    ]
    return np.concatenate([part.reshape(*part.shape[:2], -1) for part in parts], axis=2)


def measured_distance(
    target: Any, trace: Any, reference: Any, bounds_of_chain: Mapping[str, Any], enumerated: bool, confidence: float
) -> dict[str, Any]:
    """Return a dict with the `distance` and its limits, its `source` in words, and `moved`, the Wasserstein distance.

    The distance is that of the draws in `trace` from the exact distribution on the states, if they are `enumerated`,
    or from `reference`; otherwise that of the stationary distributions in `bounds_of_chain`, which are
    computed from the matrices.
    """
    nothing = {"moved": UNKNOWN}
    if trace is not None and enumerated:
        cells = cells_of_states(flat_draws(trace), target.n_states)
        law = bounds_of_chain["stationary"]
        distance = total_variation_interval(frequencies(cells, len(law)), law, confidence)
        return {"distance": distance, "source": "draws against the enumerated distribution", **nothing}
    if trace is not None and reference is not None:
        distance, moved = marginal_distances(flat_draws(trace), flat_draws(reference), confidence)
        source = "largest marginal total variation between draws and the gold standard"
        return {"distance": distance, "source": source, "moved": moved}
    if not math.isnan(bounds_of_chain["tv"]):
        tv = bounds_of_chain["tv"]
        return {"distance": Distance(tv, tv, tv, 0.0), "source": "stationary distributions of the matrices", **nothing}
    return {"distance": UNKNOWN, "source": "none: neither a reference nor a matrix", **nothing}


def joined_groups(traces: Mapping[float, Any], values: Sequence[float], knob: str) -> dict[str, Any]:
    """Join the groups ``posterior`` and ``sample_stats`` of the traces along the new dim `knob`.

    Several one-chain traces of one value become chains. All are cut to the fewest draws, and to the common variables.
    """
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
