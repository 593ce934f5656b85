"""Find the linear predictors of a PyMC model in the graph of its terms, and their design.

The graph shows which quantities are affine in theta (`affine`). Their designs are found by evaluation: a quantity at a
unit vector of theta gives its column. A variable with one entry picked for each row needs only three evaluations,
however many entries it has: the vector of ones gives the weights of the rows, a random vector the entry that each row
picks, and a second random vector confirms this.
"""

from typing import Any, NamedTuple

import numpy as np
from pytensor.graph import rewrite_graph

from approxmcmc.contracts import Variables
from approxmcmc.interop.affine import cut, picked_first
from approxmcmc.interop.attempts import NotPossibleError
from approxmcmc.interop.model import ModelOfPyMC
from approxmcmc.interop.rows import ON_SOME_ROWS
from approxmcmc.interop.walk import arrays_at, in_python
from approxmcmc.targets.predictors.assemble import PredictorPart, assemble
from approxmcmc.targets.predictors.design import Design

LARGEST_DESIGN = 4e9  # bytes
MOST_PREDICTORS = 24  # with these, a row of an expansion has 349 numbers
POINTS = 3  # at which a design is checked
CLOSE = 1e-9
ROUNDING = 1e-15  # a few units in the last place
MOST_LOOKED_AT = 1000  # rows, usually enough to see that a column differs between rows
# rows; two different numbers of rows show which axis counts rows
FEW = 5
SOME = 7


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
    """Return the quantities at which the graph `terms` is cut (see `affine.cut`), those with rows first."""

    def at_first_rows(n: int) -> dict[Any, Any]:
        arrays = zip(source.rows.inputs, source.rows.data, strict=True)
        return {source.theta: source.initial_point(), **{rows: array[:n] for rows, array in arrays}}

    few = at_first_rows(FEW)
    some = at_first_rows(SOME)

    def shapes(variables: list[Any]) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
        try:
            few.update(arrays_at(variables, few))
            some.update(arrays_at(variables, some))
        except ON_SOME_ROWS as error:
            raise NotPossibleError("its rows cannot be evaluated without the others") from error
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
