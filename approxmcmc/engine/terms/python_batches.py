"""The batch boundary for models that are not compiled here: a kernel that calls Python once for each batch.

    log_terms(theta, data, order, lo, hi, out)       writes the terms of the rows order[lo:hi]
    add_gradient(theta, data, order, lo, hi, out)    adds the gradient of the sum of these terms

These are the library's usual kernels, so a chain, a test or a pass cannot see a difference. Each call hands addresses
to Python: a `RowReader` makes NumPy arrays of them, gathers the rows, and gives them to the model's function. The rows
are read from the `data` of the *call*: a test may pass a copy of the data that it shuffles in place.

Both kernels are compiled once for each combination of data types, and kept on disk; the function is part of their
context. A call that raises fills its output with NaN, which ends a chain, and the exception is raised by the code that
ran the kernel (`raise_kept`).
"""

import bisect
import ctypes
import functools
import math
import threading
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numba import literal_unroll

from approxmcmc.engine.compiler.compile import type_of
from approxmcmc.engine.compiler.pinned import with_context
from approxmcmc.engine.compiler.python_call import PythonCall, keep
from approxmcmc.engine.terms.batches import LOG_PRIOR, log_terms_type
from approxmcmc.engine.terms.gradients import ADD_PRIOR_GRADIENT, gradient_signature

Rows = tuple[np.ndarray, ...]
BatchFunction = Callable[[np.ndarray, Rows, int, np.ndarray], None]
"""``function(theta, rows, n, out)``: `rows` holds for each array of the data at least n rows, of which n count."""


class Context(NamedTuple):
    """What the kernels need beside their arguments: the number of arrays, and the Python function."""

    n_arrays: int  # a function must not come first in a context
    call: PythonCall


def call_with_rows(
    theta: np.ndarray, data: Any, order: np.ndarray, lo: int, hi: int, out: np.ndarray, context: Context
) -> None:
    """Call the function of the context with the addresses of all arguments."""
    arrays = np.empty(2 * context.n_arrays, np.int64)  # address and number of rows of each array
    k = 0
    for array in literal_unroll(data):
        arrays[k] = array.ctypes.data
        arrays[k + 1] = array.shape[0]
        k += 2
    context.call(
        np.int64(theta.ctypes.data),
        theta.shape[0],
        np.int64(arrays.ctypes.data),
        np.int64(order.ctypes.data),
        order.shape[0],
        lo,
        hi,
        np.int64(out.ctypes.data),
    )


def call_with_theta(theta: np.ndarray, context: Context) -> float:
    """Return the number that the function of the context writes."""
    out = np.zeros(1)
    context.call(np.int64(theta.ctypes.data), theta.shape[0], np.int64(out.ctypes.data), 1)
    return out[0]


def call_with_gradient(theta: np.ndarray, out: np.ndarray, context: Context) -> None:
    """Let the function of the context add to `out`."""
    context.call(np.int64(theta.ctypes.data), theta.shape[0], np.int64(out.ctypes.data), out.shape[0])


def array_at(address: int, dtype: np.dtype, shape: tuple[int, ...]) -> np.ndarray:
    """Return a view of the array at an address; the view does not keep the memory alive."""
    n_bytes = dtype.itemsize * math.prod(shape)
    if n_bytes == 0:
        return np.empty(shape, dtype)
    return np.frombuffer(_bytes_type(n_bytes).from_address(address), dtype).reshape(shape)


@functools.lru_cache(maxsize=4096)
def _bytes_type(n_bytes: int) -> Any:
    """Return the type of `n_bytes` bytes; making it takes ten times as long as a view of that type."""
    return ctypes.c_byte * n_bytes


