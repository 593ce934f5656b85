"""Read all observed variables of a model as one stack of rows, so that a group may have rows of several distributions.

The graphs of their parameters are stacked in the same order, so predictors and effects are read from one graph. A code
of each row says which of two families it follows, see `families.stack`.
"""

import dataclasses
import functools
import math
import operator
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytensor.tensor as pt
from pytensor.tensor.random.basic import NormalRV

from approxmcmc.families import BINOMIAL, LOGIT, Family
from approxmcmc.interop.attempts import NotPossibleError, Reason, attempt
from approxmcmc.interop.graphs import evaluate
from approxmcmc.interop.groups.likelihoods import law_of_rows
from approxmcmc.interop.links import LawOfRows, Product
from approxmcmc.interop.rows import law_name
from approxmcmc.interop.weights import Weighted, without_weights

Shapes = Sequence[tuple[int, ...]]


class ObservedRows:
    """The rows of all observed variables: responses `y`, graphs of the parameters, and the distribution.

    `law` is None if all are normal (`parameters` are then mean and scale), and if a distribution is not supported:
    `refused` then says why; else it is "". `weight` holds the known weights of the rows, flat; None without any.
    """

    def __init__(self, model: Any, faults: list[str]) -> None:
        observed = model.observed_RVs
        self.name = " and ".join(one.name for one in observed)
        self.law: LawOfRows | None = None
        self.refused = ""
        self.values = {one.name: np.asarray(evaluate(model.rvs_to_values[one])) for one in observed}
        arrays = [np.asarray(value, dtype=np.float64) for value in self.values.values()]
        read = [without_weights(model, one) for one in observed]
        observed = [one.variable for one in read]
        for one, values in zip(observed, arrays, strict=True):
            if not hasattr(one.owner.op, "dist_params"):
                raise NotPossibleError(f"the parameters of the {law_name(one)} variable {one.name} cannot be read")
            if not np.isfinite(values).all():
                raise NotPossibleError(f"{one.name} has rows that are not finite")
        shapes = [values.shape for values in arrays]
        self.lengths = {values.size for values in arrays}
        self.y = arrays[0] if len(arrays) == 1 else np.concatenate([values.ravel() for values in arrays])
        self.weight = weights_of(read, shapes)
        if self.weight is not None and not (self.weight >= 0.0).all():
            raise NotPossibleError(f"the rows of {self.name} have weights that are negative or not a number")
        if all(isinstance(one.owner.op, NormalRV) for one in observed):
            parameters = [one.owner.op.dist_params(one.owner) for one in observed]
            self.parameters = [stacked(graphs, shapes) for graphs in zip(*parameters, strict=True)]
            return
        parameters = [of_rows(one) for one in observed]
        # The sum serves to find the effects: it depends on all variables that one of the parameters depends on.
        single = len(observed) == 1
        self.parameters = list(parameters[0]) if single else [stacked([sum(some) for some in parameters], shapes)]
        law = attempt(functools.partial(self._law, model, observed, shapes), faults)
        if isinstance(law, Reason):
            self.refused = law.sentence
        else:
            self.law = law

    def _law(self, model: Any, observed: Sequence[Any], shapes: Shapes) -> LawOfRows:
        """Return the distribution of the stacked rows of `observed`, which have these shapes."""
        laws = [law_of_rows(model, variable) for variable in observed]
        if len(laws) == 1:
            return dataclasses.replace(laws[0], weight=self.weight)
        if self.weight is not None:
            raise NotPossibleError(f"weights of rows of several observed variables ({self.name}) are not supported")
        return joint_law(laws, shapes)


def weights_of(read: Sequence[Weighted], shapes: Shapes) -> np.ndarray | None:
    """Return the weights of the stacked rows of several variables, flat; None if no variable has weights."""
    if all(one.weight is None for one in read):
        return None
    known = [1.0 if one.weight is None else one.weight for one in read]
    return np.concatenate([np.broadcast_to(one, shape).ravel() for one, shape in zip(known, shapes, strict=True)])


def of_rows(observed: Any) -> list[Any]:
    """Return graphs, one for each parameter of an observed variable, that broadcast to its shape.

    A parameter that is a vector or a matrix for each row, such as the probabilities of categories, is summed: the graph
    serves to find the variables that a row depends on.
    """
    operation = observed.owner.op
    graphs = []
    for parameter, n_axes in zip(operation.dist_params(observed.owner), operation.ndims_params, strict=True):
        axes = min(n_axes, parameter.ndim)  # AR has a number, its order, where its signature has a vector
        summed = parameter.sum(axis=tuple(range(-axes, 0))) if axes else parameter
        graphs.append(pt.shape_padright(summed, operation.ndim_supp) if operation.ndim_supp else summed)
    return graphs


def stacked(graphs: Sequence[Any], shapes: Shapes) -> Any:
    """Return one graph of the entries of several arrays, flat and in order; a single graph is returned unchanged."""
    if len(graphs) == 1:
        return graphs[0]
    return pt.concatenate([(graph + pt.zeros(shape)).ravel() for graph, shape in zip(graphs, shapes, strict=True)])


def joint_law(laws: Sequence[LawOfRows], shapes: Shapes) -> LawOfRows:
    """Return the distribution of stacked rows of at most two families, at most one of them with a shape."""
    of_laws: list[Family] = [law.family for law in laws if law.family is not None]
    if BINOMIAL in of_laws:  # Bernoulli rows are binomial rows of one trial
        of_laws = [BINOMIAL if family is LOGIT else family for family in of_laws]
    families = list(dict.fromkeys(of_laws))
    shape = [(law.shape, rows) for law, rows in zip(laws, shapes, strict=True) if law.shape is not None]
    if len(families) > 2 or sum(family.has_shape for family in families) > 1:
        raise NotPossibleError(
            f"observed variables with the distributions {', '.join(family.name for family in families)} are not "
            "supported together: two are, of which one may have a shape or a noise"
        )
    sizes = [pt.ones(()) if law.trials is None else law.trials for law in laws]
    codes = [np.full(math.prod(rows), float(families.index(one))) for one, rows in zip(of_laws, shapes, strict=True)]
    return LawOfRows(
        families[0],
        [stacked([sum(law.predictors) for law in laws], shapes)],
        [stacked([functools.reduce(operator.mul, law.exposures, pt.ones(())) for law in laws], shapes)],
        trials=stacked(sizes, shapes),
        is_clipped=any(law.is_clipped for law in laws),
        shape_product=Product(whole=stacked(*zip(*shape, strict=True))) if shape else None,
        second=families[1] if len(families) == 2 else None,
        code=np.concatenate(codes) if len(families) == 2 else None,
    )
