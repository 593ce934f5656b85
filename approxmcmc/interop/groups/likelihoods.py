"""Read the distribution of rows with one linear predictor from a PyMC graph: family, predictor, and known numbers."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import pytensor.tensor as pt
from pytensor.graph.basic import Constant
from pytensor.graph.traversal import ancestors
from pytensor.scalar.basic import Add, Exp, Identity, Log, Mul, Reciprocal, Sub, TrueDiv
from pytensor.scalar.math import Erf, Erfc, Sigmoid
from pytensor.tensor.elemwise import Elemwise

from approxmcmc.interop.groups.labels import MOVING
from approxmcmc.interop.groups.values import NotGroupsError


class LawOfRows(NamedTuple):
    """A family, and graphs: the predictor is the sum of `predictors` and the logarithms of the positive `exposures`.

    `trials` belong to a binomial distribution; `shape` is the alpha of a negative binomial or sigma of a normal one.
    """

    family: str
    predictors: list[Any]
    exposures: list[Any]
    trials: Any = None
    shape: Any = None

    @property
    def graphs(self) -> list[Any]:
        """All graphs of the distribution."""
        return [*self.predictors, *self.exposures, *(one for one in (self.trials, self.shape) if one is not None)]


def law_of_rows(observed: Any, free: Sequence[Any]) -> LawOfRows:
    """Return the distribution of an observed variable of a model with these free variables.

    Raises
    ------
    NotGroupsError
        If this distribution or its link is not supported; the message says which.
    """
    known = Known(set(free))
    parameters = observed.owner.op.dist_params(observed.owner)
    law = type(observed.owner.op).__name__.removesuffix("RV")
    if law == "Poisson":
        return LawOfRows("poisson", *known.logarithm(parameters[0]))
    if law == "Bernoulli":
        family, predictor = known.probability(parameters[0])
        return LawOfRows(family, [predictor], [])
    if law == "Binomial":
        family, predictor = known.probability(parameters[1])
        if family != "logit" or not known.holds(parameters[0]):
            raise NotGroupsError("a binomial distribution needs known trials and p = sigmoid(a linear predictor)")
        return LawOfRows("binomial", [predictor], [], trials=parameters[0])
    if law == "NegBinomial":
        alpha, p = parameters
        mean = _mean_of_negative_binomial(p)
        if mean is None:
            raise NotGroupsError("a negative binomial distribution needs mu = exp(a linear predictor) and alpha")
        return LawOfRows("negative binomial", *known.logarithm(mean), shape=alpha)
    if law == "Normal":
        return LawOfRows("normal", [parameters[0]], [], shape=parameters[1])
    raise NotGroupsError(
        f"rows with the distribution {law} are not supported: Normal, Bernoulli, Binomial, Poisson and "
        "NegativeBinomial are. They are log-concave in a linear predictor, so the effects of a group have one mode; "
        "with Student-t rows they may have several"
    )


class Known:
    """Find the link of a parameter in its graph; graphs that depend on no free variable are data."""

    def __init__(self, free: set[Any]) -> None:
        self.free = free

    def holds(self, graph: Any) -> bool:
        """Return whether a graph depends on no free variable, so that it is data."""
        return not self.free & set(ancestors([graph]))

    def logarithm(self, graph: Any) -> tuple[list[Any], list[Any]]:
        """Return graphs and positive data: the log of a mean is the sum of the graphs and of the logs of the data."""
        if self.holds(graph):
            return [], [graph]
        node, moved = below(graph)
        if is_a(node, Exp):
            return [moved(node.inputs[0])], []
        if is_a(node, Mul):
            parts = [self.logarithm(moved(one)) for one in node.inputs]
            return [one for graphs, _ in parts for one in graphs], [one for _, data in parts for one in data]
        if is_a(node, TrueDiv) and self.holds(node.inputs[1]):
            graphs, data = self.logarithm(moved(node.inputs[0]))
            return graphs, [*data, moved(1.0 / node.inputs[1])]
        raise NotGroupsError("the mean of a row is not the exponential of a linear predictor")

    def probability(self, graph: Any) -> tuple[str, Any]:
        """Return the link of the probability in a graph, "logit" or "probit", and the graph of its predictor."""
        node, moved = below(graph)
        if is_a(node, Sigmoid):
            return "logit", moved(node.inputs[0])
        if (odds := _negative_exponent(node)) is not None:
            return "logit", moved(odds)
        if is_a(node, Mul) and len(node.inputs) == 2:  # erfc(-eta / sqrt(2)) / 2, or (1 + erf(eta / sqrt(2))) / 2
            for half, other in (node.inputs, reversed(node.inputs)):
                if self._is(half, 0.5) and (predictor := self._probit(other)) is not None:
                    return "probit", moved(predictor)
        raise NotGroupsError("the probability of a row is not linked to a linear predictor by logit or probit")

    def _probit(self, graph: Any) -> Any:
        node, moved = below(graph)
        if is_a(node, Erfc):
            return moved(-node.inputs[0] * np.sqrt(2.0))
        if is_a(node, Add) and len(node.inputs) == 2:
            for one, other in (node.inputs, reversed(node.inputs)):
                inner, again = below(other)
                if self._is(one, 1.0) and is_a(inner, Erf):
                    return moved(again(inner.inputs[0] * np.sqrt(2.0)))
        return None

    def _is(self, graph: Any, number: float) -> bool:
        known = bare(graph)
        return isinstance(known, Constant) and bool(np.all(known.data == number))


def _negative_exponent(node: Any) -> Any:
    """Return the graph of eta if the node is 1 / (1 + exp(-eta)), else None."""
    if is_a(node, TrueDiv):
        top, bottom = node.inputs
        if not (isinstance(bare(top), Constant) and np.all(bare(top).data == 1.0)):
            return None
    elif is_a(node, Reciprocal):
        [bottom] = node.inputs
    else:
        return None
    inner = bare(bottom).owner
    if is_a(inner, Add) and len(inner.inputs) == 2:
        for one, other in (inner.inputs, reversed(inner.inputs)):
            exponential = bare(other).owner
            if isinstance(bare(one), Constant) and np.all(bare(one).data == 1.0) and is_a(exponential, Exp):
                return -exponential.inputs[0]
    return None


def _mean_of_negative_binomial(p: Any) -> Any:
    """Return the graph of mu if p = alpha / (mu + alpha), in PyMC's form sigmoid(log(alpha) - log(mu)); else None."""
    node, moved = below(p)
    if is_a(node, Sigmoid):
        difference, again = below(node.inputs[0])
        if is_a(difference, Sub):
            log_mean, once_more = below(difference.inputs[1])
            if is_a(log_mean, Log):
                return moved(again(once_more(log_mean.inputs[0])))
    return None


