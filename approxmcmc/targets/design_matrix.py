"""Predictors, responses and the names of coefficients, shared by all regressions."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from approxmcmc.errors import InvalidInputError
from approxmcmc.sources import as_source
from approxmcmc.targets.checks import checked_array


def design_matrix(
    X: Any, y: Any, *, intercept: bool, coef_names: Sequence[str] | None, who: str
) -> tuple[np.ndarray, np.ndarray, list[str]]:
    """Return X as contiguous floats, with a first column of ones if asked for, y unchanged, and a name per column.

    Both may be sources, as `design_source` and `response_source` return them. X is float32 if it was given so, else
    float64. Names are the given ones, else the column names of a DataFrame or a source, else x0, x1, ...

    Raises
    ------
    InvalidInputError
        When X and y have no rows in common, or the names do not fit the columns.
    """
    names = coef_names if coef_names is not None else getattr(X, "columns", None)
    has_ones = intercept and getattr(X, "ones", None) is not None
    X = checked_array(X, "X", who=who, keep_float32=True)
    X = X if X.dtype.kind == "f" else X.astype(np.float64)
    y = checked_array(y, "y", who=who)
    if X.ndim != 2 or y.ndim != 1 or X.shape[0] != y.shape[0] or X.shape[0] < 1:
        raise InvalidInputError(
            f"{who}: X must have shape (n, p) and y shape (n,) with the same n >= 1, found X {X.shape} and y {y.shape}"
        )
    width = X.shape[1] - has_ones
    if isinstance(names, str) or (names is not None and not hasattr(names, "__len__")):
        raise InvalidInputError(f"{who}: coef_names must be a sequence of {width} names, found {names!r}")
    labels = [f"x{j}" for j in range(width)] if names is None else [str(name) for name in names]
    if has_ones and coef_names is None:
        labels = labels[1:]
    if len(labels) != width:
        raise InvalidInputError(f"{who}: X has {width} columns, {len(labels)} names were given")
    if intercept:
        X = X if has_ones else np.column_stack([np.ones(X.shape[0], X.dtype), X])
        labels = ["intercept", *labels]
    if not labels:
        raise InvalidInputError(f"{who}: X must have shape (n, p) with p >= 1, found {X.shape}; or take intercept=True")
    return np.ascontiguousarray(X), y, labels


def design_source(X: Any, *, intercept: bool) -> Any:
    """Return a source of floats, with a first column of ones if asked for; X unchanged if it is not a source."""
    source = as_source(X)
    if source is None:
        return X
    source = source if source.dtype.kind == "f" else source.astype(np.float64)
    takes_ones = intercept and source.ndim == 2 and source.ones is None
    return source.with_ones("intercept") if takes_ones else source


def response_source(y: Any) -> Any:
    """Return a source of float64, or y unchanged if it is not a source."""
    source = as_source(y)
    return y if source is None else source.astype(np.float64)
