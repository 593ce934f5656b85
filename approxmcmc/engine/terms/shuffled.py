"""A copy of the data in random order, in memory or on disk.

Every array with a row for each of the N terms is copied row by row; others are passed through. The copy is written
front to back in pieces, so that data on disk (`numpy.memmap`) are never in memory as a whole.

On disk, the copy of an array that is mapped from a file is also a named file: one per data set, made once and mapped
by all chains, runs and processes. So its order depends on the number of rows alone, not on a seed. Other arrays, such
as those that an expansion computes for each row, are copied to scratch.

If the data are larger than memory, reading rows one by one costs a page for each: 400 MB, with memory for a third of
them, did not finish in 280 s. Distributing them over buckets first took 16 s. If the data fit into memory, reading one
by one is two to three times as fast.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from approxmcmc.contracts import CompiledTarget, content_hash
from approxmcmc.contracts.speaker import speaker
from approxmcmc.engine.files.mapped_files import has_named_file, is_mapped, named_array, nameless_array
from approxmcmc.engine.files.paths import user_cache
from approxmcmc.engine.terms.passes import over_blocks
from approxmcmc.errors import IncompatibleError, InvalidInputError

LARGE = 1 << 30  # bytes; larger arrays are distributed over buckets
BUCKET = 1 << 26  # bytes of a bucket; three are in memory at a time
PIECE = 1 << 22  # bytes moved at a time


def in_order(array: np.ndarray, permutation: np.ndarray, scratch: Path) -> Iterator[np.ndarray]:
    """Yield ``array[permutation]`` piece by piece; a large mapped array goes through a file in the folder `scratch`.

    Raises
    ------
    InvalidInputError
        When there is no space for that file, which is as large as the array.
    """
    if array.nbytes >= LARGE and is_mapped(array):
        return _by_buckets(array, permutation, scratch)
    size = rows_in(array, PIECE)
    return (array[permutation[lo : lo + size]] for lo in range(0, len(array), size))


def rows_in(array: np.ndarray, n_bytes: int) -> int:
    """Return how many rows of an array fit into that many bytes, at least one."""
    return max(1, n_bytes * len(array) // max(array.nbytes, 1))


def _by_buckets(array: np.ndarray, permutation: np.ndarray, folder: Path) -> Iterator[np.ndarray]:
    """Yield ``array[permutation]`` bucket by bucket, from a file in `folder`.

    The array is read once, front to back: each row goes to the bucket of its new place, then each bucket is sorted.
    """
    size = rows_in(array, BUCKET)
    places = _inverse(permutation)
    buckets = nameless_array(array.shape, array.dtype, folder, purpose="shuffled_copy")
    ends = np.arange(0, len(array), size)
    for lo in range(0, len(array), size):
        bucket = places[lo : lo + size] // size
        sizes = np.bincount(bucket, minlength=len(ends))
        rows = array[lo : lo + size][np.argsort(bucket, kind="stable")]
        for end, part in zip(ends, np.split(rows, np.cumsum(sizes)[:-1]), strict=True):
            buckets[end : end + len(part)] = part
        ends += sizes
    for lo in range(0, len(array), size):
        yield buckets[lo : lo + size][_inverse(np.argsort(permutation[lo : lo + size]))]


def _inverse(permutation: np.ndarray) -> np.ndarray:
    inverse = np.empty_like(permutation)
    inverse[permutation] = np.arange(len(permutation))
    return inverse


PLACES = ("memory", "disk")
TERMS_COMPARED = 1000


def by_row(data: Sequence[np.ndarray], n_obs: int) -> list[bool]:
    """Return for each array of the data whether it has a row for each of the `n_obs` terms."""
    return [array.ndim > 0 and array.shape[0] == n_obs for array in data]


def word_of(data: Sequence[np.ndarray], n_obs: int) -> type[np.signedinteger]:
    """Return the integer type in which a shuffle moves rows: it has the bytes of the shortest item of the arrays.

    Only arrays with `n_obs` rows count; without any it is int64.
    """
    sizes = [array.dtype.itemsize for array, moved in zip(data, by_row(data, n_obs), strict=True) if moved]
    return np.dtype(f"i{min(sizes, default=8)}").type


def check_place(storage: str) -> None:
    """Raise unless `storage` is "memory", "disk" or an existing folder."""
    if not isinstance(storage, str) or (storage not in PLACES and not Path(storage).is_dir()):
        raise InvalidInputError(
            f"{speaker()}: shuffled_copy must be one of {PLACES} or a folder that exists, found {storage!r}"
        )


def order_of_files(n_obs: int) -> np.ndarray:
    """Return the random permutation that all shuffled files with `n_obs` rows share; shape (n_obs,)."""
    return np.random.default_rng(n_obs).permutation(n_obs)


def shuffled_copy(
    data: Sequence[np.ndarray], permutation: np.ndarray, storage: str, *, named: bool = False
) -> tuple[tuple[np.ndarray, ...], tuple[np.ndarray, ...]]:
    """Return the data in the order of `permutation`, and the arrays that a reshuffle moves.

    Parameters
    ----------
    data
        C-contiguous arrays of numbers or booleans, of 1, 2, 4 or 8 bytes each.
    permutation
        Indices of the rows in their new order; shape (N,).
    storage
        ``"memory"``; ``"disk"``: files below the package's cache folder; or a folder for these files.
    named
        Whether copies of arrays in files of their own are also named files, which must not be changed.

    Returns
    -------
    copy, rows
        `copy` has the types of `data`, and is read-only if those are. `rows` are views of the same memory as integers
        of `word_of`, shape (N, width): a shuffle only moves bits.
    """
    n_obs = len(permutation)
    word = word_of(data, len(permutation))
    copy: list[np.ndarray] = []
    rows: list[np.ndarray] = []
    for array, copied in zip(data, by_row(data, n_obs), strict=True):
        if not copied:
            copy.append(array)
            continue
        if storage == "memory" or array.size == 0:
            new = _in_memory(array, permutation)
        else:
            new = _on_disk(array, permutation, storage, named=named and has_named_file(array))
        rows.append(new.view(word).reshape(n_obs, -1))
        view = new.view()
        view.flags.writeable = array.flags.writeable
        copy.append(view)
    return tuple(copy), tuple(rows)


def _in_memory(array: np.ndarray, permutation: np.ndarray) -> np.ndarray:
    new = np.empty(array.shape, array.dtype)

    def move(lo: int, hi: int) -> None:
        np.take(array, permutation[lo:hi], axis=0, out=new[lo:hi], mode="clip")  # mode="raise" would make a copy

    for _ in over_blocks(move, len(array), rows_in(array, PIECE)):
        pass
    return new


def _on_disk(array: np.ndarray, permutation: np.ndarray, storage: str, *, named: bool) -> np.ndarray:
    """Return the rows in the order of `permutation`, in a file; a `named` file that exists is not written again."""
    folder = user_cache("shuffled_data") if storage == "disk" else Path(storage)
    blocks = in_order(array, permutation, folder)
    if named:
        name = content_hash(array, permutation[:TERMS_COMPARED])  # so many numbers of a random order identify it
        mode = "c" if array.flags.writeable else "r"
        path = folder / f"{name}.npy"
        return named_array(path, array.shape, array.dtype, blocks, purpose="shuffled_copy", mode=mode)
    new = nameless_array(array.shape, array.dtype, folder, purpose="shuffled_copy")
    lo = 0
    for block in blocks:
        new[lo : lo + len(block)] = block
        lo += len(block)
        del block  # free the block first, so that only one is in memory
    return new


def check_rows_are_terms(
    target: CompiledTarget, copy: tuple[np.ndarray, ...], permutation: np.ndarray, theta: np.ndarray
) -> int:
    """Check that the first terms of a shuffled copy equal those of the target; return the number of terms evaluated.

    Raises
    ------
    IncompatibleError
        When a term depends on more than its own row: on its place, on its neighbours, or on an array that has N rows by
        coincidence. Shuffling would change such terms.
    """
    n = min(len(permutation), TERMS_COMPARED)
    point = theta + 0.1 * np.sin(1.0 + np.arange(len(theta)))  # not at the start, where all terms may be equal
    moved = np.empty(n)
    expected = np.empty(n)
    target.log_terms(point, copy, np.empty(0, dtype=np.int64), 0, n, moved)
    target.log_terms(point, target.data, permutation[:n], 0, n, expected)
    rounding = {"rtol": target.term_tolerance, "atol": 1e-3 * target.term_tolerance}
    if not np.allclose(moved, expected, **rounding, equal_nan=True):
        raise IncompatibleError(
            "the terms of this target change when its rows are shuffled: a term must depend on its own row alone, in "
            "every array with n_obs rows. Give the test order='rows', which does not move the data"
        )
    return 2 * n
