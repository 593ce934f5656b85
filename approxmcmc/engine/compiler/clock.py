"""A clock that compiled code can read: nanoseconds, as `time.perf_counter_ns` counts them; a reading takes 23 ns.

The C library's `clock_gettime` is called by name, so kernels that use it can be cached on disk. On systems without it
(Windows) the clock does not advance inside kernels, and the chunk driver spreads each chunk's time over its draws.
"""

import sys
import time
from typing import Any

from llvmlite import ir
from numba import config, types
from numba.core import cgutils
from numba.extending import intrinsic

from approxmcmc.engine.compiler.compile import compiled

# The clock id behind perf_counter: CLOCK_MONOTONIC on Linux, CLOCK_UPTIME_RAW on macOS.
CLOCK_ID = {"linux": 1, "darwin": 8}.get(sys.platform)
TICKS_IN_KERNELS = CLOCK_ID is not None


@intrinsic  # type: ignore[untyped-decorator]
def _clock_gettime(typing_context: Any) -> Any:
    """Return the nanoseconds of the clock `CLOCK_ID`, read through the C library."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        int32 = ir.IntType(32)
        int64 = ir.IntType(64)
        timespec = ir.ArrayType(int64, 2)
        prototype = ir.FunctionType(int32, [int32, timespec.as_pointer()])
        function = cgutils.get_or_insert_function(builder.module, prototype, "clock_gettime")
        slot = cgutils.alloca_once(builder, timespec)
        builder.call(function, [int32(CLOCK_ID), slot])
        zero = int32(0)
        index = int32(1)
        seconds, nanoseconds = (builder.load(builder.gep(slot, [zero, field])) for field in (zero, index))
        return builder.add(builder.mul(seconds, int64(1_000_000_000)), nanoseconds)

    return types.int64(), generate


def _choose() -> Any:
    if config.DISABLE_JIT:
        return time.perf_counter_ns
    if not TICKS_IN_KERNELS:
        return compiled(lambda: 0)

    @compiled  # type: ignore[untyped-decorator]
    def read() -> int:
        return _clock_gettime()  # type: ignore[no-any-return]

    return read


nanoseconds = _choose()
