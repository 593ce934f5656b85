"""Looking at data and functions before anything runs."""

from collections.abc import Callable
from typing import Any

import numpy as np
from numba import config, njit
from numba import types as nb

from approxmcmc.engine.bind import VECTOR, type_of
from approxmcmc.errors import CompilationError, InvalidInputError


def checked_array(values: Any, name: str, *, who: str) -> np.ndarray:
    """Return `values` as a contiguous numeric array; floats become float64, integers and booleans int64.

    Raises
    ------
    InvalidInputError
        When a value is not a number, NaN or infinite; the message names the array and the first position.
    """
    array = np.asarray(values)
    if array.dtype.kind not in "fiub":
        raise InvalidInputError(
            f"{who}: {name} must hold numbers, found dtype {array.dtype}; "
            "convert or encode it before building the target"
        )
    array = np.ascontiguousarray(array, dtype=np.float64 if array.dtype.kind == "f" else np.int64)
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        bad = np.argwhere(~np.isfinite(array))
        position = tuple(int(k) for k in bad[0])
        raise InvalidInputError(
            f"{who}: {name} has {len(bad)} NaN or infinite value(s), the first at index {position} "
            f"({array[position]}); drop or impute these rows"
        )
    return array


def plain_function(function: Any, name: str, *, who: str) -> Callable[..., Any]:
    """Return the Python function under a possible numba decorator."""
    function = getattr(function, "py_func", function)
    if not (callable(function) and hasattr(function, "__code__")):
        raise InvalidInputError(
            f"{who}: {name} must be a plain Python function (def or lambda), found {type(function).__name__}; "
            "wrap builtins and methods in a function"
        )
    return function  # type: ignore[no-any-return]


def check_compiles(
    function: Callable[..., Any], name: str, arguments: tuple[Any, ...], expected: str, *, who: str
) -> None:
    """Compile `function` alone for these arguments, run it once, and compare it with plain Python.

    Raises
    ------
    CompilationError
        When it does not compile, does not return one number, or disagrees with its plain Python self.
    """
    try:
        plain = function(*arguments)
    except Exception as error:
        raise CompilationError(
            f"{who}: {name} fails in plain Python with {type(error).__name__}: {error}\n"
            f"  expected signature: {expected}\n  call it once by hand on the first datum and mend it"
        ) from error
    if np.ndim(plain) != 0 or not isinstance(plain, (int, float, np.number, np.bool_)):
        raise CompilationError(
            f"{who}: {name} must return one float, found {type(plain).__name__} of shape {np.shape(plain)}\n"
            f"  expected signature: {expected}; return a scalar, for example by .sum() or indexing"
        )
    if config.DISABLE_JIT:
        return
    compiled = njit(error_model="numpy")(function)
    try:
        compiled.compile(tuple(_type(argument) for argument in arguments))
    except Exception as error:  # numba's own errors, and others that escape from its internals
        raise CompilationError(
            f"{who}: {name} does not compile: {_first_lines(error)}\n  expected signature: {expected}\n"
            "  use plain loops, NumPy and math functions that numba supports, and pass data through the data argument"
        ) from error
    fast = compiled(*arguments)
    if not (np.isclose(fast, plain, rtol=1e-9, atol=1e-12) or (np.isnan(fast) and np.isnan(plain))):
        raise CompilationError(
            f"{who}: {name} returns {fast} when compiled and {plain} in plain Python on the same arguments; "
            "look for integer overflow, or globals that changed after the function was defined"
        )


def _type(argument: Any) -> Any:
    if isinstance(argument, np.ndarray) and argument.ndim == 1 and argument.dtype == np.float64:
        return VECTOR
    return nb.int64 if isinstance(argument, int) else type_of(argument)


def _first_lines(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip() and "numba.core" not in line]
    return " | ".join(lines[:4])
