"""A Dask array."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from approxmcmc.errors import InvalidInputError
from approxmcmc.sources.base import DataSource, check_numbers, column_names


class DaskArray(DataSource):
    """The rows of a `dask.array.Array` of shape (n,) or (n, p); a block is a chunk.

    Parameters
    ----------
    array
        Chunks of rows; chunks of columns are put side by side. Lengths that Dask does not know yet are computed.
    columns
        Names of the columns; None is x0, x1, ...

    Raises
    ------
    InvalidInputError
        When it is no array of numbers with one or two axes.

    Notes
    -----
    Nothing tells whether such data are those of an earlier run but the values: all are computed once more for that.

    Examples
    --------
    >>> import dask.array as da
    >>> DaskArray(da.ones((6, 2), chunks=(4, 1))).offsets
    array([0, 4, 6])
    """

    def __init__(self, array: Any, columns: Sequence[str] | None = None) -> None:
        if array.ndim not in (1, 2):
            raise InvalidInputError(f"DaskArray: an array must have shape (n,) or (n, p), found {array.shape}")
        if np.isnan(array.shape[0]):
            array = array.compute_chunk_sizes()
        self.is_vector = array.ndim == 1
        self._array = array.reshape(-1, 1) if self.is_vector else array.rechunk({1: -1})
        self._names = self.columns = column_names(columns, self._array.shape[1], who="DaskArray")
        check_numbers({"the array": self._array.dtype}, who="DaskArray")
        self.offsets = np.concatenate([[0], np.cumsum(self._array.chunks[0])]).astype(np.int64)

    def _read(self, block: int) -> np.ndarray:
        places = [self._names.index(name) for name in self.columns]
        return np.asarray(computed(self._array.blocks[block]))[:, places]

    def _types(self) -> Sequence[np.dtype]:
        return [self._array.dtype]


def computed(collection: Any) -> Any:
    """Return a collection's values: by the scheduler that is active, within a task of a worker by this thread."""
    import distributed

    try:
        distributed.get_worker()
    except ValueError:
        return collection.compute()
    return collection.compute(scheduler="synchronous")
