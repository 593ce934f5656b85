"""Label every entry of a graph by the group that its effects belong to, which proves that groups are independent.

An entry has the label of a group, `FREE` if it depends on no effect, and `MIXED` if it depends on the effects of
several groups. Operations that move entries move labels; elementwise operations join the labels of their inputs; sums,
softmax and products of matrices join labels along the axes that they add up; an entry found by an index has the label
of the index, too; an entry of a random variable has the labels of its parameters. Results of any other operation on
effects are `MIXED`.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from pytensor.tensor.elemwise import CAReduce, Elemwise
from pytensor.tensor.random.op import RandomVariable

from approxmcmc.interop.graphs import is_signed
from approxmcmc.interop.values import ValuesOfGraph, compute
from approxmcmc.interop.walk import INDEXING_BY_ARRAYS, MULTIPLYING, SHAPES, data_inputs, interpret, name_of

FREE = -1
MIXED = -2
COMBINING = {"CumOp"}  # an entry of the result depends on several entries


def join(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """Return the labels of a value that depends on two values, entry by entry, with the labels `one` and `other`."""
    return np.where(one == FREE, other, np.where((other == FREE) | (one == other), one, MIXED))


def join_along(labels: np.ndarray, axis: int) -> np.ndarray:
    """Return the labels of sums of entries along an axis."""
    highest = labels.max(axis=axis, initial=MIXED)
    known = np.where(labels == FREE, np.expand_dims(highest, axis), labels)
    mixed = (known != np.expand_dims(highest, axis)).any(axis=axis)
    return np.where(mixed, MIXED, highest)


def labels_of(
    values: ValuesOfGraph, effects: Mapping[Any, np.ndarray], opaque: set[str] | None = None
) -> dict[Any, np.ndarray]:
    """Return the labels of every variable that depends on effects, given the labels of the effects.

    Names of operations that cannot be followed, with results that are `MIXED` for this reason, are added to `opaque`.
    """

    def rule(node: Any, labels: list[np.ndarray | None]) -> list[np.ndarray] | None:
        if all(known is None for known in labels):
            return None
        of_results = [_labels(node, index, values, labels) for index in range(len(node.outputs))]
        if opaque is not None and any(own is None for own in of_results):
            opaque.add(name_of(node))
        return [
            np.full(values.shape(output), MIXED) if own is None else own
            for output, own in zip(node.outputs, of_results, strict=True)
        ]

    return interpret(values.nodes, effects, rule)


def _labels(node: Any, index: int, values: ValuesOfGraph, labels: Sequence[Any]) -> np.ndarray | None:
    """Return the labels of result `index` of a node, given those of its inputs; None if it cannot be followed."""
    name = name_of(node)
    shape = values.shape(node.outputs[index])
    full = [
        np.full(values.shape(one), FREE) if known is None else known
        for one, known in zip(node.inputs, labels, strict=True)
    ]
    arrays = [values.of[one] for one in node.inputs]
    if isinstance(node.op, Elemwise):
        return _joined(full, shape)
    if isinstance(node.op, RandomVariable) or is_signed(node.op):  # a component of a mixture
        return _of_random_variable(node, dict(zip(node.inputs, full, strict=True)), shape)
    if isinstance(node.op, CAReduce):
        axes = range(full[0].ndim) if node.op.axis is None else node.op.axis
        for axis in sorted(axes, reverse=True):
            full[0] = join_along(full[0], axis)
        return full[0]
    if name in ("Softmax", "LogSoftmax"):
        for axis in range(full[0].ndim) if node.op.axis is None else np.atleast_1d(node.op.axis):
            full[0] = np.broadcast_to(np.expand_dims(join_along(full[0], axis), axis), shape)
        return full[0]
    if name in SHAPES:
        return np.full(shape, FREE)
    if name in COMBINING:
        return np.full(shape, MIXED)
    data = data_inputs(node)
    if data is not None and all(known is None for known in _others(labels, data)):
        arrays[data] = full[data]
        return np.asarray(compute(node, arrays)[index]).astype(np.int64).reshape(shape)  # stacking may change the type
    if name in INDEXING_BY_ARRAYS:
        return _joined(
            [_of_index(node, k, arrays, known) for k, known in enumerate(labels) if known is not None], shape
        )
    if name in MULTIPLYING and min(full[0].ndim, full[1].ndim) >= 1:
        left = join_along(full[0], -1)
        right = join_along(full[1], max(full[1].ndim - 2, 0))
        left = left[..., None] if full[1].ndim > 1 else left
        right = right[..., None, :] if full[0].ndim > 1 and full[1].ndim > 1 else right
        return _joined([left, right], shape)
    return None


def _of_random_variable(node: Any, labels: Mapping[Any, np.ndarray], shape: tuple[int, ...]) -> np.ndarray:
    """Return the labels of a random variable: each entry depends on its own parameters."""
    parameters = []
    for one, n_axes in zip(node.op.dist_params(node), node.op.ndims_params, strict=True):
        own = labels[one]
        for _ in range(n_axes):
            own = join_along(own, -1)
        parameters.append(own.reshape(own.shape + (1,) * node.op.ndim_supp))
    return _joined(parameters, shape)


def _joined(labels: Sequence[np.ndarray], shape: tuple[int, ...]) -> np.ndarray:
    total = np.full(shape, FREE)
    for one in labels:
        if (one != FREE).any():
            total = join(total, one)
    return total


def _of_index(node: Any, place: int, arrays: Sequence[np.ndarray], labels: np.ndarray) -> np.ndarray:
    """Return the labels that input number `place` of an indexing operation, with these labels, gives to its result.

    An index finds its own labels: they replace the data along its axis, and it counts them.
    """
    arrays = list(arrays)
    if place == 0:
        arrays[0] = labels
    else:
        axis = _axis_of_index(node, place)
        lengths = list(arrays[0].shape)
        lengths[axis] = labels.size
        arrays[0] = np.broadcast_to(np.moveaxis(labels.reshape((-1,) + (1,) * (len(lengths) - 1)), 0, axis), lengths)
        arrays[place] = np.arange(labels.size).reshape(labels.shape)
    return np.asarray(compute(node, arrays)[0])


def _axis_of_index(node: Any, place: int) -> int:
    """Return the axis of the data to which input number `place` of an indexing operation belongs."""
    entries = getattr(node.op, "idx_list", None)  # older versions of PyTensor have one input for each axis
    return place - 1 if entries is None else list(entries).index(place - 1)


def _others(labels: Sequence[Any], data: slice) -> list[Any]:
    chosen = set(range(*data.indices(len(labels))))
    return [one for k, one in enumerate(labels) if k not in chosen]
