"""Every variable of a model's graph as an array at one random point: its shape, and its value if it is constant."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from pymc.distributions.transforms import CholeskyCovPacked
from pytensor import config
from pytensor.raise_op import CheckAndRaise

from approxmcmc.interop.attempts import NotPossibleError
from approxmcmc.interop.densities import initial_point
from approxmcmc.interop.model_hash import is_trusted
from approxmcmc.interop.walk import SHAPES, arrays_at, evaluate, interpret, name_of, nodes_of, perform

# Reading a model makes thousands of variables; stack traces of their creation would take a third of a second.
NO_TRACES = config.change_flags(traceback__limit=0)
# What operations of PyTensor raise at values where they are not defined: a covariance without a Cholesky factor, an
# index beyond an array. Other exceptions of theirs are faults.
UNDEFINED = (np.linalg.LinAlgError, ArithmeticError, IndexError, NotImplementedError)


class ValuesOfGraph:
    """Arrays of all variables between the free variables of a model and some graphs, computed by PyTensor in Python.

    `of` maps each variable to its array at random values of the free variables. `fixed` holds the variables that depend
    on no value of a free variable, such as shapes: their arrays are data.
    """

    def __init__(self, model: Any, graphs: Sequence[Any]) -> None:
        rng = np.random.default_rng(0)
        free = {variable: _value_of(model, variable, rng) for variable in model.free_RVs}
        self.nodes = nodes_of(graphs, free)
        self.of = arrays_at(graphs, free, compute)
        data = [leaf for leaf in self.of if leaf.owner is None and leaf not in free]
        self.fixed = set(interpret(self.nodes, dict.fromkeys(data, True), _is_fixed))

    def shape(self, variable: Any) -> tuple[int, ...]:
        """Return the shape of a variable."""
        return np.shape(self.of[variable])


def _is_fixed(node: Any, inputs: list[bool | None]) -> list[bool] | None:
    return [True] * len(node.outputs) if name_of(node) in SHAPES or all(inputs) else None


def _value_of(model: Any, variable: Any, rng: np.random.Generator) -> np.ndarray:
    """Return a random value of a free variable; the initial value of a discrete one, which may be an index."""
    shape = shape_of(model, variable)
    if str(variable.dtype).startswith("float"):
        return rng.uniform(0.5, 1.5, shape)
    return np.broadcast_to(initial_point(model)[model.rvs_to_values[variable].name], shape).astype(variable.dtype)


def shape_of(model: Any, variable: Any) -> tuple[int, ...]:
    """Return the shape of a free variable."""
    static = variable.type.shape
    if None not in static:
        return tuple(map(int, static))
    transform = model.rvs_to_transforms[variable]
    value = model.rvs_to_values[variable]
    start = initial_point(model)[value.name]
    if transform is None or isinstance(transform, CholeskyCovPacked) or transform.ndim_supp == 0:
        return np.shape(start)
    return np.shape(evaluate(transform.backward(start, *variable.owner.inputs)))


def compute(node: Any, inputs: Sequence[Any]) -> list[Any]:
    """Return the outputs of a node for these inputs, without compiling.

    Raises
    ------
    NotPossibleError
        When the operation is not defined at these values, which may be random, or is one of the user and fails.
    """
    try:
        return perform(node, inputs)
    except Exception as error:
        if isinstance(error, UNDEFINED) or isinstance(node.op, CheckAndRaise) or not is_trusted(node.op):
            raise NotPossibleError(f"{node.op} cannot be evaluated ({type(error).__name__})") from error
        raise


def size(shape: Sequence[int]) -> int:
    """Return the number of entries of an array of this shape."""
    return math.prod(shape)
