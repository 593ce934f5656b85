"""Passes of an expansion over all rows: by this process, or in parts by the workers of a Dask cluster.

    sums over all rows = (sums over part 1 + sums over part 2) + ...,    numbers of a row = those that its part finds.

A part of the rows is a target of its own (`approxmcmc.targets.parts`), and so has an expansion, which makes the same
pass by the same method. What an expansion writes for each row comes back. Rows that are picked out, some for a first
mode or those of a core, are read here, from the local file.
"""

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from approxmcmc.engine.terms.partitions import Partitions
from approxmcmc.targets.parts import Part


class Expansion:
    """Base of all expansions: the order, a count of their passes, and the process or workers that make these."""

    parts: Partitions | None = None
    """Parts of the rows, where a cluster makes the passes."""
    first_row: int = 0
    """Number of the first row in the data of which these rows are a part."""

    def __init__(self, target: Any, order: int) -> None:
        self.target, self.order, self.passes = target, order, 0


def over_all_rows[**P, T](make_pass: Callable[P, T]) -> Callable[P, T]:
    """Count the calls of a method of an `Expansion`, a pass over its rows; where it has parts, let these make it.

    ``make_pass(self, *arguments, **by_row)`` returns sums, which can be added. `by_row` are arrays with a place for
    each row, which the pass fills, or of length 0 if these numbers are not needed.
    """

    @functools.wraps(make_pass)
    def made(self: Expansion, *arguments: Any, **by_row: np.ndarray) -> Any:
        self.passes += 1
        if self.parts is None:
            return make_pass(self, *arguments, **by_row)  # type: ignore[arg-type]  # the first of P is self
        how = type(self), self.order, make_pass.__name__
        return self.parts.total(_made_by, *how, arguments, **by_row)

    return made  # type: ignore[return-value]


def _made_by(
    part: Part, kind: Callable[..., Any], order: int, name: str, arguments: tuple[Any, ...], **by_row: np.ndarray
) -> Any:
    expansion = part.keep(kind, order)
    expansion.first_row = part.first_row
    return getattr(expansion, name)(*arguments, **by_row)
