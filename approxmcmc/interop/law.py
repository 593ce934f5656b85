"""The law of an observed variable: the family of its rows, read from the graphs of its parameters, and known weights.

A family says in its own file how PyMC writes it (`families.family.Form`); its functions ask a `Graphs` for patterns of
the parameters: products of powers, and probabilities as functions of a predictor. Graphs that depend on no free
variable are data.

The log density of a weighted row is its weight times that of a distribution. Bambi writes ``weighted(y, w)`` as a
`pm.CustomDist` with a log density ``w * pm.logp(distribution, y)``. Its random draws are those of the distribution,
which shows what is weighted.
"""

import dataclasses
import functools
from collections.abc import Callable, Collection, Sequence
from typing import Any, NamedTuple

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from pymc.distributions.custom import CustomSymbolicDistRV
from pytensor.graph.basic import Constant, equal_computations
from pytensor.graph.traversal import ancestors
from pytensor.scalar.basic import (
    EQ,
    Abs,
    Add,
    Exp,
    Expm1,
    Identity,
    Log,
    Mul,
    Neg,
    Pow,
    Reciprocal,
    Second,
    Sign,
    Sqr,
    Sqrt,
    Sub,
    Switch,
    TrueDiv,
)
from pytensor.scalar.math import Erf, Erfc, Sigmoid
from pytensor.tensor.elemwise import Elemwise
from pytensor.tensor.random.op import RandomVariable
from pytensor.tensor.special import Softmax

from approxmcmc.families import FORMS
from approxmcmc.families.family import Family
from approxmcmc.families.weighted import without_size
from approxmcmc.interop.attempts import NotPossibleError
from approxmcmc.interop.graphs import rebuild
from approxmcmc.interop.variables import is_positive
from approxmcmc.interop.walk import AXES, MOVING, evaluate, name_of

EPSILON = 2.0 * np.finfo(np.float64).eps  # above the distance of a clip from 0 or 1
Power = tuple[Any, float]  # a graph and its power
# Their log densities are not concave in a location, so the posterior of an effect may have several modes.
SEVERAL_MODES = "Beta", "Cauchy", "Mixture", "StudentT"


@dataclasses.dataclass(frozen=True)
class Product:
    """A product of exponentials of graphs, known numbers and other graphs, each with a power.

    `exponents` pairs the graph g of each factor exp(g) with its power. `whole` is a graph of the same numbers that was
    read from the model, None for a result of arithmetic.
    """

    exponents: tuple[Power, ...] = ()
    known: tuple[Power, ...] = ()
    others: tuple[Power, ...] = ()
    whole: Any = None

    def __mul__(self, other: "Product") -> "Product":
        """Return the product; powers of equal graphs are added, and those that become 0 are left out."""
        return Product(
            _added(self.exponents, other.exponents),
            _added(self.known, other.known),
            _added(self.others, other.others),
        )

    def __truediv__(self, other: "Product") -> "Product":
        """Return the quotient."""
        return self * other**-1.0

    def __pow__(self, power: float) -> "Product":
        """Return the product with all powers multiplied by `power`."""
        return Product(*(tuple((one, power * p) for one, p in part) for part in self._parts))

    @property
    def _parts(self) -> tuple[tuple[Power, ...], ...]:
        return self.exponents, self.known, self.others

    @property
    def is_known(self) -> bool:
        """Whether the product depends on no free variable."""
        return not self.exponents and not self.others

    @property
    def summands(self) -> list[Any]:
        """Graphs that add up to the logarithm of the exponentials."""
        return [_times(power, one) for one, power in self.exponents]

    @property
    def factors(self) -> list[Any]:
        """Graphs of the known numbers, with their powers."""
        return [_to_the(one, power) for one, power in self.known]

    @functools.cached_property
    def graph(self) -> Any:
        """The graph of the product."""
        if self.whole is not None:
            return self.whole
        factors = [pt.exp(one) for one in self.summands]
        factors += [_to_the(one, power) for one, power in (*self.known, *self.others)]
        return functools.reduce(pt.mul, factors) if factors else pt.as_tensor(np.ones(()))

    @functools.cached_property
    def logarithm(self) -> Any:
        """The graph of the logarithm; None if a factor is neither an exponential nor positive data."""
        if self.others or not all((np.asarray(evaluate(one)) > 0.0).all() for one in self.factors):
            return None
        # PyTensor holds 0.5 in 32 bits
        summands = [*self.summands, *(pt.log(one.astype("float64")) for one in self.factors)]
        return functools.reduce(pt.add, summands) if summands else pt.as_tensor(np.zeros(()))


