"""Write a linear predictor with effects of groups as two design matrices and the coefficients of their columns.

eta = offset + X beta + Z L u, where the entries of beta and L are sums of products of the model's parameters. Columns
that are multiples of each other are stored as one.
"""

from typing import Any, NamedTuple

import numpy as np

from approxmcmc.interop.attempts import NotPossibleError
from approxmcmc.interop.groups.candidates import GroupEffects
from approxmcmc.interop.groups.forms import CONSTANT, FactorsOfModel, Form, Monomial, forms_of
from approxmcmc.interop.groups.labels import FREE
from approxmcmc.interop.operations import MULTIPLYING, name_of, without_axes
from approxmcmc.interop.values import ValuesOfGraph

Product = tuple[int, float, Monomial]  # index of the sum that it belongs to, its weight, its factors


class MixedPredictor(NamedTuple):
    """Offset (n,), X (n, p), Z (n, q), and the products that add up to the entries of beta and of L.

    A product names its entry by index: that of beta (p,), or that of L (q, K) in row-major order.
    """

    offset: np.ndarray
    X: np.ndarray
    Z: np.ndarray
    beta: list[Product]
    L: list[Product]
    n_effects: int


def standard_effects(values: ValuesOfGraph, factors: FactorsOfModel, effects: GroupEffects) -> dict[Any, Form]:
    """Return the form of each variable of effects, location + scale u, in the standard normal numbers u of a group."""
    found = {}
    first = 0
    for variable, axis in effects.axes.items():
        shape = values.shape(variable)
        entries = _one_group(shape, axis)
        location, scale, forms = law_of(variable)
        where, spread = forms_of(values, factors, {}, [location, scale])
        total: Form = {m: np.broadcast_to(a, shape) for m, a in where.items()}
        for k, columns in enumerate(entries):
            for monomial, array in spread.items():
                key = tuple(sorted((*monomial, first + k)))
                part = forms(array, shape, columns, k)
                total[key] = total[key] + part if key in total else part
        found[variable] = total
        first += len(entries)
    return found


def _one_group(shape: tuple[int, ...], axis: int) -> list[np.ndarray]:
    """Return, for each effect k of a group, a mask of the entries that are effect k of any group.

    `shape` is that of the variable of effects, and `axis` its axis of groups.
    """
    other = tuple(n for place, n in enumerate(shape) if place != axis)
    numbers = np.broadcast_to(np.expand_dims(np.arange(int(np.prod(other))).reshape(other), axis), shape)
    return [numbers == k for k in range(int(np.prod(other)))]


def n_effects_of(values: ValuesOfGraph, effects: GroupEffects) -> int:
    """Return K, the number of effects of one group."""
    return sum(len(_one_group(values.shape(variable), axis)) for variable, axis in effects.axes.items())


def law_of(variable: Any) -> tuple[Any, Any, Any]:
    """Return the graphs of location and scale of a normal variable, and the function `share`.

    ``share(array, shape, columns, k)`` returns the coefficients of u_k in the entries of the variable: `array` holds
    values of the scale, `columns` marks the entries that are effect k.
    """
    node = variable.owner
    location, scale = node.op.dist_params(node)
    if type(node.op).__name__ != "MvNormalRV":
        return location, scale, lambda array, shape, columns, k: np.where(columns, np.broadcast_to(array, shape), 0.0)

    def share(array: np.ndarray, shape: tuple[int, ...], columns: np.ndarray, k: int) -> np.ndarray:
        return np.broadcast_to(array[..., :, k], shape).astype(np.float64)

    return location, triangle_of(scale), share


def triangle_of(cov: Any) -> Any:
    """Return the graph of L, given the graph of a covariance L L'."""
    node = without_axes(cov).owner
    if node is not None and name_of(node) in MULTIPLYING:
        left, right = node.inputs
        turned = right.owner
        if turned is not None and turned.inputs[0] is left and left.ndim == 2:
            return left
    raise NotPossibleError("its covariance is not written as chol @ chol.T; give MvNormal chol=")


def predictor_of(form: Form, n_effects: int, shape: tuple[int, ...]) -> MixedPredictor:
    """Return the design matrices of a predictor of `shape` rows that is given as a form; raise if not linear in u."""
    offset = np.zeros(int(np.prod(shape)))
    fixed = []
    random = []
    for monomial, array in form.items():
        column = np.ascontiguousarray(np.broadcast_to(array, shape), dtype=np.float64).ravel()
        own = [f for f in monomial if f < n_effects]
        rest = tuple(f - n_effects for f in monomial if f >= n_effects)
        if len(own) > 1:
            raise NotPossibleError("the predictor is not linear in the effects")
        if own:
            random.append((column, own[0], rest))
        elif monomial == CONSTANT:
            offset = column
        else:
            fixed.append((column, 0, rest))
    if not random:
        raise NotPossibleError("the effects cancel in the predictor")
    X, beta = _columns(fixed)
    Z, places = _columns(random)
    return MixedPredictor(
        offset,
        X if beta else np.empty((len(offset), 0)),
        Z,
        [(j, weight, rest) for j, weight, _, rest in beta],
        [(j * n_effects + k, weight, rest) for j, weight, k, rest in places],
        n_effects,
    )


def _columns(
    parts: list[tuple[np.ndarray, int, Monomial]],
) -> tuple[np.ndarray, list[tuple[int, float, int, Monomial]]]:
    """Return the columns that are not multiples of each other, and for each part (column index, multiple, k, rest)."""
    columns: list[np.ndarray] = []
    known: dict[bytes, int] = {}
    found = []
    for column, k, rest in sorted(parts, key=lambda part: (part[1], part[2])):
        weight = column[np.argmax(np.abs(column))]
        unit = column / weight
        key = unit.tobytes()
        if key not in known:
            known[key] = len(columns)
            columns.append(unit)
        found.append((known[key], float(weight), k, rest))
    return np.column_stack(columns) if columns else np.empty((0, 0)), found


def scale_of(form: Form, n_effects: int, shape: tuple[int, ...]) -> tuple[np.ndarray, Monomial | None]:
    """Return the known factor of each row's scale (n,), and the product of parameters that it multiplies.

    The product is None if the scale is known. Raises if the scale has another form.
    """
    if any(f < n_effects for monomial in form for f in monomial):
        raise NotPossibleError("the scale of the noise depends on the effects")
    form = {m: a for m, a in form.items() if m != CONSTANT or np.any(a)}
    if len(form) != 1:
        raise NotPossibleError("the scale of the noise is not one parameter times known numbers")
    [(monomial, array)] = form.items()
    errors = np.ascontiguousarray(np.broadcast_to(array, shape), dtype=np.float64).ravel()
    if not (errors > 0.0).all():
        raise NotPossibleError("the scale of the noise is not positive")
    return errors, None if monomial == CONSTANT else tuple(f - n_effects for f in monomial)


def labels_of_rows(effects: GroupEffects) -> np.ndarray:
    """Return the group of each row; each row without a group becomes a separate group."""
    labels = effects.rows.copy()
    alone = effects.rows == FREE
    labels[alone] = effects.n_groups + np.arange(alone.sum())
    return labels
