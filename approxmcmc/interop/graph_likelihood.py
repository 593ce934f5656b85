"""The terms of a PyMC model as functions of its linear predictors, compiled by PyTensor.

In the graph, theta is replaced by predictors (`predictors`). Parts that depend only on data, such as log y!, are
computed once. A predictor that all rows share is one number in the graph of the terms, so a scale is exponentiated once
for a batch; derivatives come from the graph.
"""

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pytensor.tensor as pt
from pytensor.graph.traversal import ancestors, toposort
from pytensor.tensor.basic import Alloc
from pytensor.tensor.elemwise import DimShuffle, Elemwise

from approxmcmc.contracts import TermWork
from approxmcmc.engine.compiler.compile import allocating, closure, kept
from approxmcmc.engine.terms.batches import row_reader
from approxmcmc.interop.attempts import NotPossibleError
from approxmcmc.interop.graphs import merge_branches, rebuild, simplify, simplify_together, work_of_a_row
from approxmcmc.interop.kernels import numba_function
from approxmcmc.interop.model_hash import content_of
from approxmcmc.interop.predictors import Predictors, Quantity
from approxmcmc.interop.walk import dependents, in_python, interpret
from approxmcmc.targets.predictors.likelihood import RowLikelihood

FEW = 4  # rows of an example call


class GraphLikelihood(RowLikelihood):
    """The terms of a model as a graph of its predictors, and the columns of data that it reads.

    Parameters
    ----------
    found
        The predictors of the model.
    inputs, data
        The inputs of the graph `found.terms` that hold rows of data, and their arrays.
    identity
        A hash of the model.
    """

    def __init__(self, found: Predictors, inputs: Sequence[Any], data: Sequence[np.ndarray], identity: str) -> None:
        self._identity = identity
        self.quantities = [(one, one.variable.type(f"eta_{k}")) for k, one in enumerate(found.quantities)]
        self.n_predictors = found.design.n_predictors
        if any(one.row_axis is None and one.size > 1 for one in found.quantities):
            raise NotPossibleError(
                "its rows share a vector of parameters, such as cut points, mixture weights, or effects times their "
                "scale, in addition to their linear predictors"
            )
        cut = {one.variable: given for one, given in self.quantities}
        # Only shapes of theta are left: everything else that depends on it was cut.
        [terms] = rebuild([found.terms], {found.theta: pt.zeros(found.design.dim), **cut})
        known = {given for _, given in self.quantities}
        terms = merge_branches(simplify(terms))
        terms, self._inputs, self.columns = _with_columns(terms, known, inputs, data)
        self._graph = terms
        scalars = {given: pt.vector(f"{given.name}_of_rows") for one, given in self.quantities if given.ndim == 0}
        of_rows = over_rows(terms, scalars)
        self._scalars = {} if of_rows is None else scalars
        self._graph_of_rows = terms if of_rows is None else of_rows
        self._kernels: dict[str, Any] = {}

    def work(self) -> TermWork:
        """Return the work of a row, counted from its graph."""
        found = work_of_a_row(self._graph, len(self.columns[0]))
        return found._replace(code="predictor") if found.code == "graph" and self.n_predictors <= 2 else found

    def compile(self, name: str, responses: tuple[np.ndarray, ...]) -> Any:
        """Compile the batch function "terms", "slopes" or "expansion", once; it is also kept on disk, by `content`."""
        if name not in self._kernels:
            signature = self.signature(name, responses)
            content = self.content(name)
            self._kernels[name] = kept(getattr(self, name), signature, name="loop", content=content)
        return self._kernels[name]

    def evaluate(self, eta: np.ndarray, responses: tuple[np.ndarray, ...], rows: np.ndarray) -> np.ndarray:
        """Return the terms of the rows with indices `rows`, given their predictors `eta` (K, rows); not compiled."""
        return np.broadcast_to(self._by_python(*eta, *(column[rows] for column in responses)), len(rows))

    @functools.cached_property
    def _by_python(self) -> Any:
        etas, [terms] = self._of_predictors([self._graph])
        return in_python([*etas, *self._inputs], terms)

    def content(self, name: str) -> str | None:
        """Return a hash of the batch function `name`, from its graph; None if that cannot be read."""
        given = [one for _, one in self.quantities]
        graphs = [self._graph, self._graph_of_rows]
        return content_of(self._identity, name, [*given, *self._scalars.values(), *self._inputs], graphs)

    def identity(self) -> str:
        """Return the hash of the model."""
        return self._identity

    def terms(self) -> Callable[..., None]:
        """Return the batch function of the terms, around a graph compiled by PyTensor."""
        return self._loop([self._graph], "out[:n]")

    def slopes(self) -> Callable[..., None]:
        """Return the batch function of the slopes, around graphs compiled by PyTensor."""
        return self._loop(self._slopes(), "out[{}, :n]")

    def expansion(self) -> Callable[..., None]:
        """Return the batch function of value, slopes and second derivatives, around graphs compiled by PyTensor."""
        return self._loop(self._expansion(), "out[:n, {}]")

    def _slopes(self) -> list[Any]:
        return _simplified([self._derivative(self._graph_of_rows, k) for k in range(self.n_predictors)])

    def _expansion(self) -> list[Any]:
        slopes = self._slopes()
        bends = [self._derivative(slope, j) for k, slope in enumerate(slopes) for j in range(k, self.n_predictors)]
        return [self._graph_of_rows, *slopes, *_simplified(bends)]

    def _derivative(self, graph: Any, k: int) -> Any:
        """Return the graph of the derivative of each row of `graph` in the row's predictor k.

        It has one entry for each row.
        """
        for one, given in self.quantities:
            if k < one.size:
                if one.row_axis is None and given not in self._scalars:
                    return _forward(graph, one, given, k)
                return _backward(graph, one, self._scalars.get(given, given), k)
            k -= one.size
        raise AssertionError

    def _loop(self, graphs: list[Any], place: str) -> Callable[..., None]:
        """Return the batch function that evaluates `graphs`, and writes the results to their places in `out`."""
        single = [graph.type.shape == (1,) for graph in graphs]
        lines = [f"{place.format(k)} = found[{k}]{'[0]' if one else ''}" for k, one in enumerate(single)]
        etas, outputs = self._of_predictors(graphs)
        example = [*([np.full(FEW, 0.1)] * len(etas)), *(column[:FEW].copy() for column in self.columns)]
        inputs = [*etas, *self._inputs]
        function = numba_function(inputs, outputs, example)
        return closure(_caller(len(etas), tuple(lines), len(self.columns)), function)

    def _of_predictors(self, graphs: list[Any]) -> tuple[list[Any], list[Any]]:
        """Return K vectors of predictors, and `graphs` as graphs of these vectors."""
        etas = [pt.vector(f"eta_{k}") for k in range(self.n_predictors)]
        return etas, rebuild(graphs, self._assembled(etas))

    def _assembled(self, etas: list[Any]) -> dict[Any, Any]:
        """Return the replacement of each quantity: the vectors `etas` of its predictors, joined to its shape."""
        pieces = {}
        place = 0
        for one, given in self.quantities:
            own = etas[place : place + one.size]
            place += one.size
            if one.row_axis is None:
                whole = pt.stack([eta[0] for eta in own]) if given.ndim else own[0][0]
                shape = [1 if single else -1 for single in given.broadcastable]
                shape = shape if shape.count(-1) <= 1 else [int(n) for n in given.type.shape]
                pieces[given] = whole.reshape(shape) if given.ndim else whole
            else:
                moved = pt.stack(own, axis=1)
                if given.ndim == 1:
                    pieces[given] = own[0]
                elif given.ndim == 2:
                    pieces[given] = pt.moveaxis(moved, 0, one.row_axis)
                else:
                    raise NotPossibleError("its predictors have more than two axes")
        wholes = {old: _typed(new, old) for old, new in pieces.items()}
        places = np.cumsum([0, *(one.size for one, _ in self.quantities)])
        scalars = {given: etas[place] for (_, given), place in zip(self.quantities, places, strict=False)}
        return {**wholes, **{vector: scalars[given] for given, vector in self._scalars.items()}}