def _added(some: tuple[Power, ...], more: tuple[Power, ...]) -> tuple[Power, ...]:
    total = list(some)
    for graph, power in more:
        place = next((k for k, (one, _) in enumerate(total) if are_equal(one, graph)), None)
        if place is None:
            total.append((graph, power))
        else:
            total[place] = (total[place][0], total[place][1] + power)
    return tuple((graph, power) for graph, power in total if power != 0.0)


def _once(graphs: list[Any]) -> tuple[Power, ...]:
    return tuple((one, 1.0) for one in graphs)


def _times(factor: float, graph: Any) -> Any:
    if factor == 1.0:
        return graph
    return -graph if factor == -1.0 else factor * graph


def _to_the(graph: Any, power: float) -> Any:
    if power == 1.0:
        return graph
    graph = graph.astype("float64")  # PyTensor holds 3.0 in 32 bits, which 1 / 3 would keep
    return 1.0 / graph if power == -1.0 else graph**power


def are_equal(one: Any, other: Any) -> bool:
    """Return whether two graphs compute the same numbers, but for axes of length 1 around a single number."""
    if one is other:
        return True
    if one.type.broadcastable != other.type.broadcastable and not all((*one.broadcastable, *other.broadcastable)):
        return False
    return bool(equal_computations([bare(one)], [bare(other)]))


@dataclasses.dataclass(frozen=True)
class LawOfRows:
    """A family, and graphs: the predictor is the sum of `predictors` and the logarithms of the known `exposures`.

    `trials` are the sizes of rows, None if they are 1; `shape_product` is the shape of the family. The log
    density of a row is multiplied by `weight`, if it is given. `is_clipped` says whether the model clips probabilities
    (see `without_clip`), which this distribution does not. `logits` is the graph of the predictors of several classes,
    shape (n, K), of categorical rows, and `cutpoints` that of t of ordered rows, see `families.ordered`; then `family`
    is None. In a stack of rows of two families `code` says which a row
    follows, see `families.stack`.
    """

    family: Family | None
    predictors: list[Any] = dataclasses.field(default_factory=list)
    exposures: list[Any] = dataclasses.field(default_factory=list)
    trials: Any = None
    shape_product: Product | None = None
    weight: np.ndarray | None = None
    is_clipped: bool = False
    logits: Any = None
    cutpoints: Any = None
    second: Family | None = None
    code: np.ndarray | None = None

    @property
    def families(self) -> list[Family]:
        """The families of the rows: one, two, or of classes none."""
        return [one for one in (self.family, self.second) if one is not None]

    @property
    def predictor(self) -> Any:
        """The graph of the predictor; None if an exposure is not positive."""
        return Product(_once(self.predictors), _once(self.exposures)).logarithm

    @property
    def shape(self) -> Any:
        """The graph of the shape of the family, None if it has none."""
        return None if self.shape_product is None else self.shape_product.graph

    @property
    def graphs(self) -> list[Any]:
        """All graphs of the distribution."""
        return [*self.predictors, *self.exposures, *(one for one in (self.trials, self.shape) if one is not None)]


