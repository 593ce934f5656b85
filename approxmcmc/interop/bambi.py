"""Models written as formulas with Bambi: the PyMC model inside, and traces in Bambi's own variables.

Bambi centres the predictors and draws group effects as standard normal variables times a scale. Its `predict` and its
plots use the intercept of the uncentred predictors and the effects themselves, so both are computed from the draws.
"""

from typing import Any

import xarray as xr


def pymc_model(model: Any) -> Any:
    """Return the PyMC model of a Bambi model, building it if necessary."""
    if not model.built:
        model.build()
    return model.backend.model


def in_terms_of_formula(trace: xr.DataTree, model: Any) -> xr.DataTree:
    """Return a trace of `pymc_model(model)` with the variables that ``model.fit()`` returns."""
    import pymc as pm

    inner, posterior = model.backend.model, trace["posterior"].to_dataset()
    missing = [
        variable.name
        for variable in inner.deterministics
        if variable.name not in posterior and "__obs__" not in (inner.named_vars_to_dims.get(variable.name) or ())
    ]
    if missing:
        drawn = posterior[[variable.name for variable in inner.free_RVs]]
        posterior = posterior.merge(pm.compute_deterministics(drawn, model=inner, var_names=missing, progressbar=False))
    trace["posterior"] = xr.DataTree(posterior)
    attrs = {group: trace[group].attrs for group in trace.children}
    # The last step of Bambi's own `fit`: it has no public name.
    trace = model.backend._clean_results(trace, omit_offsets=True, include_response_params=False)
    for group, before in attrs.items():
        trace[group].attrs = {**before, **trace[group].attrs}
    return trace
