"""Turn user data into a source: sources, Dask collections, Zarr arrays."""

from typing import Any

from approxmcmc.sources.base import DataSource
from approxmcmc.sources.dask_collections import DaskArray, DaskFrame
from approxmcmc.sources.zarr_array import ZarrArray


def as_source(values: Any) -> DataSource | None:
    """Return a source, a Dask collection or a Zarr array as a source, and None for anything else.

    The check imports no library: if the data belong to a library, it is imported already.

    Examples
    --------
    >>> import dask.array as da
    >>> as_source(da.ones(3)), as_source([1.0, 2.0])
    (DaskArray(3 rows, x0), None)
    """
    if isinstance(values, DataSource):
        return values
    library, kind = type(values).__module__.partition(".")[0], type(values).__name__
    if library == "zarr" and kind == "Array":
        return ZarrArray(values)
    if library == "dask" and kind == "Array":
        return DaskArray(values)
    if library == "dask" and kind in ("DataFrame", "Series"):
        return DaskFrame(values)
    return None
