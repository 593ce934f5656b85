"""The compilations of this process: the number of kernels, and the seconds.

Progress messages show both (`sampling/progress.py`), and a trace stores the seconds: those in which at least one thread
compiles. Threads that compile at the same time are counted once, because numba compiles one kernel at a time, under its
own lock, and the others wait.
"""

import contextlib
import threading
import time
from collections.abc import Iterator
from typing import NamedTuple


class Compilations(NamedTuple):
    """The compilations of this process so far.

    `kernels`: number compiled. `shipped`: number read from those that came with the package. `seconds`: spent on
    compiling and on loading from disk, the current kernel included. `current`: seconds of the current kernel, 0 while
    nothing is being compiled.
    """

    kernels: int
    shipped: int
    seconds: float
    current: float


class _Totals:
    """The totals of this process. `n_open` contexts of `compiling` are entered, in all threads, the first at `began`.

    A kernel that is compiled during another one so counts as part of it.
    """

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.n_open = 0
        self.began = 0.0
        self.kernels = 0
        self.shipped = 0
        self.seconds = 0.0


_TOTALS = _Totals()


@contextlib.contextmanager
def compiling() -> Iterator[None]:
    """Count the seconds spent inside this context."""
    with _TOTALS.lock:
        if _TOTALS.n_open == 0:
            _TOTALS.began = time.perf_counter()
        _TOTALS.n_open += 1
    try:
        yield
    finally:
        with _TOTALS.lock:
            _TOTALS.n_open -= 1
            if _TOTALS.n_open == 0:
                _TOTALS.seconds += time.perf_counter() - _TOTALS.began


def count_kernel() -> None:
    """Count a kernel that was compiled, not loaded from disk."""
    with _TOTALS.lock:
        _TOTALS.kernels += 1


def count_shipped() -> None:
    """Count a kernel that came with the package."""
    with _TOTALS.lock:
        _TOTALS.shipped += 1


def compiled_so_far() -> Compilations:
    """Return the counts of this process."""
    with _TOTALS.lock:
        current = time.perf_counter() - _TOTALS.began if _TOTALS.n_open else 0.0
        return Compilations(_TOTALS.kernels, _TOTALS.shipped, _TOTALS.seconds + current, current)
