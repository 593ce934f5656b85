"""Regressions on tables: a column of numbers has a slope, a column of text or categories an effect for each level."""

import numbers
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from approxmcmc.errors import InvalidInputError
from approxmcmc.sources import DataSource, as_source
from approxmcmc.targets.checks import checked_array
from approxmcmc.targets.predictors.assemble import Treatment, labels_of
from approxmcmc.targets.predictors.target import PredictorTarget


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


class TableRegression(PredictorTarget):
    r"""A generalised linear model of a table: eta_i = x_i' beta + sum_c effect_c[level of row i in column c].

    `LogisticRegression`, `RobustRegression` and `GLMTarget` return it for a table with columns of text or categories.
    ``beta`` holds the intercept and the slopes of the columns of numbers. Each other column is a separate variable,
    with the effects of all its levels except the first, the reference level (treatment coding). Without an intercept
    the first of these columns has an effect for every level, as in formulas of R. A column costs one addition per row,
    for any number of levels, because there is no matrix of indicators. The parameters are those of `GLMTarget` without
    bounds and names of coefficients, and two more: a function ``pymc_law(eta, y)`` adds the response to a PyMC model,
    and messages call the model `who`.

    Attributes
    ----------
    reference_levels
        The level with effect 0 of each column that has one, by column; also an attribute of the trace.
    """

    def __init__(
        self,
        loglik_eta: Callable[[float, float], float],
        X: Any,
        y: Any,
        *,
        derivatives_eta: Callable[[float, float], tuple[float, float]] | None = None,
        intercept: bool = False,
        prior_scale: float = 1.0,
        prior: Callable[..., float] | None = None,
        coef_names: Any = None,
        pymc_law: Callable[[Any, np.ndarray], Any] | None = None,
        pymc_model: Callable[[], Any] | None = None,
        who: str,
    ) -> None:
        if coef_names is not None:
            raise InvalidInputError(
                f"{who}: coef_names is for arrays; leave it out, as the columns of a table have names"
            )
        X = X if as_source(X) is None else as_source(X)
        self.who, self.pymc_law = who, pymc_law
        columns = {str(name): _levels(X, name, who=who) for name in categorical_columns(X)}
        slopes = [name for name in X.columns if str(name) not in columns]
        if "beta" in columns:
            raise InvalidInputError(f"{who}: 'beta' is the name of the slopes; rename the column 'beta'")
        treated = list(columns) if intercept else list(columns)[1:]
        self.reference_levels: Mapping[str, str] = {name: labels_of(columns[name])[0] for name in treated}
        labels = {f"{name}_dim": labels_of(one)[name in treated :] for name, one in columns.items()}
        designs = {name: Treatment(one) if name in treated else one for name, one in columns.items()}
        dims = {name: [f"{name}_dim"] for name in columns}
        if slopes or intercept:
            designs = {"beta": _numbers(X, slopes, intercept=intercept, who=who), **designs}
            dims["beta"], labels["coef"] = ["coef"], (*(["intercept"] if intercept else []), *map(str, slopes))
        super().__init__(
            loglik_eta,
            {"eta": designs},
            y,
            derivatives=derivatives_eta,
            prior_scale=prior_scale,
            prior=prior,
            dims=dims,
            coords=labels,
            pymc_model=pymc_model,
        )

    @property
    def setup_attrs(self) -> Mapping[str, Any]:
        """Trace attributes: the reference level of each column, as one text."""
        return {**super().setup_attrs, "reference_levels": _listed(self.reference_levels)}

    def to_pymc(self) -> Any:
        """Return the same posterior as a `pymc.Model`, with the same names and labels."""
        if self.pymc_law is None or self.prior.function is not None:
            return super().to_pymc()
        import pymc as pm
        import pytensor.tensor as pt

        [one] = self.design.predictors
        with pm.Model(coords={axis: list(labels) for axis, labels in self.variables.coords.items()}) as model:
            parts = []
            for name in self.variables.shapes:
                axes = self.variables.dims[name]
                flat = np.isinf(self.prior.scale)
                parts.append(pm.Flat(name, dims=axes) if flat else pm.Normal(name, 0.0, self.prior.scale, dims=axes))
            theta = pt.concatenate([*parts, np.zeros(1)])  # a code of `dim` is a reference level
            dense = np.asarray(self.design.X[:, slice(*one.columns)], dtype=np.float64)
            eta = sum((theta[codes] for codes in self.design.codes.T), dense @ theta[np.array(one.places, dtype=int)])
            eta = eta + sum(v * theta[j] for j, v in zip(one.shared, one.values, strict=True))
            self.pymc_law(eta, self.responses[0])
        return model

    def __repr__(self) -> str:
        """Show the model, its size and its reference levels."""
        size = f"n_obs={self.n_obs}, dim={self.variables.size}"
        return f"{self.who}({size}; reference levels: {_listed(self.reference_levels)})"


def _listed(levels: Mapping[str, str]) -> str:
    return ", ".join(f"{name}={level}" for name, level in levels.items())


def _numbers(X: Any, names: list[str], *, intercept: bool, who: str) -> Any:
    """Return the columns `names` of X as one array or source of floats, with a first column of ones if `intercept`."""
    if isinstance(X, DataSource):
        if names:
            table = X[names]
            table = table if table.dtype.kind == "f" else table.astype(np.float64)
            return table.with_ones("intercept") if intercept else table
        return np.ones((len(X), 1))
    found = [np.ones((len(X), 1))] if intercept else []
    found += [checked_array(X[names], "X", who=who)] if names else []
    return np.concatenate(found, axis=1).astype(np.float64)


def _levels(X: Any, name: str, *, who: str) -> Any:
    """Return the column `name` of a source, or of a DataFrame as categories, without levels that have no row.

    Raises if the column of a DataFrame holds no labels, has a missing value, or has a single level.
    """
    if isinstance(X, DataSource):
        return X[name]
    try:
        column = X[name].astype("category").cat.remove_unused_categories()
    except TypeError as error:
        raise InvalidInputError(f"{who}: column {name!r} holds neither numbers nor labels ({error})") from error
    if column.isna().any():
        row = int(np.flatnonzero(column.isna())[0])
        raise InvalidInputError(
            f"{who}: column {name!r} has {int(column.isna().sum())} missing value(s), the first in row {row}; drop "
            "these rows, or fill them with a separate level"
        )
    if len(column.cat.categories) < 2:
        raise InvalidInputError(f"{who}: column {name!r} has one level, {column.iloc[0]!r}; leave it out")
    return column
