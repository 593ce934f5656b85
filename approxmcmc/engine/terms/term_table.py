"""Precomputed terms: all N differences l_i of one pair of states, to be read repeatedly.

A table replaces the target. A test reads it through its evidence, like a target: each term costs a look-up and no
evaluation, and because the tables of all targets have one type, the test is compiled once for them.

`read_table` serves many orders of the data from one random permutation of the terms, which Fisher-Yates steps extend as
far as it is read. An order is a window: it begins at a given place of the permutation, and wraps around the end. Each
window is a uniformly random order of the data; those that do not overlap are negatively correlated. For a chain that
reads blocks of one partition of the rows, `Partition.windows` arranges the terms so that windows are orders of blocks.
"""

import math
from typing import NamedTuple

import numpy as np

from approxmcmc.engine.compiler.compile import compiled, kernel, type_of
from approxmcmc.engine.compiler.vectors import equal
from approxmcmc.engine.terms.batches import BATCH, FINITE, IMPOSSIBLE, UNDEFINED, Data, datum_at, log_terms_type
from approxmcmc.engine.terms.evidence import Evidence, new_evidence
from approxmcmc.engine.terms.moments import MEAN, merge
from approxmcmc.engine.terms.order import draw_next, rows_order

# indices of a table's cursor: number of terms in their final order, start of the window
SHUFFLED = 0
BEGIN = 1


def tabulated_terms(theta: np.ndarray, data: Data, order: np.ndarray, lo: int, hi: int, out: np.ndarray) -> None:
    """Write 0 for each term if theta is the first state of the pair, else l_i; data = (l, first state)."""
    differences, here = data
    at_here = equal(theta, here)
    for position in range(lo, hi):
        out[position - lo] = 0.0 if at_here else differences[datum_at(order, position)]


def table_of_terms(n_obs: int, dim: int) -> Evidence:
    """Return an empty table, as evidence on a pair of states of length `dim`; `write_pair` fills it."""
    data = (np.zeros(n_obs), np.zeros(dim))
    log_terms = kernel(tabulated_terms, log_terms_type(type_of(data)).signature)
    return new_evidence(log_terms, data, n_obs, np.zeros(dim), np.zeros(dim), rows_order(n_obs))


def write_pair(
    table: Evidence, theta: np.ndarray, proposed: np.ndarray, differences: np.ndarray, *, shuffled: bool = False
) -> None:
    """Write a pair of states and its `differences` l_i = log p(x_i | theta') - log p(x_i | theta) into a table.

    `proposed` is theta', `differences` has shape (n_obs,). With `shuffled` they are in random order already, and are
    read in this order.
    """
    terms, here = table.data
    terms[:] = differences
    here[:] = theta
    table.theta[:] = theta
    table.proposed[:] = proposed
    table.order.cursor[SHUFFLED] = table.n_obs if shuffled else 0


class Partition(NamedTuple):
    """The rows in the order of a shuffled copy, shape (N,), cut into blocks of `size`; the last may be shorter."""

    rows: np.ndarray
    size: int

    def windows(self, rng: np.random.Generator, terms: np.ndarray, n: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the terms block by block, and n indices at which windows begin; a window is a random order of blocks.

        The whole blocks are in random order and the shorter one is last. As windows wrap around the end and the first
        begins at a random block, all orders of the blocks are equally likely in each.
        """
        n_blocks = math.ceil(len(terms) / self.size)
        whole = len(terms) // self.size
        ordered = terms[self.rows]
        blocks = ordered[: whole * self.size].reshape(whole, self.size)
        begins = (rng.integers(n_blocks) + np.arange(n) * max(n_blocks // n, 1)) % n_blocks
        return np.concatenate(
            [blocks[rng.permutation(whole)].ravel(), ordered[whole * self.size :]]
        ), begins * self.size


def some_rows(rng: np.random.Generator, n_obs: int, n: int, partition: Partition | None) -> np.ndarray:
    """Return the indices of n random rows; with a partition, of all rows of random blocks, at least n in all."""
    if partition is None:
        return rng.choice(n_obs, n, replace=False)
    rows, size = partition
    blocks = rng.choice(n_obs // size, math.ceil(n / size), replace=False)
    return np.asarray(rows[(blocks[:, None] * size + np.arange(size)).ravel()])


@compiled
def read_table(rng: np.random.Generator, table: Evidence, start: int, stop: int) -> int:
    """Merge the window's terms ``start:stop`` into the table's moments; they are put in random order when first read.

    Returns FINITE, IMPOSSIBLE or UNDEFINED, like `merge_differences`.
    """
    terms, _ = table.data
    cursor = table.order.cursor
    moments = table.moments
    n_obs = table.n_obs
    for lo in range(start, stop, BATCH):
        left = min(lo + BATCH, stop) - lo
        position = (cursor[BEGIN] + lo) % n_obs
        while left > 0:  # second iteration: wrap around the end
            count = min(left, n_obs - position)
            if position + count > cursor[SHUFFLED]:
                draw_next(rng, terms, cursor[SHUFFLED], position + count)
                cursor[SHUFFLED] = position + count
            impossible = 0
            for i in range(position, position + count):
                impossible += terms[i] == -math.inf
            if impossible > 0:
                return IMPOSSIBLE
            merge(moments, terms[position:], count)
            left -= count
            position = 0
    return FINITE if math.isfinite(moments[MEAN]) else UNDEFINED
