"""Rows of two families in one stack, told apart by the sign of their size."""

from collections.abc import Callable
from typing import Any

import numpy as np

from approxmcmc.engine.compiler.compile import closure
from approxmcmc.families.family import Family, no_share


def joint_of(first: Family, second: Family) -> Family:
    """Return the family of rows that follow `first` if their size is at least 0, else `second` with size -1 - size."""

    def constants(y: np.ndarray, size: np.ndarray) -> Any:
        of_first = size >= 0.0
        total = np.empty_like(y)
        total[of_first] = first.constants(y[of_first], size[of_first])
        total[~of_first] = second.constants(y[~of_first], -1.0 - size[~of_first])
        return total

    def fits(y: np.ndarray, size: np.ndarray) -> Any:
        return np.where(size >= 0.0, first.fits(y, size), second.fits(y, -1.0 - size))

    has_shape = first.has_shape or second.has_shape
    return Family(
        f"{first.name} and {second.name}",
        closure(make_either, first.term, second.term),
        closure(make_either, first.derivatives, second.derivatives),
        constants,
        f"{first.support}, or {second.support}",
        fits,
        in_shape=closure(make_either, first.in_shape, second.in_shape),
        of_row=closure(make_either_of_row, first.of_row, second.of_row) if has_shape else no_share,
    )


def make_either(first: Callable[..., Any], second: Callable[..., Any]) -> Callable[..., Any]:
    """Return the function that calls `first`; or, for a size below 0, `second` with the size -1 - size."""

    def either(eta: float, y: float, size: float, shape: float) -> Any:
        return first(eta, y, size, shape) if size >= 0.0 else second(eta, y, -1.0 - size, shape)

    return either


def make_either_of_row(first: Callable[..., Any], second: Callable[..., Any]) -> Callable[..., Any]:
    """Return the same as `make_either`, for functions of (y, size, shape)."""

    def either(y: float, size: float, shape: float) -> Any:
        return first(y, size, shape) if size >= 0.0 else second(y, -1.0 - size, shape)

    return either
