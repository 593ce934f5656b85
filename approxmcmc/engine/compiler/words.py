"""Values that a kernel reads from memory: numbers, and the addresses of arrays and kernels, as words of 8 bytes.

Numba reads a named tuple of Python field by field at each entry of a kernel. For a kernel among the fields it calls
Python twice, in all 80 us; two coupled chains meet after a few steps of 5 us. So what does not change from call to call
is written as words once, and the kernel gets their address, from which `value_at` reads it.

The arrays must stay alive, and must not be resized, while a kernel may read the words.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
from llvmlite import ir
from numba import typeof, types as nb
from numba.core import cgutils
from numba.core.datamodel import models
from numba.experimental.function_type import _get_jit_address, _get_wrapper_address
from numba.extending import NativeValue, intrinsic, register_model, unbox
from numba.np.arrayobj import populate_array
from numba.np.numpy_support import as_dtype

from approxmcmc.engine.compiler.type_names import spelled


class AddressOf(nb.Type):  # type: ignore[misc]  # numba has no types
    """The numba type of the address of a value of type `kind`; in Python, an integer."""

    def __init__(self, kind: Any) -> None:
        self.kind = kind
        super().__init__(f"AddressOf[{spelled(kind)}]")


@register_model(AddressOf)  # type: ignore[untyped-decorator]
class _AddressModel(models.PrimitiveModel):  # type: ignore[misc]
    def __init__(self, manager: Any, numba_type: Any) -> None:
        super().__init__(manager, numba_type, ir.IntType(64))


@unbox(AddressOf)  # type: ignore[untyped-decorator]
def _unbox_address(numba_type: Any, integer: Any, c: Any) -> Any:
    return NativeValue(c.pyapi.long_as_ulonglong(integer))


class Words:
    """The words of a value of type `kind`; it keeps the value alive."""

    def __init__(self, kind: Any, value: Any) -> None:
        self.value = value
        self._words = np.fromiter(words(kind, value), np.uint64, length(kind))
        self.address = self._words.ctypes.data


@intrinsic  # type: ignore[untyped-decorator]
def value_at(typing_context: Any, address: Any) -> Any:
    """Return, inside a kernel, the value at an address of type `AddressOf`."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        first = builder.inttoptr(arguments[0], ir.IntType(64).as_pointer())
        pointers = (cgutils.gep_inbounds(builder, first, k) for k in range(length(address.kind)))
        return read_words(context, builder, address.kind, pointers)

    return address.kind(address), generate


def length(kind: Any) -> int:
    """Return how many words of 8 bytes a value of this type takes."""
    if isinstance(kind, nb.BaseTuple):
        return sum(map(length, kind))
    if isinstance(kind, nb.FunctionType):
        return 3
    if isinstance(kind, nb.NoneType):
        return 0
    return 1 + 2 * kind.ndim if isinstance(kind, nb.Array) else 1


def words(kind: Any, value: Any) -> Iterator[int]:
    """Yield the words of a value: numbers, and the addresses of functions and arrays, with shapes and strides."""
    if isinstance(kind, nb.BaseTuple):
        for each, item in zip(kind, value, strict=True):
            yield from words(each, item)
    elif isinstance(kind, nb.FunctionType):
        yield from (_get_wrapper_address(value, kind.signature), _get_jit_address(value, kind.signature), id(value))
    elif isinstance(kind, nb.Array):
        if value.dtype != as_dtype(kind.dtype) or value.ndim != kind.ndim or typeof(value).layout != kind.layout:
            raise TypeError(f"a kernel reads {kind} here, found {value.dtype} of shape {value.shape}")
        yield from (value.ctypes.data, *value.shape, *(stride % (1 << 64) for stride in value.strides))
    elif not isinstance(kind, nb.NoneType):
        number = np.array(value, as_dtype(kind)).tobytes()
        yield int.from_bytes(number.ljust(8, b"\0"), "little")


def read_words(context: Any, builder: Any, kind: Any, pointers: Iterator[Any]) -> Any:
    """Return LLVM's value of type `kind`, built from the words at the next of the `pointers`."""
    if isinstance(kind, nb.BaseTuple):
        return context.make_tuple(builder, kind, [read_words(context, builder, each, pointers) for each in kind])
    if isinstance(kind, nb.FunctionType):
        function = cgutils.create_struct_proxy(kind)(context, builder)
        for name in ("c_addr", "jit_addr", "py_addr"):
            setattr(function, name, _address(builder, pointers, getattr(function, name)))
        return function._getvalue()
    if isinstance(kind, nb.NoneType):
        return context.get_dummy_value()
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
