r"""Write a linear predictor with effects of groups as two design matrices and the coefficients of their columns.

A graph is first written as a sum of products of the model's parameters, with arrays as coefficients:

.. math:: \eta_i = \sum_m c_{im} \prod_{f \in m} a_f,

where the factors a are entries of free variables, of the standard normal effects u of one group, and of expressions
that are not linear in the parameters, such as ``exp(log_sigma)``. The form is derived from the operation of each node,
never from numerical trials.

Then eta = offset + X beta + Z L u, where the entries of beta and L are sums of products of the model's parameters.
Columns that are multiples of each other are stored as one. If each factor is a simple function of one coordinate of
theta, the table of a `link` computes the factors from theta, else a graph compiled by PyTensor.
"""

import functools
import math
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pytensor
import pytensor.tensor as pt
from pytensor.graph.traversal import ancestors
from pytensor.scalar.basic import Add, Cast, Identity, Mul, Neg, Second, Sqr, Sub, Switch, TrueDiv
from pytensor.tensor.elemwise import Elemwise

from approxmcmc.interop.attempts import NotPossibleError
from approxmcmc.interop.graphs import frozen, rebuild
from approxmcmc.interop.groups.candidates import GroupEffects
from approxmcmc.interop.groups.coordinates import Coordinates, may_be_signed
from approxmcmc.interop.groups.labels import FREE
from approxmcmc.interop.kernels import numba_function
from approxmcmc.interop.values import ValuesOfGraph, compute, size
from approxmcmc.interop.walk import MULTIPLYING, data_inputs, dependents, interpret, is_sum, name_of, without_axes
from approxmcmc.targets.groups.link import Link, add_factor_slopes, factors_of, link

Monomial = tuple[int, ...]
Form = dict[Monomial, np.ndarray]
CONSTANT: Monomial = ()
MOST_FACTORS = 300  # entries of a variable that may be columns of a design matrix
MOST_NUMBERS = 60_000_000  # numbers in a form, or in the triangles of all groups
Product = tuple[int, float, Monomial]  # index of the sum that it belongs to, its weight, its factors


class FactorsOfModel:
    """The factors in the order of their indices: the effects u_1 ... u_K of a group, then entries of variables."""

    def __init__(self, n_effects: int) -> None:
        self.n_effects = n_effects
        self.entries: list[tuple[Any, int]] = []
        self._first: dict[Any, int] = {}

    def form(self, variable: Any, shape: tuple[int, ...]) -> Form:
        """Return the form of a variable whose entries are factors; raise if it has more than 300 entries."""
        n = size(shape)
        if n > MOST_FACTORS:
            raise NotPossibleError(
                f"{variable.name or variable.owner.op} would be {n} parameters of the integrated model, above "
                f"{MOST_FACTORS}"
            )
        if variable not in self._first:
            self._first[variable] = self.n_effects + len(self.entries)
            self.entries += [(variable, entry) for entry in range(n)]
        first = self._first[variable]
        return {(first + entry,): np.eye(1, n, entry).reshape(shape) for entry in range(n)}


def forms_of(
    values: ValuesOfGraph, factors: FactorsOfModel, known: Mapping[Any, Form], wanted: Sequence[Any]
) -> list[Form]:
    """Return the forms of the graphs `wanted`, given those of the effects (`known`).

    Raise `NotPossibleError` if a graph is not linear in the effects.
    """
    of_factors: dict[Any, Form] = {}  # free variables, and expressions that are not linear
    depend = dependents(values.nodes, known)

    def form(variable: Any, of_operation: Form | None) -> Form:
        if variable in values.fixed:
            return {CONSTANT: np.asarray(values.of[variable])}
        if of_operation is not None:
            return of_operation
        if variable in depend:
            raise NotPossibleError(f"{variable.name or variable.owner.op} is not linear in the effects")
        if variable not in of_factors:
            of_factors[variable] = factors.form(variable, values.shape(variable))
        return of_factors[variable]

    def rule(node: Any, inputs: list[Form | None]) -> list[Form | None]:
        of_inputs = dict(zip(node.inputs, inputs, strict=True))

        def of_input(variable: Any) -> Form:
            return form(variable, of_inputs[variable])

        return [
            _form(node, index, values, of_input) if output in needed and output not in values.fixed else None
            for index, output in enumerate(node.outputs)
        ]

    needed = set(ancestors(wanted))
    forms = interpret(values.nodes, known, rule)
    return [form(graph, forms.get(graph)) for graph in wanted]


