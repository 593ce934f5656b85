"""Compile the functions that a kernel calls without a wrapper for Python and without separate machine code.

Numba compiles every callee as if Python called it too, which takes a third of a chain's compile time. Here, while a
:func:`whole` kernel is compiled, a callee with a decorator that forbids taking its address (`no_cfunc_wrapper`) ends as
optimised intermediate code, which its caller links in; optimisation passes over that code stay, because steps without
them are 5 % slower. If Python calls such a function after all, it is compiled again, in full.

The copies inside a kernel become internal symbols. Numba leaves them weak, so that the machine code of a kernel calls
any code of that name already in the process: another copy, compiled alone, with sums in another order, or, because
names are numbered by process, another function. Draws would then depend on the content of a cache.

The methods of numba replaced here are private; tested with numba 0.68. If one is missing, or fails, kernels are
compiled by numba's usual way (see `compile`). That costs seconds, and draws may then depend on the content of a cache.
"""

import contextlib
import gc
import threading
from collections.abc import Callable, Iterator
from typing import Any

from llvmlite.binding import Linkage
from numba import _dynfunc
from numba.core import sigutils
from numba.core.caching import NullCache
from numba.core.codegen import CPUCodeLibrary
from numba.core.compiler import CompilerBase
from numba.core.cpu import CPUContext
from numba.core.dispatcher import Dispatcher
from numba.core.environment import lookup_environment

from approxmcmc.engine.compiler.interrupts import interrupts_delayed

# Garbage collection among numba's syntax trees takes 4 % of a compilation, and frees little.
GC_THRESHOLD = (50_000, 50, 1000)


class _Here(threading.local):
    """The state of the compilation in this thread."""

    in_kernel = False  # inside `whole`
    depth = 0  # how many functions are being compiled, each a callee of the one before
    is_bare = False  # the innermost of them ends as intermediate code
    is_kept = False  # the next function to be compiled has a disk cache, which needs machine code


_HERE = _Here()


@contextlib.contextmanager
def whole() -> Iterator[None]:
    """Inside this context, everything compiled is one kernel and its callees."""
    thresholds = gc.get_threshold()
    outer = (_HERE.in_kernel, _HERE.depth, _HERE.is_bare, _HERE.is_kept)
    gc.set_threshold(*GC_THRESHOLD)
    _HERE.in_kernel = True
    _HERE.depth = 0
    _HERE.is_bare = False
    _HERE.is_kept = False
    try:
        yield
    finally:
        _HERE.in_kernel, _HERE.depth, _HERE.is_bare, _HERE.is_kept = outer
        gc.set_threshold(*thresholds)


def _end_of(library: Any) -> str:
    """Return what becomes of a library: "bare" intermediate code, a "kernel", or "numba": machine code as usual."""
    return getattr(library, "_approxmcmc_end", "numba")


def _compile_core(numba: Callable[..., Any], compiler: Any) -> Any:
    if not _HERE.in_kernel:
        return numba(compiler)
    flags = compiler.state.flags
    above = _HERE.is_bare
    _HERE.depth += 1
    pointed = not (flags.no_cfunc_wrapper or flags.no_cpython_wrapper)
    _HERE.is_bare = _HERE.depth > 1 and not pointed and not _HERE.is_kept
    _HERE.is_kept = False
    if _HERE.is_bare:
        flags.no_cpython_wrapper = flags.no_cfunc_wrapper = True
    try:
        result = numba(compiler)
        if _HERE.is_bare:  # libraries of numba's helpers are finalised by their callers
            result.library._approxmcmc_end = "bare"
        return result
    finally:
        _HERE.depth -= 1
        _HERE.is_bare = above


def _compile(numba: Callable[..., Any], dispatcher: Any, sig: Any) -> Any:
    if _HERE.in_kernel:
        _HERE.is_kept = not isinstance(dispatcher._cache, NullCache)
        return numba(dispatcher, sig)
    arguments = tuple(sigutils.normalize_signature(sig)[0])
    overload = dispatcher.overloads.get(arguments)
    if overload is not None and _end_of(overload.library) == "bare":
        del dispatcher.overloads[arguments]  # called by Python, directly or indirectly
    return numba(dispatcher, sig)


def _add_overload(numba: Callable[..., Any], dispatcher: Any, result: Any) -> None:
    if _end_of(result.library) == "bare":  # not registered for calls from Python
        dispatcher.overloads[tuple(result.signature.args)] = result
    else:
        numba(dispatcher, result)


def _finalize_final_module(numba: Callable[..., Any], library: Any) -> None:
    if _end_of(library) == "bare":
        library._finalize_dynamic_globals()
        library._verify_declare_only_symbols()
        library._finalized = True
        return
    if _end_of(library) == "kernel":
        for function in library._final_module.functions:
            if not function.is_declaration and function.linkage == Linkage.linkonce_odr:
                function.linkage = Linkage.internal
    with interrupts_delayed():
        numba(library)


def _get_executable(numba: Callable[..., Any], context: Any, library: Any, descriptor: Any, environment: Any) -> Any:
    if not _HERE.in_kernel or _HERE.depth == 0:
        return numba(context, library, descriptor, environment)
    library._approxmcmc_end = "bare" if _HERE.is_bare else "kernel" if _HERE.depth == 1 else "numba"
    library._ensure_finalized()
    if _HERE.is_bare:
        name = descriptor.qualname.split(".")[-1]
        return _dynfunc.make_function(descriptor.lookup_module(), name, "bare", 0, environment, (library,))
    executable = numba(context, library, descriptor, environment)
    # Kernels read error messages from numba's environments. Numba refers weakly to the environments of callees that
    # have machine code.
    names = [
        variable.name
        for variable in library._final_module.global_variables
        if variable.name.startswith("_ZN08NumbaEnv")
    ]
    library._approxmcmc_environments = {name: lookup_environment(name) for name in names}
    for name, stored in library._approxmcmc_environments.items():
        if stored is not None:
            library.codegen.set_env(name, stored)
    return executable


def _wrapped(numba: Callable[..., Any], ours: Callable[..., Any]) -> Callable[..., Any]:
    def method(*arguments: Any) -> Any:
        return ours(numba, *arguments)

    return method


def install() -> None:
    """Replace numba's methods by these functions: all of them, or, if one is missing, none."""
    methods: list[tuple[Any, str, Callable[..., Any]]] = [
        (CompilerBase, "_compile_core", _compile_core),
        (Dispatcher, "compile", _compile),
        (Dispatcher, "add_overload", _add_overload),
        (CPUCodeLibrary, "_finalize_final_module", _finalize_final_module),
        (CPUContext, "get_executable", _get_executable),
    ]
    replaced = [(owner, name, _wrapped(getattr(owner, name), ours)) for owner, name, ours in methods]
    for owner, name, method in replaced:
        setattr(owner, name, method)
