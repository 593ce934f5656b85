"""Which library a model comes from; none of them is imported."""

from typing import Any


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
