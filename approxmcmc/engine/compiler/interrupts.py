"""Delay Ctrl-C while LLVM makes machine code.

LLVM passes the code to numba through a callback of ctypes, which ignores exceptions. Python runs its signal handlers at
the first line of that callback. So without this context a `KeyboardInterrupt` that comes while LLVM works is lost
there: numba then fails with a `RuntimeError`, or the run continues.
"""

import contextlib
import signal
import threading
from collections.abc import Iterator
from typing import Any


@contextlib.contextmanager
def interrupts_delayed() -> Iterator[None]:
    """Delay SIGINT (Ctrl-C) to the end of this context; do nothing outside of the main thread or without a handler."""
    handler = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(handler):
        yield
        return
    was_interrupted = threading.Event()

    def remember(*_: Any) -> None:
        was_interrupted.set()

    signal.signal(signal.SIGINT, remember)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, handler)
    if was_interrupted.is_set():
        signal.raise_signal(signal.SIGINT)
