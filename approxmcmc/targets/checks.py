"""Checks of data and functions before a run."""

import copy
import linecache
import traceback
import types
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numba import config, njit, types as nb

from approxmcmc.contracts.speaker import speaker
from approxmcmc.engine.checks import checked_integer
from approxmcmc.engine.compiler.compile import INDICES, VECTOR, kernel, type_of
from approxmcmc.engine.compiler.identity import record_helpers
from approxmcmc.engine.memory import all_memory
from approxmcmc.errors import CompilationError, InvalidInputError
from approxmcmc.sources import as_source

ROWS_AT_ONCE = 65_536  # rows checked at a time, so that data on disk are never copied as a whole
_INTEGERS = (bool, int, np.bool_, np.integer)
_NUMBERS = (*_INTEGERS, float, np.floating)
_NUMBERS_OF_NUMBA = (nb.Boolean, nb.Integer, nb.Float)
VECTORS_OF_CHAIN = 2  # the state and the proposed one
CHECKED_ROWS = 8  # data whose gradients are compared with finite differences


def checked_array(values: Any, name: str, *, keep_float32: bool = False) -> np.ndarray:
    """Return `values` as a contiguous numeric array; floats become float64, integers and booleans int64.

    For a source (see `approxmcmc.sources`) return the array that is mapped from its local file. With `keep_float32`
    float32 stays float32. Columns of several types, such as a DataFrame of floats and booleans, become float64, or
    int64 if no column holds floats.

    Raises
    ------
    InvalidInputError
        When a value is not a number, NaN, infinite, masked, or an integer beyond int64; the message names the array,
        and the index of the first NaN or infinite value.
    """
    if np.ma.is_masked(values):
        raise InvalidInputError(
            f"{speaker()}: {name} has {np.ma.count_masked(values)} masked value(s), and the mask would be ignored; "
            "remove or fill them"
        )
    source = as_source(values)
    if source is not None and source.dtype == np.float32 and not keep_float32:
        source = source.astype(np.float64)
    try:
        array = np.asarray(values if source is None else source)
    except InvalidInputError as refusal:  # the values are a source
        raise InvalidInputError(f"{speaker()}: {name}: {refusal}") from refusal
    except (TypeError, ValueError) as error:
        raise InvalidInputError(
            f"{speaker()}: {name} must be an array of numbers, found a {type(values).__name__} ({error}); give "
            "all rows the same length"
        ) from error
    if array.dtype.kind == "O" and all(isinstance(value, _NUMBERS) for value in array.flat):
        array = _of_one_type(array, name)
    if array.dtype.kind == "u" and array.size and array.max() > np.iinfo(np.int64).max:
        raise InvalidInputError(
            f"{speaker()}: {name} holds {array.max()}, beyond the largest int64; convert it to floats"
        )
    if array.dtype.kind not in "fiub":
        raise InvalidInputError(
            f"{speaker()}: {name} must hold numbers, found dtype {array.dtype}; convert or encode it first"
        )
    if not (keep_float32 and array.dtype == np.float32):
        array = array.astype(np.float64 if array.dtype.kind == "f" else np.int64, copy=False)
    array = np.ascontiguousarray(array)
    # Compiled code trusts that numbers begin at multiples of their size.
    array = array if array.flags.aligned else array.copy()
    bad, position = _not_finite(array)
    if bad:
        raise InvalidInputError(
            f"{speaker()}: {name} has {bad} NaN or infinite value(s), the first at index {position} "
            f"({array[position]}); remove or fill them"
        )
    return array


def _of_one_type(array: np.ndarray, name: str) -> np.ndarray:
    """Return an object array of Python numbers as int64 if all are integers, else as float64."""
    try:
        return array.astype(np.int64 if all(isinstance(value, _INTEGERS) for value in array.flat) else np.float64)
    except OverflowError as error:
        raise InvalidInputError(
            f"{speaker()}: {name} holds a number beyond the largest int64 or float ({error})"
        ) from error


def checked_arrays(values: Any, name: str) -> tuple[np.ndarray, ...]:
    """Return the arrays in `values` (one, or a tuple or list of them), each checked; a list of numbers is one array."""
    several = isinstance(values, tuple) or (isinstance(values, list) and any(np.ndim(value) for value in values))
    return tuple(checked_array(array, f"{name}[{k}]") for k, array in enumerate(values if several else (values,)))


def _not_finite(array: np.ndarray) -> tuple[int, tuple[int, ...]]:
    """Return how many entries are NaN or infinite, and the index of the first; read in pieces: files may be large."""
    bad = 0
    position = ()
    for start in range(0, len(array) if array.ndim and array.dtype.kind == "f" else 0, ROWS_AT_ONCE):
        infinite = ~np.isfinite(array[start : start + ROWS_AT_ONCE])
        if not bad and infinite.any():
            row, *rest = np.argwhere(infinite)[0].tolist()
            position = (start + row, *rest)
        bad += int(infinite.sum())
    return (bad, position) if array.ndim else (int(not np.isfinite(array)), ())


