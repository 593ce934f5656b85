"""From plain Python functions to compiled kernels.

Two levels (measured: every composition style that inlines costs the same per step; they differ in caching and
compile time):

- *Library parts are closures.* ``make_step(propose, decide, ...)`` returns a plain function that names its parts as
  ordinary variables. Numba takes the compiled functions among a closure's variables as constants, so that the compiler
  sees one function.
- *User code meets the library at a batch boundary.* The user's per-datum function is closed into a small batch kernel,
  which chains receive as a typed pointer: one indirect call for a few hundred data (see `engine/terms/batches.py`).

What a kernel reads and writes travels as named tuples of arrays and numbers. Their types *are* the signature
(:func:`type_of`): nothing is listed twice.

With ``NUMBA_DISABLE_JIT=1`` the same functions run as plain Python: the debugger's and the tests' view of the same
code.
"""

import contextlib
import functools
import types
from collections.abc import Callable
from typing import Any

from numba import config, njit, typeof, types as nb
from numba.core.registry import CPUDispatcher as Dispatcher

from approxmcmc.engine.compiler.compilations import compiling, count_kernel
from approxmcmc.engine.compiler.disk_cache import install, read_kept
from approxmcmc.engine.compiler.identity import cached_by_content

whole: Callable[[], contextlib.AbstractContextManager[None]] = contextlib.nullcontext
with contextlib.suppress(ImportError, AttributeError):  # names that another numba may not have
    from approxmcmc.engine.compiler.callees import install as _install_callees, whole as _whole

    _install_callees()
    whole = _whole

# Reassociation and contraction let sums over data vectorise. NaN and infinity keep their meaning: -inf is a valid term.
BATCH_FASTMATH = frozenset({"reassoc", "contract", "nsz", "arcp"})

VECTOR = nb.Array(nb.float64, 1, "C")
MATRIX = nb.Array(nb.float64, 2, "C")
INDICES = nb.Array(nb.int64, 1, "C")
COUNTS = nb.Array(nb.int64, 2, "C")

_STRICT = {"error_model": "numpy", "nogil": True, "fastmath": False}

compiled = functools.partial(njit, **_STRICT, _nrt=False, no_cfunc_wrapper=True)
"""Decorator for functions called by kernels: no GIL, strict arithmetic, and no arrays allocated.

Strictness must be explicit: otherwise a function inherits fastmath from its first caller, and reassociation breaks the
polynomials of `numerics`. Without numba's run time (NRT) no array can be allocated, and references are not counted:
atomic reference counts for the arrays of a named tuple, at every field access, made short steps 2 to 4 times slower.
"""

allocating = functools.partial(njit, **_STRICT, _nrt=True, no_cfunc_wrapper=True)
"""The same for functions that allocate arrays: scratch that a step cannot keep in its state, or user code."""

batched = functools.partial(
    njit,
    error_model="numpy",
    nogil=True,
    fastmath=set(BATCH_FASTMATH),
    _nrt=False,
    no_cfunc_wrapper=True,
    forceinline=True,
)
"""The same for parts of batch kernels, under the arithmetic of `BATCH_FASTMATH`."""

internal = functools.partial(njit, **_STRICT, _nrt=False, no_cfunc_wrapper=True, no_cpython_wrapper=True)
"""The same for a loop that Python code never calls (it would crash): this halves its compile time."""


def kernel(
    function: Callable[..., Any],
    signature: Any,
    *,
    fastmath: frozenset[str] = frozenset(),
    cache: bool = True,
    allocates: bool = True,
    checks_bounds: bool = False,
    content: str | None = None,
) -> Callable[..., Any]:
    """Compile a function for one signature; the kernel accepts no other.

    Parameters
    ----------
    function
        A plain function, or a closure over compiled functions and constants.
    signature
        The numba signature; `type_of` gives the types of values. A tuple of the types of the arguments leaves the type
        of the result to the compiler.
    fastmath
        Relaxed floating-point rules, only for batch kernels. Functions without explicit rules are inlined under them.
    cache
        Whether to keep the compiled code in this process and, unless the function calls a user's helper with code that
        may be older than its source, on disk. False for code that names arrays of one object, and lives as long as
        that object.
    allocates
        False for a loop that allocates no arrays, see `compiled`; such a kernel cannot be a function pointer.
    checks_bounds
        Whether an index outside an array raises; only for functions that are run once, before they become a kernel.
    content
        With ``cache=False``, the content of a function with parts that cannot be hashed: its name on disk.
    """
    if config.DISABLE_JIT:
        return function
    compile_now = _compile if cache else _compile.__wrapped__
    return compile_now(function, signature, fastmath, cache, allocates, checks_bounds, content)  # type: ignore[no-any-return]  # the cache hides the type


