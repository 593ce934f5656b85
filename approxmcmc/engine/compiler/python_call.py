"""Call Python from a kernel for rare events, so that their code is not compiled into every kernel.

The kernel holds a pointer to a C function that takes the interpreter lock and calls Python. That costs a microsecond a
call, and nothing until then.
"""

import ctypes
import traceback
from collections.abc import Callable
from typing import Any

import numba.experimental.function_type  # noqa: F401 (lets numba see such values)
from numba import types

_NATIVE = ctypes.CFUNCTYPE(ctypes.c_int64)


class PythonCall(types.WrapperAddressProtocol):  # type: ignore[misc]  # numba has no types
    """A Python function without arguments that returns an integer, as a value in the state of a kernel.

    If it raises, the exception is printed and the kernel receives 0; C would otherwise return an arbitrary number.
    """

    def __init__(self, function: Callable[[], int]) -> None:
        def answer() -> int:
            try:
                return function()
            except BaseException:
                traceback.print_exc()
                return 0

        self._answer, self._native = answer, _NATIVE(answer)

    def __call__(self) -> int:
        """Call the function, from Python."""
        return self._answer()

    def __wrapper_address__(self) -> int:
        """Return the address of the C function; the name is numba's."""
        return ctypes.cast(self._native, ctypes.c_void_p).value or 0

    def signature(self) -> Any:
        """Return the types that numba sees."""
        return types.int64()