class Graphs:
    """Find links and products in the graphs of a model with the variables `free`; those in `positive` are above 0."""

    def __init__(self, free: Collection[Any], positive: Collection[Any] = ()) -> None:
        self.free = set(free)
        self.positive = set(positive)

    def holds(self, graph: Any) -> bool:
        """Return whether a graph depends on no free variable, so that it is data."""
        return not self.free & set(ancestors([graph]))

    one = Product()

    def number(self, graph: Any) -> float | None:
        """Return the one value that all entries of known data have, None for another graph."""
        if not self.holds(graph):
            return None
        values = np.unique(evaluate(graph))
        return float(values[0]) if values.size == 1 else None

    # --- what the functions of a `Form` return ---

    def of_predictor(self, family: Family, predictor: Any, shape: Product | None = None) -> LawOfRows:
        """Return rows with the graph of their predictor."""
        return LawOfRows(family, [predictor], shape_product=shape)

    def of_logarithm(self, family: Family, mean: Product, shape: Product | None = None) -> LawOfRows | None:
        """Return rows whose predictor is the logarithm of a product; None if it has factors without a logarithm."""
        if mean.others:
            return None
        return LawOfRows(family, mean.summands, mean.factors, shape_product=shape)

    def of_probability(
        self, family: Family, link: str, graph: Any, trials: Any = None, shape: Product | None = None
    ) -> LawOfRows | None:
        """Return rows whose predictor is the link "logit", "probit" or "cloglog" of a probability; None if it is not.

        Trials must be data.
        """
        probability = without_clip(graph)
        name, predictor = self.link(probability)
        if name != link or (trials is not None and not self.holds(trials)):
            return None
        is_clipped = probability is not graph
        return LawOfRows(family, [predictor], trials=trials, shape_product=shape, is_clipped=is_clipped)

    def of_classes(self, graph: Any) -> LawOfRows | None:
        """Return rows of classes whose probabilities are the softmax of their predictors; None if they are not."""
        node = graph.owner
        if node is None or not isinstance(node.op, Softmax) or node.op.axis not in ((graph.ndim - 1,), graph.ndim - 1):
            return None
        return LawOfRows(None, logits=node.inputs[0])

    def of_ordered(self, graph: Any) -> LawOfRows | None:
        """Return rows of ordered categories, whose probabilities are differences of sigmoid(cutpoints - eta).

        The cutpoints must be t_0 and the sums of it and of exp(t_1), exp(t_2) and so on, as PyMC's transform `ordered`
        makes them. None for another graph.
        """
        node = graph.owner
        if not is_a(node, Sub):
            return None
        stacks = [one.owner.inputs[0] for one in node.inputs if one.owner is not None and one.owner.inputs]
        joined = stacks[0].owner if len(stacks) == 2 and stacks[0] is stacks[1] else None
        if joined is None or type(joined.op).__name__ != "Join":
            return None
        below_cuts = [one.owner for one in joined.inputs if is_a(one.owner, Sigmoid)]
        difference: Any = below_cuts[0].inputs[0].owner if len(below_cuts) == 1 else None
        if not is_a(difference, Sub) or graph.ndim != 2:
            return None
        cuts, eta = difference.inputs
        t = _of_sums(bare(cuts))
        return None if t is None else LawOfRows(None, [eta[:, 0]], cutpoints=t)

    # --- products ---

    def product(self, graph: Any) -> Product:
        """Return a graph as a product of powers; it is the `whole` of the product unless variables cancelled in it."""
        found = self._product(graph)
        factors = [one for one, _ in (*found.exponents, *found.known, *found.others)]
        is_whole = self.free & set(ancestors([graph])) == self.free & set(ancestors(factors))
        return dataclasses.replace(found, whole=graph) if is_whole else found

    def _product(self, graph: Any) -> Product:
        if self.holds(graph):
            return Product(known=((graph, 1.0),))
        alone = Product(others=((graph, 1.0),))
        node, moved = below(graph)
        if is_a(node, Exp):
            return Product(exponents=((moved(node.inputs[0]), 1.0),))
        if is_a(node, Mul):
            return functools.reduce(Product.__mul__, (self._product(moved(one)) for one in node.inputs))
        if is_a(node, TrueDiv):
            above, divisor = (self._product(moved(one)) for one in node.inputs)
            return above / divisor
        if is_a(node, Reciprocal):
            return self._product(moved(node.inputs[0])) ** -1.0
        if is_a(node, Second):  # the second input, repeated
            return self._product(moved(node.inputs[1]))
        if is_a(node, Sqr):
            return self._product(moved(node.inputs[0])) ** 2.0
        if is_a(node, Sqrt):
            return self._root(self._product(moved(node.inputs[0])), 0.5) or alone
        if is_a(node, Pow):
            power = self.number(node.inputs[1])
            base = self._product(moved(node.inputs[0]))
            if power is None:
                return alone
            return (base**power if power == round(power) else self._root(base, power)) or alone
        if is_a(node, Sign):
            return Product() if self._is_positive(self._product(moved(node.inputs[0]))) else alone
        if is_a(node, Abs):
            inner = self._product(moved(node.inputs[0]))
            return inner if self._is_positive(inner) else alone
        return alone

    def _root(self, product: Product, power: float) -> Product | None:
        """Return a power that is no integer; None if the product has other powers: the root of x^2 is abs(x)."""
        return product**power if all(p == 1.0 for _, p in product.others) else None

    def _is_positive(self, product: Product) -> bool:
        """Return whether a product is known to be above 0: its other factors have roots, or are positive variables."""
        known = all((np.asarray(evaluate(one)) > 0.0).all() for one in product.factors)
        return known and all(p != round(p) or bare(one) in self.positive for one, p in product.others)

    def exponential(self, graph: Any) -> Product:
        """Return exp(graph) as a product, with a factor for each logarithm that the graph adds up."""
        node, moved = below(graph)
        if is_a(node, Log):
            return self._product(moved(node.inputs[0]))
        if is_a(node, Neg):
            return self.exponential(moved(node.inputs[0])) ** -1.0
        if is_a(node, Sub):
            return self.exponential(moved(node.inputs[0])) / self.exponential(moved(node.inputs[1]))
        return Product(exponents=((graph, 1.0),))

    def odds(self, probability: Any) -> Product | None:
        """Return p / (1 - p) of a probability p = sigmoid(x) or a / (a + b); None for another graph."""
        node, moved = below(probability)
        if is_a(node, Sigmoid):
            return self.exponential(moved(node.inputs[0]))
        if is_a(node, TrueDiv):
            above, total = (moved(one) for one in node.inputs)
            added, again = below(total)
            if is_a(added, Add) and len(added.inputs) == 2:
                first, second = (again(one) for one in added.inputs)
                for one, other in ((first, second), (second, first)):
                    if are_equal(one, above):
                        return self._product(above) / self._product(other)
        return None

    def shares(self, first: Any, second: Any) -> tuple[Product, Any] | None:
        """Return the total and the graph of m if two graphs are total m and total (1 - m); None if they are not.

        m is the inverse logit of a predictor.
        """
        whole = self._product(first)
        for share, power in whole.others:
            if power != 1.0 or self.link(without_clip(share))[0] != "logit":
                continue
            total = whole / Product(others=((share, 1.0),))
            rest = self._product(second) / total
            if rest.exponents or rest.known or len(rest.others) != 1 or rest.others[0][1] != 1.0:
                continue
            if self._are_complements(share, rest.others[0][0]):
                return total, share
        return None

    def _are_complements(self, one: Any, other: Any) -> bool:
        """Return whether two graphs of probabilities add up to 1, by their form."""
        for first, second in ((one, other), (other, one)):
            node, moved = below(second)
            if is_a(node, Sub) and self._is(node.inputs[0], 1.0) and are_equal(moved(node.inputs[1]), first):
                return True
            (kind, eta), (other_kind, minus) = (self.link(without_clip(p)) for p in (first, second))
            if kind == other_kind == "logit":
                negative, moved = below(minus)
                if is_a(negative, Neg) and are_equal(moved(negative.inputs[0]), eta):
                    return True
        return False

    # --- links of probabilities ---

    def link(self, graph: Any) -> tuple[str, Any]:
        """Return the link of a probability, "logit", "probit" or "cloglog", and the graph of its predictor.

        For another graph an empty name, and None.
        """
        node, moved = below(graph)
        if (hazard := self._hazard(graph)) is not None:
            return "cloglog", hazard
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
        if is_a(node, Sub) and self._is(node.inputs[0], 1.0):
            name, predictor = self.link(moved(node.inputs[1]))
            if name in ("logit", "probit"):  # symmetric: 1 - p has the predictor -eta
                return name, -predictor
        return "", None

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

    def _hazard(self, graph: Any) -> Any:
        """Return eta of the probability p = 1 - exp(-w), w = exp(eta), or of its logit w + log(1 - exp(-w))."""
        node, moved = below(graph)
        if is_a(node, Sigmoid):
            added, again = below(node.inputs[0])
            if is_a(added, Add) and len(added.inputs) == 2:
                for one, other in (added.inputs, reversed(added.inputs)):
                    log, once_more = below(other)
                    hazard = below(one)[0]
                    if not is_a(log, Log) or not is_a(hazard, Exp):
                        continue
                    eta = self._hazard(once_more(log.inputs[0]))
                    if eta is not None and are_equal(hazard.inputs[0], eta):
                        return moved(again(eta))
            return None
        if is_a(node, Sub) and self._is(node.inputs[0], 1.0):
            survival, again = below(node.inputs[1])
            inner = survival.inputs[0] if is_a(survival, Exp) else None
        elif is_a(node, Neg):
            minus_p, again = below(node.inputs[0])
            inner = minus_p.inputs[0] if is_a(minus_p, Expm1) else None
        else:
            return None
        if inner is None:
            return None
        minus_hazard, once_more = below(inner)
        if not is_a(minus_hazard, Neg):
            return None
        hazard, innermost = below(minus_hazard.inputs[0])
        if not is_a(hazard, Exp):
            return None
        return moved(again(once_more(innermost(hazard.inputs[0]))))

    def _is(self, graph: Any, number: float) -> bool:
        known = bare(graph)
        return isinstance(known, Constant) and bool(np.all(known.data == number))


