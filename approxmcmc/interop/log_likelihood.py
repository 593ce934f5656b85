"""The log-likelihood of the rows of a PyMC model, by the function that `pm.compute_log_likelihood` compiles."""

import functools
from typing import Any

import numpy as np
import xarray as xr
from pymc.model.transform.conditioning import remove_value_transforms

from approxmcmc.contracts import PointwiseLikelihood, as_labels
from approxmcmc.errors import IncompatibleError, InvalidInputError
from approxmcmc.interop.walk import evaluate


def pointwise_likelihoods(model: Any, posterior: xr.Dataset) -> dict[str, PointwiseLikelihood]:
    """Return the log-likelihoods of all observed variables, by name; each is compiled when it is first read.

    Raises
    ------
    IncompatibleError
        When an observed variable has a single log density for all rows, such as a time series.
    InvalidInputError
        When the posterior lacks a free variable of the model.
    """
    if missing := sorted({variable.name for variable in model.free_RVs} - set(posterior.data_vars)):
        raise InvalidInputError(f"the trace lacks {', '.join(missing)} of the model; give the model that was sampled")
    plain = remove_value_transforms(model)  # the trace has constrained values
    values = [plain.rvs_to_values[variable] for variable in plain.free_RVs]
    draws = [posterior[variable.name].transpose("chain", "draw", ...).to_numpy() for variable in plain.free_RVs]
    observed = [plain[variable.name] for variable in model.observed_RVs]
    graphs = zip(observed, plain.logp(vars=observed, sum=False), strict=True)
    return {one.name: _of(plain, one, graph, values, draws) for one, graph in graphs}


def _of(model: Any, variable: Any, graph: Any, values: list[Any], draws: list[np.ndarray]) -> PointwiseLikelihood:
    """Return the log-likelihood of one observed variable, given its graph and the draws of the free variables."""
    if graph.ndim == 0:
        raise IncompatibleError(
            f"leave-one-out cross-validation needs a log density for each row, and {variable.name!r} has one for all "
            "rows, as a time series or a multivariate normal distribution has: no row can be left out of it"
        )

    @functools.cache
    def function() -> Any:
        return model.compile_fn(graph, inputs=values, point_fn=False, on_unused_input="ignore")

    def at(point: list[np.ndarray]) -> np.ndarray:
        typed = [_as_type(entry, value.type) for entry, value in zip(point, values, strict=True)]
        return np.asarray(function()(*typed))

    observed = np.asarray(evaluate(model.rvs_to_values[variable]))
    named = model.named_vars_to_dims.get(variable.name) or (None,) * observed.ndim
    axes = [name or f"{variable.name}_dim_{k}" for k, name in enumerate(named)]
    labels = {name: as_labels(model.coords[name]) for name in named if model.coords.get(name) is not None}
    return PointwiseLikelihood(
        # A row of a multivariate distribution has several values and one log density.
        xr.DataArray(observed, labels, axes).isel(dict.fromkeys(axes[graph.ndim :], 0), drop=True),
        lambda chain, draw, rows: at([one[chain, draw] for one in draws])[np.ix_(*rows)],
        lambda: at([one.mean(axis=(0, 1)) for one in draws]),
    )


def _as_type(entry: np.ndarray, kind: Any) -> np.ndarray:
    """Return `entry` in the type `kind` of its variable; a mean of integers is rounded."""
    return np.asarray(np.rint(entry) if kind.dtype.startswith(("int", "uint", "bool")) else entry, dtype=kind.dtype)
