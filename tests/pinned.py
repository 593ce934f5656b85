"""Draws that are stored in a test: compiled and plain runs, in separate sessions, are compared with the same numbers.

Steps of a random walk are sums and products in a fixed order, so that all platforms share their bits; sums over data,
whose last bits depend on the compiler, affect draws only through decisions.
"""

import hashlib

import numpy as np


def pin(draws, *records) -> tuple[str, list[float]]:
    """Return a digest of all bits of `draws` (draw, dim) and of the records, and for the reader the last draw."""
    digest = hashlib.blake2b(np.ascontiguousarray(draws, dtype=float).tobytes(), digest_size=8)
    for record in records:
        digest.update(np.ascontiguousarray(record, dtype=np.int64).tobytes())
    return digest.hexdigest(), np.asarray(draws, dtype=float)[-1].tolist()
