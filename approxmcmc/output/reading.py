"""Read a trace: its draws in the target's form, and its records of the run that made it."""

import json
from collections.abc import Mapping
from typing import Any

import numpy as np
import xarray as xr

from approxmcmc.contracts import Target
from approxmcmc.contracts.speaker import speaker
from approxmcmc.engine.compiler.identity import known_content
from approxmcmc.engine.streams import seed_sequences, streams
from approxmcmc.errors import InvalidInputError


def flat_draws(trace: xr.DataTree, target: Target) -> np.ndarray:
    """Return the draws of a trace as an array (chain, draw, dim), in the order of the target's theta.

    Raises
    ------
    InvalidInputError
        If it is not a trace, lacks a variable of the target, has one of another shape, or comes from a Bambi formula.
    """
    if not isinstance(trace, xr.DataTree) or "posterior" not in trace.children:
        groups = sorted(trace.children) if isinstance(trace, xr.DataTree) else type(trace).__name__
        raise InvalidInputError(f"a trace is needed, an xarray.DataTree with a group 'posterior'; found {groups}")
    refuse_formula(trace, repr(target))
    posterior = trace["posterior"].to_dataset()
    columns = {}
    for name, shape in target.variables.shapes.items():
        if name not in posterior:
            raise InvalidInputError(
                f"{target!r} needs draws of {list(target.variables.shapes)}; the trace has "
                f"{sorted(map(str, posterior.data_vars))}. Rename them: trace.posterior.rename(...)"
            )
        values = posterior[name].transpose("chain", "draw", ...).to_numpy().astype(np.float64)
        if values.shape[2:] != tuple(shape):
            raise InvalidInputError(
                f"{target!r} needs {name!r} of shape {tuple(shape)} in each draw; the trace has {values.shape[2:]}"
            )
        columns[name] = values
    flat = target.variables.pack_draws(columns)
    finite = np.isfinite(flat)
    if not finite.all():
        chain, draw, k = np.argwhere(~finite)[0]
        raise InvalidInputError(
            f"{target.variables.labels()[k]} is not finite ({flat[chain, draw, k]}) in chain {chain}, draw {draw} of "
            "the trace. Leave such draws out, or cut the chains to the length of the shortest: "
            "trace.isel(draw=slice(None, length))"
        )
    return flat


def refuse_formula(trace: Any, needing: str) -> None:
    """Raise if a trace comes from a Bambi formula: its intercept is another number under the same name."""
    is_trace = isinstance(trace, xr.DataTree) and "posterior" in trace.children
    if is_trace and trace["posterior"].attrs.get("modeling_interface") == "bambi":
        raise InvalidInputError(
            f"{needing} needs draws of its own variables; found those of a Bambi formula. Sample "
            "the PyMC model, amc.sample(formula.backend.model), or use Bambi's own functions, such as "
            "formula.compute_log_likelihood(trace)"
        )


def refuse_weights(trace: xr.DataTree, reader: str) -> None:
    """Raise if the draws of a trace carry weights, which `reader` would ignore."""
    if "sample_stats" in trace.children and {"weight", "log_weight"} & set(trace["sample_stats"].data_vars):
        raise InvalidInputError(
            f"the draws of this trace carry weights, which {reader} would ignore; resample them first"
        )


SAMPLER = "inference_library_settings"
TARGET = "target_content_hash"
TUNED = "adapted_"  # prefix of the attributes that hold the result of tuning


def check_origin(trace: xr.DataTree, target: Target, sampler: Any) -> None:
    """Raise if a trace was made by another sampler or on another target.

    Raises
    ------
    InvalidInputError
        When the trace records another sampler or target; a trace without a record of its origin is accepted, and so is
        the trace of a target with unknown content.
    """
    attrs = trace["posterior"].attrs
    asked = json.loads(json.dumps(dict(sampler.to_dict()), default=str))
    if json.loads(attrs.get(SAMPLER, "null")) not in (None, asked):
        raise InvalidInputError(
            f"{speaker()}: the trace was made by {attrs[SAMPLER]}, and not by {sampler!r}; pass that sampler, or None "
            "to check only the draws"
        )
    recorded = attrs.get(TARGET, "")  # "" also if the sampler's target had unknown content
    if recorded and recorded != known_content(target):
        raise InvalidInputError(
            f"{speaker()}: the trace was made on another target than {target!r}, or on other data; pass the target "
            "that the sampler had, or sampler=None to check its draws against this target"
        )


def without_origin(trace: xr.DataTree) -> xr.DataTree:
    """Return a copy without the records of its sampler and target, so that `check_origin` accepts it."""
    copied = trace.copy()
    for name in (SAMPLER, TARGET):
        copied["posterior"].attrs.pop(name, None)
    return copied


def shuffled_by(trace: xr.DataTree) -> np.random.Generator | None:
    """Return a new copy of the random stream that shuffled a run's data; None if the trace has no record of a seed."""
    seed = trace["posterior"].attrs.get("seed")
    if seed is None:
        return None
    first = int(seed) if np.ndim(seed) == 0 else [int(np.ravel(seed)[0])]
    return streams(seed_sequences(first, 1)[0][0]).order


def adapted_by_chain(trace: xr.DataTree) -> list[Mapping[str, float]]:
    """Return the tuned values of each chain in the trace, by name; the labels of the chains say which they are."""
    posterior = trace["posterior"].to_dataset()
    tuned = {
        str(name).removeprefix(TUNED): np.atleast_1d(values)
        for name, values in posterior.attrs.items()
        if str(name).startswith(TUNED)
    }
    labels = posterior["chain"].values if "chain" in posterior.coords else np.arange(posterior.sizes["chain"])
    return [{name: float(values[k]) for name, values in tuned.items() if 0 <= k < len(values)} for k in labels]