def _typed(graph: Any, like: Any) -> Any:
    """Return `graph` with the static shape of the graph `like`."""
    return graph if like.type.is_super(graph.type) else pt.specify_shape(graph, like.type.shape)


def over_rows(graph: Any, scalars: Mapping[Any, Any]) -> Any:
    """Return a graph with the vectors over rows `scalars[one]` in place of each scalar `one`; None if that fails.

    One backward sweep through the new graph gives a derivative for each row; forward derivatives would be graphs
    several times as large. It fails if an operation on a scalar is neither elementwise nor a change of axes.
    """
    replaced: dict[Any, Any] = {}
    others = []

    def rule(node: Any, inputs: list[Any]) -> list[Any] | None:
        if all(vector is None for vector in inputs):
            return None
        [output] = node.outputs
        if isinstance(node.op, Elemwise) and output.ndim == 0:
            pairs = zip(inputs, node.inputs, strict=True)
            return [node.op(*(own if vector is None else vector for vector, own in pairs))]
        if isinstance(node.op, DimShuffle):
            replaced[output] = inputs[0].dimshuffle(0, *["x"] * (output.ndim - 1))
        else:
            others.append(node)
        return None

    interpret(toposort([graph]), scalars, rule)
    return None if others else rebuild([graph], replaced)[0]


