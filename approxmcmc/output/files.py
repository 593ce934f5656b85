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

from approxmcmc.contracts import Target
from approxmcmc.contracts.arguments import naming_the_arguments
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


@naming_the_arguments
def save(trace: Any, path: str | os.PathLike[str]) -> Path:
    """Write a trace to one netCDF file, or a target to a folder: readers see the old one or the new one, never a part.

    Parameters
    ----------
    trace
        A trace with a group ``posterior`` or ``sample_stats``; it may have no draws. Or a target: a regression, or its
        `ControlVariate`.
    path
        Where to write; the folder above must exist. A file of that name is replaced; so is a target in a folder of that
        name.

    Returns
    -------
    pathlib.Path
        The path written.

    Raises
    ------
    InvalidInputError
        If `trace` is neither a target nor a DataTree with one of these groups, or the folder holds other files.
    IncompatibleError
        If the target is of another kind.
    FileNotFoundError, IsADirectoryError
        If the folder does not exist, or `path` is one.
    OSError
        If the file cannot be written, as on a full disk.

    Notes
    -----
    Plain ``trace.to_netcdf(path)`` writes a file with the same content. This one is compressed (zlib 1 with shuffle,
    chunks of one chain and up to 10 000 draws), survives a crash during writing, ends with a checksum, which `load`
    compares and other programs ignore, and converts what netCDF cannot store: attributes that are bool, None or dict;
    labels that are neither text, numbers nor dates of NumPy, such as tuples or intervals, become text; names such as
    "<b>", "." or of 300 letters are escaped in the file, and `load` returns them.

    The folder of a target holds its rows, their coefficients and bounds, and a file ``state.nc`` with all else, so that
    `load` reads no row. If the target has grown from one that was read from this folder, or saved to it, only the new
    rows are written. Nothing is pickled, so functions of yours are not stored: see `load`.

    Examples
    --------
    >>> amc.save(trace, "run.nc")  # doctest: +SKIP
    >>> trace = amc.load("run.nc")  # doctest: +SKIP
    """
    if isinstance(trace, Target):
        from approxmcmc.output.target_folder import save_target

        return save_target(trace, path)
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


@naming_the_arguments
def load(path: str | os.PathLike[str], *, model: Any = None, check: bool | None = None) -> Any:
    """Read a trace into memory and close its file, or read a target from its folder.

    Parameters
    ----------
    path
        A file written by :func:`save`, by ``to_netcdf``, or by ArviZ; or the folder of a target.
    model
        Only for the folder of a target with functions of yours, such as a `GLMTarget`: a target of the same model with
        any few rows.
    check
        Only for a folder: whether to compare the checksums of all rows, which reads them. None: only of files with
        another size or modification time than when they were written. The checksum of ``state.nc`` is always compared.

    Returns
    -------
    xarray.DataTree
        All groups of the file except the checkpoint. An attribute that was a list of one number comes back as the
        number. From a folder: the target; its rows are mapped.

    Raises
    ------
    FileNotFoundError
        If there is no such file.
    InvalidInputError
        If the file is not netCDF, holds no group ``posterior`` or ``sample_stats``, or claims more numbers than fit in
        memory; if it was written by `save` or `sample`, also if a single bit has changed since.
    """
    path = Path(path)
    if path.is_dir():
        from approxmcmc.output.target_folder import load_target

        return load_target(path, model=model, check=check)
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


def _describe(found: Any) -> str:
    if not isinstance(found, xr.DataTree):
        return f"a {type(found).__name__}"
    return f"the groups {sorted(found.children)}" if found.children else "no groups"


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
