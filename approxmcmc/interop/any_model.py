"""What users give as a model: a target of the library, a PyMC model, or a formula of Bambi.

Bambi centres the predictors and draws group effects as standard normal variables times a scale. Its `predict` and its
plots use the intercept of the uncentred predictors and the effects themselves, so both are computed from the draws.
"""

from typing import Any

import xarray as xr

from approxmcmc.interop.libraries import is_bambi, is_pymc, without_formula


def as_target(given: Any) -> Any:
    """Return the target of a PyMC or Bambi model, anything else unchanged; the check imports neither library."""
    given = without_formula(given)
    if is_pymc(given):
        from approxmcmc.interop.whole_model import target_of

        return target_of(given)
    return given


def in_terms_of(given: Any, trace: xr.DataTree) -> xr.DataTree:
    """Return a trace in the variables of the user's model: those of a Bambi formula, else unchanged."""
    if not is_bambi(given):
        return trace
    return in_terms_of_formula(trace, given)


def in_terms_of_formula(trace: xr.DataTree, model: Any) -> xr.DataTree:
    """Return a trace of `without_formula(model)` with the variables that ``model.fit()`` returns."""
    import pymc as pm

    inner, posterior = model.backend.model, trace["posterior"].to_dataset()
    missing = [
        variable.name
        for variable in inner.deterministics
        if variable.name not in posterior and "__obs__" not in (inner.named_vars_to_dims.get(variable.name) or ())
    ]
    if missing:
        drawn = posterior[[variable.name for variable in inner.free_RVs]]
        uncompiled = {"progressbar": False, "compile_kwargs": {"mode": "FAST_COMPILE"}}  # saves a second
        posterior = posterior.merge(pm.compute_deterministics(drawn, model=inner, var_names=missing, **uncompiled))
    trace["posterior"] = xr.DataTree(posterior)
    attrs = {group: trace[group].attrs for group in trace.children}
    # The last step of Bambi's own `fit`: it has no public name.
    trace = model.backend._clean_results(trace, omit_offsets=True, include_response_params=False)
    for group, before in attrs.items():
        trace[group].attrs = {**before, **trace[group].attrs}
    return trace
