"""What all expansions share: what they offer, and how they make passes over all rows.

This process makes a pass, or the workers of a Dask cluster make it in parts:

    sums over all rows = (sums over part 1 + sums over part 2) + ...,    numbers of a row = those from its part.

A part of the rows is also a target (`approxmcmc.sources.parts`), so it has an expansion, which makes the same pass by
the same method. Workers send back what the expansion of a part writes for each row. This process reads single rows,
such as rows for a first mode or influential rows, from the local file.
"""

import abc
import copy
import functools
from collections.abc import Callable
from typing import Any, Self

import numpy as np

from approxmcmc.contracts import CompiledGradient, CompiledTarget
from approxmcmc.engine.terms.batches import Data
from approxmcmc.engine.terms.gradients import ALL_ROWS
from approxmcmc.engine.terms.partitions import Partitions
from approxmcmc.expansion.quadratic import Quadratic, Survey
from approxmcmc.sources.parts import Part


class Expansion(abc.ABC):
    """Base class of all expansions: the terms of a target, to first or second order around a point.

    Each row has `columns` numbers, which are the coefficients of its polynomial w_i; w_i may leave out a constant,
    which cancels in differences between two thetas. Passes over all rows are counted.
    """

    parts: Partitions | None = None
    """Parts of the rows, if a cluster makes the passes."""
    first_row: int = 0
    """Index in the whole data of the first row of this expansion; 0 unless it belongs to a part."""
    is_closed: bool = True
    """Whether second derivatives are in closed form, so that the Hessian of the sum takes one pass."""
    values_are_cheap: bool = False
    """Whether `log_likelihood` takes a small part of the time of `at`, and leaves no state behind."""
    columns: int
    """Numbers for each row."""
    mapped: bool
    """Whether the data are mapped from a file."""

    def __init__(self, target: Any, order: int) -> None:
        self.target = target
        self.order = order
        self.n_rows = target.n_obs
        self.rows = ALL_ROWS
        self.weight = 1.0
        self.passes = 0

    def of_rows(self, rows: np.ndarray) -> Self:
        """Return the expansion of the terms of a sample of rows; its sums are scaled to all rows."""
        sample = copy.copy(self)
        sample.rows = rows
        sample.n_rows = len(rows)
        sample.weight = self.n_rows / len(rows)
        sample.passes = 0
        sample.parts = None
        return sample

    @abc.abstractmethod
    def at(self, theta: np.ndarray) -> Quadratic:
        """Return value, gradient and Hessian of the log-likelihood at theta."""

    @abc.abstractmethod
    def expand(self, theta: np.ndarray, out: np.ndarray) -> Quadratic:
        """Expand every row at theta; write the coefficients to `out` (rows, columns), and return the sum of the w_i."""

    @abc.abstractmethod
    def survey(
        self, center: np.ndarray, cholesky: np.ndarray, draws: np.ndarray, out: np.ndarray, *, averaged: bool
    ) -> Survey:
        """Expand every row at `center`, write the coefficients to `out`, and compare w_i with the terms at `draws`.

        `cholesky` is the factor of the posterior's approximate covariance. With `averaged` slope and curvature are
        averages over that normal distribution, if the kind of the terms allows it.
        """

    def light_everywhere(self, fit: Any, out: np.ndarray, largest: float) -> Survey | None:
        """Return the survey of Taylor's w_i at the mode of `fit` if bounds prove every row light; None otherwise."""
        return None

    @abc.abstractmethod
    def total(self, center: np.ndarray, numbers: np.ndarray, rows: np.ndarray) -> Quadratic:
        """Return the sum of the w_i of `rows` (indices); `numbers` holds the coefficients of all rows, at `center`."""

    def terms_at(self, draws: np.ndarray) -> np.ndarray:
        """Return all terms at draws; shape (rows, draws)."""
        terms = np.empty((self.n_rows, len(draws)))
        self._write_terms(draws, out=terms)
        return terms

    @abc.abstractmethod
    def _write_terms(self, draws: np.ndarray, *, out: np.ndarray) -> int:
        """Write all terms at draws to `out`."""

    def packed(self, data: Data) -> Data:
        """Return the data of some rows as `compile_residuals` should read them: unchanged, unless that is slower."""
        return data

    @abc.abstractmethod
    def compile_residuals(self, compiled: CompiledTarget, center: np.ndarray, numbers: np.ndarray) -> CompiledTarget:
        """Return `compiled` with the residuals r_i of the coefficients `numbers` as terms; the log prior stays."""

    @abc.abstractmethod
    def compile_residual_gradients(
        self, gradient: CompiledGradient, center: np.ndarray, numbers: np.ndarray
    ) -> CompiledGradient:
        """Return `gradient` with the gradients of these residuals as those of the terms; that of the prior stays."""


def over_all_rows[**P, T](make_pass: Callable[P, T]) -> Callable[P, T]:
    """Decorate a method that makes a pass over the rows of an `Expansion`: count its calls, and call it on all parts.

    Without parts, this process makes the pass.

    ``make_pass(self, *arguments, **by_row)`` returns sums, which can be added. `by_row` are arrays with a place for
    each row, which the pass fills, or of length 0 if these numbers are not needed.
    """

    @functools.wraps(make_pass)
    def counted_pass(self: Expansion, *arguments: Any, **by_row: np.ndarray) -> Any:
        self.passes += 1
        if self.parts is None:
            return make_pass(self, *arguments, **by_row)  # type: ignore[arg-type]  # the first of P is self
        # Workers make the expansion of their part, and call the method of this name: decorated, as this one is.
        return self.parts.total(_made_by, type(self), self.order, make_pass.__name__, arguments, **by_row)

    return counted_pass  # type: ignore[return-value]


def _made_by(
    part: Part, kind: Callable[..., Any], order: int, name: str, arguments: tuple[Any, ...], **by_row: np.ndarray
) -> Any:
    expansion = part.keep(kind, order)
    expansion.first_row = part.first_row
    return getattr(expansion, name)(*arguments, **by_row)
