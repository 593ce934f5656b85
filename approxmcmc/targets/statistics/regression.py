"""Linear regression with a known or unknown scale, for one outcome or several."""

import copy
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Self

import numpy as np

from approxmcmc.contracts import Variables
from approxmcmc.contracts.arguments import naming_the_arguments
from approxmcmc.contracts.speaker import names_itself, speaker
from approxmcmc.errors import InvalidInputError
from approxmcmc.sources import as_source
from approxmcmc.targets.blocks import files_of
from approxmcmc.targets.checks import checked_array
from approxmcmc.targets.describable import Describable, has_offset
from approxmcmc.targets.given import check_same_index, response_source
from approxmcmc.targets.new_rows import in_memory, labels_of_rows, parts_of_new_rows, refuse_columns, same_columns
from approxmcmc.targets.normal_prior import NormalPrior
from approxmcmc.targets.positive import WithPositive
from approxmcmc.targets.predictors.assemble import PredictorPart, assemble
from approxmcmc.targets.predictors.closed_form import NormalLikelihood
from approxmcmc.targets.predictors.design import Design
from approxmcmc.targets.predictors.predictive import NormalRows, RowsOfDesign
from approxmcmc.targets.regression import Regression
from approxmcmc.targets.statistics.target import NormalStatistics
from approxmcmc.targets.tables import (
    DesignColumns,
    listed,
    read_columns,
    spread,
)
from approxmcmc.targets.tall_data import Prior, checked_prior_scale
from approxmcmc.targets.twins import (
    RESPONSES,
    RowsInPyMC,
    containers,
    numbers_of_design,
    predictor_of_pymc,
    refuse_prior,
    theta_of_pymc,
)

LOG_SIGMA_SCALE = 1.5  # standard deviation of the prior of log(sigma): two of them are a factor of 20
WHO = "LinearRegression"
SCALE = "scale"  # container of the scales that follow from weights


class RowsOfRegression(Regression):
    """A linear regression with one term for each row.

    `prior_scale` and `sigma_scale` are those of the normal priors, which PyMC's model has; `prior` may be others.
    """

    likelihood: NormalLikelihood

    def __init__(
        self,
        design: Design,
        Y: np.ndarray,
        variables: Variables,
        prior: Prior,
        *,
        prior_scale: float,
        sigma_scale: float,
    ) -> None:
        self.variables = variables
        self.prior = prior
        self.prior_scale = prior_scale
        self.sigma_scale = sigma_scale
        self.likelihood = NormalLikelihood(Y.shape[1])
        self._set_rows(design, (Y,))

    @property
    def observed_data(self) -> Mapping[str, np.ndarray]:
        """The observed outcomes."""
        [Y] = self.responses
        return {"y": Y[:, 0] if Y.shape[1] == 1 else Y}

    @names_itself()
    def to_pymc(self) -> Any:
        """Return the same posterior as a `pymc.Model`, with the same names and labels; its rows are `pm.Data`.

        Raises `IncompatibleError` for a prior given as a function.
        """
        refuse_prior(self.prior.function is not None)
        import pymc as pm

        [Y] = self.responses
        J = Y.shape[1]
        numbers = numbers_of_outcomes(self.design, Y)
        scale: Any = np.exp(self.design.eta(np.zeros(self.design.dim), slice(0, 1))[J:, 0])  # without sigma, weights
        scale = scale[0] if J == 1 else scale
        with pm.Model(coords={axis: list(labels) for axis, labels in self.variables.coords.items()}) as model:
            data = containers(numbers, self.variables)
            scale = data.get(SCALE, scale)
            if "sigma" in self.variables.shapes:
                dims = self.variables.dims.get("sigma")
                sigma = pm.LogNormal("sigma", math.log(self.sigma_scale), LOG_SIGMA_SCALE, dims=dims)
                scale = scale * sigma if SCALE in data else sigma
            # No mean reads the entries of sigma: the graph of the means is one of the coefficients alone.
            theta = theta_of_pymc(self.variables, self.prior_scale, {"sigma": np.ones(J)})
            means = [predictor_of_pymc(self.design, predictor, theta, data) for predictor in self.design.predictors[:J]]
            pm.Normal("y", means[0] if J == 1 else pm.math.stack(means, axis=1), scale, observed=data[RESPONSES])
        return model