def is_a(node: Any, operation: type) -> bool:
    """Return whether a node applies a scalar operation of this type elementwise."""
    return node is not None and isinstance(node.op, Elemwise) and isinstance(node.op.scalar_op, operation)


def bare(graph: Any) -> Any:
    """Return a graph without the axes of length 1, names and identities around it."""
    while graph.owner is not None and (
        is_a(graph.owner, Identity) or type(graph.owner.op).__name__ in ("DimShuffle", "ExpandDims", "ViewOp")
    ):
        graph = graph.owner.inputs[0]
    return graph


def below(graph: Any) -> tuple[Any, Callable[[Any], Any]]:
    """Return the node under operations that move entries, and a function that applies these to an input of the node.

    So ``exp(eta)[group]`` is read as ``exp(eta[group])``. The node is None if nothing computes the graph below.
    """
    moves = []
    while graph.owner is not None and (type(graph.owner.op).__name__ in MOVING or is_a(graph.owner, Identity)):
        if not is_a(graph.owner, Identity):
            moves.append(graph.owner)
        graph = graph.owner.inputs[0]
    shape = graph

    def moved(one: Any) -> Any:
        if not moves:
            return one
        if one.type.broadcastable != shape.type.broadcastable:
            one = pt.broadcast_to(one, shape.shape)
        for node in reversed(moves):
            one = node.op.make_node(one, *node.inputs[1:]).outputs[0]
        return one

    return graph.owner, moved
