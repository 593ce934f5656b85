"""Delay Ctrl-C while LLVM makes machine code.

LLVM passes the code to numba through a callback of ctypes, which ignores exceptions. Python runs its signal handlers at
the first line of that callback, so a `KeyboardInterrupt` that came while LLVM worked was lost there: numba then failed
with a `RuntimeError`, or the run continued.
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
    came = threading.Event()

    def note(*_: Any) -> None:
        came.set()

    signal.signal(signal.SIGINT, note)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, handler)
    if came.is_set():
        signal.raise_signal(signal.SIGINT)
