"""Join the designs of single variables to one `Design`, which stores equal columns once, and name the entries.

Names come from the designs: categories of codes, or columns of a table.
"""

import dataclasses
import math
import numbers
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from approxmcmc.contracts import Variables
from approxmcmc.contracts.speaker import speaker
from approxmcmc.errors import InvalidInputError
from approxmcmc.sources import DataSource
from approxmcmc.targets.checks import checked_array
from approxmcmc.targets.predictors.design import Design, Predictor


class Treatment(NamedTuple):
    """Treatment coding: effects of all levels of a column except the first, the reference level with effect 0.

    Parameters
    ----------
    column
        Codes, a categorical column of pandas, or a column of categories of a source, as `PredictorTarget` takes them.

    Examples
    --------
    >>> import numpy as np, approxmcmc as amc
    >>> def loglik(eta, y):
    ...     return -0.5 * (y - eta) ** 2
    >>> predictors = {"mu": {"intercept": 1.0, "kind": amc.targets.Treatment(np.array([0, 1, 2, 0]))}}
    >>> amc.targets.PredictorTarget(loglik, predictors, np.zeros(4)).variables.shapes
    {'intercept': (), 'kind': (2,)}
    """

    column: Any


@dataclasses.dataclass(frozen=True, eq=False)
class PredictorPart:
    """The contribution of one variable to one predictor.

    Parameters
    ----------
    variable
        Its name; None for an offset.
    X
        Dense columns, shape (n, p), which multiply `entries`. With `codes`: the weights (n, 1), or None for weights 1.
    codes
        The index of the entry of the variable that each row picks, shape (n,), -1 for none; None for dense columns.
    shared
        Factors of the entries that all rows share, by entry.
    entries
        Indices of the entries of the variable that dense columns multiply; None for 0, 1, 2 and so on.
    is_scalar
        Whether the variable is one number.
    labels
        Names of the first entries of the variable, if the design has names.
    """

    variable: str | None
    X: np.ndarray | None = None
    codes: np.ndarray | None = None
    shared: Mapping[int, float] = dataclasses.field(default_factory=dict)
    entries: np.ndarray | None = None
    is_scalar: bool = False
    labels: tuple[str, ...] = ()

    @property
    def length(self) -> int:
        """Least number of entries of the variable that this design needs."""
        if self.codes is not None:
            return int(self.codes.max()) + 1
        return 1 if self.X is None else self.X.shape[1]


def read_part(variable: str, design: Any, n: int, name: str) -> PredictorPart:
    """Return the contribution of `variable` to a predictor, from a user's `design` in a form of `PredictorTarget`.

    `n` is the number of rows; messages call the design `name`.

    Raises
    ------
    InvalidInputError
        If the design has none of the allowed forms, or another number of rows.
    """
    if isinstance(design, numbers.Real):
        checked_array(design, name)
        return PredictorPart(variable, shared={0: float(design)}, is_scalar=True)
    if isinstance(design, Treatment):
        whole = read_part(variable, design.column, n, name)
        if whole.codes is None or whole.length < 2:
            raise InvalidInputError(f"{speaker()}: Treatment of {name} needs a column of codes with two levels or more")
        return dataclasses.replace(whole, codes=whole.codes - 1, labels=whole.labels[1:])
    codes, weights = design if isinstance(design, tuple) and len(design) == 2 else (design, None)
    array = checked_array(codes_of(codes), name, keep_float32=True)
    labels = labels_of(codes)
    if weights is not None or (array.ndim == 1 and array.dtype.kind == "i"):
        if array.dtype.kind != "i" or array.shape != (n,) or array.min() < 0:
            raise InvalidInputError(
                f"{speaker()}: the codes of {name} must be {n} integers from 0, found {array.dtype} of shape "
                f"{array.shape}{f', the smallest {array.min()}' if array.size else ''}; np.unique(..., "
                "return_inverse=True) makes them of any labels"
            )
        what = f"the weights of {name}"
        column = None if weights is None else _floats(checked_array(weights, what, keep_float32=True))
        if column is not None and column.shape != (n,):
            raise InvalidInputError(f"{speaker()}: the weights of {name} must have shape ({n},), found {column.shape}")
        return PredictorPart(variable, None if column is None else column[:, None], array, labels=labels)
    if array.ndim not in (1, 2) or len(array) != n or not array.size:
        raise InvalidInputError(f"{speaker()}: {name} must have {n} rows, as y has, found shape {array.shape}")
    return PredictorPart(variable, _floats(array).reshape(n, -1), is_scalar=array.ndim == 1, labels=labels)


