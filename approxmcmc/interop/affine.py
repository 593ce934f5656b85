r"""Find which graphs are affine in theta, and the fewest affine quantities through which a graph depends on theta.

Affinity is deduced from the operations, never tested numerically: sums, products with terms that do not depend on
theta, and operations that move entries (indexing, reshaping, stacking). A function that is linear only on the tested
points, such as a clip at 30, does not count.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from pytensor.graph.basic import equal_computations
from pytensor.graph.traversal import toposort
from pytensor.scalar.basic import (
    Abs,
    Add,
    Cast,
    Exp,
    Identity,
    Mul,
    Neg,
    Pow,
    Reciprocal,
    Second,
    Sign,
    Sqr,
    Sqrt,
    Sub,
    TrueDiv,
)
from pytensor.tensor.elemwise import DimShuffle, Elemwise

from approxmcmc.interop.graphs import rebuild
from approxmcmc.interop.operations import (
    ADDING_TO_ENTRIES,
    INDEXING_BY_ARRAYS,
    MOVING,
    MULTIPLYING,
    SHAPES,
    SPLITTING,
    STACKING,
    is_sum,
    name_of,
    without_axes,
)
from approxmcmc.interop.walk import interpret

CONSTANT = "constant"
AFFINE = "affine"
# A product of powers of constants and of exponentials of affine quantities: the logarithm of its size is affine.
LOG_AFFINE = "log-affine"
OTHER = "other"


class Ratio(NamedTuple):
    """The kind of an affine quantity divided by `scale`, the graph of one number: times `scale` it is affine again."""

    scale: Any


def kinds(graphs: Sequence[Any], theta: Any) -> dict[Any, Any]:
    """Return for every variable in some graphs its kind: constant, affine in theta, log-affine, a `Ratio`, or other."""

    def rule(node: Any, inputs: list[Any]) -> list[Any]:
        # A leaf other than theta is constant.
        return [_kind_of(node, [CONSTANT if kind is None else kind for kind in inputs])] * len(node.outputs)

    return interpret(toposort(graphs), {theta: AFFINE}, rule)


def _kind_of(node: Any, inputs: list[Any]) -> Any:
    name = name_of(node)
    if name in SHAPES or all(kind == CONSTANT for kind in inputs):
        return CONSTANT
    if isinstance(node.op, Elemwise):
        return _kind_of_elemwise(node, inputs)
    if inputs[0] == LOG_AFFINE:
        return LOG_AFFINE if isinstance(node.op, DimShuffle) else OTHER
    if name in MOVING or name in SPLITTING or is_sum(node):
        return inputs[0] if all(kind == CONSTANT for kind in inputs[1:]) else OTHER
    if name in STACKING or name in ADDING_TO_ENTRIES:
        return AFFINE if all(kind in (CONSTANT, AFFINE) for kind in inputs) else OTHER
    if name in MULTIPLYING and len(inputs) == 2:
        return AFFINE if sorted(map(str, inputs)) == [AFFINE, CONSTANT] else OTHER
    return OTHER


def _kind_of_elemwise(node: Any, inputs: list[Any]) -> Any:
    operation = node.op.scalar_op
    if isinstance(operation, Neg | Identity | Cast):
        is_float = "float" in str(node.outputs[0].dtype)
        return inputs[0] if is_float and inputs[0] != LOG_AFFINE else OTHER
    if isinstance(operation, Exp):
        return LOG_AFFINE if inputs[0] == AFFINE else OTHER
    if isinstance(operation, Sqrt | Sqr | Reciprocal | Abs | Sign | Pow):
        return LOG_AFFINE if inputs[0] == LOG_AFFINE and all(kind == CONSTANT for kind in inputs[1:]) else OTHER
    if isinstance(operation, Second):
        return inputs[1]
    if isinstance(operation, Add | Sub):
        return AFFINE if all(kind in (CONSTANT, AFFINE) for kind in inputs) else OTHER
    if isinstance(operation, TrueDiv):
        above, below = inputs
        if below == CONSTANT:
            return above
        if above == AFFINE:
            return Ratio(without_axes(node.inputs[1]))
        return LOG_AFFINE if above in (CONSTANT, LOG_AFFINE) and below == LOG_AFFINE else OTHER
    if isinstance(operation, Mul):
        return _kind_of_product(node, inputs)
    return OTHER


def _kind_of_product(node: Any, inputs: list[Any]) -> Any:
    moving = [(kind, variable) for kind, variable in zip(inputs, node.inputs, strict=True) if kind != CONSTANT]
    if len(moving) == 1:
        return moving[0][0]
    if len(moving) == 2:
        for (kind, _), (_, other) in (moving, moving[::-1]):
            if isinstance(kind, Ratio) and equal_computations([kind.scale], [without_axes(other)]):
                return AFFINE
    return LOG_AFFINE if all(kind == LOG_AFFINE for kind, _ in moving) else OTHER


def picked_first(graph: Any, theta: Any) -> Any:
    """Return a graph that indexes vectors before it applies functions: f(a, b)[i] becomes f(a, b[i]).

    (tau * z)[group] is not affine, but tau * z[group] is made of two affine quantities, with one number per row each.
    """
    kind = kinds([graph], theta)

    def picked(vector: Any, index: Any) -> Any:
        node = vector.owner
        if kind.get(vector, CONSTANT) in (CONSTANT, AFFINE) or not isinstance(node.op, Elemwise):
            return vector[index]
        return node.op(*(operand if operand.broadcastable[0] else picked(operand, index) for operand in node.inputs))

    replaced: dict[Any, Any] = {}
    nodes: list[Any] = list(toposort([graph]))
    for node in nodes:
        if name_of(node) in INDEXING_BY_ARRAYS and len(node.inputs) == 2:
            vector, index = node.inputs
            if vector.ndim == 1 and vector.owner is not None and kind[vector] not in (CONSTANT, AFFINE):
                replaced[node.outputs[0]] = picked(vector, index)
    return rebuild([graph], replaced)[0] if replaced else graph


def cut(graph: Any, theta: Any, count: Callable[[list[Any]], list[int]]) -> list[Any]:
    """Return the affine quantities through which a graph depends on theta.

    They are the first affine ones on the way from the graph to theta, or a part of such a quantity if the part needs no
    more predictors: y - mu is cut at mu, and effect[group] is not cut further. ``count(quantities)`` returns how many
    predictors each of `quantities` needs.
    """
    kind = kinds([graph], theta)
    cuts = []
    seen = set()
    waiting = [graph]
    while waiting:
        variable = waiting.pop()
        if variable in seen or kind.get(variable, CONSTANT) == CONSTANT:
            continue
        seen.add(variable)
        if kind[variable] != AFFINE:
            waiting += variable.owner.inputs
            continue
        chain = _chain(variable, kind)
        counts = count(chain)
        fewest = max(position for position, number in enumerate(counts) if number == min(counts))
        if chain[fewest] not in cuts:
            cuts.append(chain[fewest])
    return cuts


def _weights_rows(node: Any, factors: list[Any]) -> bool:
    """Return whether an operation multiplies by an array: a product with a matrix, or a factor for each entry."""
    if name_of(node) in MULTIPLYING:
        return True
    is_product = isinstance(node.op, Elemwise) and isinstance(node.op.scalar_op, Mul | TrueDiv)
    return is_product and not all(all(factor.broadcastable) for factor in factors)


def _chain(variable: Any, kind: dict[Any, Any]) -> list[Any]:
    """Return an affine quantity, then its only part, and so on, until a quantity has no part or several."""
    chain = [variable]
    while (node := chain[-1].owner) is not None:
        below = [operand for operand in node.inputs if kind.get(operand, CONSTANT) != CONSTANT]
        constant = [operand for operand in node.inputs if operand not in below]
        if isinstance(node.op, Elemwise) and isinstance(node.op.scalar_op, Second):
            below = [operand for operand in node.inputs[1:] if kind.get(operand, CONSTANT) != CONSTANT]
        if len(below) != 1 or kind[below[0]] != AFFINE or _weights_rows(node, constant):
            break
        chain.append(below[0])
    return chain
