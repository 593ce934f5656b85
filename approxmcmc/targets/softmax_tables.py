"""Softmax regression on tables: each class has slopes of columns of numbers, and effects of levels of the others."""

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from approxmcmc.contracts import Variables
from approxmcmc.errors import IncompatibleError, InvalidInputError
from approxmcmc.targets.checks import checked_array
from approxmcmc.targets.given import check_names, check_same_index, response_source
from approxmcmc.targets.predictors.assemble import assemble
from approxmcmc.targets.predictors.base import PredictorsTarget
from approxmcmc.targets.predictors.closed_form import SoftmaxLikelihood
from approxmcmc.targets.tables import listed, predictor_of_pymc, read_table, spread, theta_of_pymc
from approxmcmc.targets.tall_data import Prior

WHO = "SoftmaxRegression"


def classes_of(y: np.ndarray) -> np.ndarray:
    """Return the distinct classes in y, sorted; fewer than two, or one that is no whole number, is an error."""
    labels = np.unique(y)
    if len(labels) < 2 or (labels != np.round(labels)).any():
        raise InvalidInputError(f"{WHO}: y must hold two or more classes, as integers; found {labels[:5].tolist()}")
    return labels


def prior_of(scale: float, prior: Callable[..., float] | None) -> Prior:
    """Return the prior of all coefficients; if `prior` is None, it is normal and its `scale` must be finite."""
    checked = Prior(scale, prior, who=WHO)
    if prior is None and math.isinf(scale):
        raise InvalidInputError(
            f"{WHO}: prior_scale must be finite, found {scale}; a flat prior gives an improper posterior"
        )
    return checked


class SoftmaxTable(PredictorsTarget):
    r"""A softmax regression of a table: eta_ik = x_i' beta_k + sum_c effect_c[k, level of row i in column c].

    `SoftmaxRegression` returns it for a table with columns of text or categories, which are coded as in
    `TableRegression`. The parameters are those of `SoftmaxRegression`.

    Attributes
    ----------
    reference_levels
        The level with effect 0 of each column that has one, by column; also an attribute of the trace.
    """

    by_row = ("data", "design", "responses")
    terms_are_concave = True

    def __init__(
        self,
        X: Any,
        y: Any,
        prior_scale: float,
        intercept: bool,
        *,
        prior: Callable[..., float] | None = None,
        coef_names: Any = None,
    ) -> None:
        check_same_index(WHO, X=X, y=y)
        y = checked_array(response_source(y), "y", who=WHO)
        labels = [int(label) for label in classes_of(y)]
        classes = np.searchsorted(labels, y)
        table = read_table(X, intercept=intercept, coef_names=coef_names, who=WHO)
        self.reference_levels, self.n_classes = table.reference_levels, len(labels)
        self.prior = prior_of(prior_scale, prior)
        shapes = {name: (len(labels), len(table.labels[name])) for name in table.designs}
        dims = {name: ("category", axis) for name, axis in table.axes.items()}
        coords: dict[str, Any] = {"category": labels, **{axis: list(of) for axis, of in table.coords.items()}}
        self.variables = Variables(shapes, dims, coords)
        check_names(self.variables, who=WHO)
        parts = table.parts(len(classes), who=WHO)
        of_classes = {
            str(k): [spread(part, k * shapes[str(part.variable)][1], 1) for part in parts] for k in range(len(labels))
        }
        self.n_obs, self.responses = len(classes), (classes,)
        self.design = assemble(of_classes, self.variables, self.n_obs)
        self.data = (*self.design.arrays, classes)
        self.likelihood = SoftmaxLikelihood(self.n_classes)

    @property
    def observed_data(self) -> Mapping[str, np.ndarray]:
        """The classes y, as indices into the labels of the dimension ``category``."""
        return {"y": self.responses[0]}

    @property
    def setup_attrs(self) -> Mapping[str, Any]:
        """Trace attributes: the reference level of each column that has one, as one text."""
        return {**super().setup_attrs, "reference_levels": listed(self.reference_levels)}

    def to_pymc(self) -> Any:
        """Return the same posterior as a `pymc.Model`, with the same names and labels."""
        if self.prior.function is not None:
            raise IncompatibleError(f"{WHO}: a prior given as a function has no PyMC twin; use prior_scale")
        import pymc as pm
        import pytensor.tensor as pt

        with pm.Model(coords={axis: list(labels) for axis, labels in self.variables.coords.items()}) as model:
            theta = theta_of_pymc(self)
            eta = pt.stack([predictor_of_pymc(self.design, one, theta) for one in self.design.predictors], axis=1)
            pm.Categorical("y", logit_p=eta, observed=self.responses[0].astype(np.int32))
        return model

    def __repr__(self) -> str:
        """Show the size and the reference levels."""
        size = f"n_obs={self.n_obs}, n_classes={self.n_classes}, dim={self.variables.size}"
        return f"{WHO}({size}; reference levels: {listed(self.reference_levels)})"