def positive_integer(value: Any, name: str) -> int:
    """Return `value` as an int, or raise `InvalidInputError` unless it is a whole number of at least 1."""
    return checked_integer(value, name, needed="a positive integer", whole_floats=True)


def checked_dimension(value: Any, name: str) -> int:
    """Return the length of theta as an int; raise unless it is a positive integer and a chain fits in memory."""
    length = positive_integer(value, name)
    needed = 8.0 * VECTORS_OF_CHAIN * length
    if needed > (memory := all_memory()):
        raise InvalidInputError(
            f"{speaker()}: {name} must be a length of theta that fits in memory: a chain holds {VECTORS_OF_CHAIN} "
            f"vectors or more, found {value!r}, which needs {needed / 1e9:.3g} GB of {memory / 1e9:.3g} GB"
        )
    return length


def plain_function(function: Any, name: str) -> Callable[..., Any]:
    """Return the Python function under a possible numba decorator; raise if `function` is not a Python function."""
    function = getattr(function, "py_func", function)
    if not isinstance(function, types.FunctionType):
        raise InvalidInputError(
            f"{speaker()}: {name} must be a plain Python function (def or lambda), found {type(function).__name__}; "
            "wrap builtins and methods in a function"
        )
    record_helpers(function)  # before the checks compile them
    return function


def check_compiles(
    function: Callable[..., Any],
    name: str,
    arguments: tuple[Any, ...],
    expected: str,
) -> None:
    """Compile `function`, called `name`, on its own for these arguments; run it once, and compare it with plain Python.

    Both get a copy of a random generator, so that a function that draws from it returns the same number.

    Raises
    ------
    CompilationError
        When it fails or does not compile, does not return one real number on every path, or returns another number than
        in plain Python.
    """
    plain = one_number(_call(function, name, _fresh(arguments), expected), name, expected)
    if config.DISABLE_JIT:
        return
    compiled = _compile(function, name, arguments, expected)
    (signature,) = compiled.nopython_signatures
    if not isinstance(signature.return_type, _NUMBERS_OF_NUMBA):
        raise CompilationError(
            f"{speaker()}: {name} must return one float on every path, found {signature.return_type} for the compiler\n"
            f"  expected signature: {expected}; look for a return of a complex number, or for a path without a return"
        )
    fast = compiled(*_fresh(arguments))
    if not (np.isclose(fast, plain, rtol=1e-9, atol=1e-12) or (np.isnan(fast) and np.isnan(plain))):
        raise CompilationError(
            f"{speaker()}: {name} returns {fast} when compiled and {plain} in plain Python on the same arguments; "
            "look for random numbers, methods of a generator that draw differently when compiled, integer overflow, "
            "or an argument that it writes to"
        )


def one_number(value: Any, name: str, expected: str) -> float:
    """Return what a function `name` returned as a float; raise CompilationError if it is not one real number."""
    if not isinstance(value, _NUMBERS):
        raise CompilationError(
            f"{speaker()}: {name} must return one float, found {type(value).__name__} of shape {np.shape(value)}\n"
            f"  expected signature: {expected}; return a scalar, for example by .sum() or indexing"
        )
    return float(value)


def real_numbers(values: Any, shape: tuple[int, ...], what: str, advice: str = "") -> np.ndarray:
    """Return what a function returned as an array; raise CompilationError unless it is real and has this shape."""
    array = np.asarray(values)
    if array.shape != shape or not np.can_cast(array.dtype, np.float64, casting="same_kind"):
        raise CompilationError(
            f"{what} must have shape {shape} and hold real numbers, found {array.shape} and type {array.dtype}"
            f"{advice and '; '}{advice}"
        )
    return array