class RowReader:
    """Reads the rows of a batch from the data at given addresses.

    Parameters
    ----------
    data
        Arrays with the types and row shapes of all data that will be read.
    sizes
        Numbers of rows of the buffers, ascending. A batch is copied to the smallest buffer that holds it; the rest of
        the buffer repeats its first row, so that a term that is finite in the batch is finite there. A batch longer
        than the largest buffer is read in pieces. So a compiler that compiles for each shape compiles as often as
        there are sizes. Empty: rows are handed over as they are, without a copy if they are contiguous.
    float_dtype
        Type to which floats are converted in the buffers.
    """

    def __init__(self, data: Sequence[np.ndarray], sizes: Sequence[int] = (), float_dtype: Any = np.float64) -> None:
        self.row_types = [(array.dtype, array.shape[1:]) for array in data]
        self.sizes = tuple(sizes)
        self.float_dtype = np.dtype(float_dtype)
        # A chain's thread has its own buffers, because chains share their kernels.
        self._of_thread = threading.local()

    def buffer_dtype(self, dtype: np.dtype) -> np.dtype:
        """Return the type of a buffer for data of type `dtype`."""
        return self.float_dtype if dtype.kind == "f" else dtype

    def pieces(self, arrays: Sequence[np.ndarray], rows: slice | np.ndarray, n: int) -> Any:
        """Yield (first row of the piece, number of rows, arrays with at least these rows)."""
        if not self.sizes:
            yield 0, n, tuple(array[rows] for array in arrays)
            return
        for start in range(0, n, self.sizes[-1]):
            length = min(self.sizes[-1], n - start)
            buffers = self._buffers(self.sizes[bisect.bisect_left(self.sizes, length)])
            piece = slice(rows.start + start, rows.start + start + length) if isinstance(rows, slice) else rows[start:]
            for array, buffer in zip(arrays, buffers, strict=True):
                if isinstance(piece, slice) or array.dtype != buffer.dtype:
                    buffer[:length] = array[piece if isinstance(piece, slice) else piece[:length]]
                else:
                    # mode="raise" would make a copy first; the order holds valid indices
                    np.take(array, piece[:length], axis=0, out=buffer[:length], mode="clip")
                buffer[length:] = buffer[0]
            yield start, length, buffers

    def _buffers(self, size: int) -> Rows:
        buffers: dict[int, Rows] | None = getattr(self._of_thread, "buffers", None)
        if buffers is None:
            buffers = self._of_thread.buffers = {}
        if size not in buffers:
            buffers[size] = tuple(np.zeros((size, *shape), self.buffer_dtype(dtype)) for dtype, shape in self.row_types)
        return buffers[size]

    def arrays_at(self, addresses: np.ndarray) -> list[np.ndarray]:
        """Return views of the data, given (address, number of rows) of each array; shape (2 * number of arrays,)."""
        return [
            array_at(int(addresses[2 * k]), dtype, (int(addresses[2 * k + 1]), *shape))
            for k, (dtype, shape) in enumerate(self.row_types)
        ]


_INT64 = np.dtype(np.int64)
_FLOAT64 = np.dtype(np.float64)


def _python_call(function: BatchFunction, reader: RowReader, *, adds: bool) -> PythonCall:
    """Return the call of a batch; with `adds` the output is one sum of length dim, else a number for each row."""
    n_arrays = len(reader.row_types)

    def answer(theta: int, dim: int, arrays: int, order: int, n_order: int, lo: int, hi: int, out: int) -> int:
        result = array_at(out, _FLOAT64, (dim if adds else hi - lo,))
        try:
            at = array_at(theta, _FLOAT64, (dim,))
            data = reader.arrays_at(array_at(arrays, _INT64, (2 * n_arrays,)))
            rows: Any = array_at(order + 8 * lo, _INT64, (hi - lo,)) if n_order else slice(lo, hi)
            for first, n, piece in reader.pieces(data, rows, hi - lo):
                function(at, piece, n, result if adds else result[first : first + n])
        except BaseException as error:
            keep(error)
            result[:] = np.nan
        return 0

    return PythonCall(answer, 8)


def terms_by_python(function: BatchFunction, reader: RowReader, data: Rows) -> Any:
    """Return the kernel `log_terms` whose terms `function` writes to its last argument, shape (n,)."""
    signature = log_terms_type(type_of(data)).signature
    return with_context(call_with_rows, signature, Context(len(data), _python_call(function, reader, adds=False)))


def gradient_by_python(function: BatchFunction, reader: RowReader, data: Rows) -> Any:
    """Return the kernel `add_gradient`; `function` adds the gradient of a sum of n terms to its last argument."""
    signature = gradient_signature(type_of(data))
    return with_context(call_with_rows, signature, Context(len(data), _python_call(function, reader, adds=True)))


def _theta_call(function: Callable[[np.ndarray, np.ndarray], None]) -> PythonCall:
    def answer(theta: int, dim: int, out: int, n_out: int) -> int:
        result = array_at(out, _FLOAT64, (n_out,))
        try:
            function(array_at(theta, _FLOAT64, (dim,)), result)
        except BaseException as error:
            keep(error)
            result[:] = np.nan
        return 0

    return PythonCall(answer, 4)


def prior_by_python(function: Callable[[np.ndarray], float]) -> Any:
    """Return the kernel ``log_prior(theta)`` of a Python function of theta."""

    def write(theta: np.ndarray, out: np.ndarray) -> None:
        out[0] = function(theta)

    return with_context(call_with_theta, LOG_PRIOR.signature, Context(0, _theta_call(write)))


def prior_gradient_by_python(function: Callable[[np.ndarray, np.ndarray], None]) -> Any:
    """Return the kernel ``add_prior_gradient(theta, out)`` of a Python function that adds to `out`."""
    return with_context(call_with_gradient, ADD_PRIOR_GRADIENT, Context(0, _theta_call(function)))
