"""Sources of data on disk or in a cluster: Parquet files, Zarr, Dask, arrays in memory or mapped."""

from approxmcmc.sources.arrays import Arrays
from approxmcmc.sources.base import DataSource
from approxmcmc.sources.libraries import DaskArray, DaskFrame, ZarrArray, as_source
from approxmcmc.sources.parquet import ParquetFolder

__all__ = ["Arrays", "DaskArray", "DaskFrame", "DataSource", "ParquetFolder", "ZarrArray", "as_source"]
