"""Content hashes of targets and data.

Large arrays are hashed in pieces, on all cores: BLAKE2 of the pieces' SHA-256, independent of the number of threads.
One thread's BLAKE2 reads .4 GB/s, slower than any other part of set-up.
"""

import concurrent.futures
import contextlib
import hashlib
import json
import os
from collections.abc import Iterator
from contextvars import ContextVar
from typing import Any

import numpy as np

LARGE = 1 << 26  # bytes
PIECE = 1 << 24
_Known = dict[tuple[Any, ...], tuple[np.ndarray, bytes]]
_known: ContextVar[_Known | None] = ContextVar("hashes of large arrays", default=None)


def content_hash(*parts: Any) -> str:
    """Return a short hash of strings, JSON-ready values and arrays (by dtype, shape and bytes)."""
    digest = hashlib.blake2b(digest_size=16)
    for part in parts:
        if isinstance(part, np.ndarray):
            digest.update(f"{part.dtype.str}{part.shape}".encode())
            digest.update(_large(part) if part.nbytes >= LARGE else np.ascontiguousarray(part).data)
        else:
            digest.update(json.dumps(part, sort_keys=True, default=str).encode())
        digest.update(b"\0")
    return digest.hexdigest()


@contextlib.contextmanager
def arrays_hashed_once() -> Iterator[None]:
    """Hash each large array only once inside this context; the data must not change meanwhile."""
    token = _known.set({} if _known.get() is None else _known.get())
    try:
        yield
    finally:
        _known.reset(token)


def _large(array: np.ndarray) -> bytes:
    known, place = _known.get(), array.__array_interface__
    key = place["data"], array.shape, array.strides, array.dtype.str
    if known is not None and key in known:
        return known[key][1]
    pieces = _by_pieces(array)
    if known is not None:
        known[key] = array, pieces  # keep the array itself, so that its id cannot be reused
    return pieces


def _by_pieces(array: np.ndarray) -> bytes:
    """Return the concatenated hashes of the pieces of a large array."""
    rows = max(1, PIECE * len(array) // array.nbytes)

    def of_piece(lo: int) -> bytes:
        return hashlib.sha256(np.ascontiguousarray(array[lo : lo + rows]).data).digest()

    starts = range(0, len(array), rows)
    threads = int(os.environ.get("NUMBA_NUM_THREADS", os.cpu_count() or 1))
    if threads < 2:
        return b"".join(map(of_piece, starts))
    with concurrent.futures.ThreadPoolExecutor(threads, thread_name_prefix="hash") as pool:
        return b"".join(pool.map(of_piece, starts))
