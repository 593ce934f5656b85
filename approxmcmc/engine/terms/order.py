"""The order in which a decision reads the data.

A decision reads a growing simple random sample without replacement. Two schedules draw it, behind one call:

- *Rows.* A persistent permutation of 0..N-1 belongs to each chain. A decision that reads n data shuffles its first n
  places by partial Fisher-Yates steps: they are a simple random sample, for any order left by the last decision.
  Nothing of size N is touched. The rows read are scattered in memory: if the data exceed the processor's caches, a row
  costs 5 times as much as in blocks.
- *Blocks.* A copy of the data, shuffled once, is cut into blocks of m rows, and serves all chains. A decision reads
  blocks in a new random order, each from its front, and stops at the row at which its look ends. The copy is in random
  order, so any n places chosen independently of the data hold a simple random sample: one decision has the same
  distribution as with rows. Decisions of a chain are no longer independent of each other, because they share a
  partition; with N/m >= 150 blocks the resulting error was a quarter to a third of the test's own. With fewer blocks
  each chain owns a copy, and shuffles it again every 200 decisions.

Blocks are read repeatedly, so their terms at the current theta are cached: for each block, the terms of its leading
rows and the version of theta that they belong to. A decision then evaluates only at theta', unless the block was not
read since the last move.

The schedule of a chain is a :class:`~approxmcmc.engine.terms.evidence.DataOrder`, made by `rows_order` or
`blocks_order`.
"""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from approxmcmc.contracts.records import EVALUATIONS, TOUCHED
from approxmcmc.contracts.speaker import speaker
from approxmcmc.engine.compiler.compile import compiled
from approxmcmc.engine.compiler.vectors import assign
from approxmcmc.engine.terms.batches import BATCH, CERTAIN, FINITE, IMPOSSIBLE, subtract, terms_at_both
from approxmcmc.engine.terms.evidence import DataOrder, Evidence, finish, merge_differences
from approxmcmc.engine.terms.moments import merge
from approxmcmc.errors import InvalidInputError

BLOCK_SIZE, N_OBS, PERIOD, DECISIONS, VERSION, BLOCK, OFFSET = range(7)  # indices into the cursor

ORDERS = ("auto", "rows", "blocks")
BLOCKS_FROM = 10_000  # rows; with fewer, an exact step of a regression is as fast as a test's, so blocks save nothing
ENOUGH_BLOCKS = 150  # the error of a fixed partition falls like 1 / sqrt(number of blocks)
RESHUFFLE_EVERY = 200  # decisions
# rows; see `block_size`
LEAST_BLOCK = 32
SMALLEST_BLOCK = 512
LARGEST_BLOCK = 2048


@compiled
def draw_next(rng: np.random.Generator, order: np.ndarray, start: int, stop: int) -> None:
    """Swap a uniform sample without replacement of the entries ``order[start:]`` into ``order[start:stop]``.

    `order` may be any vector. If it is a permutation of the rows and start = 0, ``order[:stop]`` is a minibatch without
    replacement; a gradient proposal keeps its own permutation for that.
    """
    n = order.shape[0]
    for position in range(start, stop):
        # floor(U (n - place)) instead of Generator.integers takes 4 ns instead of 25, with a bias below n 2^-53.
        other = position + int(rng.random() * (n - position))
        chosen = order[other]
        order[other] = order[position]
        order[position] = chosen


@compiled(inline="always")
def read_differences(rng: np.random.Generator, evidence: Evidence, start: int, stop: int, count: np.ndarray) -> int:
    """Read stop - start new data, and merge their differences into the moments.

    A decision calls this with start = 0 and then with start at the last stop, so that `stop` is how many data it has
    read; `settle` ends it. Adds the data touched and the terms evaluated to `count`; returns the outcome of the data
    just read, see `merge_differences`.
    """
    count[TOUCHED] += stop - start
    order = evidence.order
    if order.blocks.shape[0] > 0:
        return read_blocks(rng, evidence, start, stop, count)
    draw_next(rng, order.places, start, stop)
    count[EVALUATIONS] += 2 * (stop - start)
    return merge_differences(evidence, order.places, start, stop)


@compiled(inline="always")
def read_blocks(rng: np.random.Generator, evidence: Evidence, start: int, stop: int, count: np.ndarray) -> int:
    """Read differences start ... stop - 1 by blocks, for `read_differences`; merge those of several blocks by 512."""
    order = evidence.order
    log_terms = evidence.log_terms
    data = evidence.data
    theta = evidence.theta
    proposed = evidence.proposed
    if start == 0:
        begin(rng, order)
    places = order.places
    blocks = order.blocks
    kept = order.kept
    cursor = order.cursor
    current = order.terms[0]
    candidate = order.terms[1]
    differences = evidence.differences
    filled = 0
    left = stop - start
    outcome = FINITE
    while left > 0:
        if cursor[OFFSET] == 0:
            draw_next(rng, blocks, cursor[BLOCK], cursor[BLOCK] + 1)
        block = blocks[cursor[BLOCK]]
        first = block * cursor[BLOCK_SIZE]
        end = min(first + cursor[BLOCK_SIZE], cursor[N_OBS])  # the last block may be shorter
        lo = first + cursor[OFFSET]
        hi = min(lo + min(left, BATCH - filled), end)
        # The rows of a block are contiguous and read from its front: cached ones come first.
        known = min(first + kept[block, 1], hi) if kept[block, 0] == cursor[VERSION] else first
        here = candidate[stop - left :]
        if known > lo:
            log_terms(proposed, data, places, lo, known, here)
        if known < hi:
            now = current[known:]
            then = here[known - lo :]
            terms_at_both(order.at_both, log_terms, theta, proposed, data, places, known, hi, now, then)
            kept[block, 0] = cursor[VERSION]
            kept[block, 1] = hi - first
        count[EVALUATIONS] += 2 * hi - lo - known
        found = subtract(current[lo:hi], here, differences[filled:])
        if found == IMPOSSIBLE:
            return IMPOSSIBLE
        outcome = CERTAIN if found == CERTAIN else outcome
        filled += hi - lo
        left -= hi - lo
        cursor[BLOCK] += 1 if hi == end else 0
        cursor[OFFSET] = 0 if hi == end else hi - first
        if filled == BATCH or left == 0:
            merge(evidence.moments, differences, filled)
            filled = 0
    return finish(outcome, evidence.moments)


