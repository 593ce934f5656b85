"""What a compiled function *is*: a hash of its bytecode, its constants and everything it calls.

Numba's own disk cache looks at one file's time stamp. It serves stale code when a callee in another file changes.
The hash below follows every global and closure variable that a function names, through jitted functions, plain
functions, modules of numbers and arrays, so that an edit anywhere below a kernel gives a new hash, and an undo gives
the old one back.
"""

import dis
import hashlib
import types
from collections.abc import Iterator
from typing import Any

import numpy as np

# Functions of these packages are pinned by their versions, which the cache key holds beside this hash.
PINNED_PACKAGES = {"numpy", "numba", "math", "builtins", "llvmlite", "scipy", "cmath", "operator"}


class UnknownContentError(Exception):
    """A kernel refers to an object whose content cannot be hashed; it must not be cached on disk."""


def content_id(function: Any, extra: Any = None) -> str:
    """Return a hash of `function` and all that it reaches, with `extra` (a plain value) mixed in.

    Raises
    ------
    UnknownContentError
        When the function names an object that is neither code, number, string, array, type nor module.
    """
    digest = hashlib.blake2b(digest_size=16)
    for piece in _walk(function, seen=set()):
        digest.update(piece.encode() if isinstance(piece, str) else piece)
        digest.update(b"\0")
    digest.update(repr(extra).encode())
    return digest.hexdigest()


def _walk(value: Any, seen: set[int]) -> Iterator[str | bytes]:
    """Yield the content of `value` piece by piece; an object met before is only counted."""
    if id(value) in seen:
        yield "met before"
        return
    if isinstance(value, (int, float, complex, str, bytes, bool, type(None))):
        yield repr(value)
        return
    seen.add(id(value))
    if hasattr(value, "py_func"):  # a jitted function, with the options that shape its code
        yield repr(sorted((name, _ordered(option)) for name, option in value.targetoptions.items()))
        yield from _walk(value.py_func, seen)
    elif isinstance(value, types.FunctionType):
        yield from _walk_function(value, seen)
    elif isinstance(getattr(value, "__wrapped__", None), types.FunctionType):  # functools.cache and its like
        yield from _walk_function(value.__wrapped__, seen)
    elif isinstance(value, types.CodeType):
        yield from _walk_code(value, seen)
    elif isinstance(value, np.ndarray):
        yield f"{value.dtype.str}{value.shape}"
        yield np.ascontiguousarray(value).tobytes()
    elif isinstance(value, np.generic):
        yield repr(value)
    elif isinstance(value, (tuple, list, frozenset, set)):
        for item in value if isinstance(value, (tuple, list)) else sorted(value, key=repr):
            yield from _walk(item, seen)
    elif isinstance(value, types.ModuleType):
        yield value.__name__
    elif hasattr(value, "_defn"):  # a numba intrinsic: its code generator is what counts
        yield from _walk_function(value._defn, seen)
    elif isinstance(value, (type, types.BuiltinFunctionType, np.ufunc)) or _is_pinned(value):
        yield getattr(value, "__module__", "") or ""
        yield getattr(value, "__qualname__", None) or repr(value)
    else:
        raise UnknownContentError(f"{type(value).__module__}.{type(value).__qualname__}")


def _walk_function(function: types.FunctionType, seen: set[int]) -> Iterator[str | bytes]:
    if _is_pinned(function):
        yield f"{function.__module__}.{function.__qualname__}"
        return
    yield from _walk_code(function.__code__, seen, docstring=function.__doc__)
    yield from _walk(function.__defaults__ or (), seen)
    for cell in function.__closure__ or ():
        yield from _walk(cell.cell_contents, seen)
    for name, value in sorted(_globals_read(function.__code__, function.__globals__).items()):
        yield name
        yield from _walk(value, seen)


def _walk_code(code: types.CodeType, seen: set[int], docstring: str | None = None) -> Iterator[str | bytes]:
    yield code.co_code
    yield repr((code.co_names, code.co_varnames, code.co_freevars, code.co_argcount))
    for constant in code.co_consts:
        if docstring is None or constant != docstring:  # what a function says of itself does not change it
            yield from _walk(constant, seen)


def _globals_read(code: types.CodeType, scope: dict[str, Any]) -> dict[str, Any]:
    """Return the globals that the code reads, and the attributes that it reads of its own package's modules."""
    found = {}
    for inner in [code, *(c for c in code.co_consts if isinstance(c, types.CodeType))]:
        for instruction in dis.get_instructions(inner):
            if instruction.opname in ("LOAD_GLOBAL", "LOAD_NAME") and instruction.argval in scope:
                value = found[instruction.argval] = scope[instruction.argval]
                if isinstance(value, types.ModuleType) and not _is_pinned(value):
                    attributes = set(inner.co_names) & set(vars(value))
                    found.update({f"{instruction.argval}.{name}": vars(value)[name] for name in attributes})
    return found


def _is_pinned(value: Any) -> bool:
    home = value.__name__ if isinstance(value, types.ModuleType) else getattr(value, "__module__", None)
    return (home or "").partition(".")[0] in PINNED_PACKAGES


def _ordered(option: Any) -> Any:
    return sorted(option) if isinstance(option, (set, frozenset)) else option
