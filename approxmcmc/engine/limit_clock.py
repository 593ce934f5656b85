"""The clock of time limits: wall time, or inside :func:`processor_seconds` processor time.

A user who sets a limit waits in wall time. A study compares chains, and gives each the same work: on a machine that
other programs use, a chain that gets half a core would make half as many draws in the same wall time.
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
