"""The variables of a matrix or a table: a column of numbers has a slope, one of categories an effect for each level.

The columns of numbers are one variable, ``beta``, which also holds the intercept. Each column of text or categories is
a separate variable, with the effects of all its levels except the first, the reference level (treatment coding).
Without an intercept, or parameters that serve as one, such as cutpoints, the first of these columns has an effect for
every level, as in formulas of R. A column of categories costs one addition per row, for any number of levels, because
there is no matrix of indicators.
"""

import dataclasses
import numbers
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from approxmcmc.contracts import Variables
from approxmcmc.contracts.speaker import speaker
from approxmcmc.errors import InvalidInputError
from approxmcmc.sources import Arrays, DataSource, as_source
from approxmcmc.sources.indicators import IndicatorColumns, Levels
from approxmcmc.targets.checks import checked_array
from approxmcmc.targets.given import design_matrix, design_source
from approxmcmc.targets.predictors.assemble import PredictorPart, Treatment, labels_of, read_part


def categorical_columns(X: Any) -> tuple[str, ...]:
    """Return the names of the columns of X that hold text or categories; () if X is no DataFrame and no source."""
    source = as_source(X)
    if source is not None:
        return () if source.is_vector else tuple(name for name in source.columns if name in source.categories)
    if not (hasattr(X, "columns") and hasattr(X, "dtypes")):
        return ()
    if not X.columns.is_unique:
        twice = sorted(set(map(str, X.columns[X.columns.duplicated()])))
        raise InvalidInputError(f"the table has several columns called {', '.join(twice)}; rename or drop them")
    return tuple(name for name in X.columns if X[name].dtype.kind == "O" and not _is_of_numbers(X[name]))


def _is_of_numbers(column: Any) -> bool:
    """Whether a column of Python objects holds only numbers."""
    return column.dtype == object and all(isinstance(value, numbers.Real) for value in column)


class DesignColumns(NamedTuple):
    """The variables of a matrix or a table: their designs, as for `PredictorTarget`, and labels of their entries.

    `reference_levels` holds the level with effect 0 of each column that has one, by column. `matrix` is the checked
    matrix of the slopes if nothing else was given.
    """

    designs: Mapping[str, Any]
    labels: Mapping[str, tuple[str, ...]]
    reference_levels: Mapping[str, str]
    matrix: np.ndarray | None = None

    @property
    def axes(self) -> dict[str, str]:
        """The name of the axis of each variable."""
        return {name: "coef" if name == "beta" else f"{name}_dim" for name in self.designs}

    @property
    def coords(self) -> dict[str, tuple[str, ...]]:
        """The labels of each axis."""
        return {axis: self.labels[name] for name, axis in self.axes.items()}

    @property
    def variables(self) -> Variables:
        """The variables, each a vector with labels."""
        shapes = {name: (len(self.labels[name]),) for name in self.designs}
        dims = {name: (axis,) for name, axis in self.axes.items()}
        return Variables(shapes, dims, {axis: list(labels) for axis, labels in self.coords.items()})

    def parts(self, n: int) -> list[PredictorPart]:
        """Return the contribution of each variable to a predictor of n rows."""
        if self.matrix is not None:
            return [PredictorPart("beta", self.matrix)]
        return parts_of_designs(self.designs, n)


def parts_of_designs(designs: Mapping[str, Any], n: int) -> list[PredictorPart]:
    """Return the contribution of each variable to a predictor of n rows, from their designs."""
    return [read_part(name, design, n, name) for name, design in designs.items()]


def read_columns(
    X: Any, y: Any, *, intercept: bool, coef_names: Sequence[str] | None, has_other_intercept: bool = False
) -> DesignColumns:
    """Return the variables of X, a matrix or a table of as many rows as the responses y.

    `has_other_intercept` says that other parameters than those of X, such as cutpoints, shift all predictors.
    """
    if categorical_columns(X):
        treats_all = intercept or has_other_intercept
        return _of_table(X, intercept=intercept, treats_all=treats_all, coef_names=coef_names)
    X = design_source(X, intercept=intercept)
    matrix, _, labels = design_matrix(X, y, intercept=intercept, coef_names=coef_names)
    source = X if isinstance(X, DataSource) else matrix
    return DesignColumns({"beta": source}, {"beta": tuple(labels)}, {}, matrix)


def _of_table(X: Any, *, intercept: bool, treats_all: bool, coef_names: Any) -> DesignColumns:
    if coef_names is not None:
        raise InvalidInputError(
            f"{speaker()}: coef_names is for arrays; leave it out, as the columns of a table have names"
        )
    source = as_source(X)
    X = X if source is None else source
    columns = {str(name): _levels(X, name) for name in categorical_columns(X)}
    slopes = [name for name in X.columns if str(name) not in columns]
    if "beta" in columns:
        raise InvalidInputError(f"{speaker()}: 'beta' is the name of the slopes; rename the column 'beta'")
    treated = list(columns) if treats_all else list(columns)[1:]
    designs = {name: Treatment(column) if name in treated else column for name, column in columns.items()}
    levels = {name: labels_of(column) for name, column in columns.items()}
    labels = {name: levels[name][1:] if name in treated else levels[name] for name in columns}
    if slopes or intercept:
        designs = {"beta": _numbers(X, slopes, intercept=intercept), **designs}
        labels["beta"] = (*(["intercept"] if intercept else []), *map(str, slopes))
    return DesignColumns(designs, labels, {name: levels[name][0] for name in treated})


