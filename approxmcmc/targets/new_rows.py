"""Rows that a regression did not see: a table is matched with the target's variables by the names of its columns."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from approxmcmc.contracts import Variables
from approxmcmc.contracts.speaker import speaker
from approxmcmc.errors import InvalidInputError
from approxmcmc.sources import DataSource, as_source
from approxmcmc.targets.checks import checked_array
from approxmcmc.targets.predictors.assemble import PredictorPart, codes_of, labels_of


def parts_of_new_rows(
    X: Any, variables: Variables, reference_levels: Mapping[str, str], *, has_intercept: bool
) -> list[PredictorPart]:
    """Return the contribution of each variable to a predictor of new rows.

    Parameters
    ----------
    X
        A table with at least the columns of the target, in any order; or a matrix of as many columns.
    variables
        Those of the target: ``beta``, if it has columns of numbers, and one for each column of categories.
    reference_levels
        The level with effect 0 of each column that has one.
    has_intercept
        Whether the first entry of ``beta`` is an intercept.

    Raises
    ------
    InvalidInputError
        If a column is missing, a value is missing or no number, or a category was not among the rows of the target.
    """
    names = [name for name in variables.shapes if f"{name}_dim" in variables.coords]
    labels_of_beta = [str(label) for label in variables.coords.get("coef", ())] if _has_beta(variables) else []
    slopes = labels_of_beta[1:] if has_intercept else labels_of_beta
    table = as_source(X)
    if table is None:
        table = X
    if not hasattr(table, "columns"):
        return [_matrix_part(table, slopes, names, has_intercept=has_intercept)]
    _refuse_missing_columns(table, [*slopes, *names])
    n = len(table)
    if n == 0:
        raise InvalidInputError(f"{speaker()}: the new rows are an empty table")
    parts = []
    if _has_beta(variables):
        numbers = in_memory(_selected(table, slopes)) if slopes else np.empty((n, 0))
        numbers = checked_array(numbers, "the new rows")
        parts.append(_slopes(numbers, has_intercept=has_intercept))
    for name in names:
        labels = [str(label) for label in variables.coords[f"{name}_dim"]]
        reference = reference_levels.get(name)
        levels = labels if reference is None else [reference, *labels]
        codes = _codes_among(table, name, levels)
        # The reference level is the first of `levels` and has no entry in theta: its code becomes -1.
        parts.append(PredictorPart(name, codes=codes if reference is None else codes - 1))
    return parts


def in_memory(rows: Any) -> Any:
    """Return the rows of a source as an array in memory, without a local file; anything else unchanged."""
    source = as_source(rows)
    return rows if source is None else source.rows(0, len(source))


def same_columns(columns: Mapping[str, tuple[bool, Any]]) -> None:
    """Raise unless new rows have the further numbers that the rows of the target have, such as offsets, and no others.

    `columns` holds for each name whether the target has it, and what was given.
    """
    for name, (has_it, column) in columns.items():
        if has_it and column is None:
            raise InvalidInputError(f"{speaker()}: the rows of the target have {name}, so the new rows need {name}=")
        if column is not None and not has_it:
            raise InvalidInputError(
                f"{speaker()}: the rows of the target have no {name}, so {name}= cannot be given for the new ones; "
                f"make the target with {name}= for all rows, zeros or ones for rows without"
            )


def refuse_columns(columns: Mapping[str, Any]) -> None:
    """Raise if rows to predict or to append were given columns that the rows of the target do not have."""
    refused = [name for name, column in columns.items() if column is not None]
    if refused:
        raise InvalidInputError(f"{speaker()}: these rows take no {' and no '.join(refused)}")


def labels_of_rows(X: Any) -> list[Any] | None:
    """Return the index of a pandas table; None if the rows are only numbered."""
    index = getattr(X, "index", None)
    if index is None or not hasattr(index, "tolist"):
        return None
    labels = index.tolist()
    return None if labels == list(range(len(labels))) else labels


def _has_beta(variables: Variables) -> bool:
    return "beta" in variables.shapes


def _selected(table: Any, names: list[str]) -> Any:
    """Return the columns with these names as they are spelled in the table."""
    by_text = {str(name): name for name in table.columns}
    return table[[by_text[name] for name in names]]


def _refuse_missing_columns(table: Any, needed: list[str]) -> None:
    present = [str(name) for name in table.columns]
    missing = [name for name in needed if name not in present]
    if missing:
        raise InvalidInputError(f"{speaker()}: the new rows lack the columns {missing}; they have {present}")


def _matrix_part(X: Any, slopes: list[str], names: list[str], *, has_intercept: bool) -> PredictorPart:
    """Return the slopes of a matrix without names of columns."""
    if names:
        raise InvalidInputError(
            f"{speaker()}: the target has the columns {[*slopes, *names]}; give a table with these names"
        )
    numbers = checked_array(X, "the new rows")
    if numbers.ndim != 2 or numbers.shape[1] != len(slopes) or not len(numbers):
        raise InvalidInputError(
            f"{speaker()}: the new rows must have the shape (n, {len(slopes)}), one column for each of {slopes}, found "
            f"{numbers.shape}"
        )
    return _slopes(numbers, has_intercept=has_intercept)


def _slopes(numbers: np.ndarray, *, has_intercept: bool) -> PredictorPart:
    columns = [np.ones((len(numbers), 1))] if has_intercept else []
    return PredictorPart("beta", np.concatenate([*columns, numbers], axis=1).astype(np.float64))


def _codes_among(table: Any, name: str, levels: list[str]) -> np.ndarray:
    """Return the index of each row's category among the target's `levels`."""
    one_column = _selected(table, [name])
    column = one_column[one_column.columns[0]]  # a Series, or a source of one column
    if not isinstance(table, DataSource):
        missing = np.flatnonzero(column.isna())
        if len(missing):
            raise InvalidInputError(
                f"{speaker()}: column {name!r} of the new rows has {len(missing)} missing value(s), the first in row "
                f"{missing[0]}"
            )
        column = column.astype("category")
    places = {level: position for position, level in enumerate(levels)}
    levels_of_column = [str(label) for label in labels_of(column)]
    codes = np.asarray(in_memory(codes_of(column)))
    places_of_codes = np.array([places.get(label, -1) for label in levels_of_column], dtype=np.int64)[codes]
    unknown = np.flatnonzero(places_of_codes < 0)
    if len(unknown):
        row = int(unknown[0])
        raise InvalidInputError(
            f"{speaker()}: column {name!r} of the new rows has {levels_of_column[codes[row]]!r} in row {row}, which no "
            f"row of the target had: its levels are {levels[:20]}"
        )
    return places_of_codes
