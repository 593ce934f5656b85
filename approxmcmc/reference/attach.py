"""Attach a gold standard to a trace, so that plots and tables of ArviZ show both."""

import math
import reprlib
from collections.abc import Hashable

import numpy as np
import xarray as xr

from approxmcmc.errors import GoldStandardError

MAX_THINNED_DRAWS = 1000


def attach_reference(trace: xr.DataTree, reference: xr.DataTree) -> xr.DataTree:
    """Return a copy of a trace with two groups for its gold standard.

    Parameters
    ----------
    trace
        A run; its posterior's variables must all be in the reference, with the same axes and labels.
    reference
        Output of :func:`reference_posterior` or :func:`grid_reference`.

    Returns
    -------
    xarray.DataTree
        The groups of `trace`, and two more: `reference_posterior`, at most 1000 evenly spaced draws of each chain of
        the gold standard, for plots; and `reference_moments`, mean, sd and mcse from all its draws.

    Raises
    ------
    GoldStandardError
        If a variable of the trace is missing in the reference, or has another shape or other labels there.

    Examples
    --------
    >>> both = attach_reference(trace, reference)  # doctest: +SKIP
    >>> az.summary(both, group="reference_posterior")  # doctest: +SKIP
    """
    posterior = reference["posterior"].to_dataset()
    for name, variable in trace["posterior"].data_vars.items():
        own_variable = posterior.get(name)
        if own_variable is None or not _same_axes(variable, own_variable):
            own = "no such variable" if own_variable is None else _describe(name, own_variable)
            raise GoldStandardError(
                f"The gold standard does not fit the trace: the trace has {_describe(name, variable)}, the gold "
                f"standard has {own}. Make it from the target of this trace."
            )
    if "reference_moments" not in reference.children:
        raise GoldStandardError(
            "attach_reference needs a trace and what `reference_posterior` returned, in this order; the second lacks "
            "the group 'reference_moments'."
        )
    step = math.ceil(posterior.sizes["draw"] / MAX_THINNED_DRAWS)
    groups = dict(trace.to_dict())
    groups["/reference_posterior"] = posterior.isel(draw=slice(None, None, step))
    groups["/reference_moments"] = reference["reference_moments"].to_dataset()
    return xr.DataTree.from_dict(groups)


def _same_axes(first: xr.DataArray, second: xr.DataArray) -> bool:
    dims = first.dims[2:]
    if dims != second.dims[2:] or first.shape[2:] != second.shape[2:]:
        return False
    return all(np.array_equal(first[dim].to_numpy(), second[dim].to_numpy()) for dim in dims)


def _describe(name: Hashable, variable: xr.DataArray) -> str:
    axes = {dim: variable[dim].to_numpy().tolist() for dim in variable.dims[2:]}
    return f"{name!r} with axes {reprlib.repr(axes)}"
