"""Ordered logistic regression: categories in an order, with a cutpoint between each and the next."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from approxmcmc.contracts.arguments import naming_the_arguments
from approxmcmc.contracts.speaker import names_itself, speaker
from approxmcmc.errors import InvalidInputError
from approxmcmc.families.ordered import first_cutpoints
from approxmcmc.families.weighted import observe_weighted
from approxmcmc.sources import as_source
from approxmcmc.targets.checks import checked_array
from approxmcmc.targets.column_regression import ColumnRegression
from approxmcmc.targets.cutpoints import OrderedPrior, WithCutpoints
from approxmcmc.targets.describable import Describable
from approxmcmc.targets.given import check_names, response_source
from approxmcmc.targets.predictors.assemble import PredictorPart, codes_of
from approxmcmc.targets.predictors.closed_form import OrderedLikelihood
from approxmcmc.targets.predictors.design import Design
from approxmcmc.targets.predictors.predictive import RowsOfDesign, RowsOfOrderedClasses
from approxmcmc.targets.regression import Regression
from approxmcmc.targets.tables import listed
from approxmcmc.targets.tall_data import Prior
from approxmcmc.targets.twins import (
    RESPONSES,
    WEIGHTS,
    RowsInPyMC,
    containers,
    numbers_of_design,
    predictor_of_pymc,
    refuse_prior,
    theta_of_pymc,
)

WHO = "OrderedRegression"
CUTPOINTS = "cutpoints"
MOST_CATEGORIES = 100  # a row's expansion then takes 5251 numbers


class Categories(NamedTuple):
    """Labels of the categories in their order, the responses as numbers, and the sorted numbers of the categories."""

    labels: list[Any]
    y: Any
    numbers: np.ndarray


def ordered_categories(y: Any) -> Categories:
    """Return the categories of a user's responses; raise if they have no order, or are fewer than two or too many."""
    source = as_source(y)
    if source is not None and source.categories:
        raise InvalidInputError(
            f"{WHO}: y is a column of text or categories of a source, whose order is unknown; write it as numbers 0, "
            "1, ... in the order of the categories"
        )
    dtype: Any = getattr(y, "dtype", None)
    if source is None and hasattr(dtype, "categories"):
        if not dtype.ordered:
            raise InvalidInputError(
                f"{WHO}: y is a column of categories without an order; write pd.Categorical(y, "
                f"categories={list(dtype.categories)[:4]}, ordered=True), with the categories from lowest to highest"
            )
        labels = dtype.categories.tolist()
        y = codes_of(y)
        if (np.asarray(y) < 0).any():
            row = int(np.argmax(np.asarray(y) < 0))
            raise InvalidInputError(f"{WHO}: y has missing values, the first in row {row}; drop these rows")
        numbers = np.arange(len(labels), dtype=np.float64)
    else:
        y = response_source(y)
        numbers = np.unique(checked_array(y, "y")).astype(np.float64)
        if (numbers != np.round(numbers)).any():
            raise InvalidInputError(
                f"{WHO}: y must hold categories, as integers or as an ordered column of categories; found "
                f"{numbers[:5].tolist()}"
            )
        labels = [int(number) for number in numbers]
    if not 2 <= len(labels) <= MOST_CATEGORIES:
        raise InvalidInputError(
            f"{WHO}: y must hold 2 to {MOST_CATEGORIES} categories, found {len(labels)}: {labels[:5]}"
            + (" ..." if len(labels) > MOST_CATEGORIES else "")
        )
    return Categories(labels, y, numbers)


