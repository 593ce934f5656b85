"""The content of a compiled function: a hash of its bytecode, its constants and everything it calls.

Numba's own disk cache checks one file's time stamp. It serves stale code if a callee in another file changes. The hash
below follows every global and closure variable that a function names, through jitted functions, plain functions,
modules of numbers and arrays. So an edit anywhere below a kernel gives a new hash, and undoing it restores the old one.
"""

import dataclasses
import dis
import enum
import functools
import hashlib
import types
import weakref
from collections.abc import Callable, Iterator, Set
from typing import Any, NamedTuple

import numpy as np

from approxmcmc.errors import CompilationError

# Functions of these packages count by their names only. The versions of Python, numba and llvmlite are part of the name
# of a stored kernel (see `disk_cache`), which contains numba's own forms of NumPy's functions.
PINNED_PACKAGES = frozenset({"numpy", "numba", "math", "builtins", "llvmlite", "scipy", "cmath", "operator"})


_PACKAGE = __name__.partition(".")[0]
# The content of each of the user's helpers when it was first seen; "" if it was compiled before.
_CONTENT_WHEN_COMPILED: weakref.WeakKeyDictionary[Any, str] = weakref.WeakKeyDictionary()


class _Walk(NamedTuple):
    """The number of each object visited so far, by its id; and the packages whose objects count only by name."""

    seen: dict[int, int]
    pinned: Set[str]


class UnknownContentError(CompilationError):
    """A function refers to an object with unknown content, so it must not be cached on disk."""


def content_id(function: Any, extra: Any = None, *, pinned: Set[str] = PINNED_PACKAGES) -> str:
    """Return a hash of `function` and everything it refers to, with `extra` (a plain value) mixed in.

    Objects of the packages `pinned` count only by name.

    Raises
    ------
    UnknownContentError
        When the function refers to an object whose changes cannot be detected: neither code, number, string, array,
        type, module nor a tuple, list or set of these.
    """
    digest = hashlib.blake2b(digest_size=16)
    for piece in _walk(function, _Walk({}, pinned)):
        digest.update(piece.encode() if isinstance(piece, str) else piece)
        digest.update(b"\0")
    digest.update(repr(extra).encode())
    return digest.hexdigest()


def cached_by_content(maxsize: int) -> Callable[[Callable[..., Any]], Any]:
    """Return a decorator like `functools.lru_cache`, for functions that make kernels from a user's functions.

    Compiled code keeps the values of the globals and closures that it read. Here a function counts as another one if
    such a value has changed, whereas `functools.lru_cache` would return the code made with the old value.
    """

    def decorate(make: Callable[..., Any]) -> Any:
        @functools.lru_cache(maxsize=maxsize)
        def remembered(contents: Any, *arguments: Any) -> Any:
            return make(*arguments)

        @functools.wraps(make)
        def cached(*arguments: Any) -> Any:
            return remembered(_contents(arguments), *arguments)

        cached.cache_clear = remembered.cache_clear  # type: ignore[attr-defined]  # as lru_cache has it
        return cached

    return decorate


def has_stale_helpers(function: Any, *, _above: frozenset[int] = frozenset()) -> bool:
    """Return whether a function calls a numba-compiled helper of the user with code that may be older than its source.

    Such a helper keeps the globals of its first call, even if they have changed. It can be trusted if it was not yet
    compiled when first seen, and has had the same content since. Helpers are searched for at any depth.
    """
    function = getattr(function, "py_func", function)
    if not isinstance(function, types.FunctionType) or id(function) in _above:
        return False
    named = [cell.cell_contents for cell in function.__closure__ or ()]
    if not _is_ours(function):  # functions of this package hold user functions only in closures
        named += _globals_read(function.__code__, function.__globals__).values()
    helpers = [value for value in named if hasattr(value, "py_func") and not _is_ours(value.py_func)]
    stale = list(map(_is_stale, helpers))  # a list, because every helper must be checked
    return any(stale) or any(has_stale_helpers(value, _above=_above | {id(function)}) for value in named)


def _is_stale(helper: Any) -> bool:
    try:
        content = content_id(helper)
    except UnknownContentError:
        return True
    return bool(_CONTENT_WHEN_COMPILED.setdefault(helper, "" if helper.overloads else content) != content)


def _is_ours(function: Any) -> bool:
    return (function.__module__ or "").partition(".")[0] == _PACKAGE


