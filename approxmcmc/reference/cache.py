"""Gold standards on disk, named by content: a file is used only if it matches the request exactly."""

import os
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import xarray as xr

from approxmcmc.contracts import content_hash
from approxmcmc.engine.files.paths import user_cache
from approxmcmc.errors import ApproxMCMCError, SamplingWarning, warn
from approxmcmc.output.files import load, save


def cached(key: str, folder: str | os.PathLike[str] | None, compute: Callable[[], xr.DataTree]) -> xr.DataTree:
    """Return the tree stored under `key`, or compute and store it.

    Parameters
    ----------
    key
        A hash of everything that the tree depends on; the file is ``<key>.nc``.
    folder
        Folder of the files; None = ``reference`` in the package's cache folder. It is created if it does not exist.
    compute
        Function that computes the tree; called if the file is missing or invalid.

    Raises
    ------
    KeyboardInterrupt
        If the computation was interrupted; a part of the draws is not a gold standard, so nothing is stored.

    Notes
    -----
    A stored tree carries its key, a hash of its draws and ``seconds_to_make``, what they took when they were made. If
    a file cannot be read, has another key or another hash of its draws, the tree is computed again, with a warning, and
    the file replaced. Files are written atomically: two processes that compute the same tree write the same draws, and
    a reader never sees a partial file. If the folder is not writable, the tree is returned but not stored.
    """
    path = Path(folder if folder is not None else user_cache("reference")) / f"{key}.nc"
    if path.exists():
        try:
            return _read(path, key)
        except (ApproxMCMCError, OSError, ValueError, KeyError, RuntimeError) as error:
            message = f"The cached gold standard {path} cannot be used ({error}); it is computed again."
            warn(message, SamplingWarning)
    start = time.perf_counter()
    tree = compute()
    if tree["posterior"].attrs.get("stopped") == "interrupt":
        raise KeyboardInterrupt
    seconds = time.perf_counter() - start
    tree["posterior"].attrs |= {"cache_key": key, "draws_hash": draws_hash(tree), "seconds_to_make": seconds}
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        save(tree, path)
    except OSError as error:
        message = f"The gold standard could not be stored at {path} ({error}); set APPROXMCMC_CACHE_DIR or `cache_dir`."
        warn(message, SamplingWarning)
    return tree


def draws_hash(tree: xr.DataTree) -> str:
    """Return a hash of the names and values of all arrays of numbers or booleans in posterior and sample_stats."""
    parts: list[str | np.ndarray] = []
    for group in sorted({"posterior", "sample_stats"} & set(tree.children)):
        for name, variable in sorted(tree[group].data_vars.items()):
            if variable.dtype.kind in "biuf":
                parts += [f"{group}/{name}", variable.to_numpy()]
    return content_hash(*parts)


def _read(path: Path, key: str) -> xr.DataTree:
    tree = load(path)
    attrs = tree["posterior"].attrs
    if attrs.get("cache_key") != key:
        raise ValueError("it belongs to another model or other settings")
    if attrs.get("draws_hash") != draws_hash(tree):
        raise ValueError("its draws do not match the hash stored with them")
    return tree