class OrderedRegression(ColumnRegression, RowsInPyMC, Describable):
    """Bayesian ordered logistic regression: P(y_i <= k) = 1 / (1 + exp(eta_i - c_k)), eta_i = x_i' beta + offset_i.

    The K categories have K - 1 cutpoints c_0 < ... < c_{K-2}. A coefficient above 0 moves rows to higher categories: a
    column that grows by 1 multiplies the odds of all events y_i > k by exp(beta_j) (proportional odds).

    Parameters
    ----------
    X
        Predictors, shape (n, p), or a table with columns of text or categories, as for :class:`LogisticRegression`, all
        of which have a reference level. There is no intercept: cutpoints take its place.
    y
        Categories, shape (n,): whole numbers, whose sorted distinct values are the categories; or an ordered column of
        categories of pandas, whose categories may have no rows.
    prior_scale
        beta_j ~ N(0, prior_scale^2), also effects of levels; inf is flat.
    cutpoint_scale
        c_k ~ N(0, cutpoint_scale^2), given that they increase; inf is flat. A category with a share of 1e-4 at one end
        has its cutpoint at about 9 if predictors are near 0.
    prior
        A function ``log_prior(theta) -> float`` that replaces these priors; the last K - 1 entries of theta are c_0 and
        log(c_k - c_{k-1}), so a density of the cutpoints needs the Jacobian, the sum of these logarithms.
    coef_names, offset, weights
        As for :class:`LogisticRegression`.

    Attributes
    ----------
    categories
        The labels of the categories, in their order; also an attribute of the trace.

    Raises
    ------
    InvalidInputError
        When shapes do not fit, a value is NaN or infinite, or y holds text, categories without an order, numbers that
        are not whole, or fewer than 2 or more than 100 categories.

    Notes
    -----
    The trace holds ``beta`` with the dimension ``coef``, effects of columns of categories, and ``cutpoints`` with the
    dimension ``cutpoint``, whose labels such as ``low|high`` name the categories on both sides. With normal or flat
    priors there is one mode: the log density, with its Jacobian, is concave in coefficients and cutpoints.
    Rows have K predictors, eta and the K - 1 numbers of cutpoints. No bounds of their terms hold for all cutpoints, so
    exact tests of plain terms and `Firefly` refuse them; the residuals of a `ControlVariate` have bounds for
    `PoissonTest`. Expansions are in closed form.

    References
    ----------
    McCullagh (1980), Regression models for ordinal data.

    Examples
    --------
    >>> import numpy as np, approxmcmc as amc
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(100, 2))
    >>> y = np.digitize(X[:, 0] + rng.logistic(size=100), [-1.0, 1.0])
    >>> target = amc.OrderedRegression(X, y)
    >>> target, target.variables.coords["cutpoint"]
    (OrderedRegression(n_obs=100, n_categories=3, dim=4), ['0|1', '1|2'])
    """

    @naming_the_arguments
    def __init__(
        self,
        X: Any,
        y: Any,
        prior_scale: float = 1.0,
        *,
        cutpoint_scale: float = 10.0,
        prior: Callable[..., float] | None = None,
        coef_names: Sequence[str] | None = None,
        offset: Any = None,
        weights: Any = None,
    ) -> None:
        self.categories, y, self._numbers = ordered_categories(y)
        rows = {"offset": offset, "weights": weights}
        checked_rows = self._read(X, y, intercept=False, coef_names=coef_names, has_other_intercept=True, **rows)
        columns = checked_rows.columns.variables
        if CUTPOINTS in columns.shapes:
            raise InvalidInputError(f"{WHO}: {CUTPOINTS!r} is the name of the cutpoints; rename the column")
        n_cutpoints = len(self.categories) - 1
        between = [f"{low}|{high}" for low, high in zip(self.categories, self.categories[1:], strict=False)]
        self.variables = WithCutpoints(
            {**columns.shapes, CUTPOINTS: (n_cutpoints,)},
            {**columns.dims, CUTPOINTS: ("cutpoint",)},
            {**columns.coords, "cutpoint": between},
            ordered=CUTPOINTS,
        )
        check_names(self.variables)
        if prior is None:
            self.prior = OrderedPrior(prior_scale, cutpoint_scale, n_cutpoints)
        else:
            self.prior = Prior(prior_scale, prior)
        self.likelihood = OrderedLikelihood(len(self.categories))
        self._place_given(checked_rows)
        counts = np.bincount(self._y, weights=self.weights, minlength=len(self.categories))
        self._first_cutpoints = first_cutpoints((counts + 0.5) / (counts + 0.5).sum())

    def settings_without_rows(self) -> dict[str, Any] | None:
        """Return the arguments of the constructor that are no rows; None if the prior is a function."""
        if not isinstance(self.prior, OrderedPrior):
            return None
        return {"prior_scale": self.prior.scale, "cutpoint_scale": self.prior.cutpoint_scale}

    def form_of_responses(self) -> dict[str, Any]:
        """Return the categories, the numbers that stand for them, and where a chain starts."""
        return {
            "categories": list(self.categories),
            "numbers": self._numbers.tolist(),
            "first_cutpoints": self._first_cutpoints.tolist(),
        }

    @staticmethod
    def fewest_rows(form: Mapping[str, Any]) -> int:
        """Return the number of categories."""
        return len(form["categories"])

    @staticmethod
    def responses_of_form(form: Mapping[str, Any], n: int) -> Any:
        """Return all categories in turn."""
        import pandas as pd

        values = np.resize(np.array(form["categories"], dtype=object), n)
        return pd.Categorical(values, categories=form["categories"], ordered=True)

    def learn_from(self, form: Mapping[str, Any]) -> None:
        """Take the numbers that stand for the categories, and where a chain starts."""
        self._numbers = np.array(form["numbers"])
        self._first_cutpoints = np.array(form["first_cutpoints"])

    def _responses_to_append(self, y: Any) -> np.ndarray:
        """Return the categories of new rows as numbers; raise if the target has no cutpoint for one of them."""
        labels = getattr(getattr(y, "dtype", None), "categories", None)
        if labels is not None:
            if labels.tolist() != self.categories:
                raise InvalidInputError(
                    f"{speaker()}: y must have the categories {self.categories}, in this order, found {labels.tolist()}"
                )
            y = codes_of(y)
        numbers = super()._responses_to_append(y)
        unknown = np.flatnonzero(~np.isin(numbers, self._numbers))
        if unknown.size:
            raise InvalidInputError(
                f"{speaker()}: y has {numbers[unknown[0]]:g} in row {unknown[0]}, which no row of the target had, so "
                f"it has no cutpoint: its categories are {self.categories}; make the target from all rows"
            )
        return numbers

    def _checked_responses(self, y: np.ndarray, size: np.ndarray | None) -> np.ndarray:
        """Return the indices of the categories."""
        return np.searchsorted(self._numbers, y).astype(np.int64, copy=False)

    def _shared_predictors(self) -> Mapping[str, list[PredictorPart]]:
        """Return the entries of theta that cutpoints are made of."""
        return {
            f"{CUTPOINTS} {k}": [PredictorPart(CUTPOINTS, shared={k: 1.0})] for k in range(len(self.categories) - 1)
        }

    def _rows_of(self, design: Design, *, size: np.ndarray | None, labels: list[Any] | None = None) -> RowsOfDesign:
        """Return rows to predict."""
        return RowsOfOrderedClasses(design, self.likelihood.single, labels=labels, axes={"category": self.categories})

    def initial_point(self) -> np.ndarray:
        """Return coefficients 0, and the cutpoints that fit the shares of the categories; shape (dim,)."""
        zeros = super().initial_point()
        values = {**self.variables.unpack(zeros), CUTPOINTS: self._first_cutpoints}
        return self.variables.pack(values)

    @property
    def why_one_mode(self) -> str:  # type: ignore[override]  # a constant of other targets
        """A proof that there is one mode, unless the prior is a function.

        Terms, normal priors and the logarithms of the distances, which are the Jacobian, are concave in coefficients
        and cutpoints; and the map from theta to these is smooth, one-to-one and onto increasing cutpoints.
        """
        if self.prior.function is not None:
            return ""
        return "the log density is concave in coefficients and cutpoints"

    @property
    def _y(self) -> np.ndarray:
        """The indices of the categories, shape (n,)."""
        return self.unweighted_responses[0]

    @property
    def setup_attrs(self) -> Mapping[str, Any]:
        """Trace attributes: the categories in their order, and reference levels of columns, each as one text."""
        return {**super().setup_attrs, "categories": ", ".join(map(str, self.categories))}

    @names_itself()
    def to_pymc(self) -> Any:
        """Return the same posterior as a `pymc.Model`, with the same names and labels; its rows are `pm.Data`."""
        refuse_prior(self.prior.function is not None)
        assert isinstance(self.prior, OrderedPrior)
        import pymc as pm
        from pymc.distributions.transforms import ordered

        numbers = self._numbers_of_twin(self.rows_to_predict(None), self._y, self.weights)
        settings = {"dims": "cutpoint", "transform": ordered, "initval": self._first_cutpoints}
        with pm.Model(coords={axis: list(labels) for axis, labels in self.variables.coords.items()}) as model:
            data = containers(numbers, self.variables)

            def observe(name: str, y: Any, eta: Any, cutpoints: Any) -> Any:
                return pm.OrderedLogistic(name, eta=eta, cutpoints=cutpoints, compute_p=False, observed=y)

            # Cutpoints come last in theta, but the graph of the predictor needs none of their entries.
            theta = theta_of_pymc(self.variables, self.prior.scale, {CUTPOINTS: np.zeros(len(self.categories) - 1)})
            if np.isinf(self.prior.cutpoint_scale):
                cutpoints = pm.Flat(CUTPOINTS, **settings)
            else:
                cutpoints = pm.Normal(CUTPOINTS, 0.0, self.prior.cutpoint_scale, **settings)
            eta = predictor_of_pymc(self.design, self.design.predictors[0], theta, data)
            observe_weighted(
                "y", data.get(WEIGHTS), observe, eta, cutpoints, observed=data[RESPONSES], y=numbers[RESPONSES]
            )
        return model

    def _rows_of_twin(self) -> Regression:
        """Return this regression."""
        return self

    def _numbers_of_twin(self, rows: RowsOfDesign, y: np.ndarray, weights: np.ndarray | None) -> dict[str, np.ndarray]:
        """Return columns, codes, categories and weights of rows."""
        numbers = {**numbers_of_design(rows.design), RESPONSES: y.astype(np.int32)}
        return numbers if weights is None else {**numbers, WEIGHTS: weights}

    def __repr__(self) -> str:
        """Show the sizes and the reference levels."""
        size = f"n_obs={self.n_obs}, n_categories={len(self.categories)}, dim={self.variables.size}"
        levels = f"; reference levels: {listed(self.reference_levels)}" if self.reference_levels else ""
        return f"{WHO}({size}{levels})"