def _floats(array: np.ndarray) -> np.ndarray:
    return array if array.dtype.kind == "f" else array.astype(np.float64)


def assemble(parts: Mapping[str, list[PredictorPart]], variables: Variables, n: int) -> Design:
    """Return the design of the predictors in `parts`, each the sum of its list of parts.

    Theta holds the variables one after the other; `n` is the number of rows.
    """
    starts = {}
    dim = 0
    for name, shape in variables.shapes.items():
        starts[name] = dim
        dim = dim + math.prod(shape)
    builder = DistinctColumns(n)
    predictors = [_predictor(parts_of_predictor, starts, dim, builder) for parts_of_predictor in parts.values()]
    return Design(dim, builder.dense(), builder.coded(), builder.weight_columns, predictors)


class DistinctColumns:
    """Collect the columns of all predictors: an array used twice is stored once; a predictor's columns are adjacent."""

    def __init__(self, n: int) -> None:
        self.n = n
        self.blocks: list[tuple[tuple[np.ndarray, ...], int]] = []
        self.width = 0
        self.codes: list[np.ndarray] = []
        self.weight_columns: list[int] = []

    def add(self, arrays: tuple[np.ndarray, ...]) -> tuple[int, int]:
        """Add these arrays (n, p) next to each other, unless they are stored already; return their range of columns."""
        width = sum(array.shape[1] for array in arrays)
        for block, start in self.blocks:
            if len(block) == len(arrays) and all(map(_are_one, block, arrays)):
                return start, start + width
        self.blocks.append((arrays, self.width))
        self.width += width
        return self.width - width, self.width

    def add_codes(self, codes: np.ndarray, weights: np.ndarray | None) -> None:
        """Add codes (n,), indices of entries of theta, and weights (n, 1) that multiply these entries; None: 1."""
        self.codes.append(codes)
        self.weight_columns.append(-1 if weights is None else self.add((weights,))[0])

    def dense(self) -> np.ndarray:
        """Return all dense columns, (n, p); a single contiguous array is not copied."""
        arrays = [array for block, _ in self.blocks for array in block]
        if len(arrays) == 1:
            return np.ascontiguousarray(arrays[0])
        return np.concatenate(arrays, axis=1) if arrays else np.empty((self.n, 0))

    def coded(self) -> np.ndarray:
        """Return all columns of codes, shape (n, C): indices of entries of theta, as `Design` takes them."""
        return np.array(self.codes, dtype=np.int32).reshape(-1, self.n).T.copy()


def _are_one(first: np.ndarray, other: np.ndarray) -> bool:
    return first is other or (first.shape == other.shape and np.array_equal(first, other))


def _predictor(parts: list[PredictorPart], starts: Mapping[str, int], dim: int, columns: DistinctColumns) -> Predictor:
    """Return the predictor that is the sum of `parts`, after adding its columns to `columns`."""
    first = len(columns.codes)
    places: list[int] = []
    shared: list[int] = []
    values: list[float] = []
    dense: list[np.ndarray] = []
    for part in parts:
        start = dim if part.variable is None else starts[part.variable]
        shared += [start + entry for entry in part.shared]
        values += part.shared.values()
        if part.codes is not None:
            columns.add_codes(np.where(part.codes < 0, dim, part.codes + start), part.X)
        elif part.X is not None:
            dense.append(part.X)
            entries = np.arange(part.X.shape[1]) if part.entries is None else part.entries
            places += [int(start + entry) for entry in entries]
    span = columns.add(tuple(dense)) if dense else (0, 0)
    return Predictor(span, places, (first, len(columns.codes)), shared, values)


def codes_of(design: Any) -> Any:
    """Return the codes of a categorical column of pandas; any other design unchanged."""
    return getattr(design, "cat", design).codes if _categories(design) is not None else design


def labels_of(design: Any) -> tuple[str, ...]:
    """Return a name for each entry that a design needs, or an empty tuple.

    Examples
    --------
    >>> import numpy as np
    >>> from approxmcmc.sources import Arrays
    >>> labels_of(Arrays(np.ones((3, 2)), columns=("distance", "hour"))), labels_of(np.ones((3, 2)))
    (('distance', 'hour'), ())
    """
    if isinstance(design, DataSource):
        labels = design.categories.get(design.columns[0], ()) if design.is_vector else design.columns
    else:
        labels = _categories(design)
        labels = getattr(design, "columns", ()) if labels is None else labels
    return tuple(str(label) for label in labels)


def _categories(design: Any) -> Any:
    return getattr(getattr(design, "dtype", None), "categories", None)
