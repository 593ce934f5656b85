"""A regression without its rows, as text: its class, its settings, and what its rows look like.

The text makes the same model again, from a few rows that are made up: they have every level of every column, and every
class of the responses. Then the rows are put in. No object is pickled, and a function of a user's is never stored.
"""

import copy
from collections.abc import Mapping
from typing import Any

import numpy as np

from approxmcmc.errors import IncompatibleError, InvalidInputError
from approxmcmc.targets.describable import Describable
from approxmcmc.targets.predictors.design import Design, Predictor
from approxmcmc.targets.regression import Regression

FEWEST_ROWS = 8


def described(target: Any) -> dict[str, Any]:
    """Return what makes the model again without its rows, as values for JSON.

    The entry ``made`` is None if the model has functions of the user's, or is of a kind that cannot be described.
    """
    plain = target.rows_of_model() if isinstance(target, Describable) else target
    if not isinstance(plain, Regression):
        raise IncompatibleError(f"a target of rows of a regression is needed, found {target!r}")
    first = [
        {
            "columns": [int(position) for position in predictor.columns],
            "places": [int(position) for position in predictor.places],
            "codes": [int(position) for position in predictor.codes],
            "shared": [int(position) for position in predictor.shared],
            "values": [float(value) for value in predictor.values],
        }
        for predictor in plain.design.predictors
    ]
    return {
        "class": type(target).__name__,
        "model": model_hash(target),
        "dim": plain.design.dim,
        "weights": [int(position) for position in plain.design.weight_columns],
        "predictors": first,
        "n_responses": len(plain.unweighted_responses),
        "largest_size": float(getattr(plain.likelihood.single, "largest_size", 1.0)),
        "made": _made(target),
    }


def model_hash(target: Any) -> list[Any]:
    """Return what must be equal in two targets of the same model: likelihood, prior, and names of parameters."""
    return [target._identity(), target.prior.identity(), [str(label) for label in target.variables.labels()]]


def _made(target: Any) -> dict[str, Any] | None:
    """Return the arguments of the constructor that are no rows, and what the rows are like."""
    settings = target.settings_without_rows() if isinstance(target, Describable) else None
    if settings is None or target.prior.function is not None:
        return None
    coords = {axis: [str(label) for label in labels] for axis, labels in target.variables.coords.items()}
    columns = [name for name in target.variables.shapes if f"{name}_dim" in coords]
    levels = {
        name: [*([target.reference_levels[name]] if name in target.reference_levels else []), *coords[f"{name}_dim"]]
        for name in columns
    }
    slopes = coords.get("coef", [])[target.has_intercept :] if "beta" in target.variables.shapes else []
    return {"settings": settings, "slopes": slopes, "levels": levels, **target.form_of_rows()}


def model_of(description: Mapping[str, Any], model: Any = None) -> Any:
    """Return a target of the described model with a few rows: `model` itself, or one that is made here.

    Raises
    ------
    InvalidInputError
        If `model` is another model, or is needed and was not given.
    """
    form = description["made"]
    if model is None and form is None:
        raise InvalidInputError(
            f"the stored {description['class']} has functions of yours, which are not stored; give model=, a target of "
            "the same model with any few rows"
        )
    candidate = _few_rows(description) if model is None else model
    if json_like(model_hash(candidate)) != description["model"]:
        raise InvalidInputError(
            f"the stored {description['class']} has another likelihood, prior or other parameters than {candidate!r}"
            + ("" if model is None else ", which was given as model=")
        )
    return candidate


def json_like(value: Any) -> Any:
    """Return nested tuples as lists, as JSON does."""
    return [json_like(part) for part in value] if isinstance(value, list | tuple) else value


def _few_rows(description: Mapping[str, Any]) -> Any:
    """Return a target of made-up rows with all levels and classes."""
    import pandas as pd

    from approxmcmc import targets

    kind: Any = getattr(targets, description["class"])
    form = {**description["made"], "largest_size": description["largest_size"]}
    levels = form["levels"]
    n = max(FEWEST_ROWS, *(len(of) for of in levels.values()), kind.fewest_rows(form))
    dtype = np.float32 if form["is_float32"] else np.float64
    columns: dict[str, Any] = {
        label: np.cos(1.0 + np.arange(n) * (1.0 + j)).astype(dtype) for j, label in enumerate(form["slopes"])
    }
    for column, of in levels.items():
        columns[column] = pd.Categorical(np.resize(np.array(of, dtype=object), n), categories=of)
    return kind(pd.DataFrame(columns, index=range(n)), **kind.columns_of_form(form, n), **form["settings"])


def with_rows_of(
    model: Any,
    description: Mapping[str, Any],
    X: np.ndarray,
    codes: np.ndarray,
    responses: tuple[np.ndarray, ...],
    weights: np.ndarray | None = None,
) -> Any:
    """Return the regression of the described model with these rows, which are not looked at."""
    other = copy.copy(model)
    other._start_anew(())
    form = description["made"] or {}
    if isinstance(other, Describable) and form:
        other.learn_from(form)
    if np.iscomplexobj(responses[0]):
        other.likelihood = other.likelihood.single.covering((np.array([1j * description["largest_size"]]),))
    predictors = [
        Predictor(**{**of, "columns": tuple(of["columns"]), "codes": tuple(of["codes"])})
        for of in description["predictors"]
    ]
    other._set_rows(Design(description["dim"], X, codes, description["weights"], predictors), responses, weights)
    return other
