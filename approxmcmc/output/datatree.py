"""Turn plain arrays into a trace: an ``xarray.DataTree`` with the groups and attributes that ArviZ users expect."""

import json
import sys
from collections.abc import Mapping
from typing import Any

import numpy as np
import xarray as xr

from approxmcmc.contracts import SamplingResult, Variables, as_labels, content_hash
from approxmcmc.contracts.arguments import naming_the_arguments
from approxmcmc.errors import InvalidInputError
from approxmcmc.output.schema import BY_NAME

LARGEST_STORED_BYTES = 1_000_000


@naming_the_arguments
def build_trace(
    result: SamplingResult,
    *,
    variables: Variables,
    observed_data: Mapping[str, Any],
    constant_data: Mapping[str, Any],
    keep_warmup: bool,
    settings: Mapping[str, Any],
) -> xr.DataTree:
    """Turn the arrays of a finished run into a trace.

    Parameters
    ----------
    result
        Draws, per-draw records, tuning totals and attributes of the run.
    variables
        Names, shapes and labels of the parameters; their sizes add up to the last axis of `result.draws`.
    observed_data, constant_data
        Arrays for the groups of these names. An array above 1 MB is not stored: the group carries the attributes
        ``<name>_shape``, ``<name>_dtype`` and ``<name>_content_hash`` (:func:`approxmcmc.contracts.content_hash`)
        instead.
    keep_warmup
        Whether to write ``warmup_posterior`` and ``warmup_sample_stats``, if the run kept them.
    settings
        The sampler's settings, stored as JSON in the attribute ``inference_library_settings``.

    Returns
    -------
    xarray.DataTree
        Groups ``posterior`` and ``sample_stats`` with dims (chain, draw, ...), the warm-up groups, and the data groups
        that are not empty. The root has no attributes. Attributes are of types that netCDF can store.

    Raises
    ------
    InvalidInputError
        If the shape of the draws or of a record does not fit `variables` and the number of draws.
    """
    _check_shapes(result, variables)
    attrs = _attrs(result.attrs, result.tuning_totals, settings)
    groups = {
        "posterior": _posterior(result.draws, variables, attrs),
        "sample_stats": _sample_stats(result.stats, attrs),
    }
    if keep_warmup and result.warmup_draws is not None:
        groups["warmup_posterior"] = _posterior(result.warmup_draws, variables, attrs)
        groups["warmup_sample_stats"] = _sample_stats(result.warmup_stats or {}, attrs)
    return xr.DataTree.from_dict(groups | _data_groups(observed_data, constant_data, variables))


def named_trace(
    posterior: Mapping[str, np.ndarray],
    stats: Mapping[str, np.ndarray],
    *,
    variables: Variables,
    tuning_totals: Mapping[str, Any],
    attrs: Mapping[str, Any],
    settings: Mapping[str, Any],
    warmup_posterior: Mapping[str, np.ndarray] | None = None,
    warmup_stats: Mapping[str, np.ndarray] | None = None,
    observed_data: Mapping[str, Any] | None = None,
    constant_data: Mapping[str, Any] | None = None,
) -> xr.DataTree:
    """Turn draws given by variable name, (chain, draw, ...) each, into a trace.

    The other arguments are as in :func:`build_trace`. The warm-up groups are written if `warmup_posterior` is given.

    Raises
    ------
    InvalidInputError
        If a variable is missing, or has another shape than `variables` says.
    """
    shapes = {name: np.shape(values)[2:] for name, values in posterior.items()}
    if shapes != dict(variables.shapes):
        raise InvalidInputError(
            f"The trace needs draws of the variables {dict(variables.shapes)} (name: shape), each with the axes chain "
            f"and draw before them; found {shapes}. Return what the target's `variables` describe."
        )
    described = _attrs(attrs, tuning_totals, settings)
    groups = {
        "posterior": _named(posterior, variables, described),
        "sample_stats": _sample_stats(stats, described),
    }
    if warmup_posterior is not None:
        groups["warmup_posterior"] = _named(warmup_posterior, variables, described)
        groups["warmup_sample_stats"] = _sample_stats(warmup_stats or {}, described)
    return xr.DataTree.from_dict(groups | _data_groups(observed_data, constant_data, variables))


def _attrs(attrs: Mapping[str, Any], tuning_totals: Mapping[str, Any], settings: Mapping[str, Any]) -> dict[str, Any]:
    tuning = {f"tuning_{name}": np.asarray(total).tolist() for name, total in tuning_totals.items()}
    settings_json = json.dumps(dict(settings), sort_keys=True, default=str)
    return sanitize_attrs({**attrs, **tuning, "inference_library_settings": settings_json})