def _of_sums(graph: Any) -> Any:
    """Return t if a graph is the cumulative sum of a vector that begins with t[0] and ends with exp(t[1:]); else None.

    The beginning is not checked here: terms are compared with the model's.
    """
    node = graph.owner
    if node is None or type(node.op).__name__ != "CumOp" or node.op.mode != "add":
        return None
    written = node.inputs[0].owner
    if written is None or not getattr(written.op, "set_instead_of_inc", False):
        return None
    steps = written.inputs[1].owner
    rest = steps.inputs[0].owner if is_a(steps, Exp) else None
    return rest.inputs[0] if rest is not None and type(rest.op).__name__ == "Subtensor" else None


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


def is_a(node: Any, operation: type) -> bool:
    """Return whether a node applies a scalar operation of this type elementwise."""
    return node is not None and isinstance(node.op, Elemwise) and isinstance(node.op.scalar_op, operation)


def bare(graph: Any) -> Any:
    """Return a graph without the axes of length 1, names and identities around it."""
    while graph.owner is not None and (
        is_a(graph.owner, Identity) or name_of(graph.owner) in AXES or name_of(graph.owner) == "ViewOp"
    ):
        graph = graph.owner.inputs[0]
    return graph


def below(graph: Any) -> tuple[Any, Callable[[Any], Any]]:
    """Return the node under operations that move entries, and a function that applies these to an input of the node.

    So ``exp(eta)[group]`` is read as ``exp(eta[group])``. The node is None if nothing computes the graph below.
    """
    moves = []
    while graph.owner is not None and (name_of(graph.owner) in MOVING or is_a(graph.owner, Identity)):
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
