"""Functions of theta that need a large context: one kernel for all contexts, and a thin kernel that holds one context.

A log prior has theta as its only argument. Its replacement, such as a surrogate with its rows and sums, is a function
of theta and a context: a named tuple of arrays, numbers and kernels. It is compiled once for all contexts of a type,
and cached on disk. A one-line kernel around it, the thin kernel, reads the numbers of one context, and the addresses of
its arrays and kernels, from a place in memory, and calls the large kernel with them.

A place serves one context after another: when the kernel returned for a context is no longer referenced, the place is
free, and the next context of the same type is written there. So only as many thin kernels are compiled, in a tenth of a
second each, as contexts are in use at once. They name their place by a symbol, for which each process has its own
address, so they are cached on disk as well.
"""

import itertools
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import binding, ir
from numba import config, njit, types as nb
from numba.core import cgutils
from numba.extending import intrinsic

from approxmcmc.engine.compiler.compile import BATCH_FASTMATH, kernel, type_of
from approxmcmc.engine.compiler.identity import content_id
from approxmcmc.engine.compiler.type_names import spelled
from approxmcmc.engine.compiler.words import length, read_words, words


def with_context(
    function: Callable[..., Any], signature: Any, context: Any, *, fastmath: bool = False
) -> Callable[..., Any]:
    """Return the kernel of ``function(*arguments, context)`` for one context, as a function of the arguments.

    Parameters
    ----------
    function
        A plain function, or a closure over compiled functions.
    signature
        Signature of the result: the types of the arguments, without the context.
    context
        A named tuple of arrays, numbers and kernels; kernels must not come first in a tuple, or numba warns. The
        returned kernel keeps it alive.
    fastmath
        Whether sums may be reordered, as in batch kernels.
    """
    whole = kernel(
        function,
        signature.return_type(*signature.args, type_of(context)),
        fastmath=BATCH_FASTMATH if fastmath else frozenset(),
    )
    known = context, whole
    if config.DISABLE_JIT:
        return _WRAPPERS[len(signature.args)](lambda: known)
    kind = type_of(known)
    places = _PLACES.setdefault((str(signature), spelled(kind)), _Places())
    try:
        place = places.free.pop()
    except IndexError:
        place = _Place(signature, kind, next(places.numbers))
    return place.hold(known, places.free)


class _Place:
    """Memory for one context of a type, and the thin kernel that reads it; `number` counts the places of this type."""

    def __init__(self, signature: Any, kind: Any, number: int) -> None:
        self._kind = kind
        self._words = np.empty(length(kind), dtype=np.uint64)
        make = _WRAPPERS[len(signature.args)]
        content = content_id((make, read_words), (spelled(kind), str(signature), number))
        symbol = f"approxmcmc_place_{content}"
        binding.add_symbol(symbol, self._words.ctypes.data)
        self._thin: Any = kernel(make(_reader(kind, symbol)), signature, cache=False, content=content)

    def hold(self, known: Any, free: list["_Place"]) -> Any:
        """Return the thin kernel for the context in `known`; when the returned kernel is deleted, the place is free."""
        self._words[:] = np.fromiter(words(self._kind, known), np.uint64)
        ours = njit(self._thin.py_func)
        for found in self._thin.overloads.values():
            ours.targetctx.insert_user_function(found.entry_point, found.fndesc, [found.library])
            ours.add_overload(found)
        ours.disable_compile()
        weakref.finalize(ours, _release, self, known, free).atexit = False
        return ours


class _Places:
    """The places for contexts of one type: those that are free, and an iterator over the numbers of new ones.

    Threads share them without a lock: lists and counters change in one operation, and any thread may free a place.
    They are found by the texts of their types; symbols are made from these texts, so no two places share a symbol.
    """

    def __init__(self) -> None:
        self.free: list[_Place] = []
        self.numbers = itertools.count()


_PLACES: dict[tuple[str, str], _Places] = {}  # by the texts of the types of the arguments and of the context


def _release(place: _Place, known: Any, free: list[_Place]) -> None:
    """Add `place` to the free ones; the argument `known` keeps its context alive until this call."""
    free.append(place)


def _of_one(known: Callable[[], Any]) -> Callable[..., Any]:
    def function(theta: np.ndarray) -> Any:
        context, whole = known()
        return whole(theta, context)

    return function


def _of_two(known: Callable[[], Any]) -> Callable[..., Any]:
    def function(theta: np.ndarray, out: np.ndarray) -> Any:
        context, whole = known()
        return whole(theta, out, context)

    return function


def _of_three(known: Callable[[], Any]) -> Callable[..., Any]:
    def function(first: Any, second: Any, third: Any) -> Any:
        context, whole = known()
        return whole(first, second, third, context)

    return function


def _of_six(known: Callable[[], Any]) -> Callable[..., Any]:
    def function(theta: Any, data: Any, order: Any, lo: int, hi: int, out: Any) -> Any:
        context, whole = known()
        return whole(theta, data, order, lo, hi, out, context)

    return function


def _of_seven(known: Callable[[], Any]) -> Callable[..., Any]:
    def function(theta: Any, proposed: Any, data: Any, lo: int, hi: int, current: Any, candidate: Any) -> Any:
        context, whole = known()
        return whole(theta, proposed, data, lo, hi, current, candidate, context)

    return function


_WRAPPERS = {1: _of_one, 2: _of_two, 3: _of_three, 6: _of_six, 7: _of_seven}


def _reader(kind: Any, symbol: str) -> Callable[[], Any]:
    """Return a function without arguments that kernels call: it reads a value of type `kind` at `symbol`'s address."""

    @intrinsic  # type: ignore[untyped-decorator]
    def read(typing_context: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            words = ir.ArrayType(context.get_value_type(nb.uintp), length(kind))
            place = cgutils.add_global_variable(builder.module, words, symbol)
            pointers = (cgutils.gep_inbounds(builder, place, 0, k) for k in range(length(kind)))
            return read_words(context, builder, kind, pointers)

        return kind(), generate

    return read  # type: ignore[no-any-return]  # numba's decorator has no types
