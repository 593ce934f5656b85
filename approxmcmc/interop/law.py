"""The law of an observed variable: the family of its rows, found in the graph of their distribution, and known weights.

The log density of a weighted row is its weight times that of a distribution. Bambi writes ``weighted(y, w)`` as a
`pm.CustomDist` with a log density ``w * pm.logp(distribution, y)``. Its random draws are those of the distribution,
which shows what is weighted.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pymc as pm
from pymc.distributions.custom import CustomSymbolicDistRV
from pytensor.graph.basic import equal_computations
from pytensor.graph.traversal import ancestors
from pytensor.scalar.basic import Mul
from pytensor.tensor.elemwise import Elemwise
from pytensor.tensor.random.op import RandomVariable

from approxmcmc.families import FORMS
from approxmcmc.families.weighted import without_size
from approxmcmc.interop.attempts import NotPossibleError
from approxmcmc.interop.graphs import rebuild
from approxmcmc.interop.links import Graphs, LawOfRows
from approxmcmc.interop.variables import is_positive
from approxmcmc.interop.walk import evaluate

# Their log densities are not concave in a location, so the posterior of an effect may have several modes.
SEVERAL_MODES = "Beta", "Cauchy", "Mixture", "StudentT"


def law_of(operation: Any, parameters: Sequence[Any], graphs: Graphs) -> LawOfRows | str:
    """Return the family of a random variable with this operation and these graphs of its parameters.

    If no form of a family fits, return a sentence that says what the forms of the distribution need.
    """
    name = distribution_of(operation)
    forms = [form for form in FORMS if form.distribution == name]
    if not forms:
        known = ", ".join(dict.fromkeys(form.distribution for form in FORMS))
        return f"the distribution {name} is not supported: {known} are"
    for form in forms:
        rows: LawOfRows | None = form.read(graphs, *parameters)
        if rows is not None:
            return rows
    return f"{name} rows need {', or '.join(form.needs for form in forms)}"


def distribution_of(operation: Any) -> str:
    """Return the name of the distribution of a random variable with this operation."""
    return type(operation).__name__.removesuffix("RV")


def law_name(variable: Any) -> str:
    """Return the name of a variable's distribution, as in PyMC."""
    return type(variable.owner.op).__name__.removesuffix("RV").lstrip("_")


def law_of_rows(model: Any, observed: Any) -> LawOfRows:
    """Return the distribution of an observed variable of a model, or of one with its weights taken off.

    Raises
    ------
    NotPossibleError
        If this distribution or its link is not supported; the message says which.
    """
    operation = observed.owner.op
    name = distribution_of(operation)
    modes = f"{name} rows are not log-concave in the predictor, so the effects of a group may have several modes"
    graphs = Graphs(model.free_RVs, [one for one in model.free_RVs if is_positive(model, one)])
    law = law_of(operation, operation.dist_params(observed.owner), graphs)
    if isinstance(law, str):
        raise NotPossibleError(f"the rows of {observed.name}: {modes if name in SEVERAL_MODES else law}")
    if law.family is None:
        raise NotPossibleError(
            f"the rows of {observed.name}: {name} rows have several predictors, and effects are integrated out "
            "of rows with one"
        )
    if not law.family.is_concave:
        raise NotPossibleError(f"the rows of {observed.name}: {modes}")
    return law


class Weighted(NamedTuple):
    """The random variable of an observed variable's distribution, and the weight of each row, None if it is 1."""

    variable: Any
    weight: np.ndarray | None


class WeightedLaw(NamedTuple):
    """The distribution of the rows of a model: its operation, its parameters as graphs of theta, and known weights.

    `weights` has an entry for each row, shape (n,), or is None.
    """

    operation: Any
    parameters: list[Any]
    weights: np.ndarray | None


def law_of_observed(source: Any) -> WeightedLaw | None:
    """Return the distribution of the observed variable of a `ModelOfPyMC`; None if it has several, or no parameters.

    The parameters are those of PyMC's `dist_params`.
    """
    [variable, *others] = source.rows.variables
    if others:
        return None
    model = source.model
    found = without_weights(model, variable) if variable in model.rvs_to_values else Weighted(variable, None)
    node = found.variable.owner
    if not hasattr(node.op, "dist_params"):
        return None
    if found.weight is None:
        given = dict(zip(node.inputs, source.rows.parameters, strict=True))
        parameters = [given[one] for one in node.op.dist_params(node)]
        weights = None
    else:
        parameters = model.replace_rvs_by_values(node.op.dist_params(node))
        weights = np.array(np.broadcast_to(found.weight, (source.rows.n_rows,)))
    return WeightedLaw(node.op, source.over_flat(parameters), weights)


def without_weights(model: Any, observed: Any) -> Weighted:
    """Return the distribution of an observed variable of a model, and its weights, which depend on no free variable.

    Any other variable is returned unchanged, without weights.
    """
    node = observed.owner
    if not isinstance(node.op, CustomSymbolicDistRV):
        return Weighted(observed, None)
    inner = node.op.fgraph
    inner = inner.unfreeze() if hasattr(inner, "unfreeze") else inner  # PyMC cannot clone nodes of a frozen graph
    drawn = next((one for one in inner.outputs if _is_random(one)), None)
    density = pm.logp(observed, model.rvs_to_values[observed], warn_rvs=False)
    product = density.owner
    if drawn is None or product is None or not isinstance(product.op, Elemwise) or len(product.inputs) != 2:
        return Weighted(observed, None)
    law = drawn.owner
    own = dict(zip(inner.inputs, node.inputs, strict=True))
    parameters = rebuild(law.op.dist_params(law), own)
    variable = without_size(law, parameters)
    variable.name = observed.name
    expected = pm.logp(variable, model.rvs_to_values[observed], warn_rvs=False)
    moving = set(model.free_RVs)
    if isinstance(product.op.scalar_op, Mul):
        for weight, factor in (product.inputs, reversed(product.inputs)):
            if not moving & set(ancestors([weight])) and equal_computations([factor], [expected]):
                return Weighted(variable, np.asarray(evaluate(weight), dtype=np.float64))
    return Weighted(observed, None)


def _is_random(variable: Any) -> bool:
    node = variable.owner
    is_known = node is not None and (isinstance(node.op, RandomVariable) or hasattr(node.op, "rv_op"))
    return is_known and hasattr(node.op, "dist_params") and variable is node.default_output()
