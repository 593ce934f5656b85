"""Find the family of a model's rows in the graph of their distribution."""

from collections.abc import Sequence
from typing import Any

from approxmcmc.families import FORMS
from approxmcmc.interop.links import Graphs, LawOfRows


def law_of(operation: Any, parameters: Sequence[Any], graphs: Graphs) -> LawOfRows | str:
    """Return the family of a random variable with this operation and these graphs of its parameters.

    If no form of a family fits, return a sentence that says what the forms of the distribution need.
    """
    name = distribution_of(operation)
    forms = [form for form in FORMS if form.distribution == name]
    if not forms:
        known = ", ".join(dict.fromkeys(form.distribution for form in FORMS))
        return f"the distribution {name} is not supported: {known} are"
    for form in forms:
        rows: LawOfRows | None = form.read(graphs, *parameters)
        if rows is not None:
            return rows
    return f"{name} rows need {', or '.join(form.needs for form in forms)}"


def distribution_of(operation: Any) -> str:
    """Return the name of the distribution of a random variable with this operation."""
    return type(operation).__name__.removesuffix("RV")
