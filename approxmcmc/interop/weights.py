"""Known weights of rows: a row whose log density is a weight times that of a distribution.

Bambi writes ``weighted(y, w)`` as a `pm.CustomDist` with a log density ``w * pm.logp(distribution, y)``. Its random
draws are those of the distribution, which shows what is weighted.
"""

from typing import Any, NamedTuple

import numpy as np
import pymc as pm
from pymc.distributions.custom import CustomSymbolicDistRV
from pytensor.graph.basic import equal_computations
from pytensor.graph.traversal import ancestors
from pytensor.scalar.basic import Mul
from pytensor.tensor.elemwise import Elemwise
from pytensor.tensor.random.op import RandomVariable

from approxmcmc.interop.graphs import evaluate, rebuild


class Weighted(NamedTuple):
    """The random variable of an observed variable's distribution, and the weight of each row, None if it is 1."""

    variable: Any
    weight: np.ndarray | None


def without_weights(model: Any, observed: Any) -> Weighted:
    """Return the distribution of an observed variable of a model, and its weights, which depend on no free variable.

    Any other variable is returned unchanged, without weights.
    """
    node = observed.owner
    if not isinstance(node.op, CustomSymbolicDistRV):
        return Weighted(observed, None)
    drawn = next((one for one in node.op.inner_outputs if _is_random(one)), None)
    density = pm.logp(observed, model.rvs_to_values[observed], warn_rvs=False)
    product = density.owner
    if drawn is None or product is None or not isinstance(product.op, Elemwise) or len(product.inputs) != 2:
        return Weighted(observed, None)
    law = drawn.owner
    own = dict(zip(node.op.inner_inputs, node.inputs, strict=True))
    parameters = rebuild(law.op.dist_params(law), own)
    variable = law.op.make_node(own.get(law.inputs[0], law.inputs[0]), None, *parameters).outputs[1]
    variable.name = observed.name
    expected = pm.logp(variable, model.rvs_to_values[observed], warn_rvs=False)
    moving = set(model.free_RVs)
    if isinstance(product.op.scalar_op, Mul):
        for weight, inner in (product.inputs, reversed(product.inputs)):
            if not moving & set(ancestors([weight])) and equal_computations([inner], [expected]):
                return Weighted(variable, np.asarray(evaluate(weight), dtype=np.float64))
    return Weighted(observed, None)


def _is_random(variable: Any) -> bool:
    node = variable.owner
    return node is not None and isinstance(node.op, RandomVariable) and variable is node.outputs[1]
