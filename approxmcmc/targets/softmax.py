"""Softmax regression: two or more classes, each with a vector of coefficients."""

import copy
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Self

import numpy as np

from approxmcmc.contracts import CompiledBound, Variables
from approxmcmc.contracts.arguments import naming_the_arguments
from approxmcmc.contracts.speaker import names_itself, speaker
from approxmcmc.errors import InvalidInputError
from approxmcmc.families.weighted import observe_weighted
from approxmcmc.sources import as_source
from approxmcmc.targets.blocks import files_of
from approxmcmc.targets.boehning import boehning_bound
from approxmcmc.targets.checks import checked_array
from approxmcmc.targets.describable import Describable
from approxmcmc.targets.given import check_names, check_same_index, checked_weights, kept, response_source
from approxmcmc.targets.likelihood_bounds import check_kind
from approxmcmc.targets.new_rows import in_memory, labels_of_rows, parts_of_new_rows, refuse_columns, same_columns
from approxmcmc.targets.predictors.assemble import PredictorPart, assemble
from approxmcmc.targets.predictors.classes import DenseClasses
from approxmcmc.targets.predictors.closed_form import SoftmaxLikelihood
from approxmcmc.targets.predictors.design import Design
from approxmcmc.targets.predictors.predictive import RowsOfClasses, RowsOfDesign
from approxmcmc.targets.regression import Regression
from approxmcmc.targets.tables import (
    listed,
    parts_of_designs,
    read_columns,
    spread,
)
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

WHO = "SoftmaxRegression"


def classes_of(y: np.ndarray) -> np.ndarray:
    """Return the distinct classes in y, sorted; fewer than two, or one that is no whole number, is an error."""
    labels = np.unique(y)
    if len(labels) < 2 or (labels != np.round(labels)).any():
        raise InvalidInputError(f"{WHO}: y must hold two or more classes, as integers; found {labels[:5].tolist()}")
    return labels


def prior_of(scale: float, prior: Callable[..., float] | None) -> Prior:
    """Return the prior of all coefficients; if `prior` is None, it is normal and its `scale` must be finite."""
    checked = Prior(scale, prior)
    if prior is None and math.isinf(scale):
        raise InvalidInputError(
            f"{WHO}: prior_scale must be finite, found {scale}; a flat prior gives an improper posterior"
        )
    return checked


