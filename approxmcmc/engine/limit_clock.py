"""The clock that time limits count: that of the wall, or within :func:`processor_seconds` that of the processor.

A user who sets a limit waits for the wall's clock. A study compares chains, and gives each the same work: on a machine
that other programs use, a chain at half a core would draw half as much in as many seconds of the wall.
"""

import contextlib
import time
from collections.abc import Callable, Iterator
from contextvars import ContextVar

_clock: ContextVar[Callable[[], float]] = ContextVar("limit_clock", default=time.perf_counter)


def limit_clock() -> float:
    """Return the seconds on the clock of time limits; only differences have a meaning."""
    return _clock.get()()


@contextlib.contextmanager
def processor_seconds() -> Iterator[None]:
    """Let time limits count the processor seconds of this process, all of its threads together."""
    token = _clock.set(time.process_time)
    try:
        yield
    finally:
        _clock.reset(token)
