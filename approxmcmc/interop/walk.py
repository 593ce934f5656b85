"""Graphs of PyTensor: what operations do with entries, and one walk over values for every question of readers.

Operations are named, because not every supported version of PyTensor has all of them. For a `Blockwise` the name is
that of its core operation.

Readers ask which array a variable holds at a point, to which group each of its entries belongs, whether it is affine in
theta, which polynomial of the parameters it is, and by which graph it is replaced. Each of these interprets the graph
(abstract interpretation; Cousot and Cousot 1977): a kind of value for variables, some variables whose values
are given, and a rule that returns the values of a node's results from those of its inputs. `interpret` is the only loop
over nodes; the rules are with the questions (`predictors.kinds`, `groups.labels`, `groups.predictor`,
`graphs.rebuild`).

Here are the rules for arrays: they are computed in Python, without compiling.

    >>> import numpy as np, pytensor.tensor as pt
    >>> x = pt.vector("x")
    >>> y = 2.0 * x.sum()
    >>> float(arrays_at([y], {x: np.array([1.0, 2.0])})[y])
    6.0
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pytensor
from pytensor.compile.mode import Mode
from pytensor.compile.sharedvalue import SharedVariable
from pytensor.graph.traversal import ancestors, toposort
from pytensor.scalar.basic import Add
from pytensor.tensor.elemwise import CAReduce
from pytensor.tensor.variable import TensorConstant

# Add, drop or order axes; the first is one of length 1.
AXES = frozenset({"ExpandDims", "Squeeze", "DimShuffle"})
INDEXING_BY_ARRAYS = frozenset({"AdvancedSubtensor", "AdvancedSubtensor1"})
INDEXING = frozenset({"Subtensor", *INDEXING_BY_ARRAYS})
# The result holds entries of the first input; the other inputs say which, and where they go.
MOVING = frozenset(
    {
        *AXES,
        *INDEXING,
        "Alloc",
        "Reshape",
        "ScalarFromTensor",
        "SpecifyShape",
        "TensorFromScalar",
        "ViewOp",
    }
)
SPLITTING = frozenset({"Split"})  # like `MOVING`, with several results
# The result holds entries of several inputs, or sums of them. "SetSubtensor" is `name_of` both ways to assign.
STACKING = frozenset({"Join", "MakeVector", "SetSubtensor"})
ADDING_TO_ENTRIES = frozenset({"IncSubtensor", "AdvancedIncSubtensor", "AdvancedIncSubtensor1"})
MULTIPLYING = frozenset({"Dot", "BatchedDot", "MatMul"})
SHAPES = frozenset({"Shape", "Shape_i"})  # depend on no entry
# Functions that are called only a few times are not compiled.
PYTHON = Mode(linker="py", optimizer="fast_compile")


def name_of(node: Any) -> str:
    """Return the name of a node's operation; "SetSubtensor" if it assigns entries."""
    if getattr(node.op, "set_instead_of_inc", False):
        return "SetSubtensor"
    return type(getattr(node.op, "core_op", node.op)).__name__


def is_sum(node: Any) -> bool:
    """Return whether a node adds up entries."""
    return isinstance(node.op, CAReduce) and isinstance(node.op.scalar_op, Add)


def data_inputs(node: Any) -> slice | None:
    """Return the inputs of a node that supply entries of its results; None if its results hold other numbers, too."""
    name = name_of(node)
    if name in MOVING or name in SPLITTING:
        return slice(0, 1)
    if name == "Join":  # of older versions of PyTensor: the first input is the axis
        return slice(0 if hasattr(node.op, "axis") else 1, None)
    if name == "SetSubtensor":
        return slice(0, 2)
    return slice(0, None) if name == "MakeVector" else None


def without_axes(graph: Any) -> Any:
    """Return a graph without the axes that were added to it, dropped from it, or put into another order."""
    while graph.owner is not None and name_of(graph.owner) in AXES:
        graph = graph.owner.inputs[0]
    return graph


