"""The models that users pass: a target of the library, a PyMC model, or a formula of Bambi."""

from typing import Any

import xarray as xr


def as_target(given: Any) -> Any:
    """Return the target of a PyMC or Bambi model, anything else unchanged; the check imports neither."""
    if is_bambi(given):
        from approxmcmc.interop.bambi import pymc_model

        given = pymc_model(given)
    if _is_model_of(given, "pymc"):
        from approxmcmc.interop.whole_model import target_of

        return target_of(given)
    return given


def in_terms_of(given: Any, trace: xr.DataTree) -> xr.DataTree:
    """Return a trace in the variables of the user's model: those of a Bambi formula, else unchanged."""
    if not is_bambi(given):
        return trace
    from approxmcmc.interop.bambi import in_terms_of_formula

    return in_terms_of_formula(trace, given)


def is_bambi(given: Any) -> bool:
    """Return whether a model is a ``bambi.Model``."""
    return _is_model_of(given, "bambi")


def _is_model_of(given: Any, library: str) -> bool:
    return any(kind.__name__ == "Model" and kind.__module__.startswith(f"{library}.") for kind in type(given).__mro__)
