"""Make the passes of an expansion over all rows, in this process or in parts on the workers of a Dask cluster.

    sums over all rows = (sums over part 1 + sums over part 2) + ...,    numbers of a row = those from its part.

A part of the rows is also a target (`approxmcmc.sources.parts`), so it has an expansion, which makes the same pass by
the same method. Workers send back what the expansion of a part writes for each row. This process reads single rows,
such as rows for a first mode or influential rows, from the local file.
"""

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from approxmcmc.engine.terms.partitions import Partitions
from approxmcmc.sources.parts import Part


class Expansion:
    """Base class of all expansions: the order, the number of passes, and the process or workers that make them."""

    parts: Partitions | None = None
    """Parts of the rows, if a cluster makes the passes."""
    first_row: int = 0
    """Index in the whole data of the first row of this expansion; 0 unless it belongs to a part."""
    is_closed: bool = True
    """Whether second derivatives are in closed form, so that the Hessian of the sum takes one pass."""

    def __init__(self, target: Any, order: int) -> None:
        self.target = target
        self.order = order
        self.passes = 0


def over_all_rows[**P, T](make_pass: Callable[P, T]) -> Callable[P, T]:
    """Decorate a method that makes a pass over the rows of an `Expansion`: count its calls, and call it on all parts.

    Without parts, this process makes the pass.

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
