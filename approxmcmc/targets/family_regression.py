"""Regressions of one family on the columns of a matrix or a table."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from approxmcmc.contracts.arguments import naming_the_arguments
from approxmcmc.contracts.speaker import names_itself, speaker
from approxmcmc.errors import InvalidInputError
from approxmcmc.families.family import Family
from approxmcmc.families.weighted import observe_weighted
from approxmcmc.targets.column_regression import ColumnRegression
from approxmcmc.targets.describable import Describable
from approxmcmc.targets.given import check_names
from approxmcmc.targets.normal_prior import NormalPrior
from approxmcmc.targets.positive import WithPositive
from approxmcmc.targets.predictors.assemble import PredictorPart
from approxmcmc.targets.predictors.family import ONE, FamilyLikelihood, ShapeLikelihood
from approxmcmc.targets.predictors.predictive import RowsOfDesign
from approxmcmc.targets.regression import Regression
from approxmcmc.targets.tall_data import Prior
from approxmcmc.targets.twins import (
    DENSE,
    RESPONSES,
    WEIGHTS,
    RowsInPyMC,
    containers,
    numbers_of_design,
    predictor_of_pymc,
    refuse_prior,
    theta_of_pymc,
)

LOG_SHAPE_SCALE = 1.5  # standard deviation of the prior of log(shape): two of them are a factor of 20


EXAMPLES = 8  # responses that a description keeps


class FamilyRegression(ColumnRegression, RowsInPyMC, Describable):
    r"""Rows of one family with the predictor eta_i = x_i' beta + sum_c effect_c[level of row i in column c] + offset_i.

    The public regressions are thin: they name the family, and have the constructor of `PlainRegression` or
    `ShapedRegression` unless their rows have further arguments.

    Parameters
    ----------
    family
        The family.
    shape
        Its shape if it has one; None: the shape is a parameter, whose logarithm is normal with standard deviation 1.5.
    shape_name, shape_scale
        What the trace calls a shape that is a parameter, and the median of its prior.
    X, y, prior_scale, intercept, prior, coef_names, offset, weights
        As for :class:`LogisticRegression`.
    size
        The second number of each row, such as trials, shape (n,); None for rows without one.
    size_name
        What messages and the trace call the sizes.
    """

    @names_itself()
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
        weights: Any = None,
        shape: float | None = 1.0,
        shape_name: str = "alpha",
        shape_scale: float = 1.0,
        size: Any = None,
        size_name: str = "size",
    ) -> None:
        self.size_name = size_name
        rows = {"offset": offset, "size": size, "weights": weights}
        checked_rows = self._read(X, y, intercept=intercept, coef_names=coef_names, **rows)
        variables = checked_rows.columns.variables
        self.prior = Prior(prior_scale, prior)
        self.prior_scale = prior_scale
        self.shape_name = None if shape is not None else shape_name
        self.shape_scale = shape_scale
        for name, value in ((shape_name, shape), (f"{shape_name}_scale", shape_scale)):
            if value is not None and not 0.0 < value < math.inf:
                raise InvalidInputError(f"{speaker()}: {name} must be positive and finite, found {value!r}")
        if shape is not None:
            self.variables = variables
        elif shape_name in variables.shapes:
            raise InvalidInputError(
                f"{speaker()}: {shape_name!r} is the name of the shape; rename the column {shape_name!r}"
            )
        else:
            shapes = {**variables.shapes, shape_name: ()}
            self.variables = WithPositive(shapes, variables.dims, variables.coords, positive=shape_name)
            if prior is None:
                self.prior = self._prior_with_shape()
        check_names(self.variables)
        if shape is None:
            self.likelihood = ShapeLikelihood(family)
        else:
            largest = None if checked_rows.size is None else float(checked_rows.size.max())
            self.likelihood = FamilyLikelihood(family, shape, largest_size=largest)
            self.terms_are_concave = family.is_concave
        self._place_given(checked_rows)

    @property
    def _single(self) -> FamilyLikelihood | ShapeLikelihood:
        """The likelihood of rows without weights."""
        single = self.likelihood.single
        assert isinstance(single, FamilyLikelihood | ShapeLikelihood)
        return single

    def _prior_with_shape(self) -> Prior:
        """Return normal priors of the coefficients, and of the logarithm of the shape, the last entry of theta."""
        scales = np.full(self.variables.size, self.prior_scale, dtype=np.float64)
        scales[-1] = LOG_SHAPE_SCALE
        means = np.zeros(self.variables.size)
        means[-1] = math.log(self.shape_scale)
        return NormalPrior(means, scales)

    @names_itself()
    def _checked_responses(self, y: np.ndarray, size: np.ndarray | None) -> np.ndarray:
        """Return the responses, or y + i size; raise unless the family has them."""
        if size is not None and not np.all((size >= 1.0) & (size == np.round(size))):
            row = int(np.argmin((size >= 1.0) & (size == np.round(size))))
            raise InvalidInputError(
                f"{speaker()}: {self.size_name} must be integers from 1, found {size[row]:g} in row {row}"
            )
        y = self.coded(y)
        family = self._single.family
        fits = family.fits(y, np.ones(len(y)) if size is None else size)
        if not np.all(fits):
            row = int(np.argmin(fits))
            raise InvalidInputError(
                f"{speaker()}: y must be {family.support}, found {y[row]:g} in row {row}"
                + ("" if size is None else f", with {self.size_name} {size[row]:g}")
            )
        return y if size is None else y + 1j * size

    def coded(self, y: np.ndarray) -> np.ndarray:
        """Return the responses in the form that the family needs; shape (n,)."""
        return y

    def settings_without_rows(self) -> dict[str, Any] | None:
        """Return the arguments of the constructor that are no rows."""
        return {"prior_scale": self.prior_scale, "intercept": self.has_intercept}

    @property
    def known_shape(self) -> float | None:
        """The shape if it is known, None if it is a parameter."""
        single = self._single
        return single.shape if isinstance(single, FamilyLikelihood) else None

    def form_of_responses(self) -> dict[str, Any]:
        """Return the first responses: others of the same model are accepted where these are."""
        response = self.unweighted_responses[0][:EXAMPLES]
        return {"responses": response.real.tolist(), "has_sizes": bool(np.iscomplexobj(response))}

    @staticmethod
    def responses_of_form(form: Mapping[str, Any], n: int) -> Any:
        """Return the first responses of the described target, again and again."""
        return np.resize(form["responses"], n)

    def _shared_predictors(self) -> Mapping[str, list[PredictorPart]]:
        """Return the logarithm of the shape, if it is a parameter."""
        if self.shape_name is None:
            return {}
        return {"log_shape": [PredictorPart(self.shape_name, shared={0: 1.0}, is_scalar=True)]}

    @names_itself()
    def to_pymc(self) -> Any:
        """Return the same posterior as a `pymc.Model`, with the same names and labels; its rows are `pm.Data`.

        ``pm.set_data(target.pymc_data(new_rows))`` replaces the rows, for predictions by PyMC.

        Raises `IncompatibleError` for a family that PyMC does not have, and for a prior given as a function.
        """
        twin = self._single.family.twin
        if twin is None:
            return super().to_pymc()
        refuse_prior(self.prior.function is not None)
        import pymc as pm

        responses = self.unweighted_responses[0].real
        numbers = self._numbers_of_twin(self.rows_to_predict(None), responses, self.weights)
        known_shape = self.known_shape

        with pm.Model(coords={axis: list(labels) for axis, labels in self.variables.coords.items()}) as model:
            data = containers(numbers, self.variables)

            def observe(name: str, y: Any, eta: Any, size: Any = ONE, shape: Any = known_shape) -> Any:
                return twin.observe(name, eta, y, size, shape)

            rows = {"observed": data[RESPONSES], "y": numbers[RESPONSES]}
            sizes = [data[self.size_name]] if self.size_name in data else []
            [predictor, *_] = self.design.predictors
            if self.is_dense:
                flat = np.isinf(self.prior.scale)
                beta = pm.Flat("beta", dims="coef") if flat else pm.Normal("beta", 0.0, self.prior.scale, dims="coef")
                eta = data[DENSE] @ beta
            elif self.shape_name is None:
                theta = theta_of_pymc(self.variables, self.prior_scale)
                eta = predictor_of_pymc(self.design, predictor, theta, data)
            else:
                shape = pm.LogNormal(self.shape_name, math.log(self.shape_scale), LOG_SHAPE_SCALE)
                # The predictor reads no entry of the shape: its graph is one of the coefficients alone.
                theta = theta_of_pymc(self.variables, self.prior_scale, {self.shape_name: np.zeros(1)})
                eta = predictor_of_pymc(self.design, predictor, theta, data)
                observe_weighted("y", data.get(WEIGHTS), observe, eta, np.ones(()), shape, **rows)
                return model
            observe_weighted("y", data.get(WEIGHTS), observe, eta, *sizes, **rows)
        return model

    def _rows_of_twin(self) -> Regression:
        """Return this regression."""
        return self

    def _numbers_of_twin(self, rows: RowsOfDesign, y: np.ndarray, weights: np.ndarray | None) -> dict[str, np.ndarray]:
        """Return columns, codes, responses, sizes and weights of rows."""
        twin = self._single.family.twin
        numbers = {**numbers_of_design(rows.design), RESPONSES: y.astype("float64" if twin is None else twin.dtype)}
        if rows.size is not None:
            numbers[self.size_name] = rows.size.astype(np.int32)
        return numbers if weights is None else {**numbers, WEIGHTS: weights}


class PlainRegression(FamilyRegression):
    """A regression of the family in the attribute `family`, which has no shape; see :class:`LogisticRegression`."""

    family: ClassVar[Family]

    @naming_the_arguments
    def __init__(
        self,
        X: Any,
        y: Any,
        prior_scale: float = 1.0,
        intercept: bool = False,
        *,
        prior: Callable[..., float] | None = None,
        coef_names: Sequence[str] | None = None,
        offset: Any = None,
        weights: Any = None,
    ) -> None:
        super().__init__(
            self.family,
            X,
            y,
            prior_scale=prior_scale,
            intercept=intercept,
            prior=prior,
            coef_names=coef_names,
            offset=offset,
            weights=weights,
        )


class BinaryRegression(PlainRegression):
    """A regression whose responses are 0 and 1, or -1 and 1."""

    has_negative: bool = False
    """Whether the responses were given as -1 and 1."""

    def coded(self, y: np.ndarray) -> np.ndarray:
        """Return the responses as 0 and 1."""
        classes = {value for piece in pieces(y) for value in np.unique(piece).tolist()}
        if not (classes <= {0.0, 1.0} or classes <= {-1.0, 1.0}):
            raise InvalidInputError(
                f"{type(self).__name__}: y must be coded 0/1 or -1/1, found {sorted(classes)[:5]}; recode two classes, "
                "or use SoftmaxRegression for more"
            )
        self.has_negative = -1.0 in classes
        return (y + 1.0) / 2.0 if self.has_negative else y

    def form_of_responses(self) -> dict[str, Any]:
        """Return which of the two codes the responses have."""
        return {"has_negative": self.has_negative}

    @staticmethod
    def responses_of_form(form: Mapping[str, Any], n: int) -> Any:
        """Return both classes in turn."""
        return np.resize([-1.0, 1.0] if form["has_negative"] else [0.0, 1.0], n)

    def learn_from(self, form: Mapping[str, Any]) -> None:
        """Take the code of the responses."""
        self.has_negative = form["has_negative"]

    def _responses_to_append(self, y: Any) -> np.ndarray:
        """Return the responses of new rows; raise if they are coded otherwise than those of the target."""
        response = super()._responses_to_append(y)
        needed = {-1.0, 1.0} if self.has_negative else {0.0, 1.0}
        if not np.isin(response, list(needed)).all():
            raise InvalidInputError(
                f"{speaker()}: y must be coded {sorted(needed)}, as in the rows of the target, found "
                f"{sorted(set(response.tolist()))[:5]}"
            )
        return (response + 1.0) / 2.0 if self.has_negative else response


class ShapedRegression(FamilyRegression):
    """A regression of the family in the attribute `family`, with the shape `alpha`; see :class:`GammaRegression`."""

    family: ClassVar[Family]

    @naming_the_arguments
    def __init__(
        self,
        X: Any,
        y: Any,
        alpha: float | None = None,
        prior_scale: float = 1.0,
        intercept: bool = False,
        *,
        alpha_scale: float = 1.0,
        prior: Callable[..., float] | None = None,
        coef_names: Sequence[str] | None = None,
        offset: Any = None,
        weights: Any = None,
    ) -> None:
        super().__init__(
            self.family,
            X,
            y,
            prior_scale=prior_scale,
            intercept=intercept,
            prior=prior,
            coef_names=coef_names,
            offset=offset,
            weights=weights,
            shape=alpha,
            shape_scale=alpha_scale,
        )

    def settings_without_rows(self) -> dict[str, Any] | None:
        """Return the arguments of the constructor that are no rows, with the shape, None for a parameter."""
        settings = super().settings_without_rows()
        assert settings is not None
        return {**settings, "alpha": self.known_shape, "alpha_scale": self.shape_scale}


def pieces(y: np.ndarray, rows: int = 65_536) -> Iterator[np.ndarray]:
    """Yield runs of rows of an array, so that data larger than memory are never copied as a whole."""
    return (y[start : start + rows] for start in range(0, len(y), rows))