def _backward(graph: Any, one: Quantity, given: Any, place: int) -> Any:
    """Return the derivatives of `graph` in column `place` of a quantity with rows.

    Row i of `graph` must depend on no other row of the quantity than row i.
    """
    slope: Any = pt.grad(graph.sum(), given, disconnected_inputs="ignore")
    return slope if given.ndim == 1 else pt.moveaxis(slope, one.row_axis or 0, 0).flatten(2)[:, place]


def _simplified(derivatives: Sequence[Any]) -> list[Any]:
    """Simplify derivatives; one with the same number in all rows becomes a vector of length 1."""
    return [_without_copies(one) for one in simplify_together(derivatives)]


def _without_copies(graph: Any) -> Any:
    """Return the graph of a vector; if it holds copies of one number, as a vector of length 1.

    PyTensor takes two seconds to compile an array of copies, for the messages about its shape.
    """
    filled = graph.owner is not None and isinstance(graph.owner.op, Alloc)
    value = graph.owner.inputs[0] if filled else graph
    return pt.atleast_1d(value) if all(value.broadcastable) else graph


def _forward(graph: Any, one: Quantity, given: Any, place: int) -> Any:
    """Return the derivatives of all rows in the entry `place` of a quantity that they share, by two backward sweeps.

    The result of the first sweep is linear in weights of the rows; its derivative in a row's weight is the derivative
    of that row.
    """
    direction = pt.set_subtensor(pt.zeros(one.size)[place], 1.0).reshape(given.shape)
    weights = pt.vector("weights")
    slope: Any = pt.grad((graph * weights).sum(), given, disconnected_inputs="ignore")
    found = pt.grad((slope * direction).sum(), weights, disconnected_inputs="ignore")
    return rebuild([found], {weights: pt.zeros_like(graph)})[0]


def _with_columns(
    graph: Any, known: set[Any], inputs: Sequence[Any], data: Sequence[np.ndarray]
) -> tuple[Any, list[Any], tuple[np.ndarray, ...]]:
    """Return a graph with data-only parts replaced by precomputed columns, the inputs that it reads, and their data.

    A part with the same value in all rows becomes a constant, and so do checks such as whether counts are positive.
    """
    n_rows = len(data[0])
    nodes: list[Any] = list(toposort([graph]))
    moving = dependents(nodes, known)
    of_rows = dependents(nodes, inputs) - moving
    users = [(variable, node) for node in nodes for variable in node.inputs if node.outputs[0] in moving]
    met = [v for v, _ in users if v in of_rows and v.owner is not None]
    ends = [v for v in dict.fromkeys(met) if all(isinstance(n.op, Elemwise) for u, n in users if u is v)]
    if not ends:
        return graph, *_used(graph, inputs, data)
    function = in_python(list(inputs), ends)
    replaced: dict[Any, Any] = {}
    columns: list[tuple[Any, np.ndarray]] = []
    for end, value in zip(ends, function(*data), strict=True):
        if np.ndim(value) == 0 or len(value) != n_rows:
            continue
        if (value == value[:1]).all():
            replaced[end] = pt.constant(np.asarray(value[:1]))
        else:
            column = pt.tensor(f"column_{len(columns)}", shape=(None, *value.shape[1:]), dtype=end.dtype)
            columns.append((column, np.require(value, requirements=["C", "W"])))
            replaced[end] = column
    [graph] = rebuild([graph], replaced)
    graph = simplify(graph)
    extended = [*inputs, *(column for column, _ in columns)]
    return graph, *_used(graph, extended, [*data, *(value for _, value in columns)])


def _used(graph: Any, inputs: Sequence[Any], data: Sequence[np.ndarray]) -> tuple[list[Any], tuple[np.ndarray, ...]]:
    """Return the inputs that a graph reads, at least one, and their arrays."""
    read = set(ancestors([graph]))
    chosen = [k for k, one in enumerate(inputs) if one in read] or [0]
    return [inputs[k] for k in chosen], tuple(data[k] for k in chosen)


def _caller(n_predictors: int, lines: tuple[str, ...], n_columns: int) -> Callable[..., Any]:
    """Return ``make(function)``, which makes a batch function that calls a compiled graph and then runs `lines`.

    It is text, because the graph is called with one array for each predictor and column, and returns results of
    different types: closures that add one to a tuple compile for several times as long, see `row_reader`.
    """
    etas = "".join(f"eta[{k}][:n], " for k in range(n_predictors))
    body = "\n".join(f"        {line}" for line in lines)
    source = f"""
def make(function):
    def loop(eta, responses, order, lo, hi, out):
        n = hi - lo
        found = function({etas}*rows(responses, order, lo, hi))
{body}
    return loop
"""
    scope: dict[str, Any] = {"rows": allocating(row_reader(n_columns))}
    exec(source, scope)
    made: Callable[..., Any] = scope["make"]
    return made
