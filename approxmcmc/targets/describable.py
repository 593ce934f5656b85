"""What a kind of regression says of itself, so that a target of its model can be made again without the rows.

A target of the model is made from a few rows that are made up. They have every level of every column, and every class
of the responses, so the kind says which responses and further columns its constructor accepts.
"""

import abc
from collections.abc import Mapping
from typing import Any

import numpy as np

from approxmcmc.targets.regression import Regression


class Describable(abc.ABC):
    """A mixin of regressions whose constructor takes values and rows, and no function of the user's but the prior."""

    @abc.abstractmethod
    def settings_without_rows(self) -> dict[str, Any] | None:
        """Return the arguments of the constructor that are no rows, by name; None if one is a user's function."""

    def rows_of_model(self) -> Regression:
        """Return the regression of single rows."""
        assert isinstance(self, Regression)
        return self

    def form_of_rows(self) -> dict[str, Any]:
        """Return what made-up rows are like, as values for JSON: their type, whether they have offsets, responses."""
        rows = self.rows_of_model()
        return {
            "is_float32": rows.design.X.dtype == np.float32,
            "has_offset": has_offset(rows, 0),
            "has_weights": rows.weights is not None,
            **self.form_of_responses(),
        }

    @abc.abstractmethod
    def form_of_responses(self) -> dict[str, Any]:
        """Return what made-up responses are like, as values for JSON."""

    @staticmethod
    def fewest_rows(form: Mapping[str, Any]) -> int:
        """Return how many rows hold all classes of the responses; 0 if there are no classes."""
        return 0

    @staticmethod
    @abc.abstractmethod
    def responses_of_form(form: Mapping[str, Any], n: int) -> Any:
        """Return n responses that the constructor accepts, with all classes."""

    @classmethod
    def columns_of_form(cls, form: Mapping[str, Any], n: int) -> dict[str, Any]:
        """Return the arguments of n made-up rows but for X, by name; ``form["largest_size"]`` is that of any row."""
        columns = {"y": cls.responses_of_form(form, n)}
        if form["has_offset"]:
            columns["offset"] = np.zeros(n)
        if form["has_weights"]:
            columns["weights"] = np.ones(n)
        return columns

    def learn_from(self, form: Mapping[str, Any]) -> None:
        """Take what the constructor reads from all rows, such as the classes, from a form, in place."""
        return


def has_offset(rows: Regression, predictor: int) -> bool:
    """Return whether rows have a known part of this predictor: an entry of the design beyond those of theta."""
    return bool(rows.design.dim in rows.design.predictors[predictor].places)
