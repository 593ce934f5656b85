"""Zarr arrays, Dask arrays and Dask DataFrames as sources; `as_source` recognises them."""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from approxmcmc.contracts import content_hash
from approxmcmc.contracts.speaker import names_itself
from approxmcmc.engine.extras import extra
from approxmcmc.errors import DatasetWarning, InvalidInputError, warn
from approxmcmc.sources.base import DataSource, check_alone, check_numbers, column_names

FEWEST_ROWS = 1 << 16  # fewest rows of a block; smaller chunks are joined


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
        When the array cannot be opened, is empty or not numeric, or has more than two axes.
    MissingExtraError
        When zarr is not installed; it comes with ``approxmcmc[sources]``.

    Warns
    -----
    DatasetWarning
        When chunks are missing: their values are read as the fill value of the array, such as 0.

    Notes
    -----
    The data of a folder count as unchanged while names, sizes and modification times of its files are unchanged. To
    compare the data of another kind of store, all values are read.

    Examples
    --------
    >>> X, y = ZarrArray("flights.zarr/X"), ZarrArray("flights.zarr/late")  # doctest: +SKIP
    >>> target = amc.LogisticRegression(X, y)  # doctest: +SKIP
    """

    @names_itself()
    def __init__(self, array: Any, columns: Sequence[str] | None = None) -> None:
        with extra("sources", "ZarrArray"):
            import zarr
        try:
            self._array = array if isinstance(array, zarr.Array) else zarr.open_array(str(array), mode="r")
        except (OSError, ValueError, KeyError) as error:
            raise InvalidInputError(f"ZarrArray: {array} cannot be opened as a Zarr array ({error})") from error
        self._warn_of_missing_chunks()
        shape = self._array.shape
        if len(shape) not in (1, 2) or not shape[0]:
            raise InvalidInputError(f"ZarrArray: an array must have shape (n,) or (n, p), found {shape}")
        self.is_vector = len(shape) == 1
        self._names = self.columns = column_names(columns, 1 if self.is_vector else shape[1])
        check_numbers({"the array": self._array.dtype})
        chunk = int((self._array.shards or self._array.chunks)[0])
        rows = chunk * max(1, math.ceil(FEWEST_ROWS / chunk))
        self.offsets = np.append(np.arange(0, shape[0], rows), shape[0])

    def _warn_of_missing_chunks(self) -> None:
        """Warn if chunks were lost or never written: Zarr reads each of their values as the fill value."""
        array = self._array
        missing = array.nchunks - array.nchunks_initialized
        if missing:
            warn(
                f"ZarrArray: {missing} of {array.nchunks} chunks of {array.store_path} are missing, and Zarr reads "
                f"their values as the fill value, {array.fill_value!r}. If they were lost, copy the array again. Zarr "
                "also leaves out chunks that hold nothing else: then ignore this warning, or write the array with "
                "write_empty_chunks=True",
                DatasetWarning,
            )

    def fingerprint(self) -> str:
        """Return a hash of the files' names, sizes and modification times if they are in a local folder.

        For any other store, return a hash of all values.
        """
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


class DaskArray(DataSource):
    """The rows of a `dask.array.Array` of shape (n,) or (n, p); a block is a chunk.

    Parameters
    ----------
    array
        Chunks of rows; chunks of columns are joined. Lengths unknown to Dask are computed.
    columns
        Names of the columns; None means x0, x1, ...

    Raises
    ------
    InvalidInputError
        When the array is not numeric, or has more than two axes.

    Notes
    -----
    Whether the data are those of an earlier run shows only in their values, so each run computes all values once more.

    Examples
    --------
    >>> import dask.array as da
    >>> DaskArray(da.ones((6, 2), chunks=(4, 1))).offsets
    array([0, 4, 6])
    """

    @names_itself()
    def __init__(self, array: Any, columns: Sequence[str] | None = None) -> None:
        if array.ndim not in (1, 2):
            raise InvalidInputError(f"DaskArray: an array must have shape (n,) or (n, p), found {array.shape}")
        if np.isnan(array.shape[0]):
            array = array.compute_chunk_sizes()
        self.is_vector = array.ndim == 1
        self._array = array.reshape(-1, 1) if self.is_vector else array.rechunk({1: -1})
        self._names = self.columns = column_names(columns, self._array.shape[1])
        check_numbers({"the array": self._array.dtype})
        self.offsets = np.concatenate([[0], np.cumsum(self._array.chunks[0])]).astype(np.int64)

    def _read(self, block: int) -> np.ndarray:
        places = [self._names.index(name) for name in self.columns]
        return np.asarray(computed(self._array.blocks[block]))[:, places]

    def _types(self) -> Sequence[np.dtype]:
        return [self._array.dtype]


def computed(collection: Any) -> Any:
    """Return the values of a Dask collection, computed by the active scheduler, or inside a worker by this thread."""
    import distributed

    try:
        distributed.get_worker()
    except ValueError:
        return collection.compute()
    return collection.compute(scheduler="synchronous")


class DaskFrame(DataSource):
    """The rows of a `dask.dataframe.DataFrame` or `Series`; a block is a partition.

    Parameters
    ----------
    frame
        Columns of numbers, categories or text; their names are those of the source.

    Raises
    ------
    InvalidInputError
        When names of columns occur twice.
    MissingExtraError
        When dask has no data frames; they come with ``approxmcmc[sources]``.

    Notes
    -----
    Whether the data are those of an earlier run shows only in their values, so each run computes all values once more.
    The lengths of the partitions are computed when the source is made, the labels of categories when they are needed.

    Examples
    --------
    >>> import dask.dataframe as dd, pandas as pd
    >>> frame = dd.from_pandas(pd.DataFrame({"x": [0.5, 1.5], "city": ["B", "A"]}), npartitions=1)
    >>> DaskFrame(frame)["city"].read(0)
    array([1, 0])
    """

    @names_itself()
    def __init__(self, frame: Any) -> None:
        with extra("sources", "DaskFrame"):
            import dask.dataframe as dd
        self.is_vector = isinstance(frame, dd.Series)
        self._frame = frame.to_frame(name=frame.name or "x0") if self.is_vector else frame
        self.columns = column_names(list(self._frame.columns), len(self._frame.columns))
        self._keys = dict(zip(self.columns, self._frame.columns, strict=True))
        lengths = computed(self._frame.map_partitions(len, meta=("rows", "int64")))
        self.offsets = np.concatenate([[0], np.cumsum(np.asarray(lengths))]).astype(np.int64)
        self._labels: dict[str, tuple[Any, ...]] = {}

    @property
    def categories(self) -> Mapping[str, tuple[Any, ...]]:
        """Labels of the selected columns with categories; needs one pass over each such column."""
        coded = [name for name in self.columns if name != self.ones and self._is_coded(name)]
        for name in coded:
            if name not in self._labels:
                categorical = self._frame[self._keys[name]].astype("category").cat.as_known()
                labels = categorical.cat.categories
                self._labels[name] = tuple(labels if self._is_ordered(name) else sorted(labels))
        return {name: self._labels[name] for name in coded}

    def _is_coded(self, name: str) -> bool:
        dtype = self._frame.dtypes[self._keys[name]]
        return not isinstance(dtype, np.dtype) and dtype.name in ("category", "string", "str")

    def _is_ordered(self, name: str) -> bool:
        """Return whether Dask knows the labels, and so their order; unknown labels are sorted."""
        column = self._frame[self._keys[name]]
        return column.dtype.name == "category" and bool(column.cat.known)

    @names_itself()
    def _types(self) -> Sequence[np.dtype]:
        types = {}
        for name in self.columns:
            dtype = np.dtype(np.int8) if name == self.ones else self._frame.dtypes[self._keys[name]]
            if name != self.ones and self._is_coded(name):
                dtype = np.dtype(np.int64)
            types[name] = getattr(dtype, "numpy_dtype", dtype)  # for pandas' types with missing values
        check_numbers({name: np.dtype(dtype) for name, dtype in types.items()})
        return [np.dtype(dtype) for dtype in types.values()]

    @names_itself()
    def _read(self, block: int) -> np.ndarray:
        self._types()
        coded = [name for name in self.columns if self._is_coded(name)]
        check_alone(dict.fromkeys(coded), self.columns)
        rows = computed(self._frame[[self._keys[name] for name in self.columns]].partitions[block])
        if coded:
            import pandas as pd

            codes = pd.Categorical(rows.iloc[:, 0], categories=list(self.categories[coded[0]])).codes
            return np.where(codes < 0, np.nan, codes)[:, None] if (codes < 0).any() else np.asarray(codes)[:, None]
        if rows.isna().any(axis=None):
            return rows.to_numpy(dtype=np.float64, na_value=np.nan)
        return np.asarray(rows.to_numpy(dtype=self.dtype))


def as_source(values: Any) -> DataSource | None:
    """Return a source if `values` is one, or is a Dask collection or a Zarr array; None for anything else.

    The check imports no library: if the data belong to a library, it is imported already.

    Examples
    --------
    >>> import dask.array as da
    >>> as_source(da.ones(3)), as_source([1.0, 2.0])
    (DaskArray(3 rows, x0), None)
    """
    if isinstance(values, DataSource):
        return values
    library = type(values).__module__.partition(".")[0]
    kind = type(values).__name__
    if library == "zarr" and kind == "Array":
        return ZarrArray(values)
    if library == "dask" and kind == "Array":
        return DaskArray(values)
    if library == "dask" and kind in ("DataFrame", "Series"):
        return DaskFrame(values)
    return None
