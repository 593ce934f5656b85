"""The verbs `save` and `load`: a trace is one file, a target is a folder."""

import os
from pathlib import Path
from typing import Any

from approxmcmc.contracts import Target
from approxmcmc.contracts.arguments import naming_the_arguments
from approxmcmc.output import files


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
        from approxmcmc.output.target_folder import save_target  # compiled code, which traces do not need

        return save_target(trace, path)
    return files.save(trace, path)


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
    return files.load(path)
