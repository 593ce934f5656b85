"""The compilations of this process: the number of kernels, and the seconds.

Progress messages show both (`sampling/progress.py`), and a trace stores the seconds. Numba compiles one kernel at a
time, under its own lock, so seconds of different threads overlap only while they wait for each other.
"""

import contextlib
import threading
import time
from collections.abc import Iterator
from typing import NamedTuple


class Compiled(NamedTuple):
    """The compilations of this process so far.

    `kernels`: number compiled. `shipped`: number read from those that came with the package. `seconds`: spent on
    compiling and on loading from disk, the current kernel included. `current`: seconds of the current kernel, 0 while
    nothing is being compiled.
    """

    kernels: int
    shipped: int
    seconds: float
    current: float


class _Work:
    """The sums, and the start of the current compilation; a kernel compiled during another one counts as part of it."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.depth = 0
        self.began = 0.0
        self.kernels = 0
        self.shipped = 0
        self.seconds = 0.0


_WORK = _Work()


@contextlib.contextmanager
def compiling() -> Iterator[None]:
    """Count the seconds spent inside this context."""
    with _WORK.lock:
        if _WORK.depth == 0:
            _WORK.began = time.perf_counter()
        _WORK.depth += 1
    try:
        yield
    finally:
        with _WORK.lock:
            _WORK.depth -= 1
            if _WORK.depth == 0:
                _WORK.seconds += time.perf_counter() - _WORK.began


def count_kernel() -> None:
    """Count a kernel that was compiled, not loaded from disk."""
    with _WORK.lock:
        _WORK.kernels += 1


def count_shipped() -> None:
    """Count a kernel that came with the package."""
    with _WORK.lock:
        _WORK.shipped += 1


def compiled_so_far() -> Compiled:
    """Return the counts of this process."""
    with _WORK.lock:
        current = time.perf_counter() - _WORK.began if _WORK.depth else 0.0
        return Compiled(_WORK.kernels, _WORK.shipped, _WORK.seconds + current, current)
