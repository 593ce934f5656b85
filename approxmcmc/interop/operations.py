"""PyTensor's operations, by what they do with entries: one list for all readers of graphs.

They are named, because not every supported version of PyTensor has all of them. For a `Blockwise` the name is that of
its core operation.
"""

from typing import Any

from pytensor.scalar.basic import Add
from pytensor.tensor.elemwise import CAReduce

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