def _form(node: Any, index: int, values: ValuesOfGraph, form: Any) -> Form | None:
    """Return the form of result `index` of a node, given the forms of its inputs; None if it is not linear in them."""
    shape = values.shape(node.outputs[index])
    if isinstance(node.op, Elemwise):
        return _elementwise(node, values, form, shape)
    if is_sum(node):
        return _linear(node, index, values, [form(node.inputs[0])], slice(0, 1))
    data = data_inputs(node)
    if data is not None and all(one in values.fixed for k, one in enumerate(node.inputs) if not _in(k, data, node)):
        return _linear(node, index, values, [form(one) for one in node.inputs[data]], data)
    if name_of(node) in MULTIPLYING:
        first, second = (form(one) for one in node.inputs)
        products = ((m + n, compute(node, [a, b])[0]) for m, a in first.items() for n, b in second.items())
        return _summed(products, shape)
    return None


def _in(k: int, data: slice, node: Any) -> bool:
    return k in range(*data.indices(len(node.inputs)))


def _linear(node: Any, index: int, values: ValuesOfGraph, forms: Sequence[Form], data: slice) -> Form:
    """Return the form of an operation that is linear in some inputs: it is applied to each product separately."""
    arrays = [values.of[one] for one in node.inputs]
    shapes = [np.shape(array) for array in arrays[data]]
    found: Form = {}
    for monomial in {m for one in forms for m in one}:
        arrays[data] = [
            np.ascontiguousarray(np.broadcast_to(one.get(monomial, 0.0), shape), dtype=np.float64).reshape(shape)
            for one, shape in zip(forms, shapes, strict=True)
        ]
        found[monomial] = np.asarray(compute(node, arrays)[index])
    return _small(found)


def _elementwise(node: Any, values: ValuesOfGraph, form: Any, shape: tuple[int, ...]) -> Form | None:
    operation = node.op.scalar_op
    inputs = node.inputs
    if isinstance(operation, Identity | Cast):
        return form(inputs[0]) if "float" in str(node.outputs[0].dtype) else None
    if isinstance(operation, Second):
        return _summed(form(inputs[1]).items(), shape)
    if isinstance(operation, Neg):
        return {m: -a for m, a in form(inputs[0]).items()}
    if isinstance(operation, Add | Sub):
        sign = -1.0 if isinstance(operation, Sub) else 1.0
        signs = [1.0, *[sign] * (len(inputs) - 1)]
        return _summed(((m, s * a) for s, one in zip(signs, inputs, strict=True) for m, a in form(one).items()), shape)
    if isinstance(operation, Switch) and inputs[0] in values.fixed:
        chosen = np.asarray(values.of[inputs[0]]) != 0
        both = ((chosen, inputs[1]), (~chosen, inputs[2]))
        return _summed(((m, keep * a) for keep, one in both for m, a in form(one).items()), shape)
    if isinstance(operation, TrueDiv) and inputs[1] in values.fixed:
        return _summed(((m, a / values.of[inputs[1]]) for m, a in form(inputs[0]).items()), shape)
    if isinstance(operation, Mul | Sqr):
        product: Form = {CONSTANT: np.ones(())}
        for one in inputs if isinstance(operation, Mul) else [inputs[0]] * 2:
            pairs = ((m + n, a * b) for m, a in product.items() for n, b in form(one).items())
            product = _summed(pairs, None)
        return _summed(product.items(), shape)
    return None


def _summed(pairs: Any, shape: tuple[int, ...] | None) -> Form:
    """Return the form of (product, coefficients) pairs, with equal products added up; broadcast to a shape if given."""
    found: Form = {}
    for monomial, array in pairs:
        known = tuple(sorted(monomial))
        found[known] = found[known] + array if known in found else array
    if shape is not None:
        found = {m: np.broadcast_to(a, shape) for m, a in found.items()}
    return _small(found)


def _small(form: Form) -> Form:
    """Drop products that are 0 everywhere; raise if a form holds more than `MOST_NUMBERS` numbers."""
    if sum(np.size(a) for a in form.values()) > MOST_NUMBERS:
        raise NotPossibleError(
            f"its {len(form)} columns of shape {np.shape(next(iter(form.values())))} hold more than "
            f"{MOST_NUMBERS:,} numbers"
        )
    return {m: a for m, a in form.items() if m == CONSTANT or np.any(a)} or {CONSTANT: np.zeros(())}


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


def scales_of(
    model: Any, integrated: Collection[Any], factors: FactorsOfModel, scales: list[Product], others: list[Product]
) -> set[Any]:
    """Return the positive variables that only scale effects, which may be sampled with either sign.

    `scales` are the products of factors that multiply effects, `others` the other products.
    """

    def read(products: list[Product]) -> set[Any]:
        return {factors.entries[f][0] for _, _, monomial in products for f in monomial}

    free = set(model.free_RVs)
    graphs = [v for v in read(others) | read(scales) if v not in free]
    parents = [parent for v in model.free_RVs if v not in integrated for parent in v.owner.inputs]
    elsewhere = set(ancestors([*graphs, *parents])) | read(others)
    return {v for v in (read(scales) & free) - elsewhere if may_be_signed(model, v)}


