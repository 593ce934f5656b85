"""Looking at data and functions before anything runs."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numba import config, njit
from numba import types as nb

from approxmcmc.engine.bind import VECTOR, type_of
from approxmcmc.errors import CompilationError, InvalidInputError

ROWS_AT_ONCE = 65_536  # whose values are looked at, so that data on disk are never copied as a whole
CHECKED_ROWS = 8  # data whose gradients are compared with finite differences


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
    bad, position = _not_finite(array)
    if bad:
        raise InvalidInputError(
            f"{who}: {name} has {bad} NaN or infinite value(s), the first at index {position} "
            f"({array[position]}); drop or impute these rows"
        )
    return array


def _not_finite(array: np.ndarray) -> tuple[int, tuple[int, ...]]:
    """Return how many entries are NaN or infinite, and where the first is; in pieces, as a mapped file may be large."""
    bad, position = 0, ()
    for start in range(0, len(array) if array.ndim and array.dtype.kind == "f" else 0, ROWS_AT_ONCE):
        infinite = ~np.isfinite(array[start : start + ROWS_AT_ONCE])
        if not bad and infinite.any():
            row, *rest = np.argwhere(infinite)[0].tolist()
            position = (start + row, *rest)
        bad += int(infinite.sum())
    return (bad, position) if array.ndim else (int(not np.isfinite(array)), ())


def positive_integer(value: Any, name: str, *, who: str) -> int:
    """Return `value` as an int, or raise `InvalidInputError` when it is no whole number of at least 1."""
    number = isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(value, bool)
    if not (number and value >= 1 and value % 1 == 0):
        raise InvalidInputError(f"{who}: {name} must be a positive integer, found {value!r}")
    return int(value)


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
    plain = _call(function, name, arguments, expected, who=who)
    if np.ndim(plain) != 0 or not isinstance(plain, (int, float, np.number, np.bool_)):
        raise CompilationError(
            f"{who}: {name} must return one float, found {type(plain).__name__} of shape {np.shape(plain)}\n"
            f"  expected signature: {expected}; return a scalar, for example by .sum() or indexing"
        )
    if config.DISABLE_JIT:
        return
    fast = _compile(function, name, arguments, expected, who=who)(*arguments)
    if not (np.isclose(fast, plain, rtol=1e-9, atol=1e-12) or (np.isnan(fast) and np.isnan(plain))):
        raise CompilationError(
            f"{who}: {name} returns {fast} when compiled and {plain} in plain Python on the same arguments; "
            "look for integer overflow, or globals that changed after the function was defined"
        )


def check_fills(
    function: Callable[..., Any], name: str, arguments: tuple[Any, ...], expected: str, *, who: str
) -> None:
    """Run a function that adds to its last argument once in plain Python, and compile it alone.

    Raises
    ------
    CompilationError
        When it fails or does not compile.
    """
    _call(function, name, arguments, expected, who=who)
    if not config.DISABLE_JIT:
        _compile(function, name, arguments, expected, who=who)


def check_gradient(
    value: Callable[[np.ndarray], float],
    add_gradient: Callable[[np.ndarray, np.ndarray], None],
    at: np.ndarray,
    name: str,
    labels: Sequence[str],
    *,
    who: str,
) -> None:
    """Compare a gradient with central differences of the function that it belongs to, coordinate by coordinate.

    Parameters
    ----------
    value, add_gradient
        The function, and what adds its gradient to its second argument.
    at
        Where to compare; shape (dim,).
    name, labels, who
        What the message calls the gradient, the coordinates, and the target.

    Raises
    ------
    InvalidInputError
        When a coordinate differs by more than differences can err; the message names the worst.
    """
    here = value(at)
    if not np.isfinite(here):
        return  # outside the support at this point: nothing to compare
    differences = np.empty(at.size)
    for j in range(at.size):
        moved, h = at.copy(), 1e-5 * max(1.0, abs(at[j]))
        moved[j] = at[j] + h
        above = value(moved)
        moved[j] = at[j] - h
        differences[j] = (above - value(moved)) / (2.0 * h)
    claimed = np.ones(at.size)  # not zero: a gradient must add to what is there
    add_gradient(at, claimed)
    claimed -= 1.0
    scale = np.abs(differences)
    allowed = 1e-4 * scale + 1e-6 * scale.max() + 1e-8 * (1.0 + abs(here))
    excess = np.nan_to_num(np.abs(claimed - differences), nan=np.inf) / allowed
    worst = int(np.argmax(excess))
    if excess[worst] > 1.0:
        raise InvalidInputError(
            f"{who}: {name} disagrees with finite differences in {int((excess > 1.0).sum())} of {at.size} "
            f"coordinates, most in {labels[worst]}: it adds {claimed[worst]:.6g}, differences give "
            f"{differences[worst]:.6g} at theta = {np.array2string(at, precision=4, threshold=20)}; mend it, and add "
            "to out (out[j] += ...) instead of setting it"
        )


def _call(function: Callable[..., Any], name: str, arguments: tuple[Any, ...], expected: str, *, who: str) -> Any:
    try:
        return function(*arguments)
    except Exception as error:
        raise CompilationError(
            f"{who}: {name} fails in plain Python with {type(error).__name__}: {error}\n"
            f"  expected signature: {expected}\n  call it once by hand on the first datum and mend it"
        ) from error


def _compile(function: Callable[..., Any], name: str, arguments: tuple[Any, ...], expected: str, *, who: str) -> Any:
    compiled = njit(error_model="numpy")(function)
    try:
        compiled.compile(tuple(_type(argument) for argument in arguments))
    except Exception as error:  # numba's own errors, and others that escape from its internals
        raise CompilationError(
            f"{who}: {name} does not compile: {_first_lines(error)}\n  expected signature: {expected}\n"
            "  use plain loops, NumPy and math functions that numba supports, and pass data through the data argument"
        ) from error
    return compiled


def _type(argument: Any) -> Any:
    if isinstance(argument, np.ndarray) and argument.ndim == 1 and argument.dtype == np.float64:
        return VECTOR
    return nb.int64 if isinstance(argument, int) else type_of(argument)


def _first_lines(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip() and "numba.core" not in line]
    return " | ".join(lines[:4])