class NumberColumns(NamedTuple):
    """A matrix or a table as columns of numbers: X as it was given, the columns and their labels, and responses.

    `reference_levels` holds the level that has no column, of each column of text that has such a level. `variables`
    has the same columns as variables of a table, by which new rows are read (`new_rows`).
    """

    source: Any
    X: np.ndarray
    y: np.ndarray
    labels: list[str]
    reference_levels: Mapping[str, str]
    variables: Variables


def read_numbers(X: Any, y: Any, *, intercept: bool, coef_names: Sequence[str] | None) -> NumberColumns:
    """Return X as numbers: a column of text or categories becomes a column of 0 and 1 for each level with an effect.

    Such a column is called ``town[york]``. For models whose rows have one dense predictor.
    """
    reference_levels: Mapping[str, str] = {}
    variables: Variables | None = None
    if categorical_columns(X):
        table = _of_table(X, intercept=intercept, treats_all=intercept, coef_names=coef_names)
        reference_levels = table.reference_levels
        variables = table.variables
        intercept = False
        coef_names = []
        for variable in table.designs:
            labels = table.labels[variable]
            coef_names += labels if variable == "beta" else [f"{variable}[{label}]" for label in labels]
        X = _matrix_of(table, len(X)) if as_source(X) is None else _source_of(table, coef_names)
    X = design_source(X, intercept=intercept)
    matrix, response, names_of_columns = design_matrix(X, y, intercept=intercept, coef_names=coef_names)
    if variables is None:
        n_columns = len(names_of_columns)
        variables = Variables({"beta": (n_columns,)}, {"beta": ("coef",)}, {"coef": names_of_columns})
    return NumberColumns(X, matrix, response, names_of_columns, reference_levels, variables)


def _matrix_of(table: DesignColumns, n: int) -> np.ndarray:
    """Return the columns of numbers and of 0 and 1 of a DataFrame with n rows."""
    columns = []
    for part in table.parts(n):
        if part.codes is None:
            assert part.X is not None
            columns.append(part.X)
        else:
            columns.append(part.codes[:, None] == np.arange(len(table.labels[str(part.variable)])))
    return np.column_stack(columns).astype(np.float64)


def _source_of(table: DesignColumns, names: Sequence[str]) -> IndicatorColumns:
    """Return the same columns of a source, as a source."""
    parts: list[DataSource | Levels] = []
    for variable, design in table.designs.items():
        if variable == "beta":
            parts.append(design if isinstance(design, DataSource) else Arrays(design))
        else:
            n_levels = len(table.labels[variable])
            codes = 1 + np.arange(n_levels) if isinstance(design, Treatment) else np.arange(n_levels)
            parts.append(Levels(design.column if isinstance(design, Treatment) else design, codes))
    return IndicatorColumns(parts, names)


def spread(part: PredictorPart, first: int, step: int) -> PredictorPart:
    """Return a part whose entries are first, first + step, ... of a variable with several predictors."""
    if part.codes is not None:
        return dataclasses.replace(part, codes=np.where(part.codes < 0, -1, first + step * part.codes))
    return dataclasses.replace(part, entries=first + step * np.arange(part.length))


def listed(levels: Mapping[str, str]) -> str:
    """Return reference levels as one text."""
    return ", ".join(f"{name}={level}" for name, level in levels.items())


def _numbers(X: Any, names: list[str], *, intercept: bool) -> Any:
    """Return the columns `names` of X as one array or source of floats, with a first column of ones if `intercept`."""
    if isinstance(X, DataSource):
        if names:
            table = X[names]
            table = table if table.dtype.kind == "f" else table.astype(np.float64)
            return table.with_ones("intercept") if intercept else table
        return np.ones((len(X), 1))
    columns = [np.ones((len(X), 1))] if intercept else []
    columns += [checked_array(X[names], "X")] if names else []
    return np.concatenate(columns, axis=1).astype(np.float64)


def _levels(X: Any, name: str) -> Any:
    """Return the column `name` of a source, or of a DataFrame as categories, without levels that have no row.

    Raises if the column of a DataFrame holds no labels, has a missing value, or has a single level.
    """
    if isinstance(X, DataSource):
        return X[name]
    try:
        column = X[name].astype("category").cat.remove_unused_categories()
    except TypeError as error:
        raise InvalidInputError(f"{speaker()}: column {name!r} holds neither numbers nor labels ({error})") from error
    if column.isna().any():
        row = int(np.flatnonzero(column.isna())[0])
        raise InvalidInputError(
            f"{speaker()}: column {name!r} has {int(column.isna().sum())} missing value(s), the first in row {row}; "
            "drop these rows, or fill them with a separate level"
        )
    if len(column.cat.categories) < 2:
        raise InvalidInputError(f"{speaker()}: column {name!r} has one level, {column.iloc[0]!r}; leave it out")
    return column
