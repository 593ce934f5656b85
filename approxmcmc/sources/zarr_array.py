"""A Zarr array."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from approxmcmc.contracts import content_hash
from approxmcmc.engine.extras import extra
from approxmcmc.errors import InvalidInputError
from approxmcmc.sources.base import DataSource, check_numbers, column_names

FEWEST_ROWS = 1 << 16  # of a block, which consists of several chunks


class ZarrArray(DataSource):
    """The rows of a Zarr array of shape (n,) or (n, p); a block is a run of chunks.

    Parameters
    ----------
    array
        A `zarr.Array`, or the path or address of one.
    columns
        Names of the columns; None means x0, x1, ...

    Raises
    ------
    InvalidInputError
        When it is not numeric, or has more than two axes.
    MissingExtraError
        When zarr is not installed; it comes with ``approxmcmc[sources]``.

    Notes
    -----
    The data of a folder count as unchanged while names, sizes and modification times of its files are unchanged. To
    compare the data of another kind of store, all values are read.

    Examples
    --------
    >>> X, y = ZarrArray("flights.zarr/X"), ZarrArray("flights.zarr/late")  # doctest: +SKIP
    >>> target = amc.targets.LogisticRegression(X, y)  # doctest: +SKIP
    """

    def __init__(self, array: Any, columns: Sequence[str] | None = None) -> None:
        with extra("sources", "ZarrArray"):
            import zarr
        try:
            self._array = array if isinstance(array, zarr.Array) else zarr.open_array(str(array), mode="r")
        except (OSError, ValueError, KeyError) as error:
            raise InvalidInputError(f"ZarrArray: {array} cannot be opened as a Zarr array ({error})") from error
        shape = self._array.shape
        if len(shape) not in (1, 2) or not shape[0]:
            raise InvalidInputError(f"ZarrArray: an array must have shape (n,) or (n, p), found {shape}")
        self.is_vector = len(shape) == 1
        self._names = self.columns = column_names(columns, 1 if self.is_vector else shape[1], who="ZarrArray")
        check_numbers({"the array": self._array.dtype}, who="ZarrArray")
        chunk = int((self._array.shards or self._array.chunks)[0])
        rows = chunk * max(1, -(-FEWEST_ROWS // chunk))
        self.offsets = np.append(np.arange(0, shape[0], rows), shape[0])

    def fingerprint(self) -> str:
        """Return a hash of the names, sizes and modification times of the files, or of all values."""
        root = getattr(self._array.store, "root", None)
        if root is None or not Path(root).is_dir():
            return super().fingerprint()
        folder = Path(root, self._array.path)
        files = [(str(path), path.stat()) for path in sorted(folder.rglob("*")) if path.is_file()]
        return content_hash([(path, state.st_size, state.st_mtime_ns) for path, state in files])

    def _read(self, block: int) -> np.ndarray:
        rows = np.asarray(self._array[int(self.offsets[block]) : int(self.offsets[block + 1])])
        places = [self._names.index(name) for name in self.columns]
        return rows.reshape(len(rows), -1)[:, places]

    def _types(self) -> Sequence[np.dtype]:
        return [self._array.dtype]
