"""Passes over all data on the cores of the machine: fixed blocks of rows, with results in the order of the rows.

    sum_i g(x_i) = ((G_1 + G_2) + G_3) + ...,    G_k the sum over the rows of block k, made by one thread.

Blocks and the order of their sums depend only on the number of rows, so results are the same, bit by bit, on any number
of threads. Kernels release the interpreter lock, and process a few rows at a time, which stay in the cache.

Set-up and audits use these passes, steps do not: chains have their own threads. On a Dask cluster each worker makes the
passes over its part of the rows with such threads: `approxmcmc.engine.terms.partitions`.
"""

import concurrent.futures
import functools
import operator
from collections.abc import Callable, Iterator

import numpy as np
from numba import config

from approxmcmc.contracts import CompiledTarget
from approxmcmc.engine.compiler.python_call import raise_kept
from approxmcmc.engine.terms.gradients import ALL_ROWS

BLOCK = 1 << 15  # rows: a few milliseconds of work; handing it to a thread takes a hundredth of that
TILE = 1 << 12  # rows read once for several thetas: 1.6 MB with 50 columns, which fits in the second-level cache


def threads() -> int:
    """Return how many threads a pass may use: the cores of this process, or ``NUMBA_NUM_THREADS``."""
    return int(config.NUMBA_NUM_THREADS)


def over_blocks[T](work: Callable[[int, int], T], n_obs: int, block: int = BLOCK) -> Iterator[T]:
    """Yield ``work(lo, hi)`` for each block of rows lo ... hi - 1, in the order of the rows.

    An exception of a block is raised in the order of the rows, whichever thread raised it first. It may come from a
    Python function that a kernel called.
    """

    def checked_work(lo: int, hi: int) -> T:
        with np.errstate(all="ignore"):  # far from the mode terms are infinite; of machine code NumPy would not warn
            result = work(lo, hi)
        raise_kept()
        return result

    starts = range(0, n_obs, block)
    ends = [min(lo + block, n_obs) for lo in starts]
    workers = min(threads(), len(starts))
    if workers < 2:
        yield from map(checked_work, starts, ends)
        return
    with concurrent.futures.ThreadPoolExecutor(workers, thread_name_prefix="pass") as pool:
        yield from pool.map(checked_work, starts, ends)


def sum_over_blocks[T](work: Callable[[int, int], T], n_obs: int, block: int = BLOCK) -> T:
    """Return the sum of ``work(lo, hi)`` over all blocks, in the order of the rows."""
    return functools.reduce(operator.add, over_blocks(work, n_obs, block))  # type: ignore[arg-type]  # T adds up


def log_likelihoods(target: CompiledTarget, thetas: np.ndarray) -> np.ndarray:
    """Return the sum of all terms at each of `thetas` (k, dim), shape (k,), in one pass over the data."""

    def block(lo: int, hi: int) -> np.ndarray:
        sums = np.zeros(len(thetas))
        out = np.empty(TILE)
        for start in range(lo, hi, TILE):
            stop = min(start + TILE, hi)
            for k, theta in enumerate(thetas):
                target.log_terms(theta, target.data, ALL_ROWS, start, stop, out)
                with np.errstate(invalid="ignore"):  # terms of +inf and of -inf: the sum is NaN
                    sums[k] += out[: stop - start].sum()
        return sums

    return sum_over_blocks(block, target.n_obs)


def log_likelihood_ratios(target: CompiledTarget, thetas: np.ndarray, proposed: np.ndarray) -> np.ndarray:
    """Return sum_i l_i of each pair ``thetas[j], proposed[j]``, shapes (k, dim), in one pass over the data; (k,)."""

    def block(lo: int, hi: int) -> np.ndarray:
        sums = np.zeros(len(thetas))
        at_theta, at_proposed = np.empty((2, TILE))
        for start in range(lo, hi, TILE):
            stop = min(start + TILE, hi)
            for k, pair in enumerate(zip(thetas, proposed, strict=True)):
                for theta, out in zip(pair, (at_theta, at_proposed), strict=True):
                    target.log_terms(theta, target.data, ALL_ROWS, start, stop, out)
                with np.errstate(invalid="ignore"):  # infinite terms at both states
                    sums[k] += (at_proposed - at_theta)[: stop - start].sum()
        return sums

    return sum_over_blocks(block, target.n_obs)


def write_terms(target: CompiledTarget, thetas: np.ndarray, out: np.ndarray) -> int:
    """Write all terms at each of `thetas` (k, dim) to `out` (rows, k), in one pass; return the number of rows."""

    def block(lo: int, hi: int) -> int:
        column = np.empty(hi - lo)
        for j, theta in enumerate(thetas):
            target.log_terms(theta, target.data, ALL_ROWS, lo, hi, column)
            out[lo:hi, j] = column
        return hi - lo

    return sum_over_blocks(block, len(out))
