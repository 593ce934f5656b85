"""Find the linear predictors of a PyMC model: the fewest affine quantities of its terms, and their design.

Which graphs are affine in theta is deduced from the operations, never tested numerically: sums, products with terms
that do not depend on theta, and operations that move entries (indexing, reshaping, stacking). A function that is linear
only on the tested points, such as a clip at 30, does not count.

The designs of these quantities are found by evaluation: a quantity at a unit vector of theta gives its column. A
variable with one entry picked for each row needs only three evaluations, however many entries it has: the vector of
ones gives the weights of the rows, a random vector the entry that each row picks, and a second random vector confirms
this.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from pytensor.graph import rewrite_graph
from pytensor.graph.basic import equal_computations
from pytensor.graph.traversal import toposort
from pytensor.scalar.basic import (
    Abs,
    Add,
    Cast,
    Exp,
    Identity,
    Mul,
    Neg,
    Pow,
    Reciprocal,
    Second,
    Sign,
    Sqr,
    Sqrt,
    Sub,
    TrueDiv,
)
from pytensor.tensor.elemwise import DimShuffle, Elemwise

from approxmcmc.contracts import Variables
from approxmcmc.interop.attempts import NotPossibleError, refusals
from approxmcmc.interop.graphs import rebuild
from approxmcmc.interop.model import ModelOfPyMC
from approxmcmc.interop.rows import ON_SOME_ROWS
from approxmcmc.interop.walk import (
    ADDING_TO_ENTRIES,
    INDEXING_BY_ARRAYS,
    MOVING,
    MULTIPLYING,
    SHAPES,
    SPLITTING,
    STACKING,
    arrays_at,
    in_python,
    interpret,
    is_sum,
    name_of,
    without_axes,
)
from approxmcmc.targets.predictors.assemble import PredictorPart, assemble
from approxmcmc.targets.predictors.design import Design

CONSTANT = "constant"
AFFINE = "affine"
# A product of powers of constants and of exponentials of affine quantities: the logarithm of its size is affine.
LOG_AFFINE = "log-affine"
OTHER = "other"
LARGEST_DESIGN = 4e9  # bytes
MOST_PREDICTORS = 24  # with these, a row of an expansion has 349 numbers
POINTS = 3  # at which a design is checked
CLOSE = 1e-9
ROUNDING = 1e-15  # a few units in the last place
MOST_LOOKED_AT = 1000  # rows, usually enough to see that a column differs between rows
# rows; two different numbers of rows show which axis counts rows
FEW = 5
SOME = 7


class Ratio(NamedTuple):
    """The kind of an affine quantity divided by `scale`, the graph of one number: times `scale` it is affine again."""

    scale: Any


def kinds(graphs: Sequence[Any], theta: Any) -> dict[Any, Any]:
    """Return for every variable in some graphs its kind: constant, affine in theta, log-affine, a `Ratio`, or other."""

    def rule(node: Any, inputs: list[Any]) -> list[Any]:
        # A leaf other than theta is constant.
        return [_kind_of(node, [CONSTANT if kind is None else kind for kind in inputs])] * len(node.outputs)

    return interpret(toposort(graphs), {theta: AFFINE}, rule)


def _kind_of(node: Any, inputs: list[Any]) -> Any:
    name = name_of(node)
    if name in SHAPES or all(kind == CONSTANT for kind in inputs):
        return CONSTANT
    if isinstance(node.op, Elemwise):
        return _kind_of_elemwise(node, inputs)
    if inputs[0] == LOG_AFFINE:
        return LOG_AFFINE if isinstance(node.op, DimShuffle) else OTHER
    if name in MOVING or name in SPLITTING or is_sum(node):
        return inputs[0] if all(kind == CONSTANT for kind in inputs[1:]) else OTHER
    if name in STACKING or name in ADDING_TO_ENTRIES:
        return AFFINE if all(kind in (CONSTANT, AFFINE) for kind in inputs) else OTHER
    if name in MULTIPLYING and len(inputs) == 2:
        return AFFINE if sorted(map(str, inputs)) == [AFFINE, CONSTANT] else OTHER
    return OTHER


def _kind_of_elemwise(node: Any, inputs: list[Any]) -> Any:
    operation = node.op.scalar_op
    if isinstance(operation, Neg | Identity | Cast):
        is_float = "float" in str(node.outputs[0].dtype)
        return inputs[0] if is_float and inputs[0] != LOG_AFFINE else OTHER
    if isinstance(operation, Exp):
        return LOG_AFFINE if inputs[0] == AFFINE else OTHER
    if isinstance(operation, Sqrt | Sqr | Reciprocal | Abs | Sign | Pow):
        return LOG_AFFINE if inputs[0] == LOG_AFFINE and all(kind == CONSTANT for kind in inputs[1:]) else OTHER
    if isinstance(operation, Second):
        return inputs[1]
    if isinstance(operation, Add | Sub):
        return AFFINE if all(kind in (CONSTANT, AFFINE) for kind in inputs) else OTHER
    if isinstance(operation, TrueDiv):
        above, below = inputs
        if below == CONSTANT:
            return above
        if above == AFFINE:
            return Ratio(without_axes(node.inputs[1]))
        return LOG_AFFINE if above in (CONSTANT, LOG_AFFINE) and below == LOG_AFFINE else OTHER
    if isinstance(operation, Mul):
        return _kind_of_product(node, inputs)
    return OTHER


def _kind_of_product(node: Any, inputs: list[Any]) -> Any:
    moving = [(kind, variable) for kind, variable in zip(inputs, node.inputs, strict=True) if kind != CONSTANT]
    if len(moving) == 1:
        return moving[0][0]
    if len(moving) == 2:
        for (kind, _), (_, other) in (moving, moving[::-1]):
            if isinstance(kind, Ratio) and equal_computations([kind.scale], [without_axes(other)]):
                return AFFINE
    return LOG_AFFINE if all(kind == LOG_AFFINE for kind, _ in moving) else OTHER


def picked_first(graph: Any, theta: Any) -> Any:
    """Return a graph that indexes vectors before it applies functions: f(a, b)[i] becomes f(a, b[i]).

    (tau * z)[group] is not affine, but tau * z[group] is made of two affine quantities, with one number per row each.
    """
    kind = kinds([graph], theta)

    def picked(vector: Any, index: Any) -> Any:
        node = vector.owner
        if kind.get(vector, CONSTANT) in (CONSTANT, AFFINE) or not isinstance(node.op, Elemwise):
            return vector[index]
        return node.op(*(operand if operand.broadcastable[0] else picked(operand, index) for operand in node.inputs))

    replaced: dict[Any, Any] = {}
    nodes: list[Any] = list(toposort([graph]))
    for node in nodes:
        if name_of(node) in INDEXING_BY_ARRAYS and len(node.inputs) == 2:
            vector, index = node.inputs
            if vector.ndim == 1 and vector.owner is not None and kind[vector] not in (CONSTANT, AFFINE):
                replaced[node.outputs[0]] = picked(vector, index)
    return rebuild([graph], replaced)[0] if replaced else graph


def cut(graph: Any, theta: Any, count: Callable[[list[Any]], list[int]]) -> list[Any]:
    """Return the affine quantities through which a graph depends on theta.

    They are the first affine ones on the way from the graph to theta, or a part of such a quantity if the part needs no
    more predictors: y - mu is cut at mu, and effect[group] is not cut further. ``count(quantities)`` returns how many
    predictors each of `quantities` needs.
    """
    kind = kinds([graph], theta)
    cuts = []
    seen = set()
    waiting = [graph]
    while waiting:
        variable = waiting.pop()
        if variable in seen or kind.get(variable, CONSTANT) == CONSTANT:
            continue
        seen.add(variable)
        if kind[variable] != AFFINE:
            waiting += variable.owner.inputs
            continue
        chain = _chain(variable, kind)
        counts = count(chain)
        fewest = max(position for position, number in enumerate(counts) if number == min(counts))
        if chain[fewest] not in cuts:
            cuts.append(chain[fewest])
    return cuts


def _weights_rows(node: Any, factors: list[Any]) -> bool:
    """Return whether an operation multiplies by an array: a product with a matrix, or a factor for each entry."""
    if name_of(node) in MULTIPLYING:
        return True
    is_product = isinstance(node.op, Elemwise) and isinstance(node.op.scalar_op, Mul | TrueDiv)
    return is_product and not all(all(factor.broadcastable) for factor in factors)


def _chain(variable: Any, kind: dict[Any, Any]) -> list[Any]:
    """Return an affine quantity, then its only part, and so on, until a quantity has no part or several."""
    chain = [variable]
    while (node := chain[-1].owner) is not None:
        below = [operand for operand in node.inputs if kind.get(operand, CONSTANT) != CONSTANT]
        constant = [operand for operand in node.inputs if operand not in below]
        if isinstance(node.op, Elemwise) and isinstance(node.op.scalar_op, Second):
            below = [operand for operand in node.inputs[1:] if kind.get(operand, CONSTANT) != CONSTANT]
        if len(below) != 1 or kind[below[0]] != AFFINE or _weights_rows(node, constant):
            break
        chain.append(below[0])
    return chain


class Quantity(NamedTuple):
    """An affine quantity of a graph, its axis that counts rows (None if all rows share it), and its numbers per row."""

    variable: Any
    row_axis: int | None
    size: int


class Predictors(NamedTuple):
    """Terms of rows as a graph of theta, the affine quantities in it, and the design of their predictors.

    The predictors are in the order of the quantities; a quantity with k numbers per row is k predictors.
    """

    theta: Any
    terms: Any
    quantities: list[Quantity]
    design: Design


def find_predictors(source: ModelOfPyMC) -> Predictors:
    """Return the linear predictors of a model.

    Raises
    ------
    NotPossibleError
        When the model has no linear predictors, too many to save work, or too few rows; the message says what was
        found.
    """
    if source.rows.n_rows <= SOME:
        raise NotPossibleError(
            f"a linear predictor is only looked for in more than {SOME} rows; found {source.rows.n_rows}"
        )
    [terms] = source.over_flat([source.rows.terms()])
    terms = rewrite_graph(picked_first(terms, source.theta), include=("merge",), clone=True)
    quantities = _quantities(source, terms)
    K = sum(quantity.size for quantity in quantities)
    dim = int(source.theta.type.shape[0])
    if min(MOST_PREDICTORS, dim) < K:
        raise NotPossibleError(
            f"its rows depend on its {dim} parameters through {K} linear predictors, which saves nothing (useful are "
            f"at most {min(MOST_PREDICTORS, dim)})"
        )
    if not any(quantity.row_axis is not None for quantity in quantities):
        raise NotPossibleError("no quantity that is linear in the parameters differs from row to row")
    return Predictors(source.theta, terms, quantities, design_of(source, quantities))


def design_of(source: ModelOfPyMC, quantities: list[Quantity]) -> Design:
    """Return the design of affine quantities, found by evaluation; raises as :func:`find_predictors` does."""
    return _Asked(source, quantities).design()


def _quantities(source: ModelOfPyMC, terms: Any) -> list[Quantity]:
    """Return the quantities at which the graph `terms` is cut (see `cut`), those with rows first."""

    def at_first_rows(n: int) -> dict[Any, Any]:
        arrays = zip(source.rows.inputs, source.rows.data, strict=True)
        return {source.theta: source.initial_point(), **{rows: array[:n] for rows, array in arrays}}

    few = at_first_rows(FEW)
    some = at_first_rows(SOME)

    def alone(error: Exception) -> NotPossibleError:
        return NotPossibleError("its rows cannot be evaluated without the others")

    def shapes(variables: list[Any]) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
        with refusals(*ON_SOME_ROWS, reason=alone):
            few.update(arrays_at(variables, few))
            some.update(arrays_at(variables, some))
        return [(np.shape(few[variable]), np.shape(some[variable])) for variable in variables]

    def measured(variables: list[Any]) -> list[Quantity]:
        quantities = []
        for variable, (shape, other) in zip(variables, shapes(variables), strict=True):
            axes = [axis for axis, lengths in enumerate(zip(shape, other, strict=True)) if lengths[0] != lengths[1]]
            if len(axes) > 1:
                raise NotPossibleError("rows depend on each other")
            rest = [length for axis, length in enumerate(shape) if axis not in axes]
            quantities.append(Quantity(variable, axes[0] if axes else None, int(np.prod(rest, dtype=int))))
        return quantities

    variables = cut(terms, source.theta, lambda chain: [quantity.size for quantity in measured(chain)])
    return sorted(measured(variables), key=lambda quantity: quantity.row_axis is None)


class _Asked:
    """Quantities that can be evaluated at points of theta, on all rows."""

    def __init__(self, source: ModelOfPyMC, quantities: list[Quantity]) -> None:
        self.source = source
        self.quantities = quantities
        self.n_rows = source.rows.n_rows
        self.dim = int(source.theta.type.shape[0])
        inputs = [source.theta, *source.rows.inputs]
        variables = [quantity.variable for quantity in quantities]
        self._function = in_python(inputs, variables)
        self.names = [value.name for value in source.values]
        self.sizes = [np.size(source.start[name]) for name in self.names]
        self.origin = np.zeros(0)
        self.origin = self.at(np.zeros(self.dim), raw=True)

    def at(self, theta: np.ndarray, *, raw: bool = False) -> np.ndarray:
        """Return all predictors at theta, (K, n_rows), minus their values at the origin unless `raw`."""
        values = self._function(theta, *self.source.rows.data)
        values_at_theta = []
        for quantity, value in zip(self.quantities, values, strict=True):
            rows = np.asarray(value, dtype=np.float64)
            rows = rows.reshape(1, -1) if quantity.row_axis is None else np.moveaxis(rows, quantity.row_axis, 0)
            values_at_theta.append(np.broadcast_to(rows.reshape(len(rows), -1).T, (quantity.size, self.n_rows)))
        predictors = np.concatenate(values_at_theta)
        if not np.isfinite(predictors).all():
            raise NotPossibleError("its predictors are not finite at 0")
        return predictors if raw else predictors - self.origin

    def design(self) -> Design:
        """Return the design, checked at random points."""
        K = len(self.origin)
        parts: list[list[PredictorPart]] = [[] for _ in range(K)]
        start = 0
        for name, size in zip(self.names, self.sizes, strict=True):
            for mine, found in zip(parts, self._parts(name, start, size), strict=True):
                mine.extend(found)
            start += size
        for k, mine in enumerate(parts):
            offset = self.origin[k]
            if offset.any():
                mine.append(_column(None, 0, offset, np.zeros_like(offset)))
        shapes = {name: (size,) for name, size in zip(self.names, self.sizes, strict=True)}
        predictors = {f"eta_{k}": mine for k, mine in enumerate(parts)}
        design = assemble(predictors, Variables(shapes), self.n_rows)
        self._check(design)
        return design

    def _check(self, design: Design) -> None:
        rng = np.random.default_rng(0)
        for _ in range(POINTS):
            theta = rng.normal(size=self.dim)
            predicted = design.eta(theta, slice(None))
            expected = self.at(theta, raw=True)
            if not np.allclose(predicted, expected, rtol=CLOSE, atol=CLOSE * (1.0 + np.abs(expected).max())):
                raise NotPossibleError("its predictors are not linear in the parameters")

    def _parts(self, name: str, start: int, size: int) -> list[list[PredictorPart]]:
        """Return the contribution of one variable to each predictor."""
        rng = np.random.default_rng(1)
        vectors = np.vstack([np.ones(size), rng.uniform(1.0, 2.0, (2, size))])
        answers = np.array([self.at(self._place(vector, start)) for vector in vectors])
        parts: list[list[PredictorPart]] = []
        dense = []
        for k in range(answers.shape[1]):
            part = _picked(name, vectors, answers[:, k], self.origin[k])
            dense += [k] if part is None else []
            parts.append([] if part is None else part)
        if dense:
            columns: list[dict[int, np.ndarray]] = [{} for _ in dense]
            for j, unit in enumerate(np.eye(size)):
                answer = self.at(self._place(unit, start))
                for mine, k in zip(columns, dense, strict=True):
                    if answer[k].any():
                        mine[j] = answer[k]
                if 8.0 * self.n_rows * sum(map(len, columns)) > LARGEST_DESIGN:
                    raise NotPossibleError(f"its design takes more than {LARGEST_DESIGN / 1e9:g} GB")
            for mine, k in zip(columns, dense, strict=True):
                parts[k] = _dense(name, mine, self.origin[k])
        return parts

    def _place(self, values: np.ndarray, start: int) -> np.ndarray:
        theta = np.zeros(self.dim)
        theta[start : start + len(values)] = values
        return theta


def _common(column: np.ndarray, origin: np.ndarray) -> float | None:
    """Return the value that a column has in all rows, up to rounding; None if rows differ.

    A column is the difference of a predictor from its value at the origin, and has the rounding error of both.
    """
    sample = slice(None, None, max(1, len(column) // MOST_LOOKED_AT))
    number = float(f"{np.median(column[sample]):.12g}")

    def holds(rows: slice) -> bool:
        noise = ROUNDING * (np.abs(origin[rows]) + abs(number))
        return bool((np.abs(column[rows] - number) <= noise).all())

    return number if holds(sample) and holds(slice(None)) else None


def _column(name: str | None, entry: int, column: np.ndarray, origin: np.ndarray) -> PredictorPart:
    """Return the contribution of an entry of a variable: a factor that all rows share, or a dense column."""
    number = _common(column, origin)
    if number is not None:
        return PredictorPart(name, shared={entry: number})
    return PredictorPart(name, np.ascontiguousarray(column)[:, None], entries=np.array([entry]))


def _dense(name: str, columns: dict[int, np.ndarray], origin: np.ndarray) -> list[PredictorPart]:
    """Return the contribution of a variable with `columns` by entry: factors that all rows share, and dense columns."""
    numbers = {entry: _common(column, origin) for entry, column in columns.items()}
    shared = {entry: number for entry, number in numbers.items() if number}
    entries = [entry for entry, number in numbers.items() if number is None]
    parts_of_columns = [PredictorPart(name, shared=shared)] if shared else []
    if not entries:
        return parts_of_columns
    X = np.stack([columns[entry] for entry in entries], axis=1)
    return [*parts_of_columns, PredictorPart(name, X, entries=np.array(entries))]


def _picked(name: str, vectors: np.ndarray, answers: np.ndarray, origin: np.ndarray) -> list[PredictorPart] | None:
    """Return the contribution of a variable to a predictor if each row picks at most one of its entries; else None.

    An empty list if the predictor does not depend on the variable. `vectors` (3, size) are ones and two random vectors
    of numbers between 1 and 2, `answers` (3, n) the predictor at these values of the variable, minus `origin`.
    """
    weights, once, again = answers
    if not answers.any():
        return []
    size = vectors.shape[1]
    if size == 1:
        return [_column(name, 0, weights, origin)]
    nothing = weights == 0.0
    if once[nothing].any() or again[nothing].any():
        return None  # weights of several entries that add up to 0
    order = np.argsort(vectors[1])
    ratio = np.divide(once, weights, out=np.full_like(once, vectors[1, order[0]]), where=~nothing)
    middles = 0.5 * (vectors[1, order][1:] + vectors[1, order][:-1])
    codes = order[np.searchsorted(middles, ratio)]
    scale = CLOSE * np.abs(weights)
    for vector, answer in zip(vectors[1:], (once, again), strict=True):
        if (np.abs(weights * vector[codes] - answer) > scale).any():
            return None
    if (codes == codes[0]).all() and not nothing.any():
        return [_column(name, int(codes[0]), weights, origin)]
    plain = _common(weights, origin) == 1.0
    return [PredictorPart(name, None if plain else np.ascontiguousarray(weights)[:, None], codes)]
