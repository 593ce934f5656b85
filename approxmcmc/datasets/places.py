"""Where data sets are looked for on this computer, and how they are kept."""

import os
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from approxmcmc.engine.files.paths import user_cache
from approxmcmc.engine.files.whole_files import whole_file
from approxmcmc.errors import DatasetError

DATA_VARIABLE = "APPROXMCMC_DATA_DIR"


def data_folder() -> Path | None:
    """Return the folder that ``APPROXMCMC_DATA_DIR`` names, or None."""
    named = os.environ.get(DATA_VARIABLE)
    return Path(named) if named else None


def cache_folder() -> Path:
    """Return the folder of downloaded data."""
    return user_cache("datasets")


def read_arrays(path: Path, names: tuple[str, ...]) -> dict[str, np.ndarray]:
    """Read named arrays from a ``.npz`` file; objects are never unpickled.

    Raises
    ------
    DatasetError
        When the file is damaged or lacks an array. A missing file raises FileNotFoundError.
    """
    try:
        with path.open("rb") as stream, np.load(stream, allow_pickle=False) as stored:
            return {name: stored[name] for name in names}
    except FileNotFoundError:
        raise
    except Exception as error:  # a damaged archive fails in many ways: zip, zlib, numpy's header, a missing key
        raise DatasetError(f"{path} cannot be read as a data set with {', '.join(names)}: {error}") from error


def write_arrays(path: Path, arrays: Mapping[str, np.ndarray]) -> None:
    """Write named arrays whole or not at all: a reader never sees half a file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with whole_file(path) as temporary, temporary.open("wb") as stream:
        np.savez_compressed(stream, **arrays)  # type: ignore[arg-type]  # the stub takes arrays for flags
