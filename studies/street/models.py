"""All models of the street by name; small ones, which cost little, first."""

from typing import Any

from studies.street import factors, hierarchies, others, regressions, small

KINDS = {"small": small, "other": others, "regression": regressions, "hierarchy": hierarchies, "factors": factors}
WRITTEN = {function.__name__: function for kind in KINDS.values() for function in kind.MODELS}
KIND = {function.__name__: name for name, kind in KINDS.items() for function in kind.MODELS}


def model(name: str) -> Any:
    """Return a model, made anew."""
    import pymc as pm

    with pm.Model() as made:
        WRITTEN[name]()
    return made
