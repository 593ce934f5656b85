"""Regressions of one family on the columns of a matrix or a table."""

import copy
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Self

import numpy as np

from approxmcmc.contracts import PredictiveTarget, Variables
from approxmcmc.errors import IncompatibleError, InvalidInputError
from approxmcmc.families.family import Family
from approxmcmc.targets.checks import checked_array
from approxmcmc.targets.given import check_names, check_same_index, kept, response_source
from approxmcmc.targets.new_rows import labels_of_rows, parts_of_new_rows
from approxmcmc.targets.normal_prior import NormalPrior
from approxmcmc.targets.positive import WithPositive
from approxmcmc.targets.predictors.assemble import PredictorPart, assemble
from approxmcmc.targets.predictors.design import Design
from approxmcmc.targets.predictors.family import FamilyLikelihood, ShapeLikelihood
from approxmcmc.targets.predictors.predictive import RowsOfDesign
from approxmcmc.targets.regression import Regression
from approxmcmc.targets.tables import listed, parts_of_designs, predictor_of_pymc, read_columns, theta_of_pymc
from approxmcmc.targets.tall_data import Prior

LOG_SHAPE_SCALE = 1.5  # standard deviation of the prior of log(shape): two of them are a factor of 20


class FamilyRegression(Regression, PredictiveTarget):
    r"""Rows of one family with the predictor eta_i = x_i' beta + sum_c effect_c[level of row i in column c] + offset_i.

    The public regressions are thin: they name the family. `DesignColumns` says how a table becomes variables.

    Parameters
    ----------
    family
        The family.
    shape
        Its shape if it has one; None: the shape is a parameter, whose logarithm is normal with standard deviation 1.5.
    shape_name, shape_scale
        What the trace calls a shape that is a parameter, and the median of its prior.
    X, y, prior_scale, intercept, prior, coef_names, offset
        As for :class:`LogisticRegression`.
    size
        The second number of each row, such as trials, shape (n,); None for rows without one.
    size_name
        What messages and the trace call the sizes.

    Attributes
    ----------
    reference_levels
        The level with effect 0 of each column that has one, by column; also an attribute of the trace.
    """

    likelihood: FamilyLikelihood | ShapeLikelihood
    reference_levels: Mapping[str, str]

    def __init__(
        self,
        family: Family,
        X: Any,
        y: Any,
        *,
        prior_scale: float,
        intercept: bool,
        prior: Callable[..., float] | None,
        coef_names: Sequence[str] | None,
        offset: Any = None,
        shape: float | None = 1.0,
        shape_name: str = "alpha",
        shape_scale: float = 1.0,
        size: Any = None,
        size_name: str = "size",
    ) -> None:
        who = type(self).__name__
        check_same_index(who, X=X, y=y, offset=offset, **{size_name: size})
        y, offset, size = (response_source(given) for given in (y, offset, size))
        response = checked_array(y, "y", who=who).astype(np.float64, copy=False)
        columns = read_columns(X, response, intercept=intercept, coef_names=coef_names, who=who)
        self.given = kept((columns.designs, offset, size, y))
        self.reference_levels = columns.reference_levels
        self.has_intercept = intercept
        shapes = {name: (len(columns.labels[name]),) for name in columns.designs}
        dims = {name: (axis,) for name, axis in columns.axes.items()}
        coords = {axis: list(labels) for axis, labels in columns.coords.items()}
        self.prior = Prior(prior_scale, prior, who=who)
        self.prior_scale = prior_scale
        self.shape_name = None if shape is not None else shape_name
        self.shape_scale = shape_scale
        for name, value in ((shape_name, shape), (f"{shape_name}_scale", shape_scale)):
            if value is not None and not 0.0 < value < math.inf:
                raise InvalidInputError(f"{who}: {name} must be positive and finite, found {value!r}")
        if shape is not None:
            self.variables = Variables(shapes, dims, coords)
        elif shape_name in shapes:
            raise InvalidInputError(f"{who}: {shape_name!r} is the name of the shape; rename the column {shape_name!r}")
        else:
            self.variables = WithPositive({**shapes, shape_name: ()}, dims, coords, positive=shape_name)
            if prior is None:
                self.prior = self._prior_with_shape()
        check_names(self.variables, who=who)
        self.size_name = size_name
        sizes = None if size is None else self._floats(size, size_name, len(response))
        if shape is None:
            self.likelihood = ShapeLikelihood(family)
        else:
            largest = None if sizes is None else float(sizes.max())
            self.likelihood = FamilyLikelihood(family, shape, largest_size=largest)
            self.terms_are_concave = family.is_concave
        self._place(columns.parts(len(response), who=who), offset, sizes, response)

    def _prior_with_shape(self) -> Prior:
        """Return normal priors of the coefficients, and of the logarithm of the shape, the last entry of theta."""
        scales = np.full(self.variables.size, self.prior_scale, dtype=np.float64)
        scales[-1] = LOG_SHAPE_SCALE
        means = np.zeros(self.variables.size)
        means[-1] = math.log(self.shape_scale)
        return NormalPrior(means, scales)

    def _place(self, parts: list[PredictorPart], offset: Any, size: np.ndarray | None, y: np.ndarray) -> None:
        """Check and store rows."""
        who = type(self).__name__
        if offset is not None:
            parts = [*parts, PredictorPart(None, self._floats(offset, "offset", len(y))[:, None])]
        if size is not None and not np.all((size >= 1.0) & (size == np.round(size))):
            row = int(np.argmin((size >= 1.0) & (size == np.round(size))))
            raise InvalidInputError(
                f"{who}: {self.size_name} must be integers from 1, found {size[row]:g} in row {row}"
            )
        y = self.coded(y)
        fits = self.likelihood.family.fits(y, np.ones(len(y)) if size is None else size)
        if not np.all(fits):
            row = int(np.argmin(fits))
            raise InvalidInputError(
                f"{who}: y must be {self.likelihood.family.support}, found {y[row]:g} in row {row}"
                + ("" if size is None else f", with {self.size_name} {size[row]:g}")
            )
        self._set_rows(self._design_of(parts, len(y)), (y if size is None else y + 1j * size,))

    def _design_of(self, parts: list[PredictorPart], n: int) -> Design:
        """Return the design of n rows: the predictor, and the logarithm of the shape if it is a parameter."""
        predictors = {"eta": parts}
        if self.shape_name is not None:
            predictors["log_shape"] = [PredictorPart(self.shape_name, shared={0: 1.0}, is_scalar=True)]
        return assemble(predictors, self.variables, n)

    def _floats(self, given: Any, name: str, n: int) -> np.ndarray:
        """Return n numbers of the user's as floats."""
        who = type(self).__name__
        array = checked_array(given, name, who=who).astype(np.float64, copy=False)
        if array.shape != (n,):
            raise InvalidInputError(f"{who}: {name} must hold {n} numbers, as y does, found shape {array.shape}")
        return array

    @staticmethod
    def coded(y: np.ndarray) -> np.ndarray:
        """Return the responses in the form that the family needs; shape (n,)."""
        return y

    def with_rows(self, given: tuple[Any, ...], n_obs: int) -> Self:
        """Return this model, with the same variables, for other data: (designs, offset, size, y)."""
        designs, offset, size, y = given
        other = copy.copy(self)
        other.given = None
        other._place(parts_of_designs(designs, n_obs, who=type(self).__name__), offset, size, y)
        return other

    def rows_to_predict(self, rows: Any, **columns: Any) -> RowsOfDesign:
        """Return `rows` for a prediction: a table or matrix as X of the target; None means the target's own rows.

        New rows may have an ``offset`` (by default 0), and need sizes if the target's rows have them.
        """
        who = f"predict for {type(self).__name__}"
        own_sizes = self.y.imag if np.iscomplexobj(self.y) else None
        if rows is None:
            self._refuse_columns(columns, who=who)
            return RowsOfDesign(self.design, self.likelihood, size=own_sizes)
        offset = columns.pop("offset", None)
        size = columns.pop(self.size_name, None) if own_sizes is not None else None
        self._refuse_columns(columns, who=who)
        check_same_index(who, rows=rows, offset=offset, **{self.size_name: size})
        parts = parts_of_new_rows(
            rows, self.variables, self.reference_levels, has_intercept=self.has_intercept, who=who
        )
        n = len(rows)
        if offset is not None:
            parts.append(PredictorPart(None, self._floats(offset, "offset", n)[:, None]))
        if own_sizes is not None and size is None:
            raise InvalidInputError(f"{who}: the new rows need {self.size_name}=, one number for each row")
        sizes = None if size is None else self._floats(size, self.size_name, n)
        return RowsOfDesign(self._design_of(parts, n), self.likelihood, size=sizes, labels=labels_of_rows(rows))

    @staticmethod
    def _refuse_columns(columns: Mapping[str, Any], *, who: str) -> None:
        """Raise if there are columns that the rows do not have."""
        given = [name for name, column in columns.items() if column is not None]
        if given:
            raise InvalidInputError(f"{who}: these rows take no {' and no '.join(given)}")

    @property
    def observed_data(self) -> Mapping[str, np.ndarray]:
        """The responses y."""
        return {"y": self.y.real}

    @property
    def constant_data(self) -> Mapping[str, np.ndarray]:
        """The columns X, with the column of ones if there is an intercept; codes of categories; sizes of rows."""
        sizes = {self.size_name: self.y.imag} if np.iscomplexobj(self.y) else {}
        return {**super().constant_data, **sizes}

    @property
    def setup_attrs(self) -> Mapping[str, Any]:
        """Trace attributes: the reference level of each column that has one, as one text."""
        named = {"reference_levels": listed(self.reference_levels)} if self.reference_levels else {}
        return {**super().setup_attrs, **named}

    def to_pymc(self) -> Any:
        """Return the same posterior as a `pymc.Model`, with the same names and labels.

        Raises `IncompatibleError` for a family that PyMC does not have, and for a prior given as a function.
        """
        twin = self.likelihood.family.twin
        if twin is None:
            return super().to_pymc()
        if self.prior.function is not None:
            name = type(self).__name__
            raise IncompatibleError(f"{name}: a prior given as a function has no PyMC twin; use prior_scale")
        import pymc as pm

        with pm.Model(coords={axis: list(labels) for axis, labels in self.variables.coords.items()}) as model:
            if self.is_dense:
                flat = np.isinf(self.prior.scale)
                beta = pm.Flat("beta", dims="coef") if flat else pm.Normal("beta", 0.0, self.prior.scale, dims="coef")
                eta = np.asarray(self.X, np.float64) @ beta
            elif self.shape_name is None:
                theta = theta_of_pymc(self, self.prior_scale)
                eta = predictor_of_pymc(self.design, self.design.predictors[0], theta)
            else:
                shape = pm.LogNormal(self.shape_name, math.log(self.shape_scale), LOG_SHAPE_SCALE)
                theta = theta_of_pymc(self, self.prior_scale, {self.shape_name: shape})
                eta = predictor_of_pymc(self.design, self.design.predictors[0], theta)
                twin.observe("y", eta, self.y, 1.0, shape)
                return model
            assert isinstance(self.likelihood, FamilyLikelihood)
            self.likelihood.observe("y", eta, self.responses)
        return model

    def __repr__(self) -> str:
        """Show the model, its size and its reference levels."""
        levels = f"; reference levels: {listed(self.reference_levels)}" if self.reference_levels else ""
        return f"{type(self).__name__}(n_obs={self.n_obs}, dim={self.variables.size}{levels})"