def numbers_of_outcomes(design: Design, Y: np.ndarray) -> dict[str, np.ndarray]:
    """Return columns, codes and outcomes (n, J) of rows, and their scales apart from sigma if rows have weights."""
    J = Y.shape[1]
    numbers = {**numbers_of_design(design), RESPONSES: Y[:, 0] if J == 1 else Y}
    if design.dim not in design.predictors[J].places:
        return numbers
    scale = np.exp(design.of_all_rows(np.zeros(design.dim))[J:].T)
    return {**numbers, SCALE: scale[:, 0] if J == 1 else scale}


class LinearRegression(NormalStatistics, RowsInPyMC, Describable):
    r"""Bayesian linear regression: y_i ~ N(x_i' beta, sigma^2 / w_i), by its sufficient statistics.

    Parameters
    ----------
    X
        Predictors, shape (n, p), float32 or float64; a DataFrame's columns become the labels of `beta`. X and y may be
        sources (`approxmcmc.sources`), which are written to a local file and mapped. Columns of text or categories are
        coded as integers, as for :class:`LogisticRegression`.
    y
        Outcomes, shape (n,); or (n, J) for J outcomes, each with separate coefficients and scale.
    sigma
        The scale if it is known, one number; None: the scale is a parameter.
    offset
        A known part of the mean of each outcome, shape (n,): x_i' beta + offset_i; None: 0.
    weights
        Known weights w_i, positive, shape (n,), such as the number of measurements of which y_i is the mean. They are
        precisions. Weights of other regressions multiply log densities, which is the same if sigma is known, but not
        if it is a parameter: then a :class:`PredictorTarget` with a mean and a log scale takes such weights.
    prior_scale
        ``beta_j ~ N(0, prior_scale^2)``; inf is flat.
    sigma_scale
        Median of the prior of ``sigma``; log(sigma) is normal with standard deviation 1.5.
    prior
        A function ``log_prior(theta) -> float`` that replaces these priors; theta = (beta row by row, log sigma).
    intercept
        Add a column of ones in front, called "intercept".
    coef_names
        Labels of the columns of X, in place of those of a DataFrame or x0, x1, ...

    Attributes
    ----------
    plain
        The model of single rows, with n terms, for tests that read some rows, and for cross-validation.
    reference_levels
        The level with effect 0 of each column of text or categories that has one; also an attribute of the trace.

    Raises
    ------
    InvalidInputError
        When shapes do not fit, a value is not finite, or a scale or weight is not positive.

    Notes
    -----
    Guarantee: exact to rounding, which is 1e-10 of the log-likelihood for any offset of y and any scales of the
    columns, even collinear ones; at condition numbers above 1e5, and far from the fit, it is proportionally more.
    Set-up takes one pass over the rows, as fast as memory is read, or up to five if columns are nearly collinear or
    mostly 0. A step reads no row, so ``datapoints_touched`` is 0.
    The trace holds ``beta``, dims (coef,) or (coef, outcome), and ``sigma``.

    References
    ----------
    Gelman et al. (2013), section 14.2.

    Examples
    --------
    >>> import numpy as np, approxmcmc as amc
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(1000, 2))
    >>> target = amc.LinearRegression(X, 1e6 + X @ [1.0, 2.0] + rng.normal(size=1000), intercept=True)
    >>> target, target.plain.n_obs
    (LinearRegression(1000 rows, dim=4), 1000)
    """

    plain: RowsOfRegression

    @naming_the_arguments
    def __init__(
        self,
        X: Any,
        y: Any,
        *,
        sigma: float | None = None,
        offset: Any = None,
        weights: Any = None,
        prior_scale: float = 1.0,
        sigma_scale: float = 1.0,
        prior: Callable[..., float] | None = None,
        intercept: bool = False,
        coef_names: Sequence[str] | None = None,
    ) -> None:
        check_same_index(X=X, y=y, offset=offset, weights=weights)
        Y = checked_array(response_source(y), "y").astype(np.float64, copy=False)
        Y = Y[:, None] if Y.ndim == 1 else Y
        first = Y[:, 0] if Y.ndim == 2 and Y.shape[1] else Y
        columns = read_columns(X, first, intercept=intercept, coef_names=coef_names)
        if "sigma" in columns.designs:
            raise InvalidInputError(f"{WHO}: 'sigma' is the name of the scale; rename the column 'sigma'")
        self.reference_levels = columns.reference_levels
        self.has_intercept = intercept
        self.known_sigma = sigma
        for name, value in {"sigma": 1.0 if sigma is None else sigma, "sigma_scale": sigma_scale}.items():
            if not 0.0 < value < math.inf:
                raise InvalidInputError(f"{WHO}: {name} must be positive and finite, found {value!r}")
        prior_scale = checked_prior_scale(prior_scale, "prior_scale")
        variables = _variables(columns, Y.shape[1], knows_sigma=sigma is not None)
        scales = np.full(variables.size, prior_scale, dtype=np.float64)
        means = np.zeros(variables.size)
        n_scales = 0 if sigma is not None else Y.shape[1]
        scales[variables.size - n_scales :] = LOG_SIGMA_SCALE
        means[variables.size - n_scales :] = math.log(sigma_scale)
        log_prior = NormalPrior(means, scales) if prior is None else Prior(1.0, prior)
        parts = columns.parts(len(Y))
        design = _design(parts, len(Y), Y.shape[1], variables, sigma, offset=offset, weights=weights)
        scales_of_priors = {"prior_scale": prior_scale, "sigma_scale": sigma_scale}
        super().__init__(RowsOfRegression(design, Y, variables, log_prior, **scales_of_priors))

    def _rows_of_twin(self) -> Regression:
        """Return the regression of single rows."""
        return self.plain

    def _numbers_of_twin(self, rows: RowsOfDesign, y: np.ndarray, weights: np.ndarray | None) -> dict[str, np.ndarray]:
        """Return columns, codes, outcomes and scales of rows; weights are in the design."""
        return numbers_of_outcomes(rows.design, y)

    def _growing_rows(self) -> RowsOfRegression:
        """Return the model of single rows."""
        return self.plain

    def settings_without_rows(self) -> dict[str, Any] | None:
        """Return the arguments of the constructor that are no rows."""
        return {
            "sigma": self.known_sigma,
            "prior_scale": self.plain.prior_scale,
            "sigma_scale": self.plain.sigma_scale,
            "intercept": self.has_intercept,
        }

    def rows_of_model(self) -> Regression:
        """Return the regression of single rows."""
        return self.plain

    def form_of_responses(self) -> dict[str, Any]:
        """Return the number of outcomes, and whether their scales have known parts, from weights."""
        n_outcomes = self.plain.likelihood.n_outcomes
        return {"outcomes": n_outcomes, "has_weights": has_offset(self.plain, n_outcomes)}

    @staticmethod
    def responses_of_form(form: Mapping[str, Any], n: int) -> Any:
        """Return some numbers, a column for each outcome."""
        y = np.cos(np.arange(n * form["outcomes"])).reshape(n, -1)
        return y[:, 0] if form["outcomes"] == 1 else y

    @names_itself("append to {}")
    def rows_to_append(self, X: Any, y: Any, *, offset: Any = None, weights: Any = None) -> Self:
        """Return the target of new rows alone: a table or matrix as X of the target, outcomes, offsets and weights."""
        plain = self.plain
        J = plain.likelihood.n_outcomes
        dim = plain.design.dim
        has_offset, has_weights = (dim in plain.design.predictors[k].places for k in (0, J))
        same_columns({"offset": (has_offset, offset), "weights": (has_weights, weights)})
        check_same_index(X=X, y=y, offset=offset, weights=weights)
        Y = checked_array(in_memory(y), "y").astype(np.float64, copy=False)
        Y = Y[:, None] if Y.ndim == 1 else Y
        if Y.shape != (len(X), J):
            raise InvalidInputError(f"{speaker()}: y must have shape ({len(X)}, {J}), found {Y.shape}")
        parts = parts_of_new_rows(X, self.variables, self.reference_levels, has_intercept=self.has_intercept)
        more = copy.copy(plain)
        more._start_anew(files_of((as_source(X), as_source(y))))
        further = {"offset": in_memory(offset), "weights": in_memory(weights)}
        more._set_rows(_design(parts, len(Y), J, self.variables, self.known_sigma, **further), (Y,))
        other = copy.copy(self)
        other._take(more)
        return other

    @names_itself("predict for {}")
    def rows_to_predict(self, rows: Any, **columns: Any) -> NormalRows:
        """Return `rows` for a prediction: a table or matrix as X of the target; None means the target's own rows.

        New rows may have an ``offset``, by default 0, and ``weights``, by default 1.
        """
        design = self.plain.design
        J = design.n_predictors // 2
        axes = {"outcome": list(range(J))} if J > 1 else {}
        offset, weights = (None if rows is None else columns.pop(name, None) for name in ("offset", "weights"))
        refuse_columns(columns)
        if rows is None:
            return NormalRows(design, self.plain.likelihood, axes=axes, response_axes=axes)
        check_same_index(rows=rows, offset=offset, weights=weights)
        parts = parts_of_new_rows(rows, self.variables, self.reference_levels, has_intercept=self.has_intercept)
        design = _design(parts, len(rows), J, self.variables, self.known_sigma, offset=offset, weights=weights)
        return NormalRows(design, self.plain.likelihood, labels=labels_of_rows(rows), axes=axes, response_axes=axes)

    @property
    def setup_attrs(self) -> Mapping[str, Any]:
        """Trace attributes: the reference level of each column that has one, as one text."""
        named = {"reference_levels": listed(self.reference_levels)} if self.reference_levels else {}
        return {**super().setup_attrs, **named}


