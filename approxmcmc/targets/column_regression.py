"""Regressions with one predictor on the columns of a matrix or a table."""

import abc
import copy
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Self

import numpy as np

from approxmcmc.contracts import PredictiveTarget
from approxmcmc.contracts.speaker import names_itself, speaker
from approxmcmc.errors import InvalidInputError
from approxmcmc.sources import as_source
from approxmcmc.targets.blocks import files_of
from approxmcmc.targets.checks import checked_array
from approxmcmc.targets.given import check_same_index, checked_weights, kept, response_source
from approxmcmc.targets.new_rows import in_memory, labels_of_rows, parts_of_new_rows, refuse_columns, same_columns
from approxmcmc.targets.predictors.assemble import PredictorPart, assemble
from approxmcmc.targets.predictors.design import Design
from approxmcmc.targets.predictors.predictive import RowsOfDesign
from approxmcmc.targets.regression import Regression
from approxmcmc.targets.tables import DesignColumns, listed, parts_of_designs, read_columns


class GivenRows(NamedTuple):
    """What a user gave: the columns of X, responses y, known parts of predictors, sizes and weights of rows."""

    columns: DesignColumns
    y: np.ndarray
    offset: Any
    size: np.ndarray | None
    weights: Any


class ColumnRegression(Regression, PredictiveTarget):
    r"""Rows with the predictor eta_i = x_i' beta + sum_c effect_c[level of row i in column c] + offset_i.

    `DesignColumns` says how a table becomes variables. Further predictors, `_shared_predictors`, are parameters that
    all rows share, such as the logarithm of a shape. Subclasses call `_read`, set `variables`, `prior` and
    `likelihood`, and call `_place`.

    Attributes
    ----------
    reference_levels
        The level with effect 0 of each column that has one, by column; also an attribute of the trace.
    """

    reference_levels: Mapping[str, str]
    has_intercept: bool
    size_name: str = "size"
    """What messages and the trace call a second number of each row, such as trials."""

    @names_itself()
    def _read(
        self,
        X: Any,
        y: Any,
        *,
        intercept: bool,
        coef_names: Sequence[str] | None,
        offset: Any,
        weights: Any,
        size: Any = None,
        has_other_intercept: bool = False,
    ) -> GivenRows:
        """Return the checked arguments of the user's, and keep what a worker needs to read them again."""
        check_same_index(X=X, y=y, offset=offset, weights=weights, **{self.size_name: size})
        y, offset, size, weights = (response_source(column) for column in (y, offset, size, weights))
        response = checked_array(y, "y").astype(np.float64, copy=False)
        columns = read_columns(
            X,
            response,
            intercept=intercept,
            coef_names=coef_names,
            has_other_intercept=has_other_intercept,
        )
        self.given = kept((columns.designs, offset, size, weights, y))
        self.reference_levels = columns.reference_levels
        self.has_intercept = intercept
        sizes = None if size is None else self._floats(size, self.size_name, len(response))
        return GivenRows(columns, response, offset, sizes, weights)

    @names_itself()
    def _place_given(self, rows: GivenRows) -> None:
        """Check and store the rows that `_read` returned."""
        parts = rows.columns.parts(len(rows.y))
        self._place(parts, rows.offset, rows.size, rows.weights, rows.y)

    @names_itself()
    def _place(
        self, parts: list[PredictorPart], offset: Any, size: np.ndarray | None, weights: Any, y: np.ndarray
    ) -> None:
        """Check and store rows."""
        if offset is not None:
            parts = [*parts, PredictorPart(None, self._floats(offset, "offset", len(y))[:, None])]
        known_weights = None if weights is None else checked_weights(weights, len(y))
        self._set_rows(self._design_of(parts, len(y)), (self._checked_responses(y, size),), known_weights)

    @abc.abstractmethod
    def _checked_responses(self, y: np.ndarray, size: np.ndarray | None) -> np.ndarray:
        """Return the responses as the likelihood reads them, after a check; shape (n,)."""

    def _design_of(self, parts: list[PredictorPart], n: int) -> Design:
        """Return the design of n rows: the predictor, and those that all rows share."""
        return assemble({"eta": parts, **self._shared_predictors()}, self.variables, n)

    def _shared_predictors(self) -> Mapping[str, list[PredictorPart]]:
        """Return the predictors after the first by name, which are parameters that all rows share."""
        return {}

    def _rows_of(self, design: Design, *, size: np.ndarray | None, labels: list[Any] | None = None) -> RowsOfDesign:
        """Return rows to predict."""
        return RowsOfDesign(design, self.likelihood.single, size=size, labels=labels)

    @names_itself()
    def _floats(self, values: Any, name: str, n: int) -> np.ndarray:
        """Return n numbers of the user's as floats."""
        array = checked_array(values, name).astype(np.float64, copy=False)
        if array.shape != (n,):
            raise InvalidInputError(f"{speaker()}: {name} must hold {n} numbers, as y does, found shape {array.shape}")
        return array

    @names_itself()
    def with_rows(self, given: tuple[Any, ...], n_obs: int) -> Self:
        """Return this model, with the same variables, for other data: (designs, offset, size, weights, y)."""
        designs, offset, size, weights, y = given
        other = copy.copy(self)
        other.given = None
        other._place(parts_of_designs(designs, n_obs), offset, size, weights, y)
        return other

    @names_itself("predict for {}")
    def rows_to_predict(self, rows: Any, **columns: Any) -> RowsOfDesign:
        """Return `rows` for a prediction: a table or matrix as X of the target; None means the target's own rows.

        New rows may have an ``offset`` (by default 0), and need sizes if the target's rows have them.
        """
        own_sizes = self._sizes
        if rows is None:
            refuse_columns(columns)
            return self._rows_of(self.design, size=own_sizes).of_weighted(self.weights)
        offset = columns.pop("offset", None)
        size = columns.pop(self.size_name, None) if own_sizes is not None else None
        refuse_columns(columns)
        check_same_index(rows=rows, offset=offset, **{self.size_name: size})
        parts = parts_of_new_rows(rows, self.variables, self.reference_levels, has_intercept=self.has_intercept)
        n = len(rows)
        if offset is not None:
            parts.append(PredictorPart(None, self._floats(offset, "offset", n)[:, None]))
        if own_sizes is not None and size is None:
            raise InvalidInputError(f"{speaker()}: the new rows need {self.size_name}=, one number for each row")
        sizes = None if size is None else self._floats(size, self.size_name, n)
        return self._rows_of(self._design_of(parts, n), size=sizes, labels=labels_of_rows(rows))

    @names_itself("append to {}")
    def rows_to_append(self, X: Any, y: Any, *, offset: Any = None, weights: Any = None, **columns: Any) -> Self:
        """Return the target of new rows alone: a table or matrix as X, responses, offsets, weights and sizes."""
        has_sizes = self._sizes is not None
        size = columns.pop(self.size_name, None) if has_sizes else None
        refuse_columns(columns)
        has_offset = self.design.dim in self.design.predictors[0].places
        has_weights = self.weights is not None
        further = {"offset": (has_offset, offset), "weights": (has_weights, weights), self.size_name: (has_sizes, size)}
        same_columns(further)
        check_same_index(X=X, y=y, offset=offset, weights=weights, **{self.size_name: size})
        response = self._responses_to_append(in_memory(y))
        if len(X) != len(response):
            raise InvalidInputError(f"{speaker()}: X has {len(X)} rows, and y has {len(response)}")
        parts = parts_of_new_rows(X, self.variables, self.reference_levels, has_intercept=self.has_intercept)
        sizes = None if size is None else self._floats(in_memory(size), self.size_name, len(response))
        other = copy.copy(self)
        other._start_anew(files_of((as_source(X), as_source(y))))
        other._place(parts, in_memory(offset), sizes, in_memory(weights), response)
        return other

    def _responses_to_append(self, y: Any) -> np.ndarray:
        """Return the responses of new rows as numbers, as `_checked_responses` reads them."""
        return checked_array(y, "y").astype(np.float64, copy=False)

    @property
    def _sizes(self) -> np.ndarray | None:
        """The sizes of the rows, None if they have none."""
        [response] = self.unweighted_responses
        return response.imag if np.iscomplexobj(response) else None

    @property
    def constant_data(self) -> Mapping[str, np.ndarray]:
        """The columns X, with the column of ones if there is an intercept; codes of categories; sizes of rows."""
        sizes = {} if self._sizes is None else {self.size_name: self._sizes}
        return {**super().constant_data, **sizes}

    @property
    def setup_attrs(self) -> Mapping[str, Any]:
        """Trace attributes: the reference level of each column that has one, as one text."""
        named = {"reference_levels": listed(self.reference_levels)} if self.reference_levels else {}
        return {**super().setup_attrs, **named}

    def __repr__(self) -> str:
        """Show the model, its size and its reference levels."""
        levels = f"; reference levels: {listed(self.reference_levels)}" if self.reference_levels else ""
        return f"{type(self).__name__}(n_obs={self.n_obs}, dim={self.variables.size}{levels})"
