"""Predictors, responses and the names of coefficients, as every regression takes them."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from approxmcmc.errors import InvalidInputError
from approxmcmc.targets.checks import checked_array


def design_matrix(
    X: Any, y: Any, *, intercept: bool, coef_names: Sequence[str] | None, who: str
) -> tuple[np.ndarray, np.ndarray, list[str]]:
    """Return X as contiguous float64, with a first column of ones where asked, y as it is, and a name per column.

    Names are those given, else the columns of a DataFrame, else x0, x1, ...

    Raises
    ------
    InvalidInputError
        When X and y have no rows in common, or the names do not fit the columns.
    """
    names = coef_names if coef_names is not None else getattr(X, "columns", None)
    X = checked_array(X, "X", who=who).astype(np.float64, copy=False)
    y = checked_array(y, "y", who=who)
    if X.ndim != 2 or y.ndim != 1 or X.shape[0] != y.shape[0] or X.shape[0] < 1:
        raise InvalidInputError(
            f"{who}: X must have shape (n, p) and y shape (n,) with the same n >= 1, found X {X.shape} and y {y.shape}"
        )
    if isinstance(names, str) or (names is not None and not hasattr(names, "__len__")):
        raise InvalidInputError(f"{who}: coef_names must be a sequence of {X.shape[1]} names, found {names!r}")
    labels = [f"x{j}" for j in range(X.shape[1])] if names is None else [str(name) for name in names]
    if len(labels) != X.shape[1]:
        raise InvalidInputError(f"{who}: X has {X.shape[1]} columns, {len(labels)} names were given")
    if intercept:
        X, labels = np.column_stack([np.ones(X.shape[0]), X]), ["intercept", *labels]
    if not labels:
        raise InvalidInputError(f"{who}: X must have shape (n, p) with p >= 1, found {X.shape}; or take intercept=True")
    return np.ascontiguousarray(X), y, labels