def _variables(columns: DesignColumns, J: int, *, knows_sigma: bool) -> Variables:
    """Return the variables of a regression of J outcomes, each with the variables of `columns` and a scale."""
    outcomes, outcome = ((J,), ("outcome",)) if J > 1 else ((), ())
    shapes = {name: (len(columns.labels[name]), *outcomes) for name in columns.designs}
    dims = {name: (axis, *outcome) for name, axis in columns.axes.items()}
    coords: dict[str, Sequence[Any]] = {axis: list(labels) for axis, labels in columns.coords.items()}
    coords |= {"outcome": list(range(J))} if outcomes else {}
    if knows_sigma:
        return Variables(shapes, dims, coords)
    return WithPositive(
        {**shapes, "sigma": outcomes}, {**dims, **({"sigma": outcome} if outcome else {})}, coords, positive="sigma"
    )


def _design(
    parts: list[PredictorPart],
    n: int,
    J: int,
    variables: Variables,
    sigma: float | None,
    *,
    offset: Any,
    weights: Any,
) -> Design:
    """Return J means that share the columns of X, and J log scales, each a parameter or known, minus log(w) / 2."""
    known_means = []
    if offset is not None:
        added = checked_array(offset, "offset").astype(np.float64)
        if added.shape != (n,):
            raise InvalidInputError(f"{WHO}: offset must hold {n} numbers, found shape {added.shape}")
        known_means.append(PredictorPart(None, added[:, None]))
    scale_part = [] if sigma is None else [PredictorPart(None, shared={0: math.log(sigma)})]
    if weights is not None:
        w = checked_array(weights, "weights").astype(np.float64)
        if w.shape != (n,) or not (w > 0.0).all():
            raise InvalidInputError(f"{WHO}: weights must be {n} positive numbers, found {w!r}")
        scale_part.append(PredictorPart(None, -0.5 * np.log(w)[:, None]))
    predictors = {f"mean {j}": [*(spread(part, j, J) for part in parts), *known_means] for j in range(J)}
    for j in range(J):
        predictors[f"scale {j}"] = (
            scale_part if sigma is not None else [*scale_part, PredictorPart("sigma", shared={j: 1.0})]
        )
    return assemble(predictors, variables, n)
