"""What users give as a posterior: a target, or a PyMC model, which becomes one."""

from typing import Any


def as_target(given: Any) -> Any:
    """Return the target of a PyMC model, anything else as it is; `pymc` is not imported to find out which it is."""
    if any(kind.__name__ == "Model" and kind.__module__.startswith("pymc.") for kind in type(given).__mro__):
        from approxmcmc.interop.whole_model import target_of

        return target_of(given)
    return given
