"""Rebuild PyTensor graphs with other leaves, over a flat vector, or in a numerically stable form."""

import inspect
import math
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np
import pytensor.tensor as pt
from pymc.distributions.distribution import SymbolicRandomVariable
from pytensor.compile.builders import OpFromGraph
from pytensor.graph import rewrite_graph
from pytensor.graph.traversal import toposort
from pytensor.scalar.basic import Switch
from pytensor.scalar.math import Softplus
from pytensor.tensor.elemwise import DimShuffle, Elemwise
from pytensor.tensor.math import Dot
from pytensor.tensor.shape import Shape, Shape_i, SpecifyShape
from pytensor.tensor.variable import TensorConstant

from approxmcmc.contracts import TermWork
from approxmcmc.engine.compiler.operations import SLOW, TRANSCENDENTAL
from approxmcmc.interop.walk import interpret, is_shared, leaves, value_of

GRADIENT = 3.0  # times the operations of a graph, for reverse differentiation; at most 4 (Griewank and Walther 2008)
DOT = 0.4  # operations of a multiply-add of BLAS
# Functions that PyTensor compiles with branches, or as separate loops.
BRANCHED = ("softplus", "sigmoid", "log1mexp", "softmax", "logsoftmax", "logsumexp")


def rebuild(graphs: Sequence[Any], replacements: Mapping[Any, Any]) -> list[Any]:
    """Rebuild graphs with variables replaced as in `replacements`, and shapes recomputed.

    Assertions of the shape of what is replaced are dropped. PyTensor's `clone_replace` does not work here: it asserts
    the old static shapes.
    """

    def rule(node: Any, inputs: list[Any]) -> list[Any] | None:
        if isinstance(node.op, SpecifyShape) and inputs[0] is not None:
            return [inputs[0]]
        return _applied(node, inputs)

    new = interpret(toposort(graphs), replacements, rule)
    return [new.get(graph, graph) for graph in graphs]


def frozen(graphs: Sequence[Any]) -> list[Any]:
    """Rebuild graphs with shared data as constants, so that later changes of these data change nothing."""
    return rebuild(graphs, {leaf: pt.constant(value_of(leaf)) for leaf in leaves(graphs) if is_shared(leaf)})


def replace_nodes(graphs: Sequence[Any], make: Callable[[Any, list[Any]], list[Any] | None]) -> list[Any]:
    """Rebuild graphs with ``make(node, inputs)`` as outputs of each node; if that is None, with its own operation."""

    def rule(node: Any, inputs: list[Any]) -> list[Any] | None:
        outputs = make(node, _or_own(inputs, node))
        return _applied(node, inputs) if outputs is None else outputs

    new = interpret(toposort(graphs), {}, rule)
    return [new.get(graph, graph) for graph in graphs]


def _applied(node: Any, inputs: list[Any]) -> list[Any] | None:
    """Return the outputs of a node for new `inputs`, None for an input that stays; None if all stay."""
    return None if all(variable is None for variable in inputs) else apply_node(node, _or_own(inputs, node))


def _or_own(inputs: list[Any], node: Any) -> list[Any]:
    return [own if new is None else new for new, own in zip(inputs, node.inputs, strict=True)]


def apply_node(node: Any, inputs: Sequence[Any]) -> list[Any]:
    """Return the outputs of a node's operation applied to other inputs.

    Operations that contain a graph of fixed shape are inlined or rebuilt.
    """
    if is_signed(node.op) and hasattr(node.op, "rv_op"):
        new = dict(zip(node.inputs, inputs, strict=True))
        parameters = [new[variable] for variable in node.op.dist_params(node)]
        # A distribution with settings besides its parameters, such as the order of an autoregression, cannot be built
        # from parameters alone: then Python refuses them, in a line that is not of this package (see `refusals`).
        arguments = inspect.signature(node.op.rv_op).bind(*parameters)
        return list(node.op.rv_op(*arguments.args).owner.outputs)
    if isinstance(node.op, OpFromGraph):
        inner = zip(node.op.inner_inputs, inputs, strict=True)
        if not all(old.type.is_super(new.type) for old, new in inner):
            graph: Any = node.op.fgraph
            graph = graph.unfreeze() if hasattr(graph, "unfreeze") else graph  # frozen in newer versions of PyTensor
            return rebuild(graph.outputs, dict(zip(graph.inputs, inputs, strict=True)))
    return list(node.op.make_node(*inputs).outputs)


def is_signed(operation: Any) -> bool:
    """Return whether an operation is a `SymbolicRandomVariable` whose signature says which inputs are parameters."""
    return isinstance(operation, SymbolicRandomVariable) and operation.extended_signature is not None


def simplify(graph: Any) -> Any:
    """Rewrite a graph to a numerically stable form with a stable gradient, without checks of parameters.

    Checks (0 <= p <= 1) read all rows and cost 3 to 18 times the likelihood itself; without them invalid values give
    NaN.
    """
    return simplify_together([graph])[0]


def simplify_together(graphs: Sequence[Any]) -> list[Any]:
    """Simplify graphs that share parts, such as derivatives of one function, and visit each part once."""
    # Twice: log(1 - sigmoid) must become a softplus before PyTensor 3.2 canonicalises it to an unstable form.
    # PyTensor rewrites in place: without the clone, parts that other graphs or the model share would change.
    stable = rewrite_graph(list(graphs), include=("stabilize",), clone=True)
    simplified: Any = rewrite_graph(stable, include=("canonicalize", "stabilize", "local_remove_check_parameter"))
    return list(simplified)


