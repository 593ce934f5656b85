"""Read the rows of a tuple of arrays that a batch needs."""

import functools
from typing import Any


@functools.cache
def row_reader(n_arrays: int) -> Any:
    """Return ``rows(data, order, lo, hi)`` for a tuple of arrays: those of ``order[lo:hi]``, or views of lo ... hi - 1.

    The code is generated for each number of arrays, because compiled code cannot loop over arrays of different types.
    """
    chosen, views = ("".join(f"data[{k}][{rows}], " for k in range(n_arrays)) for rows in ("index", "lo:hi"))
    source = f"""
def rows(data, order, lo, hi):
    if order.shape[0] > 0:
        index = order[lo:hi]
        return ({chosen})
    return ({views})
"""
    scope: dict[str, Any] = {}
    exec(source, scope)
    return scope["rows"]
