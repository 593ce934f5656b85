"""Read the distribution of rows with one linear predictor from a PyMC graph: family, predictor, and known numbers."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import pytensor.tensor as pt
from pytensor.graph.basic import Constant
from pytensor.graph.traversal import ancestors
from pytensor.scalar.basic import EQ, Add, Exp, Identity, Log, Mul, Reciprocal, Sub, Switch, TrueDiv
from pytensor.scalar.math import Erf, Erfc, Sigmoid
from pytensor.tensor.elemwise import Elemwise

from approxmcmc.interop.groups.labels import MOVING
from approxmcmc.interop.groups.values import NotGroupsError

EPSILON = 2.0 * np.finfo(np.float64).eps  # above the distance of a clip from 0 or 1
# Their log densities are not concave in a location, so the posterior of an effect may have several modes.
SEVERAL_MODES = "StudentT", "Cauchy", "Mixture"


class LawOfRows(NamedTuple):
    """A family, and graphs: the predictor is the sum of `predictors` and the logarithms of the positive `exposures`.

    `trials` belong to a binomial distribution; `shape` is the alpha of a negative binomial or sigma of a normal one.
    The log density of a row is multiplied by `weight`, if it is given. `code` says which of two families, "poisson and
    normal", a row follows, see `families.stack`. `is_clipped` says whether the model clips
    probabilities (see `without_clip`), which this distribution does not.
    """

    family: str
    predictors: list[Any]
    exposures: list[Any]
    trials: Any = None
    shape: Any = None
    weight: np.ndarray | None = None
    code: np.ndarray | None = None
    is_clipped: bool = False

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
    try:
        return _law_of_rows(observed, Known(set(free)))
    except NotGroupsError as error:
        raise NotGroupsError(f"the rows of {observed.name}: {error}") from error


def _law_of_rows(observed: Any, known: "Known") -> LawOfRows:
    parameters = observed.owner.op.dist_params(observed.owner)
    law = type(observed.owner.op).__name__.removesuffix("RV")
    if law == "Poisson":
        return LawOfRows("poisson", *known.logarithm(parameters[0]))
    if law == "Bernoulli":
        p = without_clip(parameters[0])
        family, predictor = known.probability(p)
        return LawOfRows(family, [predictor], [], is_clipped=p is not parameters[0])
    if law == "Binomial":
        p = without_clip(parameters[1])
        family, predictor = known.probability(p)
        if family != "logit" or not known.holds(parameters[0]):
            raise NotGroupsError("Binomial rows need known trials and p = sigmoid(a linear predictor)")
        return LawOfRows("binomial", [predictor], [], trials=parameters[0], is_clipped=p is not parameters[1])
    if law == "NegBinomial":
        alpha, p = parameters
        mean = _mean_of_negative_binomial(p)
        if mean is None:
            raise NotGroupsError("NegativeBinomial rows need the parameters mu = exp(a linear predictor) and alpha")
        return LawOfRows("negative binomial", *known.logarithm(mean), shape=alpha)
    if law == "Normal":
        return LawOfRows("normal", [parameters[0]], [], shape=parameters[1])
    modes = "; the effects of a group may have several modes" if law in SEVERAL_MODES else ""
    raise NotGroupsError(
        f"the distribution {law} is not supported: Normal, Bernoulli, Binomial, Poisson and NegativeBinomial are{modes}"
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
            divisor = node.inputs[1].astype("float64")  # PyTensor holds 3.0 in 32 bits, which 1 / 3 would keep
            return graphs, [*data, moved(1.0 / divisor)]
        raise NotGroupsError("their mean is not the exponential of a linear predictor, times known numbers")

    def probability(self, graph: Any) -> tuple[str, Any]:
        """Return the link of the probability in a graph, "logit" or "probit", and the graph of its predictor."""
        node, moved = below(graph)
        if is_a(node, Sigmoid):
            return "logit", moved(node.inputs[0])
        if (odds := _negative_exponent(node)) is not None:
            return "logit", moved(odds)
        if is_a(node, Add) and len(node.inputs) == 2:  # 1 / 2 + erf(eta / sqrt(2)) / 2
            for half, other in (node.inputs, reversed(node.inputs)):
                inner, again = below(other)
                if self._is(half, 0.5) and is_a(inner, Mul) and len(inner.inputs) == 2:
                    for factor, function in (inner.inputs, reversed(inner.inputs)):
                        erf, once_more = below(function)
                        if self._is(factor, 0.5) and is_a(erf, Erf):
                            return "probit", moved(again(once_more(erf.inputs[0] * np.sqrt(2.0))))
        if is_a(node, Mul) and len(node.inputs) == 2:  # erfc(-eta / sqrt(2)) / 2, or (1 + erf(eta / sqrt(2))) / 2
            for half, other in (node.inputs, reversed(node.inputs)):
                if self._is(half, 0.5) and (predictor := self._probit(other)) is not None:
                    return "probit", moved(predictor)
        raise NotGroupsError("their probability is not the inverse logit or probit of a linear predictor")

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


def without_clip(graph: Any) -> Any:
    """Return the probability p in switch(p = 0, epsilon, p) or switch(p = 1, 1 - epsilon, p); else the same graph.

    Bambi writes this around each probability; epsilon = 2.2e-16 is the distance of the floats above 1. With a logit it
    acts where p rounds to 1, at predictors above 36.7, or to 0, below -745. There the likelihood of a row that happened
    although it was so improbable is below epsilon, and becomes epsilon. Without the clip such states have the
    probability of the link, so a posterior changes by less than the probability that it gives to them. Under the
    switches PyTensor computes log(1 - p) from a rounded p, with an error of 1e-16 exp(eta); without them it is exact.
    """
    node, moved = below(graph)
    if not is_a(node, Switch):
        return graph
    condition, limit, inner = node.inputs
    equal = bare(condition).owner
    if not is_a(equal, EQ):
        return graph
    p, end = equal.inputs
    edge = _number(end)
    value = _number(limit)
    is_edge = edge in (0.0, 1.0) and value is not None and 0.0 < abs(value - edge) <= EPSILON
    if not is_edge or bare(p) is not bare(inner):
        return graph
    return without_clip(moved(inner))


def _number(graph: Any) -> float | None:
    """Return the value of a constant scalar, None for other graphs."""
    constant = bare(graph)
    return float(constant.data) if isinstance(constant, Constant) and np.ndim(constant.data) == 0 else None


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
