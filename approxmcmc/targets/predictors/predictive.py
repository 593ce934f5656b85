"""Rows of a regression whose responses are predicted."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Self

import numpy as np

from approxmcmc.contracts import RowsToPredict
from approxmcmc.contracts.speaker import speaker
from approxmcmc.errors import IncompatibleError, InvalidInputError
from approxmcmc.targets.predictors.design import Design


class ResponsesOfUser:
    """Mean and draws of responses by functions of the user's, of arrays of K predictors; None each if not given.

    ``expected(eta_1, ..., eta_K)`` returns means, ``draw(rng, eta_1, ..., eta_K)`` responses, both with the shape of
    the predictors.
    """

    def __init__(self, expected: Callable[..., Any] | None, draw: Callable[..., Any] | None) -> None:
        for name, function in (("mean", expected), ("simulate", draw)):
            if function is not None and not callable(function):
                raise InvalidInputError(
                    f"{speaker()}: {name} must be a function of arrays of predictors, found {function!r}"
                )
        self.expected = expected
        self.draw = draw
        self.name_of_target = speaker()

    def mean(self, eta: np.ndarray, size: np.ndarray) -> np.ndarray:
        """Return the expected responses of rows with the predictors `eta` (K, ...); shape (...)."""
        if self.expected is None:
            raise IncompatibleError(
                f"predict: a {self.name_of_target} does not know the mean of its responses; give it mean=, a function "
                "of arrays of its predictors, or predict kind='predictor'"
            )
        return self._checked(self.expected(*eta), eta, "mean")

    def simulate(self, rng: np.random.Generator, eta: np.ndarray, size: np.ndarray) -> np.ndarray:
        """Draw responses of rows with the predictors `eta` (K, ...); shape (...)."""
        if self.draw is None:
            raise IncompatibleError(
                f"predict: a {self.name_of_target} does not know how its responses are drawn; give it simulate=, a "
                "function of a random generator and arrays of its predictors, or predict kind='predictor'"
            )
        return self._checked(self.draw(rng, *eta), eta, "simulate")

    def _checked(self, values: Any, eta: np.ndarray, name: str) -> np.ndarray:
        """Return what the function `name` returned as floats; raise unless it has the shape of the predictors."""
        array = np.asarray(values, dtype=np.float64)
        if array.shape != eta.shape[1:]:
            raise InvalidInputError(
                f"{self.name_of_target}: {name} must return an array with the shape of the predictors, "
                f"{eta.shape[1:]}, found shape {array.shape}"
            )
        return array


class RowsOfDesign(RowsToPredict):
    """Rows with a design and a likelihood that has `mean` and `simulate`; `size` holds a second number of each row."""

    def __init__(
        self,
        design: Design,
        likelihood: Any,
        *,
        size: np.ndarray | None = None,
        labels: Sequence[Any] | None = None,
        axes: Mapping[str, Sequence[Any]] | None = None,
        response_axes: Mapping[str, Sequence[Any]] | None = None,
    ) -> None:
        self.design = design
        self.likelihood = likelihood
        self.size = size
        self.labels = labels
        self.axes = axes or {}
        self.response_axes = response_axes or {}
        self.n_rows = design.n_rows
        self._zeros = np.zeros(design.dim)
        self._has_weights = False

    def of_weighted(self, weights: np.ndarray | None) -> Self:
        """Return these rows, which have known weights unless `weights` is None, so that none is one response."""
        self._has_weights = weights is not None
        return self

    def predictors(self, thetas: np.ndarray, rows: slice) -> np.ndarray:
        """Return the predictors of some rows at m thetas, offsets included; shape (K, rows, m)."""
        offsets = self.design.eta(self._zeros, rows)
        return self.design.times(thetas.T, rows) + offsets[:, :, None]

    def means(self, predictors: np.ndarray, rows: slice) -> np.ndarray:
        """Return the expected responses; shape (rows, m), or (K, rows, m) for classes."""
        return self.likelihood.mean(predictors, self._sizes(rows))  # type: ignore[no-any-return]  # of two classes

    def responses(self, predictors: np.ndarray, rows: slice, rng: np.random.Generator) -> np.ndarray:
        """Draw responses; shape (rows, m)."""
        if self._has_weights:
            raise IncompatibleError(
                "predict: rows with weights cannot be replicated, because p(y | theta)^w is not the density of a "
                "response; give the rows as new ones, rows=X, for one response of each without its weight"
            )
        return self.likelihood.simulate(rng, predictors, self._sizes(rows))  # type: ignore[no-any-return]

    def _sizes(self, rows: slice) -> np.ndarray:
        """Return the sizes of some rows, shape (rows, 1), or the one number 1."""
        return np.ones(()) if self.size is None else self.size[rows, None]


class RowsOfPredictors(RowsOfDesign):
    """Rows with a mean and responses of one number, and K named predictors, all of which are shown."""

    predictor_axes: Mapping[str, Sequence[Any]] = {}  # type: ignore[assignment]  # a property of the base

    def __init__(self, design: Design, likelihood: Any, names: Sequence[str]) -> None:
        super().__init__(design, likelihood)
        self.predictor_axes = {"predictor": list(names)} if len(names) > 1 else {}


class RowsOfClasses(RowsOfDesign):
    """Rows whose responses are indices of classes."""

    responses_are_classes = True


class RowsOfOrderedClasses(RowsOfClasses):
    """Rows whose responses are indices of ordered classes; the first of the predictors is that of the row."""

    predictor_axes: Mapping[str, Sequence[Any]] = {}  # type: ignore[assignment]  # a property of the base


class NormalRows(RowsOfDesign):
    """Rows of J normal outcomes: predictors are J means, then J log scales."""

    @property
    def n_outcomes(self) -> int:
        """Number J of outcomes."""
        return self.design.n_predictors // 2

    def locations(self, predictors: np.ndarray) -> np.ndarray:
        """Return the means of the outcomes; shape (J, rows, m), or (rows, m) for one."""
        means = predictors[: self.n_outcomes]
        return means if self.axes else means[0]

    def means(self, predictors: np.ndarray, rows: slice) -> np.ndarray:
        """Return the means of the outcomes, as `locations`."""
        return self.locations(predictors)

    def responses(self, predictors: np.ndarray, rows: slice, rng: np.random.Generator) -> np.ndarray:
        """Draw outcomes; shape (J, rows, m), or (rows, m) for one."""
        scales = np.exp(predictors[self.n_outcomes :])
        means = self.locations(predictors)
        return means + (scales if self.axes else scales[0]) * rng.normal(size=means.shape)
