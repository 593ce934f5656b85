"""Copying and comparing vectors inside kernels."""

import numpy as np

from approxmcmc.engine.compiler.compile import compiled


@compiled(forceinline=True)  # as a call it made steps of .6 us a third longer
def assign(out: np.ndarray, values: np.ndarray) -> None:
    """Write ``values`` to ``out``, a vector of the same length.

    This is a loop because ``out[:] = values`` takes 1.7 ns an element, and the loop 0.1; and numba's check of the
    shapes, with the text of its error, adds 1.6 s to the first kernel that a process compiles.
    """
    for i in range(out.shape[0]):
        out[i] = values[i]


@compiled
def equal(one: np.ndarray, other: np.ndarray) -> bool:
    """Return whether two vectors of the same length hold the same numbers; a NaN equals nothing.

    The loop has no early exit, which would keep it from vectorising: 10 ns for 50 equal numbers, 29 ns with an exit.
    """
    same = True
    for i in range(one.shape[0]):
        same &= one[i] == other[i]
    return same