def bind(
    make: Callable[..., Callable[..., Any]],
    *parts: Any,
    signature: Any,
    fastmath: frozenset[str] = frozenset(),
    cache: bool = True,
    allocates: bool = True,
) -> Callable[..., Any]:
    """Compile the function ``make(*parts)``; plain functions among the parts are compiled first, under `fastmath`.

    With `cache`, equal parts give the same kernel. `make` runs once for them.
    """
    function = closure(make, *parts, fastmath=fastmath)
    return kernel(function, signature, fastmath=fastmath, cache=cache, allocates=allocates)


def kept(
    make: Callable[[], Callable[..., Any]], signature: Any, *, name: str, content: str | None
) -> Callable[..., Any]:
    """Return the kernel on disk named by `content`, or compile ``make()``, a function called `name`.

    For functions that take longer to make than to load, such as those of another compiler.
    """
    if content is not None and not config.DISABLE_JIT:
        with compiling(), contextlib.suppress(AttributeError, TypeError):  # another version of numba
            stored = read_kept(name, content, signature)
            if stored is not None:
                return stored  # type: ignore[no-any-return]  # numba's dispatcher has no types
    return kernel(make(), signature, cache=False, content=content)


def closure(
    make: Callable[..., Callable[..., Any]], *parts: Any, fastmath: frozenset[str] = frozenset()
) -> Callable[..., Any]:
    """Compile the plain functions among the parts, and return ``make(*parts)``, which is not compiled.

    Equal parts give the same function object, as long as it is among the last 256 used.
    """
    return _closure(make, fastmath, *parts)  # type: ignore[no-any-return]  # the cache hides the type


@cached_by_content(maxsize=256)
def _closure(make: Callable[..., Any], fastmath: frozenset[str], *parts: Any) -> Callable[..., Any]:
    if config.DISABLE_JIT:
        return make(*parts)
    return make(*(_part(part, fastmath) if isinstance(part, types.FunctionType) else part for part in parts))


@cached_by_content(maxsize=256)
def _part(function: Callable[..., Any], fastmath: frozenset[str]) -> Any:
    """Return the numba dispatcher of a plain function; kernels that call the function with these flags share it."""
    return njit(**_options(fastmath))(function)


@cached_by_content(maxsize=256)
def _compile(
    function: Callable[..., Any],
    signature: Any,
    fastmath: frozenset[str],
    cache: bool,
    allocates: bool,
    checks_bounds: bool,
    content: str | None,
) -> Any:
    options = _options(fastmath) | ({"boundscheck": True} if checks_bounds else {})
    dispatcher = njit(**options, _nrt=allocates, no_cfunc_wrapper=not allocates)(function)
    if content is not None or cache:
        install(dispatcher, content)
    with compiling():
        try:
            with whole():
                dispatcher.compile(signature)
        except (AttributeError, TypeError):  # another version of numba; other errors are raised again
            dispatcher.compile(signature)
    if not dispatcher.stats.cache_hits:
        count_kernel()
    dispatcher.disable_compile()
    return dispatcher


def _options(fastmath: frozenset[str]) -> dict[str, Any]:
    return {"error_model": "numpy", "nogil": True, **({"fastmath": set(fastmath)} if fastmath else {})}


def as_python(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the plain Python function behind a compiled one, for a call or two: compiling it takes .15 s."""
    return getattr(function, "py_func", function)  # type: ignore[no-any-return]  # a dispatcher has no types


def entry_point(dispatcher: Any, signature: Any) -> Callable[..., Any]:
    """Return the machine code of a kernel as a function of Python values, which must have the types of `signature`.

    Calling the kernel itself would compare types first, and numba does not support function pointers in named tuples.
    """
    return dispatcher if config.DISABLE_JIT else dispatcher.get_overload(signature)


def type_of(value: Any) -> Any:
    """Return the numba type of a run-time value; a read-only array has a different type, and so a different kernel.

    A kernel among the values of a tuple is a function pointer, with the only signature it was compiled for.
    """
    if isinstance(value, tuple):
        items = [type_of(item) for item in value]
        return nb.BaseTuple.from_types(items, type(value)) if hasattr(value, "_fields") else nb.Tuple(items)
    if isinstance(value, types.FunctionType):
        return nb.none  # without compilation, where no signature counts
    if isinstance(value, Dispatcher):
        return nb.FunctionType(value.nopython_signatures[0])
    return typeof(value)
