"""What a trace holds of the records of its chains, which a file with both holds once.

Records are tables with a row for each draw: its coordinates, and counts and values with a column for each of their
names. A trace has the first m of the n rows, and the columns that its sampler fills; the others hold one number as a
rule. So of a table is written

    mark     (columns,)         for each column: 0 in the trace, 1 one number, 2 neither
    first    (columns,)         the first row
    own      (m, those of 2)    what is neither
    rest     (n - m, columns)   rows that the trace was cut by

and put together again it is what it was, bit by bit. Of 150 MB, two chains of 60 000 draws of 50 parameters, 71 stay.
"""

import itertools
import math
from collections.abc import Mapping, Sequence

import numpy as np
import xarray as xr

from approxmcmc.contracts import COUNT_NAMES, VALUE_NAMES

IN_TRACE, ONE_NUMBER, OWN = 0, 1, 2
PARTS = ("mark", "first", "own", "rest")
Piece = tuple[int, np.ndarray]
"""Columns that a trace knows of a table: the number of the first, and their rows."""

GROUPS = {"": ("posterior", "sample_stats"), "warmup_": ("warmup_posterior", "warmup_sample_stats")}


def without_the_trace(
    arrays: Mapping[str, np.ndarray], trace: xr.DataTree, chain: int, order: Sequence[str]
) -> dict[str, np.ndarray]:
    """Return the arrays of a chain's snapshot with each table in four parts; `order` is that of the variables."""
    left = dict(arrays)
    for name, held in _tables(trace, chain, order).items():
        table = left.pop(name)
        left |= {f"{name}_{part}": array for part, array in zip(PARTS, _split(table, *held), strict=True)}
    return left


def with_the_trace(
    arrays: Mapping[str, np.ndarray], trace: xr.DataTree, chain: int, order: Sequence[str]
) -> dict[str, np.ndarray]:
    """Return them as they were."""
    whole = dict(arrays)
    for name, held in _tables(trace, chain, order).items():
        mark, first, own, rest = (whole.pop(f"{name}_{part}") for part in PARTS)
        whole[name] = _join(mark, first, own, rest, *held)
    return whole


def _tables(trace: xr.DataTree, chain: int, order: Sequence[str]) -> dict[str, tuple[int, list[Piece]]]:
    """Return how many rows of a chain's tables its trace holds, and those of their columns that it knows."""
    found: dict[str, tuple[int, list[Piece]]] = {}
    for phase, (draws, stats) in GROUPS.items():
        if draws in trace.children:
            rows = trace[draws].sizes["draw"]
            found[f"{phase}draws"] = rows, _side_by_side([trace[draws][name].to_numpy()[chain] for name in order])
            for kind, names, dtype in (("counts", COUNT_NAMES, np.int64), ("values", VALUE_NAMES, np.float64)):
                known = {j: trace[stats][name] for j, name in enumerate(names) if name in trace[stats].data_vars}
                found[f"{phase}{kind}"] = (
                    rows,
                    [(j, held.to_numpy()[chain, :, None].astype(dtype, copy=False)) for j, held in known.items()],
                )
    return found


def _side_by_side(variables: Sequence[np.ndarray]) -> list[Piece]:
    """Return draws of variables as columns of draws of a vector."""
    flat = [values.reshape(len(values), math.prod(values.shape[1:])).astype(float, copy=False) for values in variables]
    ends = itertools.accumulate(values.shape[1] for values in flat)
    return [(end - values.shape[1], values) for end, values in zip(ends, flat, strict=True)]


def _split(
    table: np.ndarray, rows: int, pieces: Sequence[Piece]
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    part, first = table[:rows], table[0] if len(table) else np.zeros_like(table, shape=table.shape[1:])
    mark = np.full(len(first), OWN, np.int8)
    for start, held in pieces:
        columns = slice(start, start + held.shape[1])
        mark[columns][(_bits(part[:, columns]) == _bits(held)).all(axis=0)] = IN_TRACE
    others = np.flatnonzero(mark == OWN)
    mark[others[(_bits(part[:, others]) == _bits(first[others])).all(axis=0)]] = ONE_NUMBER
    return mark, first, part[:, mark == OWN], table[rows:]


def _join(
    mark: np.ndarray, first: np.ndarray, own: np.ndarray, rest: np.ndarray, rows: int, pieces: Sequence[Piece]
) -> np.ndarray:
    table = np.concatenate([np.broadcast_to(first, (rows, len(first))), rest])
    for start, held in pieces:
        inside = np.flatnonzero(mark[start : start + held.shape[1]] == IN_TRACE)
        table[:rows, start + inside] = held[:, inside]
    table[:rows, mark == OWN] = own
    return table


def _bits(array: np.ndarray) -> np.ndarray:
    """Return numbers as they are stored: NaN equals itself, and -0.0 is not 0.0."""
    return array.view(np.int64)
