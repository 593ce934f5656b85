"""From plain Python functions to compiled kernels.

Two levels (measured: every composition style that inlines costs the same per step; they differ in caching and
compile time):

- *Library parts are bound statically.* A template names its parts as globals (``PROPOSE``, ``TEST``); :func:`bind`
builds
  a specialised, fully inlined kernel from the template and one function for each name.
- *User code meets the library at a batch boundary.* The user's per-datum function is bound into a small batch
kernel, which
  chains receive as a typed pointer: one indirect call for some hundred data (see `approxmcmc.engine.batches`).

With ``NUMBA_DISABLE_JIT=1`` the same functions run as plain Python: the debugger's and the tests' view of the same
code.
"""

import functools
import types
from collections.abc import Callable
from typing import Any

from numba import config, njit, typeof
from numba import types as nb
from numba.core.registry import CPUDispatcher as Dispatcher

from approxmcmc.engine.disk_cache import install
from approxmcmc.engine.identity import cached_by_content, has_stale_helpers

# Reassociation and contraction let sums over data vectorise. NaN and infinity keep their meaning: -inf is a legal term.
BATCH_FASTMATH = frozenset({"reassoc", "contract", "nsz", "arcp"})

VECTOR = nb.Array(nb.float64, 1, "C")
MATRIX = nb.Array(nb.float64, 2, "C")
INDICES = nb.Array(nb.int64, 1, "C")
COUNTS = nb.Array(nb.int64, 2, "C")

compiled = functools.partial(njit, error_model="numpy", nogil=True, fastmath=False)
"""Decorator for helpers that templates call: no GIL, and strict arithmetic. The latter must be said: a function that
says nothing inherits fastmath from its first caller, and reassociation breaks the polynomials of `numerics`."""


def bind(
    template: Callable[..., Any],
    signature: Any,
    *,
    fastmath: frozenset[str] = frozenset(),
    cache: bool = True,
    **parts: Any,
) -> Callable[..., Any]:
    """Return the kernel that `template` becomes when its global names stand for `parts`.

    Parameters
    ----------
    template
        A plain function whose body names the parts as globals.
    signature
        The numba signature to compile for; the kernel accepts no other.
    fastmath
        Relaxed floating-point rules, for batch kernels only. Plain functions among the parts are inlined under them.
    cache
        Keep the compiled code on disk, unless a part calls a helper whose code may be older than its text.
    **parts
        Plain functions (compiled here), jitted functions, or constants.
    """
    return _bind(template, signature, fastmath, cache, tuple(sorted(parts.items(), key=lambda part: part[0])))


@cached_by_content(maxsize=256)
def _bind(
    template: Callable[..., Any],
    signature: Any,
    fastmath: frozenset[str],
    cache: bool,
    named: tuple[tuple[str, Any], ...],
) -> Callable[..., Any]:
    parts = dict(named)
    if config.DISABLE_JIT:
        return _with_globals(template, parts)
    options = {"error_model": "numpy", "nogil": True, **({"fastmath": set(fastmath)} if fastmath else {})}
    jitted = {
        name: njit(**options)(part) if isinstance(part, types.FunctionType) else part for name, part in parts.items()
    }
    kernel = njit(**options)(_with_globals(template, jitted))
    if cache and not any(has_stale_helpers(part) for part in parts.values()):
        install(kernel)
    kernel.compile(signature)
    kernel.disable_compile()
    return kernel


def _with_globals(template: Callable[..., Any], parts: dict[str, Any]) -> types.FunctionType:
    scope = {**template.__globals__, **parts}  # type: ignore[attr-defined]  # a function has globals
    code = template.__code__  # type: ignore[attr-defined]
    return types.FunctionType(code, scope, template.__name__, template.__defaults__, template.__closure__)  # type: ignore[attr-defined]


def type_of(value: Any) -> Any:
    """Return the numba type of a run-time value; a read-only array has a type, and so a kernel, of its own.

    A kernel among the values of a tuple is a function pointer, of the only signature that it was compiled for.
    """
    if isinstance(value, tuple):
        return nb.Tuple([type_of(item) for item in value])
    if isinstance(value, Dispatcher):
        return nb.FunctionType(value.nopython_signatures[0])
    return typeof(value)
