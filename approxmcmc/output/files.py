"""Traces on disk: one run is one flat netCDF file, written atomically."""

import contextlib
import errno
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import xarray as xr

from approxmcmc.engine.files.whole_files import whole_file
from approxmcmc.errors import InvalidInputError, naming_the_arguments
from approxmcmc.output.datatree import sanitize_attrs

# A rejected proposal repeats a draw, which zlib already compresses at its lowest level; level 4 takes three times as
# long and saves a few per cent more.
_COMPRESSION = {"zlib": True, "complevel": 1, "shuffle": True}
_DRAWS_PER_CHUNK = 10_000
_SAMPLE_GROUPS = ("posterior", "sample_stats")
CHECKPOINT = "checkpoint"  # the group that a run needs to resume


@naming_the_arguments
def save(trace: xr.DataTree, path: str | os.PathLike[str]) -> Path:
    """Write a trace to one netCDF file, atomically: readers see the old file or the new one, never a part.

    Parameters
    ----------
    trace
        A trace with a group ``posterior`` or ``sample_stats``; it may have no draws.
    path
        Where to write; the folder must exist. A file of that name is replaced.

    Returns
    -------
    pathlib.Path
        The path written.

    Raises
    ------
    InvalidInputError
        If `trace` is not a DataTree with one of these groups.
    FileNotFoundError, IsADirectoryError
        If the folder does not exist, or `path` is one.
    OSError
        If the file cannot be written, as on a full disk.

    Notes
    -----
    Plain ``trace.to_netcdf(path)`` writes a file with the same content. This one is compressed (zlib 1 with shuffle,
    chunks of one chain and up to 10 000 draws), survives a crash during writing, and converts attributes that netCDF
    cannot store (bool, None, dict).

    Examples
    --------
    >>> amc.save(trace, "run.nc")  # doctest: +SKIP
    >>> trace = amc.load("run.nc")  # doctest: +SKIP
    """
    path = Path(path)
    if not isinstance(trace, xr.DataTree) or not any(group in trace.children for group in _SAMPLE_GROUPS):
        raise InvalidInputError(
            "`save` needs a trace, an xarray.DataTree with a group 'posterior' or 'sample_stats'; found "
            f"{_describe(trace)}. Pass what `sample` returned."
        )
    if not path.parent.is_dir():
        raise FileNotFoundError(f"Cannot save to {path}: the folder {path.parent} does not exist. Create it first.")
    if path.is_dir():
        raise IsADirectoryError(f"Cannot save to {path}: it is a folder. Name a file, as {path / 'trace.nc'}.")
    write_tree(trace, path)
    return path


def write_tree(tree: xr.DataTree, path: Path, *, compressed: bool = True) -> None:
    """Write a tree to one netCDF file atomically, compressed or, which is faster, not."""
    storable = _with_storable_attrs(tree)
    with whole_file(path) as temporary, without_a_cluster():
        try:
            storable.to_netcdf(temporary, engine="netcdf4", encoding=_encoding(storable) if compressed else {})
        except RuntimeError as error:  # all that netCDF4 says about a full disk is "NetCDF: HDF error"
            raise OSError(errno.EIO, f"netCDF could not write it ({error}); is the disk full?", str(path)) from error


@contextlib.contextmanager
def without_a_cluster() -> Iterator[None]:
    """Context in which xarray takes no lock from an active Dask cluster to write a file, which would fail.

    No lock is needed, because no other process knows the name of the file.
    """
    dask = sys.modules.get("dask")
    with contextlib.nullcontext() if dask is None else dask.config.set(scheduler="threads"):
        yield


@naming_the_arguments
def load(path: str | os.PathLike[str]) -> xr.DataTree:
    """Read a trace into memory and close its file.

    Parameters
    ----------
    path
        A file written by :func:`save`, by ``to_netcdf``, or by ArviZ.

    Returns
    -------
    xarray.DataTree
        All groups of the file except the checkpoint. An attribute that was a list of one number comes back as the
        number.

    Raises
    ------
    FileNotFoundError
        If there is no such file.
    InvalidInputError
        If the file is not netCDF, or holds no group ``posterior`` or ``sample_stats``.
    """
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"There is no trace at {path}. Check the path; `save(trace, path)` writes one.")
    tree = read_tree(path)
    if not any(group in tree.children for group in _SAMPLE_GROUPS):
        way_out = (
            "It is the checkpoint of a run that has not ended: call `sample` again as before, or `resume`."
            if CHECKPOINT in tree.children
            else "Open files that are not traces with xarray itself."
        )
        raise InvalidInputError(
            f"`load` needs a file with a group 'posterior' or 'sample_stats'; {path} holds {_describe(tree)}. {way_out}"
        )
    return without_checkpoint(tree)


def read_tree(path: Path) -> xr.DataTree:
    """Read a netCDF file of groups into memory and close it; raise on any other file."""
    try:
        with xr.open_datatree(path, engine="netcdf4") as opened:
            return opened.load()
    except (OSError, ValueError, RuntimeError) as error:  # RuntimeError: a damaged block of compressed numbers
        raise InvalidInputError(
            f"`load` needs a netCDF-4 file with a trace; {path} cannot be read as one ({error}). "
            "It may be of another format, or cut off by a copy that failed."
        ) from error


def without_checkpoint(tree: xr.DataTree) -> xr.DataTree:
    """Return the tree without its group ``checkpoint``, so that only the trace remains."""
    return xr.DataTree.from_dict({name: group for name, group in tree.children.items() if name != CHECKPOINT})


def _describe(found: Any) -> str:
    if not isinstance(found, xr.DataTree):
        return f"a {type(found).__name__}"
    return f"the groups {sorted(found.children)}" if found.children else "no groups"


def _with_storable_attrs(trace: xr.DataTree) -> xr.DataTree:
    datasets = {}
    for node in trace.subtree:
        dataset = node.to_dataset(inherit=False).copy(deep=False)
        dataset.attrs = sanitize_attrs(dataset.attrs)
        for variable in dataset.variables.values():
            variable.attrs = sanitize_attrs(variable.attrs)
        datasets[node.path] = dataset
    return xr.DataTree.from_dict(datasets)


def _encoding(trace: xr.DataTree) -> dict[str, dict[str, dict[str, Any]]]:
    """Return netCDF encodings that compress numeric arrays; scalars and arrays without entries cannot be chunked."""
    return {
        node.path: {
            str(name): {**_COMPRESSION, "chunksizes": _chunks(variable)}
            for name, variable in node.dataset.data_vars.items()
            if variable.dtype.kind in "biuf" and variable.size and variable.ndim
        }
        for node in trace.subtree
    }


def _chunks(variable: xr.DataArray) -> tuple[int, ...]:
    longest = {"chain": 1, "draw": _DRAWS_PER_CHUNK}
    return tuple(min(longest.get(str(dim), size), size) for dim, size in variable.sizes.items())
