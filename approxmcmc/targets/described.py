"""A regression without its rows, as text: its class, its settings, and what its rows look like.

The text makes the same model again, from a few rows that are made up: they have every level of every column, and every
class of the responses. Then the rows are put in. No object is pickled, and a function of a user's is never stored.
"""

import copy
import inspect
from collections.abc import Mapping
from typing import Any

import numpy as np

from approxmcmc.errors import IncompatibleError, InvalidInputError
from approxmcmc.targets.column_regression import ColumnRegression
from approxmcmc.targets.family_regression import BinaryRegression, FamilyRegression
from approxmcmc.targets.ordered import OrderedRegression
from approxmcmc.targets.predictors.design import Design, Predictor
from approxmcmc.targets.predictors.family import FamilyLikelihood
from approxmcmc.targets.regression import Regression
from approxmcmc.targets.softmax import SoftmaxRegression
from approxmcmc.targets.statistics.regression import LinearRegression

FEWEST_ROWS = 8
BY_ROW = ("X", "y", "offset", "trials", "weights")  # arguments with a value for each row


def described(target: Any) -> dict[str, Any]:
    """Return what makes the model again without its rows, as values for JSON.

    The entry ``made`` is None if the model has functions of the user's, or is of a kind that cannot be described.
    """
    plain = target.plain if isinstance(target, LinearRegression) else target
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
        "weights": [int(position) for position in plain.design.weights],
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
    kinds = (FamilyRegression, OrderedRegression, SoftmaxRegression, LinearRegression)
    names = [
        name for name in inspect.signature(type(target)).parameters if name not in (*BY_ROW, "prior", "coef_names")
    ]
    if not isinstance(target, kinds) or target.prior.function is not None:
        return None
    try:
        settings = {name: _setting(target, name) for name in names}
    except KeyError:  # a constructor with a function of the user's
        return None
    plain = target.plain if isinstance(target, LinearRegression) else target
    coords = {axis: [str(label) for label in labels] for axis, labels in target.variables.coords.items()}
    columns = [name for name in target.variables.shapes if f"{name}_dim" in coords]
    levels = {
        name: [*([target.reference_levels[name]] if name in target.reference_levels else []), *coords[f"{name}_dim"]]
        for name in columns
    }
    slopes = coords.get("coef", [])[target.has_intercept :] if "beta" in target.variables.shapes else []
    form = {
        "settings": settings,
        "slopes": slopes,
        "levels": levels,
        "is_float32": plain.design.X.dtype == np.float32,
        "has_offset": bool(_has_offset(plain, 0)),
        "has_weights": plain.weights is not None,
    }
    if isinstance(target, LinearRegression):
        outcomes = plain.likelihood.n_outcomes
        return {**form, "outcomes": outcomes, "has_weights": bool(_has_offset(plain, outcomes))}
    if isinstance(target, SoftmaxRegression):
        return {**form, "classes": target._labels.tolist()}
    if isinstance(target, OrderedRegression):
        numbers = {"numbers": target._numbers.tolist(), "first_cutpoints": target._first_cutpoints.tolist()}
        return {**form, "categories": list(target.categories), **numbers}
    response = target.unweighted_responses[0][:FEWEST_ROWS]
    if isinstance(target, BinaryRegression):
        return {**form, "has_negative": target.has_negative}
    return {**form, "responses": response.real.tolist(), "has_sizes": bool(np.iscomplexobj(response))}


def _has_offset(plain: Regression, predictor: int) -> bool:
    return plain.design.dim in plain.design.predictors[predictor].places


