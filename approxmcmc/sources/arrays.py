"""Arrays in memory, or mapped from a file."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from approxmcmc.contracts.speaker import names_itself
from approxmcmc.errors import InvalidInputError
from approxmcmc.sources.base import DataSource, check_numbers, column_names

ROWS = 1 << 20  # rows of a block


class Arrays(DataSource):
    """An array of shape (n,) or (n, p), such as a `numpy.memmap`, as a source.

    Targets also take plain arrays. If they get a source, the workers of a Dask cluster can make the passes over all
    data: they map the same file, or receive the rows. No local copy is written if all columns of a C-contiguous array
    of float32, float64 or int64 are used.

    Parameters
    ----------
    array
        Numbers, shape (n,) or (n, p).
    columns
        Names of the columns; None means x0, x1, ...

    Raises
    ------
    InvalidInputError
        When the array has other axes, or is not numeric.

    Examples
    --------
    >>> import numpy as np
    >>> Arrays(np.zeros((4, 2), dtype=np.float32)).dtype
    dtype('float32')
    """

    @names_itself()
    def __init__(self, array: Any, columns: Sequence[str] | None = None) -> None:
        values = array if isinstance(array, np.memmap) else np.asarray(array)
        if values.ndim not in (1, 2):
            raise InvalidInputError(f"Arrays: an array must have shape (n,) or (n, p), found {values.shape}")
        self.is_vector = values.ndim == 1
        if not values.size:
            raise InvalidInputError(f"Arrays needs at least one row and one column, found shape {values.shape}")
        self._array = values.reshape(len(values), -1)
        self._names = self.columns = column_names(columns, self._array.shape[1])
        check_numbers({"the array": self._array.dtype})
        self.offsets = np.append(np.arange(0, len(values), ROWS), len(values))

    def _read(self, block: int) -> np.ndarray:
        places = [self._names.index(name) for name in self.columns]
        return self._array[self.offsets[block] : self.offsets[block + 1]][:, places]

    def _types(self) -> Sequence[np.dtype]:
        return [self._array.dtype]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        """Return the array itself, read-only, if it can be used unchanged; else the rows from the local file."""
        flags = self._array.flags
        as_it_lies = self.dtype == self._array.dtype and flags.c_contiguous and flags.aligned
        if self.columns != self._names or not as_it_lies or (dtype is not None and np.dtype(dtype) != self.dtype):
            return super().__array__(dtype, copy)
        array = np.asarray(self._array).reshape(self.shape)
        array.flags.writeable = False
        return array.copy() if copy else array

    def __getstate__(self) -> dict[str, Any]:
        """Return the state to pickle: a C-contiguous mapped file by its name, any other array with its values."""
        state = dict(self.__dict__)
        array = self._array
        if isinstance(array, np.memmap) and array.filename is not None and array.flags.c_contiguous:
            start = array.offset + array.__array_interface__["data"][0] - _first_byte(array)
            state["_array"] = (str(array.filename), array.dtype, start, array.shape)
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Restore the state; map the file of an array that was pickled by its name."""
        self.__dict__.update(state)
        if isinstance(self._array, tuple):
            name, dtype, start, shape = self._array
            self._array = np.memmap(name, dtype, "r", start, shape)


def _first_byte(array: np.memmap) -> int:
    """Return the memory address of the first byte of the outermost array of which `array` is a view."""
    base: Any = array
    while isinstance(base.base, np.ndarray):
        base = base.base
    return int(base.__array_interface__["data"][0])
