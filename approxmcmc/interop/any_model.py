"""What users give as a model: a target of the library, a PyMC model, or a formula of Bambi; neither is imported here.

Bambi centres the predictors and draws group effects as standard normal variables times a scale. Its `predict` and its
plots use the intercept of the uncentred predictors and the effects themselves, so both are computed from the draws.
"""

from typing import Any

import xarray as xr

from approxmcmc.errors import LeftOutWarning, warn

ROWS = "__obs__"  # Bambi's name of the axis of rows: `fit` leaves variables with it out


def as_target(given: Any) -> Any:
    """Return the target of a PyMC or Bambi model, anything else unchanged; the check imports neither library."""
    model = without_formula(given)
    if not is_pymc(model):
        return model
    from approxmcmc.interop.plans import target_of

    target = target_of(model)
    if is_bambi(given):
        target.returned.choose(
            [one.name for one in model.deterministics if ROWS not in (model.named_vars_to_dims.get(one.name) or ())]
        )
    return target


def in_terms_of(given: Any, trace: xr.DataTree) -> xr.DataTree:
    """Return a trace in the variables of the user's model: those of a Bambi formula, else unchanged."""
    if not is_bambi(given):
        return trace
    try:
        return in_terms_of_formula(trace, given)
    except Exception as error:  # Bambi's function is private and may change: the draws must not be lost
        message = f"the trace has the variables of the PyMC model, because Bambi could not rename them: {error!r}"
        warn(message, LeftOutWarning)
        return trace


def in_terms_of_formula(trace: xr.DataTree, model: Any) -> xr.DataTree:
    """Return a complete trace of `without_formula(model)` with the variables that ``model.fit()`` returns."""
    attrs = {group: trace[group].attrs for group in trace.children}
    # The last step of Bambi's own `fit`: it has no public name.
    trace = model.backend._clean_results(trace, omit_offsets=True, include_response_params=False)
    for group, before in attrs.items():
        trace[group].attrs = {**before, **trace[group].attrs}
    return trace


def is_pymc(given: Any) -> bool:
    """Return whether a model is a ``pymc.Model``."""
    return _is_model_of(given, "pymc")


def is_bambi(given: Any) -> bool:
    """Return whether a model is a ``bambi.Model``."""
    return _is_model_of(given, "bambi")


def _is_model_of(given: Any, library: str) -> bool:
    return any(kind.__name__ == "Model" and kind.__module__.startswith(f"{library}.") for kind in type(given).__mro__)


def without_formula(given: Any) -> Any:
    """Return the PyMC model of a Bambi model, which is built if necessary; anything else unchanged."""
    if not is_bambi(given):
        return given
    if not given.built:
        given.build()
    return given.backend.model
