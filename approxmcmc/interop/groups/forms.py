r"""Write a graph as a sum of products of the model's parameters, with arrays as coefficients.

.. math:: \eta_i = \sum_m c_{im} \prod_{f \in m} a_f,

where the factors a are entries of free variables, of the standard normal effects u of one group, and of expressions
that are not linear in the parameters, such as ``exp(log_sigma)``. The form is derived from the operation of each node,
never from numerical trials.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from pytensor.graph.traversal import ancestors
from pytensor.scalar.basic import Add, Cast, Identity, Mul, Neg, Second, Sqr, Sub, Switch, TrueDiv
from pytensor.tensor.elemwise import Elemwise

from approxmcmc.interop.attempts import NotPossibleError
from approxmcmc.interop.operations import MULTIPLYING, data_inputs, is_sum, name_of
from approxmcmc.interop.values import ValuesOfGraph, compute, size
from approxmcmc.interop.walk import dependents, interpret

Monomial = tuple[int, ...]
Form = dict[Monomial, np.ndarray]
CONSTANT: Monomial = ()
MOST_FACTORS = 300  # entries of a variable that may be columns of a design matrix
MOST_NUMBERS = 60_000_000  # numbers in a form


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
