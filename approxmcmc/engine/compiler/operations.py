"""Count the scalar operations of a function in its byte code: the cost of a call, without running it.

A clock would give another number each time, and a choice based on it would not be repeatable. The count is rough:
arithmetic, comparisons, array reads and writes are one operation each, an exponential is ten. Code in loops, generator
expressions, products ``@`` and reductions of arrays (`WHOLE_ARRAYS`, as functions or methods) is multiplied by the
length that the caller gives. Arithmetic and functions of arrays, entry by entry, count as those of one number, because
byte code has no shapes.
"""

import builtins
import dis
import types
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from approxmcmc.engine.compiler.libraries import PINNED_PACKAGES

TRANSCENDENTAL = 10.0  # operations: a vectorised exponential takes 2 ns, an addition of the same loop .2
_EXPONENTIALS = "exp expm1 exp2 log log1p log2 log10 log1mexp logaddexp sigmoid softplus pow power sqrt cbrt hypot"
_ANGLES = "sin cos tan sinh cosh tanh arctan atan asin acos arcsinh arccosh arctanh"
_SPECIAL = (
    "gamma lgamma gammaln digamma psi polygamma trigamma erf erfc erfcx erfinv erfcinv gammainc gammaincc betainc"
)
SLOW = frozenset(f"{_EXPONENTIALS} {_ANGLES} {_SPECIAL}".split())
_REDUCTIONS = "sum mean std var prod cumsum cumprod max min argmax argmin any all norm trace"
_PRODUCTS = "dot vdot inner outer matmul"
WHOLE_ARRAYS = frozenset(f"{_REDUCTIONS} {_PRODUCTS}".split())
LENGTH = 10.0  # assumed length of loops and arrays of unknown length
COUNTED = ("BINARY_", "COMPARE_OP", "UNARY_NEGATIVE", "STORE_SUBSCR")


def operations(function: Any, length: float = LENGTH) -> float:
    """Return the number of scalar operations in a call of `function`; loops and arrays have `length` entries.

    A loop inside a loop counts as one: together they run over something with `length` entries.

    Examples
    --------
    >>> def term(eta, y):
    ...     return -0.5 * (y - eta) ** 2
    >>> operations(term)
    3.0
    """
    return _operations(function, length, frozenset())


def _operations(function: Any, length: float, callers: frozenset[int]) -> float:
    function = getattr(function, "py_func", function)
    name = getattr(function, "__name__", "")
    home = (getattr(function, "__module__", None) or "").partition(".")[0]
    if name in SLOW:
        return TRANSCENDENTAL
    if not isinstance(function, types.FunctionType) or home in PINNED_PACKAGES:
        reads_array = (name in WHOLE_ARRAYS and home == "numpy") or function in (sum, any, all)
        return length if reads_array else 1.0
    if id(function) in callers:
        return 0.0
    return _operations_of_code(function.__code__, function, length, callers | {id(function)})


def _operations_of_code(
    code: types.CodeType, function: types.FunctionType, length: float, callers: frozenset[int]
) -> float:
    """Return the operations of `code`: that of `function`, or of a generator expression or lambda inside it."""
    instructions = list(dis.get_instructions(code))
    loops = [(each.argval, each.offset) for each in instructions if each.opname.startswith("JUMP_BACKWARD")]
    called = {each.offset: value for each, value in _functions_named(function, instructions)}
    total = 0.0
    for each in instructions:
        times = length if any(first <= each.offset <= last for first, last in loops) else 1.0
        if each.opname.startswith(COUNTED):
            total += times * (length if each.argrepr in ("@", "@=") else 1.0)
        elif each.offset in called:
            total += times * _operations(called[each.offset], length, callers)
        elif isinstance(each.argval, types.CodeType):
            total += times * _operations_of_code(each.argval, function, length, callers)
    return total


def _functions_named(
    function: types.FunctionType, instructions: list[dis.Instruction]
) -> Iterator[tuple[dis.Instruction, Callable[..., Any]]]:
    """Yield each instruction that loads a function, and that function; names in modules and closures are followed.

    A method of an array, such as ``x.sum``, counts as NumPy's function of that name.
    """
    cells = dict(zip(function.__code__.co_freevars, function.__closure__ or (), strict=True))
    value: Any = None
    for each in instructions:
        if each.opname in ("LOAD_GLOBAL", "LOAD_NAME"):
            value = function.__globals__.get(each.argval, getattr(builtins, each.argval, None))
        elif each.opname == "LOAD_DEREF" and each.argval in cells:
            value = cells[each.argval].cell_contents
        elif each.opname in ("LOAD_ATTR", "LOAD_METHOD") and isinstance(value, types.ModuleType):
            value = getattr(value, each.argval, None)
        elif each.opname in ("LOAD_ATTR", "LOAD_METHOD") and each.argval in WHOLE_ARRAYS:
            value = getattr(np, each.argval, None)
        else:
            value = None
        if callable(value) and not isinstance(value, type):
            yield each, value
