"""Deterministics and potentials, of parameters, of effects, of rows, and of constants."""

import numpy as np

from tests.random_models.models import RandomModel
from tests.random_models.terms import Term, call, constant, exp, number


def _some_variable(model: RandomModel) -> tuple[Term, tuple[int, ...], tuple[str, ...] | None]:
    name = model.pick(sorted(set(model.free) - set(model.discrete)))
    one = model.free[name]
    return Term(name, lambda values: values[name]), one.shape, one.dims


def transformed(model: RandomModel) -> None:
    """Add a function of a variable, entry by entry, with its dims."""
    one, _, dims = _some_variable(model)
    how = model.pick([exp, lambda x: number(2.0) * x, lambda x: x * x])
    model.deterministic("d", how(one), dims)


def summary(model: RandomModel) -> None:
    """Add a number that summarises a variable."""
    one, _, _ = _some_variable(model)
    name, function = model.pick([("pt.sum", np.sum), ("pt.max", np.max)])
    model.deterministic("total", call(name, function, one))


def curve(model: RandomModel) -> None:
    """Add a curve over a grid, of a length that may be that of the rows."""
    one, _, _ = _some_variable(model)
    first = Term(f"pt.flatten({one.code})[0]", lambda values: np.ravel(one.value(values))[0])
    length = model.pick([3, *(len(y.observed) for y in model.observed.values() if y.observed is not None)])
    grid = constant(f"np.linspace(-1, 1, {length})", np.linspace(-1, 1, length))
    model.deterministic("curve", first * grid, [model.dim("grid", length)])


def known(model: RandomModel) -> None:
    """Add a constant."""
    value = model.pick([np.array(2.5), np.arange(3.0), np.ones((1, 3))])
    model.deterministic("known", constant(f"pt.as_tensor({np.asarray(value).tolist()})", value))


DETERMINISTICS = [transformed, summary, curve, known]


def penalty(model: RandomModel) -> None:
    """Add a potential of a variable: a number, or an array with an axis."""
    one, _, _ = _some_variable(model)
    square = number(-0.1) * call("pt.sum", np.sum, one * one)
    axis = model.pick([None, np.ones(1), np.arange(3.0)])
    model.potential("penalty", square if axis is None else square * constant(f"np.array({axis.tolist()})", axis))


def known_potential(model: RandomModel) -> None:
    """Add a potential that is a constant."""
    model.potential("penalty", constant("pt.as_tensor(-1.5)", -1.5))


POTENTIALS = [penalty, known_potential]
