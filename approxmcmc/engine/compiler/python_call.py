"""Call Python from a kernel: for rare events, and for models that other libraries compute a batch at a time.

The kernel holds a pointer to a C function that takes the interpreter lock and calls Python. An empty call costs a
microsecond, and a call that makes NumPy views of a few addresses about five.
"""

import ctypes
import threading
from collections.abc import Callable
from typing import Any

import numba.experimental.function_type  # noqa: F401 (lets numba see such values)
import numpy as np
from numba import types

_kept = threading.local()


def raise_kept() -> None:
    """Raise the first exception that a :class:`PythonCall` kept in this thread since the last call, if there is one.

    Code that runs kernels calls this after each of them. Compiled code cannot pass exceptions on, Ctrl-C included.
    """
    error = getattr(_kept, "error", None)
    _kept.error = None
    if error is not None:
        raise error


def keep(error: BaseException) -> None:
    """Keep an exception for `raise_kept`, unless an earlier one of this thread is waiting."""
    if getattr(_kept, "error", None) is None:
        _kept.error = error


class PythonCall(types.WrapperAddressProtocol):  # type: ignore[misc]  # numba has no types
    """A Python function of integers that returns an integer, as a value in the state or the context of a kernel.

    Parameters
    ----------
    function
        Takes `n_arguments` integers, such as addresses and lengths of arrays, and returns an integer.
    n_arguments
        Number of arguments.

    Notes
    -----
    If the function raises, the exception is kept for :func:`raise_kept`, and the kernel receives 0.
    """

    def __init__(self, function: Callable[..., int], n_arguments: int = 0) -> None:
        def answer(*arguments: int) -> int:
            try:
                return function(*arguments)
            except BaseException as error:
                keep(error)
                return 0

        self.n_arguments = n_arguments
        self._answer = answer
        self._native = ctypes.CFUNCTYPE(ctypes.c_int64, *n_arguments * [ctypes.c_int64])(answer)

    def __call__(self, *arguments: int | np.integer[Any]) -> int:
        """Call the function, from Python."""
        return self._answer(*map(int, arguments))

    def __wrapper_address__(self) -> int:
        """Return the address of the C function; the name is numba's."""
        return ctypes.cast(self._native, ctypes.c_void_p).value or 0

    def signature(self) -> Any:
        """Return the types that numba sees."""
        return types.int64(*self.n_arguments * [types.int64])
