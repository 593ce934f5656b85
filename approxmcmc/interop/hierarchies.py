r"""Group effects in the coordinates in which many rows per group leave little of the prior.

A hierarchy is mostly written with standard normal z and effects sigma z (non-centred; Papaspiliopoulos, Roberts and
Skoeld 2007). Many rows know sigma z_j almost exactly, and z_j = (sigma z_j) / sigma then bends with sigma: a ridge that
no linear scaling straightens. Samplers move a_j = sigma z_j instead, with

.. math:: \log p(a, \sigma) = \log p(z = a / \sigma, \sigma) - J \log|\sigma|,

J the length of z. It is the same posterior whatever else the model does with z and sigma; draws come back as z. Where
the groups hardly differ sigma may go to 0, and a with it, without a mode: there the model's own coordinates are kept.
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

from approxmcmc.interop.graphs import evaluate

ROWS_PER_GROUP = 100  # below, the prior may hold more of an effect than its rows do, and z is the better coordinate
AXES = ("DimShuffle", "ExpandDims")
VARIANCE_RATIO = 10.0  # below, groups hardly differ: sigma may be 0, and sigma * z has no mode there
DIFFERENCE = 1e-4
INDEXING = ("Subtensor", "AdvancedSubtensor", "AdvancedSubtensor1", *AXES)  # not all in every PyTensor


class Effects(NamedTuple):
    """A vector of standard normal variables of a model, the scale that multiplies it, and why samplers move what.

    `effect` and `scale` are random variables; `scale` is None where samplers move the vector itself.
    """

    effect: Any
    scale: Any
    reason: str


def group_effects(model: Any, n_rows: int, score: Callable[[], Callable[[np.ndarray], np.ndarray]]) -> list[Effects]:
    """Judge every standard normal vector of a model: one positive variable has to scale it, and many rows know it.

    ``score()`` compiles the gradient of the log-likelihood in the flat vector of the model; it is asked for where the
    graph does not decide.
    """
    users: dict[Any, list[Any]] = {}
    for variable in ancestors([*model.observed_RVs, *model.deterministics]):
        for read in set(variable.owner.inputs) if variable.owner is not None else ():
            users.setdefault(read, []).append(variable.owner)
    return [_judged(model, v, n_rows, users, score) for v in model.free_RVs if _is_standard_normal(v)]


def _judged(model: Any, effect: Any, n_rows: int, users: dict[Any, list[Any]], score: Callable[[], Any]) -> Effects:
    factors = set(_factors(effect, users))
    positive = [factor for factor in factors if isinstance(model.rvs_to_transforms.get(factor), LogTransform)]
    if len(factors) != 1 or not positive:
        found = "nothing" if not factors else ", ".join(factor.name or "an expression" for factor in factors)
        return Effects(
            effect, None, f"{effect.name} is moved as it is: one positive variable must scale it, not {found}"
        )
    rows, other = n_rows // _length(model, effect), f", not as {positive[0].name} * {effect.name}"
    if rows < ROWS_PER_GROUP:
        few = f"{rows} rows for each entry are under {ROWS_PER_GROUP}"
        return Effects(effect, None, f"{effect.name} is moved as it is{other}: {few}")
    ratio = variance_ratio(model, effect, score())
    told = f"its entries differ by {ratio:.3g} times the variance that rows leave them (limit {VARIANCE_RATIO:g})"
    if not ratio > VARIANCE_RATIO:
        return Effects(effect, None, f"{effect.name} is moved as it is{other}: {told}")
    return Effects(effect, positive[0], f"{effect.name} is moved as {positive[0].name} * {effect.name}: {told}")


def variance_ratio(model: Any, effect: Any, score: Callable[[np.ndarray], np.ndarray]) -> float:
    """Return F = var(e_j) mean(I_j), e_j = s_j / I_j one Newton step for each entry from the initial point.

    Score s and information I are those of the rows; I is a difference of scores, since no row knows two entries. For
    normal rows F is that of a one-way analysis of variance: about 1 where groups do not differ. NaN for one entry.
    """
    start, place = model.initial_point(), 0
    for value in (model.rvs_to_values[variable] for variable in model.free_RVs):
        entries = slice(place, place + np.size(start[value.name]))
        if value is model.rvs_to_values[effect]:
            break
        place = entries.stop
    here = np.concatenate([np.ravel(start[model.rvs_to_values[v].name]) for v in model.free_RVs]).astype(np.float64)
    there = here.copy()
    there[entries] += DIFFERENCE
    slope = score(here)[entries]
    information = (slope - score(there)[entries]) / DIFFERENCE
    if slope.size < 2 or not (information > 0.0).all():
        return math.nan
    return float(np.var(slope / information, ddof=1) * information.mean())


def _length(model: Any, variable: Any) -> int:
    return int(np.size(model.initial_point()[model.rvs_to_values[variable].name]))


def _is_standard_normal(variable: Any) -> bool:
    """Whether a free variable is a vector of independent N(0, 1)."""
    node = variable.owner
    if node is None or not isinstance(node.op, NormalRV) or variable.ndim == 0:
        return False
    loc, scale = node.op.dist_params(node)
    return _number(loc) == 0.0 and _number(scale) == 1.0


def _number(graph: Any) -> float | None:
    """Return the one number that a constant graph holds, else None."""
    if any(variable.owner is None and not isinstance(variable, Constant) for variable in ancestors([graph])):
        return None
    values = np.unique(evaluate(graph))
    return float(values[0]) if values.size == 1 else None


def _factors(variable: Any, users: dict[Any, list[Any]]) -> list[Any]:
    """List the scalars that multiply a variable, or what is picked out of it."""
    found: list[Any] = []
    for node in users.get(variable, []):
        if type(node.op).__name__ in INDEXING and node.inputs[0] is variable:
            found += _factors(node.outputs[0], users)
        elif isinstance(node.op, Elemwise) and isinstance(node.op.scalar_op, Mul):
            found += [_scalar(other) for other in node.inputs if other is not variable and all(other.broadcastable)]
    return found


def _scalar(graph: Any) -> Any:
    """Return a graph of one number as what it was before it was given axes."""
    while graph.owner is not None and type(graph.owner.op).__name__ in AXES:
        graph = graph.owner.inputs[0]
    return graph if graph.ndim == 0 else graph.flatten()[0]
