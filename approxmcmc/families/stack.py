"""Rows of one family, or of two in one stack, as a matrix of their numbers, and functions of such rows.

A row is (y, size). In a stack of two families it is (y, size, code), and the code says which family it follows: 0 for
the first, 1 for the second.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from approxmcmc.engine.compiler.compile import BATCH_FASTMATH, closure
from approxmcmc.families.family import Family

Row = tuple[float, ...]
# Columns of the matrix of rows.
RESPONSE = 0
SIZE = 1
CODE = 2


class Stack:
    """The functions of one family or two, of which at most one has a shape, for rows of a matrix.

    ``read(responses, i)`` returns row i of an array (1, n, 2 or 3) as a tuple, which the others take: ``term(eta, row,
    shape)``, ``derivatives(eta, row, shape)``, ``in_shape(eta, row, shape)`` and ``of_row(row, shape)``, see `Family`.
    """

    def __init__(self, *families: Family) -> None:
        self.families = families
        self.has_shape = any(family.has_shape for family in families)
        self.merges_rows = families[0].merges_rows if len(families) == 1 else None

    @property
    def read(self) -> Callable[..., Row]:
        """The function that returns a row."""
        return read_two if len(self.families) == 1 else read_three

    @property
    def term(self) -> Callable[..., float]:
        """The term of a row."""
        return self._joined(make_one, make_either, "term")

    @property
    def derivatives(self) -> Callable[..., tuple[float, float]]:
        """The first two derivatives of a term in eta."""
        return self._joined(make_one, make_either, "derivatives")

    @property
    def in_shape(self) -> Callable[..., float]:
        """The slope of a term in log(shape)."""
        return self._joined(make_one, make_either, "in_shape")

    @property
    def of_row(self) -> Callable[..., tuple[float, float]]:
        """The summand of the log density without eta, and its slope in log(shape)."""
        return self._joined(make_one_of_row, make_either_of_row, "of_row")

    def _joined(self, of_one: Callable[..., Any], of_two: Callable[..., Any], name: str) -> Callable[..., Any]:
        """Return the function `name` of the families as a function of a row."""
        functions = [getattr(family, name) for family in self.families]
        if len(functions) == 1:
            return closure(of_one, *functions, fastmath=BATCH_FASTMATH)
        return closure(of_two, *functions)

    def constants(self, rows: np.ndarray) -> np.ndarray:
        """Return what the terms of some rows, (n, 2 or 3), leave out; shape (n,)."""
        if len(self.families) == 1:
            return np.broadcast_to(self.families[0].constants(rows[:, RESPONSE], rows[:, SIZE]), len(rows))
        total = np.empty(len(rows))
        for code, family in enumerate(self.families):
            has_code = rows[:, CODE] == code
            total[has_code] = family.constants(rows[has_code, RESPONSE], rows[has_code, SIZE])
        return total


def columns_of(y: np.ndarray, size: np.ndarray, code: np.ndarray | None) -> Sequence[np.ndarray]:
    """Return the columns of the matrix of rows; `code` is None for one family."""
    return [y, size] if code is None else [y, size, code]


def read_two(responses: np.ndarray, i: int) -> Row:
    """Return (y, size) of row i."""
    return responses[0, i, RESPONSE], responses[0, i, SIZE]


def read_three(responses: np.ndarray, i: int) -> Row:
    """Return (y, size, code) of row i."""
    return responses[0, i, RESPONSE], responses[0, i, SIZE], responses[0, i, CODE]


def make_one(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function of (eta, row, shape) that calls `function` of (eta, y, size, shape)."""

    def of_row(eta: float, row: Row, shape: float) -> Any:
        y, size = row
        return function(eta, y, size, shape)

    return of_row


def make_one_of_row(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function of (row, shape) that calls `function` of (y, size, shape)."""

    def of_row(row: Row, shape: float) -> Any:
        y, size = row
        return function(y, size, shape)

    return of_row


def make_either(first: Callable[..., Any], second: Callable[..., Any]) -> Callable[..., Any]:
    """Return the function of (eta, row, shape) that calls `first` or `second`, as the code of the row says."""

    def either(eta: float, row: Row, shape: float) -> Any:
        y, size, code = row
        return first(eta, y, size, shape) if code == 0.0 else second(eta, y, size, shape)

    return either


def make_either_of_row(first: Callable[..., Any], second: Callable[..., Any]) -> Callable[..., Any]:
    """Return the same as `make_either`, for functions of (y, size, shape)."""

    def either(row: Row, shape: float) -> Any:
        y, size, code = row
        return first(y, size, shape) if code == 0.0 else second(y, size, shape)

    return either
