"""The draws of a trace in the target's form: one flat theta per draw."""

import numpy as np
import xarray as xr

from approxmcmc.contracts import Target
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
    posterior, found = trace["posterior"].to_dataset(), {}
    if posterior.attrs.get("modeling_interface") == "bambi":  # its intercept is another number under the same name
        raise InvalidInputError(
            f"{target!r} needs draws of its own variables, and the trace has the variables of a Bambi formula. Sample "
            "the PyMC model, amc.sample(formula.backend.model), or use Bambi's own functions, such as "
            "formula.compute_log_likelihood(trace)"
        )
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
        found[name] = values
    return target.variables.pack_draws(found)
