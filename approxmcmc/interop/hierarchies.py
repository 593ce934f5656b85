r"""Choose coordinates of group effects for groups with many rows, where the prior matters little.

A hierarchy is often written with standard normal z and effects sigma z (non-centred; Papaspiliopoulos, Roberts and
Skoeld 2007). Many rows determine sigma z_j almost exactly. Then z_j = (sigma z_j) / sigma depends strongly on sigma,
and the posterior is a curved ridge that no linear scaling straightens. Samplers move a_j = sigma z_j instead, with

.. math:: \log p(a, \sigma) = \log p(z = a / \sigma, \sigma) - J \log|\sigma|,

where J is the length of z. The posterior is the same, whatever else the model computes from z and sigma; draws are
returned as z. If the groups hardly differ, the density of (sigma, a) may have no mode, because it grows as both
approach 0: then the model's own coordinates are kept.
"""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from pymc.logprob.transforms import LogTransform
from pytensor.graph.basic import Constant
from pytensor.graph.traversal import ancestors
from pytensor.scalar.basic import Mul
from pytensor.tensor.elemwise import Elemwise
from pytensor.tensor.random.basic import NormalRV

from approxmcmc.interop.densities import initial_point
from approxmcmc.interop.walk import AXES, INDEXING, evaluate, name_of, without_axes

# With fewer rows the prior may determine an effect more than they do, and z is the better coordinate.
ROWS_PER_GROUP = 100
# Below this ratio groups hardly differ: sigma may be 0, and the density of (sigma, sigma * z) may have no mode.
VARIANCE_RATIO = 10.0
DIFFERENCE = 1e-4


class Effects(NamedTuple):
    """A vector of standard normal variables of a model, and whether samplers move it or `scale` times it, and why.

    `effect` and `scale` are random variables of the model; `scale` is None if samplers move the vector itself. `ratio`
    is the `variance_ratio` of a scaled vector, else 1.
    """

    effect: Any
    scale: Any
    reason: str
    ratio: float = 1.0


def group_effects(model: Any, n_rows: int, score: Callable[[], Callable[[np.ndarray], np.ndarray]]) -> list[Effects]:
    """Return the coordinate chosen for every standard normal vector that other variables of a model multiply.

    A vector is scaled if one positive variable multiplies it, there are many rows per entry, and its entries clearly
    differ. ``score()`` compiles the gradient of the log-likelihood in the flat vector of the model; it is called only
    if the first two hold.
    """
    users: dict[Any, list[Any]] = {}
    for variable in ancestors([*model.observed_RVs, *model.deterministics]):
        for read in set(variable.owner.inputs) if variable.owner is not None else ():
            users.setdefault(read, []).append(variable.owner)
    normals = [(v, set(_factors(v, users))) for v in model.free_RVs if _is_standard_normal(v)]
    return [_judged(model, v, factors, n_rows, score) for v, factors in normals if factors]


def _judged(model: Any, effect: Any, factors: set[Any], n_rows: int, score: Callable[[], Any]) -> Effects:
    unscaled = f"{effect.name} is sampled as the model writes it"
    positive = [factor for factor in factors if isinstance(model.rvs_to_transforms.get(factor), LogTransform)]
    if len(factors) != 1 or not positive:
        names = ", ".join(sorted(factor.name or "an expression" for factor in factors))
        return Effects(effect, None, f"{unscaled}: it is multiplied by {names}, which is not one positive variable")
    rows = n_rows // _length(model, effect)
    scaled = f"{positive[0].name} * {effect.name}"
    if rows < ROWS_PER_GROUP:
        few = f"there are {rows} rows for each entry, fewer than {ROWS_PER_GROUP}"
        return Effects(effect, None, f"{unscaled}, not as {scaled}: {few}")
    ratio = variance_ratio(model, effect, score())
    why = f"its entries vary by {ratio:.3g} times their variance given the rows (limit {VARIANCE_RATIO:g})"
    if not ratio > VARIANCE_RATIO:
        return Effects(effect, None, f"{unscaled}, not as {scaled}: {why}")
    return Effects(effect, positive[0], f"{effect.name} is sampled as {scaled}: {why}", ratio)


def variance_ratio(model: Any, effect: Any, score: Callable[[np.ndarray], np.ndarray]) -> float:
    """Return F = var(e_j) mean(I_j), with e_j = s_j / I_j one Newton step for each entry from the initial point.

    Score s and information I are those of the rows; I is a difference of scores, because no row depends on two entries.
    For normal rows F is that of a one-way analysis of variance: about 1 if groups do not differ. NaN for a single
    entry.
    """
    start = initial_point(model)
    start_of_entries = 0
    for value in (model.rvs_to_values[variable] for variable in model.free_RVs):
        entries = slice(start_of_entries, start_of_entries + np.size(start[value.name]))
        if value is model.rvs_to_values[effect]:
            break
        start_of_entries = entries.stop
    point = np.concatenate([np.ravel(start[model.rvs_to_values[v].name]) for v in model.free_RVs]).astype(np.float64)
    there = point.copy()
    there[entries] += DIFFERENCE
    slope = score(point)[entries]
    information = (slope - score(there)[entries]) / DIFFERENCE
    if slope.size < 2 or not (information > 0.0).all():
        return math.nan
    return float(np.var(slope / information, ddof=1) * information.mean())


def _length(model: Any, variable: Any) -> int:
    return int(np.size(initial_point(model)[model.rvs_to_values[variable].name]))


def _is_standard_normal(variable: Any) -> bool:
    """Return whether a free variable is a vector of independent N(0, 1)."""
    node = variable.owner
    if node is None or not isinstance(node.op, NormalRV) or variable.ndim == 0:
        return False
    loc, scale = node.op.dist_params(node)
    return _number(loc) == 0.0 and _number(scale) == 1.0


def _number(graph: Any) -> float | None:
    """Return the number in a constant scalar graph, else None."""
    if any(variable.owner is None and not isinstance(variable, Constant) for variable in ancestors([graph])):
        return None
    values = np.unique(evaluate(graph))
    return float(values[0]) if values.size == 1 else None


def _factors(variable: Any, users: dict[Any, list[Any]]) -> list[Any]:
    """List the scalars that multiply a variable, or entries picked from it."""
    factors: list[Any] = []
    for node in users.get(variable, []):
        if name_of(node) in INDEXING | AXES and node.inputs[0] is variable:
            factors += _factors(node.outputs[0], users)
        elif isinstance(node.op, Elemwise) and isinstance(node.op.scalar_op, Mul):
            factors += [_scalar(other) for other in node.inputs if other is not variable and all(other.broadcastable)]
    return factors


def _scalar(graph: Any) -> Any:
    """Return a scalar graph without the axes added to it."""
    graph = without_axes(graph)
    return graph if graph.ndim == 0 else graph.flatten()[0]
