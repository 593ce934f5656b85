"""Random generators inside kernels, rebuilt from memory addresses.

Numba reads a NumPy generator at the entry of a kernel. That code takes a fifth of a second to compile for each of a
chain's five generators, and counts references, which step functions are compiled without. So a chain passes five
numbers for each generator: the addresses of its bit generator's state and of the functions that advance it. The caller
must keep the generator alive.
"""

import ctypes
from typing import Any

import numpy as np
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

FIELDS = ("state_address", "state", "fnptr_next_uint64", "fnptr_next_double", "fnptr_next_uint32")
ADDRESSES = types.UniTuple(types.uintp, len(FIELDS))


def addresses(generator: np.random.Generator) -> tuple[int, ...]:
    """Return the addresses of a generator's state and functions, in the order of `FIELDS`."""
    interface = generator.bit_generator.ctypes
    functions = (interface.next_uint64, interface.next_double, interface.next_uint32)
    pointers = [ctypes.cast(part, ctypes.c_void_p).value for part in (interface.state, *functions)]
    return (interface.state_address, *(pointer or 0 for pointer in pointers))


@intrinsic  # type: ignore[untyped-decorator]
def generator_at(typing_context: Any, places: Any) -> Any:
    """Return, inside a kernel, the generator whose state and functions are at `places`, the result of `addresses`."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        bits = cgutils.create_struct_proxy(types.npy_bitgen)(context, builder)
        bits.parent = cgutils.get_null_value(bits.parent.type)
        for index, field in enumerate(FIELDS):
            setattr(bits, field, builder.extract_value(arguments[0], index))
        generator = cgutils.create_struct_proxy(types.npy_rng)(context, builder)
        generator.bit_generator = bits._getvalue()
        generator.parent = cgutils.get_null_value(generator.parent.type)
        generator.meminfo = cgutils.get_null_value(generator.meminfo.type)
        return generator._getvalue()

    return types.npy_rng(places), generate
