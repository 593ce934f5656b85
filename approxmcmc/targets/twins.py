"""Regressions as PyMC models: their rows are `pm.Data`, so that PyMC predicts new rows after `pm.set_data`.

A model and its new rows use the same numbers, under the same names: dense columns ``X``, ``codes`` of categories,
responses ``y_data``, and ``weights``, ``trials`` or ``scale`` if the rows have them.
"""

import abc
from collections.abc import Mapping
from typing import Any

import numpy as np

from approxmcmc.contracts import PredictiveTarget, Variables
from approxmcmc.contracts.speaker import speaker
from approxmcmc.errors import IncompatibleError, InvalidInputError
from approxmcmc.targets.predictors.design import Design, Predictor
from approxmcmc.targets.predictors.predictive import RowsOfDesign
from approxmcmc.targets.regression import Regression

DENSE = "X"
CODES = "codes"
RESPONSES = "y_data"
WEIGHTS = "weights"


class RowsInPyMC(PredictiveTarget):
    """A mixin of regressions with a PyMC model in which the numbers of the rows can be replaced."""

    @abc.abstractmethod
    def rows_to_predict(self, rows: Any, **columns: Any) -> RowsOfDesign:
        """Return `rows` for a prediction; None means the target's own."""

    @abc.abstractmethod
    def _numbers_of_twin(self, rows: RowsOfDesign, y: np.ndarray, weights: np.ndarray | None) -> dict[str, np.ndarray]:
        """Return the numbers of some rows for the PyMC model, by container, given their responses and weights."""

    @abc.abstractmethod
    def _rows_of_twin(self) -> Regression:
        """Return the regression of single rows, whose responses the PyMC model observes."""

    def pymc_data(self, rows: Any, **columns: Any) -> dict[str, np.ndarray]:
        """Return new rows as the data of the PyMC model `to_pymc`, for `pm.set_data`.

        Parameters
        ----------
        rows
            New rows, as X of the target: a table with the same columns, in any order, text included; or a matrix.
        **columns
            Further columns that the rows of the target have, such as ``offset=`` or ``trials=``, shape (n,).

        Returns
        -------
        dict
            An array for each container of data. Responses are zeros, because a prediction reads none, and weights are
            ones.

        Raises
        ------
        InvalidInputError
            When new rows lack a column, hold a missing value or a category that no row of the target had, or have other
            columns than those of the target, such as an offset.

        Examples
        --------
        >>> import numpy as np, pandas as pd, approxmcmc as amc
        >>> table = pd.DataFrame({"town": ["Ulm", "Bonn", "Ulm", "Bonn"], "age": [1.0, 2.0, 3.0, 4.0]})
        >>> target = amc.LogisticRegression(table, [0, 1, 1, 0], intercept=True)
        >>> new = pd.DataFrame({"age": [5.0], "town": ["Ulm"]})
        >>> sorted(target.pymc_data(new))
        ['X', 'codes', 'y_data']

        With PyMC: ``pm.set_data(target.pymc_data(new), model=model)``, then
        ``pm.sample_posterior_predictive(trace, model, predictions=True)``.
        """
        new = self.rows_to_predict(rows, **columns)
        own = self._rows_of_twin()
        try:
            design = new.design.stored_as(own.design)
        except InvalidInputError as error:
            raise InvalidInputError(
                f"pymc_data: new rows need the further columns, such as an offset or weights, that the rows of the "
                f"target have, and no others: {error}"
            ) from error
        new.design = design
        [response] = own.unweighted_responses
        y = np.zeros((new.n_rows, *response.shape[1:]))
        weights = None if own.weights is None else np.ones(new.n_rows)
        return _named(self._numbers_of_twin(new, y, weights), own.variables)


def containers(numbers: Mapping[str, np.ndarray], variables: Variables) -> dict[str, Any]:
    """Add the numbers of rows to the PyMC model of the current context; return the containers by part."""
    import pymc as pm

    named = _named(numbers, variables)
    return {part: pm.Data(name, array) for part, (name, array) in zip(numbers, named.items(), strict=True)}


def _named(numbers: Mapping[str, np.ndarray], variables: Variables) -> dict[str, np.ndarray]:
    """Return numbers by the names of their containers, which differ from the names of variables, such as of columns."""
    taken = {*variables.shapes, "y"}

    def name_of(part: str) -> str:
        name = part
        while name in taken:
            name += "_data"
        return name

    return {name_of(part): array for part, array in numbers.items()}


def numbers_of_design(design: Design) -> dict[str, np.ndarray]:
    """Return the dense columns as float64 and the codes of a design, those that it has."""
    numbers: dict[str, np.ndarray] = {}
    if design.X.shape[1]:
        numbers[DENSE] = np.asarray(design.X, dtype=np.float64)
    if design.codes.shape[1]:
        numbers[CODES] = design.codes
    return numbers


def theta_of_pymc(variables: Variables, scale: float, others: Mapping[str, Any] | None = None) -> Any:
    """Add variables to the PyMC model of the current context; return theta, followed by a 0.

    Variables have normal priors of this scale, but for those in `others`, which maps names to graphs of their
    entries in theta. The 0 is the entry of codes of a reference level.
    """
    import pymc as pm
    import pytensor.tensor as pt

    parts = []
    for name in variables.shapes:
        axes = variables.dims.get(name)
        if others is not None and name in others:
            value = others[name]
        elif np.isinf(scale):
            value = pm.Flat(name, dims=axes)
        else:
            value = pm.Normal(name, 0.0, scale, dims=axes)
        parts.append(value.ravel())
    return pt.concatenate([*parts, np.zeros(1)])


def predictor_of_pymc(design: Design, predictor: Predictor, theta: Any, containers: Mapping[str, Any]) -> Any:
    """Return a predictor of all rows as a graph of `theta`, as `theta_of_pymc` returns it, and of `containers`.

    The entry `dim` of theta is 0 for codes, those of a reference level, and 1 for dense columns, which are offsets.
    """
    import pytensor.tensor as pt

    eta: Any = 0.0
    first, last = predictor.columns
    if last > first:
        X = containers[DENSE]
        dense = X if (first, last) == (0, design.X.shape[1]) else X[:, first:last]
        places = np.array(predictor.places, dtype=int)
        is_offset = places == design.dim
        slopes = np.flatnonzero(~is_offset)
        if len(slopes) == last - first:
            eta = dense @ theta[places]
        else:
            eta = dense[:, slopes] @ theta[places[slopes]] + dense[:, np.flatnonzero(is_offset)].sum(axis=1)
    for column in range(*predictor.codes):
        eta = eta + theta[containers[CODES][:, column]]
    for entry, value in zip(predictor.shared, predictor.values, strict=True):
        eta = eta + value * (1.0 if entry == design.dim else theta[entry])
    if getattr(eta, "ndim", 0) == 0:  # all rows share the predictor
        eta = eta + pt.zeros(containers[RESPONSES].shape[0])
    return eta


def refuse_prior(has_function: bool) -> None:
    """Raise if a prior is a function, which has no graph."""
    if has_function:
        raise IncompatibleError(f"{speaker()}: a prior given as a function has no PyMC twin; use prior_scale")