def _fresh(arguments: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return the arguments with a copy of each random generator."""
    return tuple(
        copy.deepcopy(argument) if isinstance(argument, np.random.Generator) else argument for argument in arguments
    )


def check_terms(
    function: Callable[..., Any],
    name: str,
    theta: np.ndarray,
    data: tuple[np.ndarray, ...],
    n_obs: int,
    expected: str,
) -> None:
    """Run `check_compiles` at the first datum, then evaluate all `n_obs` data once, with bounds of arrays checked.

    Kernels do not check array bounds: if groups are numbered from 1, or a function reads x[i + 1] at the last datum, a
    kernel would silently read the memory behind the array.

    Raises
    ------
    CompilationError
        If `check_compiles` raises, or the function fails at a datum; the message names the first such datum.
    """
    check_compiles(function, name, (theta, data, 0), expected)
    if config.DISABLE_JIT:
        return
    place = np.zeros(1, dtype=np.int64)
    try:
        signature = nb.void(_type(theta), type_of(data), nb.int64, INDICES)
        visit = kernel(make_visit(njit(error_model="numpy", boundscheck=True)(function)), signature)
        visit(theta, data, n_obs, place)
    except Exception:
        row = int(place[0])
        _call(function, f"{name} of datum {row}", (theta, data, row), expected)
        raise


def make_visit(function: Callable[..., Any]) -> Callable[..., None]:
    """Return the loop that calls a function of one datum for each; `place` holds the index of the current datum."""

    def visit(theta: np.ndarray, data: tuple[np.ndarray, ...], n_obs: int, place: np.ndarray) -> None:
        for i in range(n_obs):
            place[0] = i
            function(theta, data, i)

    return visit


def check_fills(
    function: Callable[..., Any],
    name: str,
    arguments: tuple[Any, ...],
    expected: str,
) -> None:
    """Check a function that adds to its last argument: run it once in plain Python, then compile it on its own.

    Raises
    ------
    CompilationError
        When it fails or does not compile.
    """
    _call(function, name, arguments, expected)
    if not config.DISABLE_JIT:
        _compile(function, name, arguments, expected)


def check_gradient(
    value: Callable[[np.ndarray], float],
    add_gradient: Callable[[np.ndarray, np.ndarray], None],
    at: np.ndarray,
    name: str,
    labels: Sequence[str],
) -> None:
    """Compare a gradient with central differences of its function, coordinate by coordinate.

    Parameters
    ----------
    value, add_gradient
        The function, and a function that adds its gradient to its second argument.
    at
        Where to compare; shape (dim,).
    name, labels
        What the message calls the gradient and the coordinates.

    Raises
    ------
    InvalidInputError
        If a coordinate differs by more than the error of central differences; the message names the worst one.
    """
    middle = value(at)
    if not np.isfinite(middle):
        return  # outside the support at this point: nothing to compare
    differences = np.empty(at.size)
    for j in range(at.size):
        moved = at.copy()
        h = 1e-5 * max(1.0, abs(at[j]))
        moved[j] = at[j] + h
        above = value(moved)
        moved[j] = at[j] - h
        differences[j] = (above - value(moved)) / (2.0 * h)
    claimed = np.ones(at.size)  # not zero: a gradient must add to what is there
    add_gradient(at, claimed)
    claimed -= 1.0
    # Differences err by h^2 times a third derivative and by rounding of the value over h: relative to the coordinate,
    # to the largest one, and to the value. A wrong sign or factor is larger by orders of magnitude.
    scale = np.abs(differences)
    allowed = 1e-4 * scale + 1e-6 * scale.max() + 1e-8 * (1.0 + abs(middle))
    excess = np.nan_to_num(np.abs(claimed - differences), nan=np.inf) / allowed
    worst = int(np.argmax(excess))
    if excess[worst] > 1.0:
        raise InvalidInputError(
            f"{speaker()}: {name} disagrees with finite differences in {int((excess > 1.0).sum())} of {at.size} "
            f"coordinates, most in {labels[worst]}: it adds {claimed[worst]:.6g}, differences give "
            f"{differences[worst]:.6g} at theta = {np.array2string(at, precision=4, threshold=20)}; correct it, and "
            "add to out (out[j] += ...) instead of setting it"
        )


def _call(function: Callable[..., Any], name: str, arguments: tuple[Any, ...], expected: str) -> Any:
    try:
        with np.errstate(all="ignore"):
            return function(*arguments)
    except Exception as error:
        own = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.name == function.__name__]
        raise CompilationError(
            f"{speaker()}: {name} fails in plain Python with {type(error).__name__}: {error}"
            f"{_place(own[-1].filename, own[-1].lineno) if own else ''}\n"
            f"  expected signature: {expected}\n  call it yourself on that datum and correct it"
        ) from error


def _compile(function: Callable[..., Any], name: str, arguments: tuple[Any, ...], expected: str) -> Any:
    try:
        return kernel(function, tuple(_type(argument) for argument in arguments), checks_bounds=True)
    except Exception as error:  # numba's errors, and others that its internals raise
        raise CompilationError(
            f"{speaker()}: {name} does not compile: {compiler_says(error)}\n  expected signature: {expected}\n"
            "  use plain loops, NumPy and math functions that numba supports, decorate functions that it calls by "
            "numba.njit, and pass data through the data argument"
        ) from error


def _type(argument: Any) -> Any:
    if isinstance(argument, np.ndarray) and argument.ndim == 1 and argument.dtype == np.float64:
        return VECTOR
    return nb.int64 if isinstance(argument, int) else type_of(argument)


def compiler_says(error: Exception) -> str:
    """Return the first two lines of a compiler's message, and the line of the user's function that it refers to."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip() and "numba.core" not in line]
    said = [line for line in lines if not line.startswith(("Failed in nopython mode", 'File "'))]
    where = getattr(error, "loc", None)
    return " | ".join(said[:2])[:500] + (_place(where.filename, where.line) if where else "")


def _place(filename: str, line: int | None) -> str:
    source = linecache.getline(filename, line or 0).strip()
    return f" (line {line} of {Path(filename).name}{f': {source}' if source else ''})"
