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
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from llvmlite import binding, ir
from numba import config, njit, types as nb
from numba.core import cgutils
from numba.experimental.function_type import _get_jit_address, _get_wrapper_address
from numba.extending import intrinsic
from numba.np.arrayobj import populate_array
from numba.np.numpy_support import as_dtype

from approxmcmc.engine.compiler.compile import BATCH_FASTMATH, kernel, type_of
from approxmcmc.engine.compiler.identity import content_id
from approxmcmc.engine.compiler.type_names import spelled


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
        self._words = np.empty(_length(kind), dtype=np.uint64)
        make = _WRAPPERS[len(signature.args)]
        content = content_id((make, _read), (spelled(kind), str(signature), number))
        symbol = f"approxmcmc_place_{content}"
        binding.add_symbol(symbol, self._words.ctypes.data)
        self._thin: Any = kernel(make(_reader(kind, symbol)), signature, cache=False, content=content)

    def hold(self, known: Any, free: list["_Place"]) -> Any:
        """Return the thin kernel for the context in `known`; when the returned kernel is deleted, the place is free."""
        self._words[:] = np.fromiter(_words(self._kind, known), np.uint64)
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


def _length(kind: Any) -> int:
    """Return how many words of 8 bytes a value of this type takes."""
    if isinstance(kind, nb.BaseTuple):
        return sum(map(_length, kind))
    if isinstance(kind, nb.FunctionType):
        return 3
    return 1 + 2 * kind.ndim if isinstance(kind, nb.Array) else 1


def _words(kind: Any, value: Any) -> Iterator[int]:
    """Yield the words of a value: numbers, and the addresses of functions and arrays, with shapes and strides."""
    if isinstance(kind, nb.BaseTuple):
        for each, item in zip(kind, value, strict=True):
            yield from _words(each, item)
    elif isinstance(kind, nb.FunctionType):
        yield from (_get_wrapper_address(value, kind.signature), _get_jit_address(value, kind.signature), id(value))
    elif isinstance(kind, nb.Array):
        yield from (value.ctypes.data, *value.shape, *(stride % (1 << 64) for stride in value.strides))
    else:
        number = np.array(value, as_dtype(kind)).tobytes()
        yield int.from_bytes(number.ljust(8, b"\0"), "little")


def _reader(kind: Any, symbol: str) -> Callable[[], Any]:
    """Return a function without arguments that kernels call: it reads a value of type `kind` at `symbol`'s address."""

    @intrinsic  # type: ignore[untyped-decorator]
    def read(typing_context: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            words = ir.ArrayType(context.get_value_type(nb.uintp), _length(kind))
            place = cgutils.add_global_variable(builder.module, words, symbol)
            pointers = (cgutils.gep_inbounds(builder, place, 0, k) for k in range(_length(kind)))
            return _read(context, builder, kind, pointers)

        return kind(), generate

    return read  # type: ignore[no-any-return]  # numba's decorator has no types


def _read(context: Any, builder: Any, kind: Any, pointers: Iterator[Any]) -> Any:
    """Return LLVM's value of type `kind`, built from the words at the next of the `pointers`."""
    if isinstance(kind, nb.BaseTuple):
        return context.make_tuple(builder, kind, [_read(context, builder, each, pointers) for each in kind])
    if isinstance(kind, nb.FunctionType):
        function = cgutils.create_struct_proxy(kind)(context, builder)
        for name in ("c_addr", "jit_addr", "py_addr"):
            setattr(function, name, _address(builder, pointers, getattr(function, name)))
        return function._getvalue()
    if not isinstance(kind, nb.Array):
        return context.unpack_value(
            builder, kind, builder.bitcast(next(pointers), context.get_data_type(kind).as_pointer())
        )
    view = context.make_array(kind)(context, builder)
    data = _address(builder, pointers, view.data)
    shape, strides = (
        cgutils.pack_array(builder, [builder.load(next(pointers)) for _ in range(kind.ndim)]) for _ in range(2)
    )
    itemsize = context.get_constant(nb.intp, as_dtype(kind.dtype).itemsize)
    populate_array(view, data=data, shape=shape, strides=strides, itemsize=itemsize, meminfo=None)
    return view._getvalue()


def _address(builder: Any, pointers: Iterator[Any], like: Any) -> Any:
    return builder.inttoptr(builder.load(next(pointers)), like.type)