def _setting(target: Any, name: str) -> Any:
    """Return the value of a setting that a target was made with; raise KeyError if it is unknown."""
    shape = None
    single = target.likelihood.single if isinstance(target, FamilyRegression) else None
    if isinstance(single, FamilyLikelihood):
        shape = single.shape
    plain = target.plain if isinstance(target, LinearRegression) else target
    settings = {
        "prior_scale": getattr(plain, "prior_scale", getattr(target.prior, "scale", None)),
        "intercept": target.has_intercept,
        "alpha": shape,
        "phi": shape,
        "alpha_scale": getattr(target, "shape_scale", None),
        "phi_scale": getattr(target, "shape_scale", None),
        "df": getattr(target, "df", None),
        "scale": getattr(target, "scale", None),
        "cutpoint_scale": getattr(target.prior, "cutpoint_scale", None),
        "sigma": getattr(target, "known_sigma", None),
        "sigma_scale": getattr(plain, "sigma_scale", None),
    }
    return settings[name]


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
    candidate = _few_rows(description["class"], form, description["largest_size"]) if model is None else model
    if json_like(model_hash(candidate)) != description["model"]:
        raise InvalidInputError(
            f"the stored {description['class']} has another likelihood, prior or other parameters than {candidate!r}"
            + ("" if model is None else ", which was given as model=")
        )
    return candidate


def json_like(value: Any) -> Any:
    """Return nested tuples as lists, as JSON does."""
    return [json_like(part) for part in value] if isinstance(value, list | tuple) else value


def _few_rows(name: str, form: Mapping[str, Any], largest_size: float) -> Any:
    """Return a target of made-up rows with all levels and classes."""
    import pandas as pd

    from approxmcmc import targets

    kind: Any = getattr(targets, name)
    levels = form["levels"]
    n = max(FEWEST_ROWS, *(len(of) for of in levels.values()), len(form.get("classes", form.get("categories", []))), 0)
    dtype = np.float32 if form["is_float32"] else np.float64
    columns: dict[str, Any] = {
        label: np.cos(1.0 + np.arange(n) * (1.0 + j)).astype(dtype) for j, label in enumerate(form["slopes"])
    }
    for column, of in levels.items():
        columns[column] = pd.Categorical(np.resize(np.array(of, dtype=object), n), categories=of)
    rows: dict[str, Any] = {"X": pd.DataFrame(columns, index=range(n))}
    if form["has_offset"]:
        rows["offset"] = np.zeros((n, len(form["classes"])) if "classes" in form else n)
    if form.get("has_weights"):
        rows["weights"] = np.ones(n)
    if form.get("has_sizes"):
        rows["trials"] = np.full(n, largest_size)
    return kind(**rows, y=_responses(form, n), **form["settings"])


def _responses(form: Mapping[str, Any], n: int) -> Any:
    """Return n responses that a model accepts, with all classes."""
    import pandas as pd

    if "outcomes" in form:
        y = np.cos(np.arange(n * form["outcomes"])).reshape(n, -1)
        return y[:, 0] if form["outcomes"] == 1 else y
    if "classes" in form:
        return np.resize(form["classes"], n)
    if "categories" in form:
        values = np.resize(np.array(form["categories"], dtype=object), n)
        return pd.Categorical(values, categories=form["categories"], ordered=True)
    if "has_negative" in form:
        return np.resize([-1.0, 1.0] if form["has_negative"] else [0.0, 1.0], n)
    return np.resize(form["responses"], n)


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
    if isinstance(other, OrderedRegression) and form:
        other._numbers = np.array(form["numbers"])
        other._first_cutpoints = np.array(form["first_cutpoints"])
    if isinstance(other, BinaryRegression) and form:
        other.has_negative = form["has_negative"]
    if isinstance(other, ColumnRegression) and np.iscomplexobj(responses[0]):
        other.likelihood = other.likelihood.single.covering((np.array([1j * description["largest_size"]]),))
    predictors = [
        Predictor(**{**of, "columns": tuple(of["columns"]), "codes": tuple(of["codes"])})
        for of in description["predictors"]
    ]
    other._set_rows(Design(description["dim"], X, codes, description["weights"], predictors), responses, weights)
    return other
