"""Find the discrete variables of a PyMC model that can be summed out, and the rows that each of their entries reaches.

Examples are indicators of mixtures, outliers and structural zeros, classes of persons, and the state of a site that is
visited several times. Such a variable takes finitely many values, its entries are independent given the parameters, no
other free variable and no potential depends on it, and each row depends only on one entry, see `groups.labels`.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from pytensor.graph.traversal import ancestors
from pytensor.tensor.random.op import RandomVariable

from approxmcmc.interop.attempts import NotPossibleError
from approxmcmc.interop.groups.labels import FREE, MIXED, join, join_along, labels_of
from approxmcmc.interop.law import law_name
from approxmcmc.interop.values import ValuesOfGraph, shape_of
from approxmcmc.interop.variables import refuse_other_users
from approxmcmc.interop.walk import evaluate

MOST_STATES = 32  # terms of a sum: the graph of the likelihood is repeated for each


class Indicators(NamedTuple):
    """Discrete variables of the same shape and the values of each; `rows` maps observed variables to entries.

    An array of `rows` holds the entry that each row depends on, as its position in the flat variable; None if the
    leading axes of the observed variable are those of the indicators.
    """

    supports: Mapping[Any, np.ndarray]
    shape: tuple[int, ...]
    rows: Mapping[Any, np.ndarray | None]


def indicators(model: Any, variables: Sequence[Any]) -> Indicators:
    """Return the discrete `variables` of a model as indicators that can be summed out.

    Raises
    ------
    NotPossibleError
        With the reason why they cannot be summed out.
    """
    if len(variables) == len(model.free_RVs):
        raise NotPossibleError("the model has no other parameters")
    for variable in variables:
        refuse_other_users(model, variable)
    observed = [variable for variable in model.observed_RVs if set(variables) & set(ancestors([variable]))]
    for variable in observed:
        if not isinstance(variable.owner.op, RandomVariable):
            raise NotPossibleError(
                f"the rows of {variable.name} have the distribution {law_name(variable)}, which PyMC builds from "
                "several operations, so the parameters of each state cannot be put into it"
            )
    parents = {variable: variable.owner.op.dist_params(variable.owner) for variable in (*observed, *variables)}
    values = ValuesOfGraph(model, [parameter for parameters in parents.values() for parameter in parameters])
    supports = {variable: _support(variable, values) for variable in variables}
    if (states := np.prod([len(support) for support in supports.values()])) > MOST_STATES:
        raise NotPossibleError(f"it has {states} states, and at most {MOST_STATES} are summed out")
    shapes = {shape_of(model, variable) for variable in variables}
    if len(shapes) > 1:
        raise NotPossibleError(f"discrete variables of different shapes, {sorted(shapes)}, are not summed out together")
    [shape] = shapes
    if np.prod(shape, dtype=int) < 2:
        raise NotPossibleError("all rows depend on its single entry, so no row would have a term of its own")
    entries = np.arange(np.prod(shape, dtype=int)).reshape(shape)
    labels = labels_of(values, dict.fromkeys(variables, entries))
    return Indicators(
        supports, shape, {variable: _rows(model, variable, parents[variable], labels, entries) for variable in observed}
    )


def _support(variable: Any, values: ValuesOfGraph) -> np.ndarray:
    """Return the values that a discrete variable can take, in order."""
    law = law_name(variable)
    parameters = variable.owner.op.dist_params(variable.owner)
    numbers = [values.of[parameter] for parameter in parameters]
    if law == "Bernoulli":
        return np.arange(2)
    if law == "Categorical":
        return np.arange(numbers[0].shape[-1])
    if law == "DiscreteUniform" and values.fixed.issuperset(parameters):
        return np.arange(np.min(numbers[0]), np.max(numbers[1]) + 1, dtype=np.int64)
    if law in ("Binomial", "BetaBinomial") and parameters[0] in values.fixed:
        return np.arange(np.max(numbers[0]) + 1)
    raise NotPossibleError(f"its distribution, {law}, has no finite list of values")


def _rows(
    model: Any, observed: Any, parameters: Sequence[Any], labels: Mapping[Any, np.ndarray], entries: np.ndarray
) -> np.ndarray | None:
    """Return the entry that each row of an observed variable depends on; None if axes are shared."""
    operation = observed.owner.op
    shape = np.shape(evaluate(model.rvs_to_values[observed]))
    batch = shape[: len(shape) - operation.ndim_supp]
    columns = np.full(batch, FREE)
    for parameter, n_axes in zip(parameters, operation.ndims_params, strict=True):
        if parameter in labels:
            own = labels[parameter]
            for _ in range(n_axes):
                own = join_along(own, -1)
            columns = join(columns, np.broadcast_to(own, batch))
    if (columns == MIXED).any():
        raise NotPossibleError(f"a row of {observed.name} depends on several of its entries")
    if (columns == FREE).any():
        raise NotPossibleError(f"some rows of {observed.name} depend on none of its entries")
    same_axes = batch[: entries.ndim] == entries.shape
    if same_axes and (columns.reshape((*entries.shape, -1)) == entries[..., None]).all():
        return None
    rows = columns.reshape((len(columns), -1))
    if entries.ndim > 1 or (rows != rows[:, :1]).any():
        raise NotPossibleError(f"it has the shape {entries.shape}, and the rows of {observed.name} another")
    return rows[:, 0]