@compiled
def begin(rng: np.random.Generator, order: DataOrder) -> None:
    """Start a decision in blocks; shuffle the copy first if `PERIOD` decisions have passed since the last shuffle."""
    cursor = order.cursor
    if cursor[PERIOD] > 0 and cursor[DECISIONS] > 0 and cursor[DECISIONS] % cursor[PERIOD] == 0:
        shuffle_rows(rng, order.rows, cursor[N_OBS])
        cursor[VERSION] += 1
    cursor[DECISIONS] += 1
    cursor[BLOCK] = cursor[OFFSET] = 0


@compiled(inline="always")
def settle(order: DataOrder, accepted: bool) -> None:
    """End a decision in blocks. If it `accepted`, the terms read at theta' become the cached terms, all others void."""
    blocks = order.blocks
    kept = order.kept
    terms = order.terms
    cursor = order.cursor
    if blocks.shape[0] == 0:
        return
    if accepted:
        cursor[VERSION] += 1
        done = 0
        for k in range(cursor[BLOCK] + (1 if cursor[OFFSET] > 0 else 0)):
            first = blocks[k] * cursor[BLOCK_SIZE]
            n = min(cursor[BLOCK_SIZE], cursor[N_OBS] - first) if k < cursor[BLOCK] else cursor[OFFSET]
            assign(terms[0, first : first + n], terms[1, done : done + n])
            kept[blocks[k], 0] = cursor[VERSION]
            kept[blocks[k], 1] = n
            done += n
    cursor[BLOCK] = cursor[OFFSET] = 0


def moves_rows(order: DataOrder) -> bool:
    """Return whether the copy of the data is shuffled again during the run."""
    return bool(order.cursor[PERIOD] > 0)


@compiled
def shuffle_rows(rng: np.random.Generator, rows: tuple[np.ndarray, ...], n_obs: int) -> None:
    """Put the rows of all arrays into one new random order."""
    for position in range(n_obs - 1):
        other = position + int(rng.random() * (n_obs - position))
        for array in rows:
            for j in range(array.shape[1]):
                moved = array[other, j]
                array[other, j] = array[position, j]
                array[position, j] = moved


def check_order(name: str) -> None:
    """Raise on an unknown order."""
    if name not in ORDERS:
        raise InvalidInputError(f"{speaker()}: order must be one of {ORDERS}, found {name!r}")


def block_size(n_obs: int, first_look: int) -> int:
    """Return the number of rows in a block: the `first_look` data are cut into as few equal blocks as possible.

    A block has at most N / 200 rows, where this limit is kept between 512 and 2048, and at least 32 rows.
    A look that ends inside a block costs one more call, 6 % of a step at N = 12214. With smaller blocks the copy need
    not be shuffled again, but a step costs more: 1.2 times as much with blocks of 64 as with blocks of 500.
    """
    largest = min(max(n_obs // 200, SMALLEST_BLOCK), LARGEST_BLOCK)
    blocks_in_a_look = math.ceil(first_look / largest)
    return max(math.ceil(first_look / blocks_in_a_look), LEAST_BLOCK)


def is_reshuffled(n_obs: int, size: int) -> bool:
    """Return whether a copy in blocks of `size` rows is shuffled again during the run; if not, chains share it."""
    return math.ceil(n_obs / size) < ENOUGH_BLOCKS


def rows_order(n_obs: int, n_arrays: int = 1, at_both: Any = None, word: Any = np.int64) -> DataOrder:
    """Return a new schedule of rows over `n_obs` data; ``n_obs=0`` for a test that reads all data in memory order.

    `n_arrays` (how many of the target's arrays have a row for each datum), `at_both` and `word` (the integer type in
    which a shuffle moves rows) only make the compiled type equal to that of `blocks_order`.
    """
    return DataOrder(
        places=np.arange(n_obs),
        blocks=np.empty(0, dtype=np.int64),
        kept=np.empty((0, 2), dtype=np.int64),
        terms=np.empty((2, 0)),
        cursor=np.zeros(7, dtype=np.int64),
        rows=tuple(np.empty((0, 1), dtype=word) for _ in range(n_arrays)),
        at_both=at_both,
    )


def blocks_order(n_obs: int, size: int, rows: Sequence[np.ndarray], at_both: Any = None) -> DataOrder:
    """Return a new schedule of blocks of `size` rows over a shuffled copy.

    `rows` are the copy's arrays that have a row for each datum, viewed as integers. The schedule holds them only if
    they are shuffled again during the run; otherwise the copy may be read-only.
    """
    n_blocks = math.ceil(n_obs / size)
    period = RESHUFFLE_EVERY if is_reshuffled(n_obs, size) else 0
    moved = rows if period else [np.empty((0, 1), array.dtype) for array in rows]
    return DataOrder(
        places=np.empty(0, dtype=np.int64),
        blocks=np.arange(n_blocks),
        kept=np.zeros((n_blocks, 2), dtype=np.int64),
        terms=np.empty((2, n_obs)),
        cursor=np.array([size, n_obs, period, 0, 1, 0, 0]),
        rows=tuple(moved),
        at_both=at_both,
    )