def _contents(value: Any) -> Any:
    """Return hashes of the user's functions in an argument, in the structure of tuples and dataclasses that holds them.

    None stands for everything else, functions of this package included, because these never change. A function that
    cannot be hashed gives a new object, which equals nothing, so it is compiled again.
    """
    if isinstance(value, tuple):
        return tuple(_contents(item) for item in value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return tuple(_contents(getattr(value, field.name)) for field in dataclasses.fields(value))
    if isinstance(value, types.FunctionType) and not _is_ours(value):
        try:
            return content_id(value)
        except UnknownContentError:
            return object()
    return None


def _walk(value: Any, walk: _Walk) -> Iterator[str | bytes]:
    """Yield the content of `value` piece by piece; for an object seen before, only its number."""
    if id(value) in walk.seen:
        yield f"met before as number {walk.seen[id(value)]}"  # separates f(x) + g(x) + f(x) from f(x) + g(x) + g(x)
        return
    if isinstance(value, (int, float, complex, str, bytes, bool, type(None), enum.Enum)):
        yield repr(value)
        return
    walk.seen[id(value)] = len(walk.seen)
    if hasattr(value, "py_func"):  # a jitted function, with the options that shape its code
        yield repr(sorted((name, _ordered(option)) for name, option in value.targetoptions.items()))
        yield from _walk(value.py_func, walk)
    elif isinstance(value, types.FunctionType):
        yield from _walk_function(value, walk)
    elif isinstance(getattr(value, "__wrapped__", None), types.FunctionType):  # functools.cache and its like
        yield from _walk_function(value.__wrapped__, walk)
    elif isinstance(value, types.CodeType):
        yield from _walk_code(value, walk)
    elif isinstance(value, np.ndarray):
        yield f"{value.dtype.str}{value.shape}"
        yield np.ascontiguousarray(value).tobytes()
    elif isinstance(value, np.generic):
        yield repr(value)
    elif isinstance(value, (tuple, list, frozenset, set)):
        for item in value if isinstance(value, (tuple, list)) else sorted(value, key=repr):
            yield from _walk(item, walk)
    elif isinstance(value, types.ModuleType):
        yield value.__name__
    elif isinstance(value, enum.EnumType):
        yield repr([(name, value[name].value) for name in value.__members__])
    elif hasattr(value, "_defn"):  # a numba intrinsic: identified by its code generator
        yield from _walk_function(value._defn, walk)
    elif isinstance(value, (type, types.BuiltinFunctionType, np.ufunc)) or _is_pinned(value, walk.pinned):
        yield getattr(value, "__module__", "") or ""
        yield getattr(value, "__qualname__", None) or repr(value)
    else:
        raise UnknownContentError(
            f"a compiled function refers to an object of type {type(value).__module__}.{type(value).__qualname__}, "
            "whose changes cannot be detected; refer to numbers and arrays, or pass data through the data argument"
        )


def _walk_function(function: types.FunctionType, walk: _Walk) -> Iterator[str | bytes]:
    if _is_pinned(function, walk.pinned):
        yield f"{function.__module__}.{function.__qualname__}"
        return
    yield from _walk_code(function.__code__, walk, docstring=function.__doc__)
    yield from _walk(function.__defaults__ or (), walk)
    for cell in function.__closure__ or ():
        yield from _walk(cell.cell_contents, walk)
    for name, value in sorted(_globals_read(function.__code__, function.__globals__, walk.pinned).items()):
        yield name
        yield from _walk(value, walk)


def _walk_code(code: types.CodeType, walk: _Walk, docstring: str | None = None) -> Iterator[str | bytes]:
    yield code.co_code
    yield repr((code.co_names, code.co_varnames, code.co_freevars, code.co_argcount))
    for constant in code.co_consts:
        if docstring is None or constant != docstring:  # a docstring does not change a function
            yield from _walk(constant, walk)


def _globals_read(code: types.CodeType, scope: dict[str, Any], pinned: Set[str] = PINNED_PACKAGES) -> dict[str, Any]:
    """Return the globals that the code reads, and the attributes that it reads of modules, at any depth."""
    found = {}
    for inner in [code, *(c for c in code.co_consts if isinstance(c, types.CodeType))]:
        for name in _names_read(inner):
            if name in scope:
                found[name] = scope[name]
                found |= _attributes_read(name, scope[name], set(inner.co_names), pinned)
    return found


@functools.lru_cache(maxsize=4096)
def _names_read(code: types.CodeType) -> tuple[str, ...]:
    """Return the globals that the code names, cached for equal code: disassembly is most of the cost of a hash."""
    loads = (each for each in dis.get_instructions(code) if each.opname in ("LOAD_GLOBAL", "LOAD_NAME"))
    return tuple(dict.fromkeys(each.argval for each in loads))


def _attributes_read(path: str, value: Any, names: set[str], pinned: Set[str]) -> dict[str, Any]:
    """Return the attributes that code with these `names` may read of the module `value` and its submodules.

    Keys are dotted paths that begin with `path`. The result is empty if `value` is no module or is pinned.
    """
    found: dict[str, Any] = {}
    if isinstance(value, types.ModuleType) and not _is_pinned(value, pinned):
        for name in names & set(vars(value)):
            attribute = found[f"{path}.{name}"] = vars(value)[name]
            if attribute is not value and f".{name}." not in f".{path}.":  # packages may refer to each other
                found |= _attributes_read(f"{path}.{name}", attribute, names, pinned)
    return found


def _is_pinned(value: Any, pinned: Set[str]) -> bool:
    home = value.__name__ if isinstance(value, types.ModuleType) else getattr(value, "__module__", None)
    return (home or "").partition(".")[0] in pinned


def _ordered(option: Any) -> Any:
    return sorted(option) if isinstance(option, (set, frozenset)) else option