class SoftmaxRegression(Regression, RowsInPyMC, Describable):
    """Multinomial logistic regression: P(y_i = k) = exp(x_i' beta_k) / sum_l exp(x_i' beta_l), beta_kj ~ N(0, s^2).

    Parameters
    ----------
    X
        Predictors, shape (n, p), float32 or float64; a DataFrame's columns become the labels of the coefficients. X
        and y may be sources (`approxmcmc.sources`). Columns of text or categories are coded as for
        :class:`LogisticRegression`, with effects of their levels for each class.
    y
        Classes, shape (n,); any integers or whole numbers. Sorted, they label the dimension ``category``.
    prior_scale
        Prior standard deviation s of every coefficient, finite: with a flat prior the posterior is improper, because
        adding the same vector to all beta_k does not change the likelihood.
    intercept
        Add a column of ones in front, called "intercept", with the same prior.
    prior
        A function ``log_prior(beta) -> float`` that replaces the normal prior; beta is one vector, class by class.
    coef_names
        Labels of the columns of X, in place of those of a DataFrame or x0, x1, ...
    offset
        A known part of the predictor of each class, shape (n, K), a column for each class in their order; None: 0. A
        number for each row alone would cancel.
    weights
        As for :class:`LogisticRegression`.

    Raises
    ------
    InvalidInputError
        When shapes do not fit, a value is NaN or infinite, y holds fewer than two classes or numbers that are not
        whole, or the prior is flat.

    Notes
    -----
    The trace holds ``beta``, with the dimensions ``category`` and ``coef``. A term changes by at most 2^(1/2) ||x_i||
    times the distance of two states, so the plain terms have bounds for `BernsteinTest` and `PoissonTest`, and so have
    the residuals of a `ControlVariate`.

    References
    ----------
    Boehning (1992), Multinomial logistic regression algorithm; Maclaurin and Adams (2014), section 4.2.

    Examples
    --------
    >>> import numpy as np, approxmcmc as amc
    >>> rng = np.random.default_rng(0)
    >>> amc.SoftmaxRegression(rng.normal(size=(100, 2)), rng.integers(3, size=100))
    SoftmaxRegression(n_obs=100, n_classes=3, dim=6)
    """

    terms_are_concave = True
    bound_kinds = ("tuned", "untuned")

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
        check_same_index(X=X, y=y, offset=offset, weights=weights)
        y, offset, weights = (response_source(column) for column in (y, offset, weights))
        response = checked_array(y, "y")
        columns = read_columns(X, response, intercept=intercept, coef_names=coef_names)
        self.given = kept((columns.designs, offset, weights, y))
        self.reference_levels = columns.reference_levels
        self.has_intercept = intercept
        self._labels = classes_of(response)
        self.prior = prior_of(prior_scale, prior)
        self.n_classes = len(self._labels)
        self.likelihood = SoftmaxLikelihood(self.n_classes)
        shapes = {name: (self.n_classes, len(columns.labels[name])) for name in columns.designs}
        dims = {name: ("category", axis) for name, axis in columns.axes.items()}
        classes: dict[str, Any] = {"category": [int(label) for label in self._labels]}
        self.variables = Variables(shapes, dims, {**classes, **{axis: list(of) for axis, of in columns.coords.items()}})
        check_names(self.variables)
        self._place(columns.parts(len(response)), offset, weights, response)

    @names_itself()
    def _place(self, parts: list[PredictorPart], offset: Any, weights: Any, y: np.ndarray) -> None:
        """Store rows."""
        classes = np.searchsorted(self._labels, y).astype(np.int64, copy=False)
        known_weights = None if weights is None else checked_weights(weights, len(y))
        self._set_rows(self._design_of(parts, offset, len(y)), (classes,), known_weights)

    @names_itself()
    def _design_of(self, parts: list[PredictorPart], offset: Any, n: int) -> Design:
        """Return the design of n rows: a variable holds the entries of the first class, then those of the next."""
        shapes = self.variables.shapes
        of_classes = {
            str(k): [spread(part, k * shapes[str(part.variable)][1], 1) for part in parts]
            for k in range(self.n_classes)
        }
        if offset is not None:
            offsets = checked_array(offset, "offset").astype(np.float64, copy=False)
            if offsets.shape != (n, self.n_classes):
                raise InvalidInputError(
                    f"{WHO}: offset must have shape ({n}, {self.n_classes}), a column for each class (a number for "
                    f"each row alone would cancel), found {offsets.shape}"
                )
            for k in range(self.n_classes):
                of_classes[str(k)].append(PredictorPart(None, offsets[:, [k]]))
        return assemble(of_classes, self.variables, n)

    def settings_without_rows(self) -> dict[str, Any] | None:
        """Return the arguments of the constructor that are no rows."""
        return {"prior_scale": self.prior.scale, "intercept": self.has_intercept}

    def form_of_responses(self) -> dict[str, Any]:
        """Return the labels of the classes."""
        return {"classes": self._labels.tolist()}

    @staticmethod
    def fewest_rows(form: Mapping[str, Any]) -> int:
        """Return the number of classes."""
        return len(form["classes"])

    @staticmethod
    def responses_of_form(form: Mapping[str, Any], n: int) -> Any:
        """Return all classes in turn."""
        return np.resize(form["classes"], n)

    @classmethod
    def columns_of_form(cls, form: Mapping[str, Any], n: int) -> dict[str, Any]:
        """Return the arguments of n made-up rows but for X; an offset has a column for each class."""
        columns = super().columns_of_form(form, n)
        return {**columns, "offset": np.zeros((n, len(form["classes"])))} if form["has_offset"] else columns

    @names_itself("predict for {}")
    @names_itself("predict for {}")
    def rows_to_predict(self, rows: Any, **columns: Any) -> RowsOfClasses:
        """Return `rows` for a prediction: a table or matrix as X of the target; None means the target's own rows.

        New rows may have an ``offset``, by default 0.
        """
        offset = None if rows is None else columns.pop("offset", None)
        refuse_columns(columns)
        axes = {"category": [int(label) for label in self._labels]}
        if rows is None:
            return RowsOfClasses(self.design, self.likelihood.single, axes=axes).of_weighted(self.weights)
        parts = parts_of_new_rows(rows, self.variables, self.reference_levels, has_intercept=self.has_intercept)
        design = self._design_of(parts, offset, len(rows))
        return RowsOfClasses(design, self.likelihood.single, labels=labels_of_rows(rows), axes=axes)

    @names_itself("append to {}")
    def rows_to_append(self, X: Any, y: Any, *, offset: Any = None, weights: Any = None) -> Self:
        """Return the target of new rows alone: a table or matrix as X, classes, offsets and weights."""
        has_offset = any(self.design.dim in predictor.places for predictor in self.design.predictors)
        same_columns({"offset": (has_offset, offset), "weights": (self.weights is not None, weights)})
        check_same_index(X=X, y=y, offset=offset, weights=weights)
        classes = checked_array(in_memory(y), "y")
        if classes.ndim != 1 or len(X) != len(classes):
            raise InvalidInputError(f"{speaker()}: X has {len(X)} rows, and y has shape {classes.shape}")
        unknown = np.flatnonzero(~np.isin(classes, self._labels))
        if unknown.size:
            raise InvalidInputError(
                f"{speaker()}: y has the class {classes[unknown[0]]} in row {unknown[0]}, which no row of the target "
                f"had, so it has no coefficients: the classes are {self._labels.tolist()}; make the target from all "
                "rows"
            )
        parts = parts_of_new_rows(X, self.variables, self.reference_levels, has_intercept=self.has_intercept)
        other = copy.copy(self)
        other._start_anew(files_of((as_source(X), as_source(y))))
        other._place(parts, in_memory(offset), in_memory(weights), classes)
        return other

    @names_itself()
    def with_rows(self, given: tuple[Any, ...], n_obs: int) -> Self:
        """Return this model, with its variables and classes, for other data: (designs, offset, weights, y)."""
        designs, offset, weights, y = given
        other = copy.copy(self)
        other.given = None
        other._place(parts_of_designs(designs, n_obs), offset, weights, y)
        return other

    def longest_gradients(self) -> np.ndarray:
        """Return upper bounds of the lengths of the terms' gradients, 2^(1/2) ||x_i||; shape (n_obs,).

        A term's gradients in the predictors are 1 - p for its class and -p_k for each other, a vector of this length
        at most. Weights multiply it.
        """
        lengths = math.sqrt(2.0) * self.design.row_norms()
        return lengths if self.weights is None else self.weights * lengths

    @names_itself()
    def likelihood_bound(self, kind: str, at: np.ndarray | None) -> CompiledBound:
        """Return Boehning's lower bound of the likelihood: "tuned" touches it at `at`, "untuned" at 0."""
        check_kind(kind, self.bound_kinds, at)
        theta_0 = np.zeros(self.design.dim) if kind == "untuned" or at is None else at
        shares_columns = isinstance(self.form, DenseClasses)
        entries = self._entries_of_classes()
        return boehning_bound(
            self.design, self._y, theta_0, entries, shares_columns=shares_columns, weights=self.weights
        )

    def _entries_of_classes(self) -> np.ndarray:
        """Return the indices of the entries of theta of each class; shape (K, coefficients of a class)."""
        blocks: list[np.ndarray] = []
        start = 0
        for shape in self.variables.shapes.values():
            size = math.prod(shape)
            blocks.append(np.arange(start, start + size).reshape(shape))
            start += size
        return np.concatenate(blocks, axis=1)

    @property
    def _y(self) -> np.ndarray:
        """The classes, as indices into the labels of the dimension ``category``, shape (n,)."""
        return self.unweighted_responses[0]

    @property
    def setup_attrs(self) -> Mapping[str, Any]:
        """Trace attributes: the reference level of each column that has one, as one text."""
        named = {"reference_levels": listed(self.reference_levels)} if self.reference_levels else {}
        return {**super().setup_attrs, **named}

    @names_itself()
    def to_pymc(self) -> Any:
        """Return the same posterior as a `pymc.Model`, with the same names and labels; its rows are `pm.Data`."""
        refuse_prior(self.prior.function is not None)
        import pymc as pm

        numbers = self._numbers_of_twin(self.rows_to_predict(None), self._y, self.weights)
        with pm.Model(coords={axis: list(labels) for axis, labels in self.variables.coords.items()}) as model:
            data = containers(numbers, self.variables)

            def observe(name: str, y: Any, eta: Any) -> Any:
                return pm.Categorical(name, logit_p=eta, observed=y)

            if isinstance(self.form, DenseClasses):
                beta = pm.Normal("beta", 0.0, self.prior.scale, dims=("category", "coef"))
                eta = pm.math.dot(data[DENSE], beta.T)
            else:
                theta = theta_of_pymc(self.variables, self.prior.scale)
                eta = pm.math.stack(
                    [predictor_of_pymc(self.design, predictor, theta, data) for predictor in self.design.predictors], 1
                )
            rows = {"observed": data[RESPONSES], "y": numbers[RESPONSES]}
            observe_weighted("y", data.get(WEIGHTS), observe, eta, **rows)
        return model

    def _rows_of_twin(self) -> Regression:
        """Return this regression."""
        return self

    def _numbers_of_twin(self, rows: RowsOfDesign, y: np.ndarray, weights: np.ndarray | None) -> dict[str, np.ndarray]:
        """Return columns, codes, classes and weights of rows."""
        numbers = {**numbers_of_design(rows.design), RESPONSES: y.astype(np.int32)}
        return numbers if weights is None else {**numbers, WEIGHTS: weights}

    def __repr__(self) -> str:
        """Show the size and the reference levels."""
        size = f"n_obs={self.n_obs}, n_classes={self.n_classes}, dim={self.variables.size}"
        levels = f"; reference levels: {listed(self.reference_levels)}" if self.reference_levels else ""
        return f"{WHO}({size}{levels})"
