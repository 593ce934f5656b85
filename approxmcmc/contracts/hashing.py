"""Content hashes of targets and data.

Large arrays are hashed in pieces, on all cores or on NUMBA_NUM_THREADS threads: BLAKE2 of the pieces' SHA-256, whatever
the number of threads. On one thread BLAKE2 hashes .4 GB/s, which would be the slowest part of set-up.
"""

import concurrent.futures
import contextlib
import hashlib
import json
import os
from collections.abc import Callable, Iterator, Sequence
from contextvars import ContextVar
from typing import Any

import numpy as np

LARGE = 1 << 26  # bytes from which an array is hashed in pieces
PIECE = 1 << 24  # bytes
_Known = dict[tuple[Any, ...], tuple[tuple[Any, ...], str]]
_known: ContextVar[_Known | None] = ContextVar("hashes of parts", default=None)


def content_hash(*parts: Any) -> str:
    """Return a short hash of strings, JSON-ready values and arrays (by dtype, shape and bytes)."""
    hashes = _known.get()
    if hashes is None:
        return _hash_of(parts)
    key = tuple(_place(part) if isinstance(part, np.ndarray) else _text(part) for part in parts)
    if key not in hashes:
        hashes[key] = parts, _hash_of(parts)  # keep the arrays alive, so that no other array can get the same address
    return hashes[key][1]


@contextlib.contextmanager
def arrays_hashed_once() -> Iterator[None]:
    """Hash the same arrays only once inside this context; the data must not change meanwhile.

    A run that chooses its sampler needs the hash of its target 18 times: 1.6 s for 40 MB.
    """
    token = _known.set({} if _known.get() is None else _known.get())
    try:
        yield
    finally:
        _known.reset(token)


def _hash_of(parts: tuple[Any, ...]) -> str:
    digest = hashlib.blake2b(digest_size=16)
    for part in parts:
        if isinstance(part, np.ndarray):
            digest.update(f"{part.dtype.str}{part.shape}".encode())
            digest.update(_by_pieces(part) if part.nbytes >= LARGE else np.ascontiguousarray(part).data)
        else:
            digest.update(_text(part))
        digest.update(b"\0")
    return digest.hexdigest()


def _text(part: Any) -> bytes:
    return json.dumps(part, sort_keys=True, default=str).encode()


def _place(array: np.ndarray) -> tuple[Any, ...]:
    """Return address, shape, strides and type of an array; two arrays that agree in all of them are the same view."""
    return array.__array_interface__["data"], array.shape, array.strides, array.dtype.str


def _by_pieces(array: np.ndarray) -> bytes:
    """Return the concatenated hashes of the pieces of a large array."""
    rows = max(1, PIECE * len(array) // array.nbytes)

    def of_piece(lo: int) -> bytes:
        return hashlib.sha256(np.ascontiguousarray(array[lo : lo + rows]).data).digest()

    return b"".join(in_threads(of_piece, range(0, len(array), rows)))


def in_threads(hash_piece: Callable[[int], bytes], starts: Sequence[int]) -> list[bytes]:
    """Return ``hash_piece(start)`` of every start, in their order, computed on all cores or NUMBA_NUM_THREADS."""
    threads = int(os.environ.get("NUMBA_NUM_THREADS", os.cpu_count() or 1))
    if threads < 2 or len(starts) < 2:
        return list(map(hash_piece, starts))
    with concurrent.futures.ThreadPoolExecutor(threads, thread_name_prefix="hash") as pool:
        return list(pool.map(hash_piece, starts))
