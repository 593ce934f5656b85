"""The role of targets that predict: responses, their means, and linear predictors of rows, at draws of theta."""

import abc
from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np


class RowsToPredict(abc.ABC):
    """Some rows, with all that a prediction of their responses needs besides theta."""

    n_rows: int
    labels: Sequence[Any] | None = None
    """Labels of the rows, such as the index of a table; None: they are numbered."""
    axes: Mapping[str, Sequence[Any]] = {}
    """Name and labels of the axes that means have besides that of rows, such as classes."""
    responses_are_classes: bool = False
    """Whether a response is the index of a class, of which a mean or an interval means nothing."""
    response_axes: Mapping[str, Sequence[Any]] = {}
    """The same of responses, such as several outcomes."""

    draws_effects: bool = False
    """Whether `at_draws` draws numbers, so that a mean is no function of theta."""

    @property
    def attrs(self) -> Mapping[str, Any]:
        """What the result says of the rows besides their labels, as attributes."""
        return {}

    def at_draws(self, thetas: np.ndarray, rng: np.random.Generator, cores: int | None) -> Self:
        """Return these rows with all that they share at each of m thetas (m, dim), such as drawn effects of groups.

        Called once, before any predictor; by default rows share nothing. `cores` is the number of threads, None: all.
        """
        return self

    @property
    def predictor_axes(self) -> Mapping[str, Sequence[Any]]:
        """The same of `locations`, by default those of means."""
        return self.axes

    @abc.abstractmethod
    def predictors(self, thetas: np.ndarray, rows: slice) -> np.ndarray:
        """Return the K predictors of some rows at m thetas, shape (m, dim); shape (K, rows, m)."""

    @abc.abstractmethod
    def means(self, predictors: np.ndarray, rows: slice) -> np.ndarray:
        """Return the expected responses, given the predictors; shape (*axes, rows, m)."""

    @abc.abstractmethod
    def responses(self, predictors: np.ndarray, rows: slice, rng: np.random.Generator) -> np.ndarray:
        """Draw responses, given the predictors; shape (*response_axes, rows, m)."""

    def locations(self, predictors: np.ndarray) -> np.ndarray:
        """Return the K predictors if they have `predictor_axes`, else the first; shape (*predictor_axes, rows, m)."""
        return predictors if self.predictor_axes else predictors[0]


class PredictiveTarget(abc.ABC):
    """A target that can predict the responses of its own rows, and of new ones."""

    @abc.abstractmethod
    def rows_to_predict(self, rows: Any, **columns: Any) -> RowsToPredict:
        """Return `rows` for a prediction; None means the target's own.

        `columns` holds further columns of new rows, such as an offset, by name; those that are None were not given.
        """
