"""Traces on disk: one run is one flat netCDF file, written atomically, with a checksum at its end.

A file of another program has no checksum, and is read without. Before numbers are read, their claimed size is compared
with the size of the file and with the memory of the machine.
"""

import contextlib
import errno
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import xarray as xr

from approxmcmc.engine.files.checksums import has_checksum, why_damaged
from approxmcmc.engine.files.whole_files import whole_file
from approxmcmc.engine.memory import all_memory
from approxmcmc.errors import InvalidInputError
from approxmcmc.output.datatree import sanitize_attrs
from approxmcmc.output.escapes import with_own_names, with_storable_names, with_text_labels

# A rejected proposal repeats a draw, which zlib already compresses at its lowest level; level 4 takes three times as
# long and saves a few per cent more.
_COMPRESSION = {"zlib": True, "complevel": 1, "shuffle": True}
_DRAWS_PER_CHUNK = 10_000
_SAMPLE_GROUPS = ("posterior", "sample_stats")
CHECKPOINT = "checkpoint"  # the group that a run needs to resume
# zlib stores at most 1032 bytes in one. A file that claims more holds numbers that were never written.
_MOST_BYTES_IN_ONE = 1100
_ALWAYS_ALLOWED = 1e9


def save(trace: xr.DataTree, path: str | os.PathLike[str]) -> Path:
    """Write a trace to one netCDF file, atomically; see `approxmcmc.save`."""
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
    with whole_file(path, checksum=True) as temporary, without_a_cluster():
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


def load(path: str | os.PathLike[str]) -> xr.DataTree:
    """Read a trace into memory and close its file; see `approxmcmc.load`."""
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
    """Read a netCDF file of groups into memory and close it; raise on any other file, and on a damaged one."""
    try:
        damage = why_damaged(path) if has_checksum(path) else None
    except OSError as error:
        damage = str(error)
    if damage:
        raise InvalidInputError(
            f"{path} is not read: {damage}. Copy it again from where it is intact, or remove it. If you changed the "
            "file yourself, open it with xarray and save it under another name"
        )
    try:
        _refuse_what_memory_cannot_hold(path)
        with xr.open_datatree(path, engine="netcdf4") as opened:
            return opened.load().map_over_datasets(with_own_names)
    except InvalidInputError:
        raise
    except MemoryError as error:
        raise InvalidInputError(f"{path} does not fit in memory ({error}); open it with xarray, in parts") from error
    except Exception as error:  # a damaged file without checksum fails in many ways, in HDF5, netCDF4 and xarray
        raise InvalidInputError(
            f"{path} cannot be read as a netCDF-4 file with a trace ({error}). It may be of another format, or cut off "
            "by a copy that failed."
        ) from error


def _refuse_what_memory_cannot_hold(path: Path) -> None:
    import netCDF4

    with netCDF4.Dataset(path) as file:
        claimed = _claimed_bytes(file)
    stored = path.stat().st_size
    memory = all_memory()
    if claimed > memory or claimed > max(_MOST_BYTES_IN_ONE * stored, _ALWAYS_ALLOWED):
        raise InvalidInputError(
            f"{path} has {stored} bytes and claims {claimed / 1e9:.3g} GB of numbers, which is more than "
            + (f"the memory of {memory / 1e9:.3g} GB" if claimed > memory else "a file of this size can hold")
            + ": it is not read. If you know where it comes from, open it with xarray, in parts"
        )


def _claimed_bytes(group: Any) -> float:
    """Return the bytes of all variables of a netCDF group and the groups below; a text counts as a pointer."""
    sizes = [float(variable.size) * getattr(variable.dtype, "itemsize", 8) for variable in group.variables.values()]
    return sum(sizes) + sum(map(_claimed_bytes, group.groups.values()))


def without_checkpoint(tree: xr.DataTree) -> xr.DataTree:
    """Return the tree without its group ``checkpoint``, so that only the trace remains."""
    return xr.DataTree.from_dict({name: group for name, group in tree.children.items() if name != CHECKPOINT})


def _describe(content: Any) -> str:
    if not isinstance(content, xr.DataTree):
        return f"a {type(content).__name__}"
    return f"the groups {sorted(content.children)}" if content.children else "no groups"


def _with_storable_attrs(trace: xr.DataTree) -> xr.DataTree:
    datasets = {}
    for node in trace.subtree:
        dataset = with_storable_names(with_text_labels(node.to_dataset(inherit=False))).copy(deep=False)
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
