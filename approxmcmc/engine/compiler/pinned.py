"""Functions of theta that need a large context: one kernel for all contexts, and a thin kernel that holds one context.

A log prior has theta as its only argument. Its replacement, such as a surrogate with its rows and sums, is a function
of theta and a context: a named tuple of arrays, numbers and kernels. It is compiled once for all contexts of a type,
and cached on disk. A one-line kernel around it holds one context and reads its arrays in place: it compiles in a tenth
of a second, where a closure over arrays would take half a second, and copy them.

The thin kernel keeps its context alive. Its code belongs to this process, and is not cached on disk.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from numba import config
from numba import types as nb
from numba.core import cgutils
from numba.experimental.function_type import _get_jit_address, _get_wrapper_address
from numba.extending import intrinsic
from numba.np.arrayobj import populate_array

from approxmcmc.engine.compiler.compile import BATCH_FASTMATH, kernel, type_of


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
        A named tuple of arrays, integers and kernels; kernels must not come first in a tuple, or numba warns.
    fastmath
        Whether sums may be reordered, as in batch kernels.
    """
    whole = kernel(
        function,
        signature.return_type(*signature.args, type_of(context)),
        fastmath=BATCH_FASTMATH if fastmath else frozenset(),
    )
    known = _constant((context, whole))
    return kernel(_WRAPPERS[len(signature.args)](known), signature, cache=False)


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


def _constant(value: Any) -> Callable[[], Any]:
    """Return a function without arguments, for kernels, that returns this very value."""
    if config.DISABLE_JIT:
        return lambda: value
    kind = type_of(value)

    @intrinsic  # type: ignore[untyped-decorator]
    def constant(typing_context: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            return _generate(context, builder, kind, value)

        return kind(), generate

    return constant  # type: ignore[no-any-return]  # numba's decorator has no types


def _generate(context: Any, builder: Any, kind: Any, value: Any) -> Any:
    """Return the compiler's representation of a value: arrays and functions by their addresses."""
    if isinstance(kind, nb.BaseTuple):
        items = [_generate(context, builder, each, item) for each, item in zip(kind, value, strict=True)]
        return context.make_tuple(builder, kind, items)
    if isinstance(kind, nb.FunctionType):
        function = cgutils.create_struct_proxy(kind)(context, builder)
        function.c_addr = _pointer(context, builder, _get_wrapper_address(value, kind.signature), function.c_addr)
        function.jit_addr = _pointer(context, builder, _get_jit_address(value, kind.signature), function.jit_addr)
        function.py_addr = _pointer(context, builder, id(value), function.py_addr)
        return function._getvalue()
    if not isinstance(kind, nb.Array):
        return context.get_constant(kind, value)
    view = context.make_array(kind)(context, builder)
    shape, strides = (
        cgutils.pack_array(builder, [context.get_constant(nb.intp, n) for n in sizes])
        for sizes in (value.shape, value.strides)
    )
    populate_array(
        view,
        data=_pointer(context, builder, value.ctypes.data, view.data),
        shape=shape,
        strides=strides,
        itemsize=context.get_constant(nb.intp, value.itemsize),
        meminfo=None,
    )
    return view._getvalue()


def _pointer(context: Any, builder: Any, address: int, like: Any) -> Any:
    return builder.inttoptr(context.get_constant(nb.uintp, address), like.type)