def sanitize_attrs(attrs: Mapping[str, Any]) -> dict[str, Any]:
    """Return attributes that netCDF can store: bool as 0/1, None dropped, integers above 64 bits as text, dict as JSON.

    Examples
    --------
    >>> sanitize_attrs({"tuned": True, "limit": None, "nested": {"a": 1}, "scale": 0.5})
    {'tuned': 1, 'nested': '{"a": 1}', 'scale': 0.5}
    """
    return {str(name): _storable(value) for name, value in attrs.items() if value is not None}


def _storable(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        value = value.tolist()
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, bool):
        return int(value)
    if isinstance(value, int):
        return value if -(2**63) <= value < 2**63 else str(value)
    if isinstance(value, (float, str)):
        return value
    if isinstance(value, (list, tuple)):
        items = [_storable(item) for item in value if item is not None]
        of_one_kind = all(isinstance(i, str) for i in items) or all(isinstance(i, (int, float)) for i in items)
        plain = len(items) == len(value) and not any(isinstance(item, (list, tuple, dict)) for item in value)
        if of_one_kind and plain:
            return items
    return json.dumps(value, sort_keys=True, default=str)


def _check_shapes(result: SamplingResult, variables: Variables) -> None:
    if result.draws.ndim != 3 or result.draws.shape[2] != variables.size:
        raise InvalidInputError(
            f"The trace needs draws of shape (chains, draws, {variables.size}), because the variables "
            f"{dict(variables.shapes)} have {variables.size} entries together; found {result.draws.shape}. "
            "Let the target's `variables` describe its flat theta."
        )
    for name, values in result.stats.items():
        if np.shape(values)[:2] != result.draws.shape[:2]:
            raise InvalidInputError(
                f"The record {name!r} needs one value per chain and draw, shape {result.draws.shape[:2]}; "
                f"found {np.shape(values)}."
            )


def _posterior(draws: np.ndarray, variables: Variables, attrs: Mapping[str, Any]) -> xr.Dataset:
    return _named(variables.unpack(np.asarray(draws).astype(variables.dtype, copy=False)), variables, attrs)


def _named(values: Mapping[str, np.ndarray], variables: Variables, attrs: Mapping[str, Any]) -> xr.Dataset:
    return _dataset(
        values,
        attrs=attrs,
        dims={name: list(dims) for name, dims in variables.dims.items()},
        coords={name: as_labels(labels) for name, labels in variables.coords.items()},
    )


def _sample_stats(stats: Mapping[str, Any], attrs: Mapping[str, Any]) -> xr.Dataset:
    arrays = {
        name: np.asarray(values, dtype=BY_NAME[name].dtype) if name in BY_NAME else np.asarray(values)
        for name, values in stats.items()
    }
    dataset = _dataset(arrays, attrs=attrs)
    for name in dataset.data_vars:
        described = BY_NAME.get(str(name))
        dataset[name].attrs.update(
            described.attrs if described else {"units": "1", "long_name": str(name).replace("_", " ")}
        )
    return dataset


def _data_groups(
    observed_data: Mapping[str, Any] | None, constant_data: Mapping[str, Any] | None, variables: Variables
) -> dict[str, xr.Dataset]:
    both = {"observed_data": observed_data, "constant_data": constant_data}
    return {name: _data_group(arrays, variables) for name, arrays in both.items() if arrays}


def _data_group(arrays: Mapping[str, Any], variables: Variables) -> xr.Dataset:
    small: dict[str, np.ndarray] = {}
    described: dict[str, Any] = {}
    for name, values in arrays.items():
        array = np.asarray(values)
        if array.nbytes <= LARGEST_STORED_BYTES:
            small[name] = array
        else:
            described[f"{name}_shape"] = list(array.shape)
            described[f"{name}_dtype"] = str(array.dtype)
            described[f"{name}_content_hash"] = content_hash(array)
    dims = {name: list(variables.dims[name]) for name in small if name in variables.dims}
    used = {axis for axes in dims.values() for axis in axes}
    coords = {axis: as_labels(labels) for axis, labels in variables.coords.items() if axis in used}
    return _dataset(small, attrs=sanitize_attrs(described), sample_dims=[], dims=dims, coords=coords)


def _dataset(arrays: Mapping[str, Any], *, attrs: Mapping[str, Any], **options: Any) -> xr.Dataset:
    import arviz_base as az  # imported late, so that chains do not wait for it

    # ArviZ warns whenever there are more chains than draws, which is normal for a run stopped early.
    options.setdefault("sample_dims", ["chain", "draw"])
    library = sys.modules[__name__.partition(".")[0]]
    return az.dict_to_dataset(arrays, attrs=attrs, inference_library=library, check_conventions=False, **options)