def places_of(factors: FactorsOfModel, coordinates: Coordinates) -> list[tuple[int, int]] | None:
    """Return coordinate and kind (see `link`) of each factor; None if a factor needs a graph."""
    found = []
    for variable, entry in factors.entries:
        kind = coordinates.kind(variable, entry) if variable in coordinates.places else None
        if kind is None:
            return None
        found.append((coordinates.places[variable] + entry, kind))
    return found


class FactorsGiven:
    """A target with factors that are computed from theta by the table of its link, or by a graph."""

    coordinates: Coordinates
    keeps_kernels: bool

    def link_of(self, factors: FactorsOfModel, products: Sequence[Product], logs: Sequence[bool]) -> Link:
        """Return the table of these products of factors; its places are unused if a graph computes the factors.

        A factor with an upper bound is a share of the bound, which goes into the weights of the products.
        """
        self._factors_given = factors
        places = places_of(factors, self.coordinates)
        self.keeps_kernels = places is not None
        if places is None:
            return link([(0, 0)] * len(factors.entries), products, logs)
        bounds = [self.coordinates.bound(variable, entry) for variable, entry in factors.entries]
        scaled = [(j, weight * math.prod(bounds[f] for f in monomial), monomial) for j, weight, monomial in products]
        return link(places, scaled, logs)

    @functools.cached_property
    def _graph(self) -> "GraphOfFactors":
        return GraphOfFactors(self._factors_given, self.coordinates)

    @functools.cached_property
    def _bound(self) -> dict[Any, Any]:
        return {}

    def _bind(self, make: Callable[..., Any], *parts: Any, signature: Any) -> Any:
        """Compile a kernel; one around a graph is compiled once for this target, because it is not cached on disk."""
        if self.keeps_kernels:
            return super()._bind(make, *parts, signature=signature)  # type: ignore[misc]
        if (make, signature) not in self._bound:
            self._bound[make, signature] = super()._bind(make, *parts, signature=signature)  # type: ignore[misc]
        return self._bound[make, signature]

    def _factors(self) -> tuple[Any, Any]:
        return (factors_of, add_factor_slopes) if self.keeps_kernels else self._graph.parts

    def _factor_values(self, thetas: np.ndarray) -> np.ndarray:
        if self.keeps_kernels:
            return super()._factor_values(thetas)  # type: ignore[misc,no-any-return]
        return np.apply_along_axis(lambda theta: self._graph.value(theta)[0], -1, thetas)

    def _factor_slopes(self, theta: np.ndarray, slopes: np.ndarray) -> np.ndarray:
        if self.keeps_kernels:
            return super()._factor_slopes(theta, slopes)  # type: ignore[misc,no-any-return]
        return np.array([self._graph.gradient(theta, one)[0] for one in slopes])


class GraphOfFactors:
    """The factors as a graph of theta, compiled by PyTensor."""

    def __init__(self, factors: FactorsOfModel, coordinates: Coordinates) -> None:
        entries = [variable.ravel()[entry] for variable, entry in factors.entries]
        [graph] = frozen(rebuild([pt.stack(entries)], coordinates.of))
        slopes = pt.vector("slopes", shape=(len(entries),))
        theta = coordinates.theta
        start = coordinates.initial_point()
        self.value = numba_function([theta], [graph], (start,))
        gradient = pytensor.grad((graph * slopes).sum(), theta, disconnected_inputs="ignore")
        self.gradient = numba_function([theta, slopes], [gradient], (start, np.ones(len(entries))))

    @property
    def parts(self) -> tuple[Any, Any]:
        """The two functions that kernels of a `link` call, in place of `factors_of` and `add_factor_slopes`."""
        return make_read(self.value), make_add(self.gradient)


def make_read(value: Callable[..., Any]) -> Callable[..., np.ndarray]:
    """Return a function like `link.factors_of` that evaluates the compiled graph `value`."""

    def read(theta: np.ndarray, places: np.ndarray) -> np.ndarray:
        return value(theta)[0]

    return read


def make_add(gradient: Callable[..., Any]) -> Callable[..., None]:
    """Return a function like `link.add_factor_slopes` that evaluates the compiled graph `gradient`."""

    def add(theta: np.ndarray, places: np.ndarray, slopes: np.ndarray, out: np.ndarray) -> None:
        found = gradient(theta, slopes)[0]
        for j in range(out.shape[0]):
            out[j] += found[j]

    return add