def by_numpy(graph: Any) -> Any:
    """Replace softplus by functions of NumPy, for PyTensor's Python mode, which otherwise calls Python for each row.

    A run with default settings takes 2.2 CPU s instead of 5.0 for a logistic regression of 1e6 rows and 11 parameters.
    """

    def make(node: Any, inputs: list[Any]) -> list[Any] | None:
        if not isinstance(node.op, Elemwise) or not isinstance(node.op.scalar_op, Softplus):
            return None
        [x] = inputs
        return [pt.maximum(x, 0.0) + pt.log1p(pt.exp(-pt.abs(x)))]

    return replace_nodes([graph], make)[0]


def merge_branches(graph: Any) -> Any:
    """Rebuild switch(c, f(a), f(b)) as f(switch(c, a, b)), which computes f once.

    Further inputs of f must be the same in both branches.

    The Bernoulli density switch(y, -softplus(-eta), -softplus(eta)) is the case that matters: compiled code evaluates
    both branches, and the softplus is most of the cost of a row. Stabilise the graph first: otherwise log(sigmoid) and
    log(1 - sigmoid) are merged under the logarithm, and overflow.
    """

    def choose(condition: Any, yes: Any, no: Any) -> Any:
        node = yes.owner
        other = no.owner
        if node is not None and other is not None and node.op == other.op and isinstance(node.op, Elemwise):
            pairs = enumerate(zip(node.inputs, other.inputs, strict=False))
            differing = [(position, pair) for position, pair in pairs if not _are_same(*pair)]
            if len(differing) == 1 and len(node.inputs) == len(other.inputs):
                [(position, (first, second))] = differing
                merged = choose(condition, first, second)
                return node.op(*(merged if k == position else variable for k, variable in enumerate(node.inputs)))
        return pt.switch(condition, yes, no)

    def make(node: Any, inputs: list[Any]) -> list[Any] | None:
        is_switch = isinstance(node.op, Elemwise) and isinstance(node.op.scalar_op, Switch)
        return [choose(*inputs)] if is_switch else None

    return replace_nodes([graph], make)[0]


def _are_same(one: Any, other: Any) -> bool:
    return one is other or (isinstance(one, TensorConstant) and bool(one.equals(other)))


def over_flat(
    graphs: Sequence[Any],
    theta: Any,
    values: Sequence[Any],
    start: Mapping[str, Any],
    scales: Mapping[Any, Any] = MappingProxyType({}),
) -> list[Any]:
    """Rebuild graphs of the value variables `values` as graphs of the flat vector `theta`.

    `start` has a value of each variable by name, for its shape. If `scales` has a graph for a value variable, the
    vector holds the variable times that scale.
    """
    pieces = {}
    position = 0
    for value in values:
        shape = np.shape(start[value.name])
        stop = position + math.prod(shape)
        pieces[value] = theta[position:stop].reshape(shape).astype(value.dtype)
        position = stop
    for value, scale in scales.items():
        [divisor] = rebuild([scale], {other: piece for other, piece in pieces.items() if other not in scales})
        pieces[value] = pieces[value] / divisor
    return rebuild(graphs, pieces)


def sum_trailing(terms: Any) -> Any:
    """Sum the terms of a row over all axes but the first."""
    return terms.sum(axis=tuple(range(1, terms.ndim))) if terms.ndim > 1 else terms


def operations_of_a_row(graph: Any, n_rows: int, branched: float = TRANSCENDENTAL) -> float:
    """Return the scalar operations of a graph per row; an exponential counts as ten, see `engine.compiler`.

    An axis of unknown length or of length `n_rows` counts rows; parts without such an axis are computed once for all
    rows. A function in `BRANCHED` counts as `branched` operations.
    """
    return sum(_operations(node, n_rows, branched) for node in toposort([graph]))


def work_of_a_row(graph: Any, n_rows: int, stored: float = 0.0) -> TermWork:
    """Return the work of a row and of its gradient, counted from the graph; a row reads `stored` bytes of data."""
    operations = operations_of_a_row(graph, n_rows)
    return TermWork(operations, GRADIENT * operations, stored, "matrices" if _has_factors(graph) else "graph")


def _has_factors(graph: Any) -> bool:
    """Return whether a graph factors or solves matrices."""
    operations = (getattr(node.op, "core_op", node.op) for node in toposort([graph]))
    return any("linalg" in type(operation).__module__ for operation in operations)


def _operations(node: Any, n_rows: int, branched: float) -> float:
    if isinstance(node.op, DimShuffle | SpecifyShape | Shape | Shape_i):
        return 0.0
    name = type(getattr(node.op, "scalar_op", node.op)).__name__.lower()
    variables = node.outputs if isinstance(node.op, Elemwise) else (*node.inputs, *node.outputs)
    numbers = max(_numbers_of_a_row(variable, n_rows) for variable in variables)
    each = branched if name in BRANCHED else TRANSCENDENTAL if name in SLOW else 1.0
    return (DOT if isinstance(node.op, Dot) else each) * numbers


def _numbers_of_a_row(variable: Any, n_rows: int) -> float:
    """Return how many numbers of a variable belong to each row."""
    shape = getattr(variable.type, "shape", ())
    with_rows = any(length is None or length == n_rows for length in shape)
    numbers = math.prod(length for length in shape if length is not None and length != n_rows)
    return float(numbers) if with_rows else numbers / n_rows
