"""Arrays that belong to one kernel: it reads them where they lie, by address.

A prior of the user's has no argument but theta, and neither has a log density that stands in its place. Numba would
copy an array that such a closure names into its code, read-only: half a minute for ten megabytes. An address costs
nothing. The kernel keeps the arrays alive; its code belongs to this process, and must not be kept on disk.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from numba import config
from numba import types as nb
from numba.core import cgutils
from numba.extending import intrinsic
from numba.np.arrayobj import populate_array

from approxmcmc.engine.compile import type_of


def pinned(*arrays: np.ndarray) -> Callable[[], tuple[np.ndarray, ...]]:
    """Return a function without arguments, for kernels, that returns the arrays themselves."""
    if config.DISABLE_JIT:
        return lambda: arrays
    types = type_of(arrays)

    @intrinsic  # type: ignore[untyped-decorator]
    def places(typing_context: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            made = [_view(context, builder, kind, array) for kind, array in zip(types, arrays, strict=True)]
            return context.make_tuple(builder, types, made)

        return types(), generate

    return places  # type: ignore[no-any-return]  # numba's decorator has no types


def _view(context: Any, builder: Any, kind: Any, array: np.ndarray) -> Any:
    """Return the compiler's view of an array at its address, whose memory nobody counts."""
    view = context.make_array(kind)(context, builder)
    numbers = [[context.get_constant(nb.intp, n) for n in sizes] for sizes in (array.shape, array.strides)]
    address = context.get_constant(nb.uintp, array.ctypes.data)
    populate_array(
        view,
        data=builder.inttoptr(address, view.data.type),
        shape=cgutils.pack_array(builder, numbers[0]) if array.ndim else numbers[0],
        strides=cgutils.pack_array(builder, numbers[1]) if array.ndim else numbers[1],
        itemsize=context.get_constant(nb.intp, array.itemsize),
        meminfo=None,
    )
    return view._getvalue()