def interpret[Value](
    nodes: Iterable[Any],
    given: Mapping[Any, Value],
    rule: Callable[[Any, list[Value | None]], Sequence[Value | None] | None],
) -> dict[Any, Value]:
    """Return the values of variables: those `given`, and those that a rule finds for the results of nodes.

    Parameters
    ----------
    nodes
        The nodes of a graph, each after those that compute its inputs, as from PyTensor's `toposort`.
    given
        Values of variables, which are kept. A node whose results all have values is passed over.
    rule
        ``rule(node, inputs)`` returns a value for each result of the node, given those of its inputs. None stands for a
        variable without a value; the rule returns None if no result has one.
    """
    values = dict(given)
    for node in nodes:
        if all(output in values for output in node.outputs):
            continue
        results = rule(node, [values.get(variable) for variable in node.inputs])
        for output, value in zip(node.outputs, results or [None] * len(node.outputs), strict=True):
            if value is not None:
                values.setdefault(output, value)
    return values


def dependents(nodes: Iterable[Any], variables: Collection[Any]) -> set[Any]:
    """Return `variables`, and the results of nodes that depend on one of them."""

    def rule(node: Any, inputs: list[bool | None]) -> list[bool] | None:
        return [True] * len(node.outputs) if any(inputs) else None

    return set(interpret(nodes, dict.fromkeys(variables, True), rule))


def arrays_at(
    graphs: Sequence[Any], given: Mapping[Any, Any], compute: Callable[[Any, list[Any]], list[Any]] | None = None
) -> dict[Any, Any]:
    """Return the arrays of all variables on which graphs depend, at `given` arrays of some of them.

    Nothing above a given variable is computed. ``compute(node, inputs)`` returns the results of a node, by default
    those of `perform`.
    """
    arrays = dict(given)
    for leaf in ancestors(graphs, blockers=given):
        if leaf.owner is None and leaf not in arrays:
            arrays[leaf] = value_of(leaf) if is_shared(leaf) else getattr(leaf, "data", None)
    return interpret(nodes_of(graphs, given), arrays, compute or perform)


def nodes_of(graphs: Sequence[Any], given: Collection[Any] = ()) -> list[Any]:
    """Return the nodes that compute graphs, each after those of its inputs, without those above `given` variables."""
    return [node for node in toposort(graphs, blockers=given) if not any(output in given for output in node.outputs)]


def perform(node: Any, inputs: Sequence[Any]) -> list[Any]:
    """Return the results of a node for these inputs, in Python."""
    storage: list[list[Any]] = [[None] for _ in node.outputs]
    if hasattr(node.op, "prepare_node"):
        node.op.prepare_node(node, None, None, "py")
    node.op.perform(node, list(inputs), storage)
    return [result for [result] in storage]


def evaluate(variable: Any) -> Any:
    """Return the value of a variable without parameters, without compiling."""
    if isinstance(variable, SharedVariable | TensorConstant):
        return value_of(variable)
    return np.array(arrays_at([variable], {})[variable])  # a copy: results may be views of data


def in_python(inputs: Sequence[Any], graphs: Any) -> Any:
    """Return the function of `inputs` that evaluates a graph or a list of graphs in Python."""
    return pytensor.function(inputs, graphs, mode=PYTHON, on_unused_input="ignore")


def leaves(graphs: Sequence[Any]) -> list[Any]:
    """List the arrays, constant or shared, that graphs depend on."""
    leaves_of_graphs = [
        v for v in ancestors(graphs) if v.owner is None and isinstance(v, SharedVariable | TensorConstant)
    ]
    return [leaf for leaf in leaves_of_graphs if isinstance(value_of(leaf), np.ndarray)]


def is_shared(leaf: Any) -> bool:
    """Return whether the value of a leaf can change."""
    return isinstance(leaf, SharedVariable)


def value_of(leaf: Any) -> Any:
    """Return the value of a constant or shared variable, without a copy."""
    return leaf.get_value(borrow=True) if isinstance(leaf, SharedVariable) else leaf.data
