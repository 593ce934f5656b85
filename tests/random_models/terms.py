"""Expressions of a model: PyMC code, and the function that computes the same number in NumPy."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
from scipy import special

Values = Mapping[str, np.ndarray]  # of the free variables, by name


class Term(NamedTuple):
    """An expression: `code` in the `with` block of a model, and ``value(values)`` of the free variables."""

    code: str
    value: Callable[[Values], Any]

    def __add__(self, other: "Term") -> "Term":  # type: ignore[override]  # a sum of numbers, not of tuples
        return Term(f"({self.code} + {other.code})", lambda values: self.value(values) + other.value(values))

    def __mul__(self, other: "Term") -> "Term":  # type: ignore[override]  # as above
        return Term(f"{self.code} * {other.code}", lambda values: self.value(values) * other.value(values))

    def at(self, index: "Term") -> "Term":
        """Return the entries at an index array."""
        return Term(f"{self.code}[{index.code}]", lambda values: self.value(values)[index.value(values)])

    def column(self, number: int) -> "Term":
        """Return a column of a matrix."""
        return Term(f"{self.code}[:, {number}]", lambda values: self.value(values)[:, number])

    def row(self, number: int) -> "Term":
        """Return a row of a matrix, or an entry of a vector."""
        return Term(f"{self.code}[{number}]", lambda values: self.value(values)[number])

    def upright(self) -> "Term":
        """Return a vector as a matrix of one column."""
        return Term(f"{self.code}[:, None]", lambda values: np.asarray(self.value(values))[..., :, None])


def number(value: float) -> Term:
    """Return a number."""
    return Term(repr(value), lambda values: value)


def constant(code: str, value: Any) -> Term:
    """Return data that the code names."""
    array = np.asarray(value)
    return Term(code, lambda values: array)


def call(name: str, function: Callable[..., Any], *terms: Term, after: str = "") -> Term:
    """Return a function of terms; `name` is its PyMC code, and `after` holds further arguments as code."""
    return Term(
        f"{name}({', '.join(one.code for one in terms)}{after})",
        lambda values: function(*(one.value(values) for one in terms)),
    )


def exp(one: Term, how: str = "pm.math.exp") -> Term:
    """Return the exponential."""
    return call(how, np.exp, one)


def sigmoid(one: Term, how: str = "pm.math.sigmoid") -> Term:
    """Return 1 / (1 + exp(-x))."""
    return call(how, special.expit, one)


def written_sigmoid(one: Term) -> Term:
    """Return 1 / (1 + exp(-x)), written so."""
    return Term(f"1 / (1 + pm.math.exp(-{one.code}))", lambda values: special.expit(one.value(values)))


def cloglog(one: Term) -> Term:
    """Return 1 - exp(-exp(x))."""
    return Term(f"(1 - pm.math.exp(-pm.math.exp({one.code})))", lambda values: -np.expm1(-np.exp(one.value(values))))


def probit(one: Term) -> Term:
    """Return the normal distribution function."""
    return call("pm.math.invprobit", special.ndtr, one)


def matmul(matrix: Term, vector: Term) -> Term:
    """Return a product of a matrix and a vector."""
    return Term(f"({matrix.code} @ {vector.code})", lambda values: matrix.value(values) @ vector.value(values))


def stack(terms: list[Term], axis: int) -> Term:
    """Return terms of the same shape along a new axis."""
    return Term(
        f"pm.math.stack([{', '.join(one.code for one in terms)}], axis={axis})",
        lambda values: np.stack(np.broadcast_arrays(*(one.value(values) for one in terms)), axis=axis),
    )
