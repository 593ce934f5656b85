"""Folders and sizes of the package's caches: compiled kernels, downloaded data, gold standards."""

import os
import sys
from pathlib import Path

CACHE_VARIABLE = "APPROXMCMC_CACHE_DIR"


def user_cache(kind: str) -> Path:
    """Return the folder for one kind of file, below ``APPROXMCMC_CACHE_DIR`` or the platform's cache folder.

    Raises
    ------
    FileNotFoundError
        When the user has no home folder and no variable names a folder.
    """
    named = os.environ.get(CACHE_VARIABLE)
    return (Path(named) if named else _platform_cache() / "approxmcmc") / kind


def _platform_cache() -> Path:
    announced = os.environ.get({"win32": "LOCALAPPDATA", "darwin": ""}.get(sys.platform, "XDG_CACHE_HOME"))
    if announced:
        return Path(announced)
    try:
        home = Path.home()
    except RuntimeError as error:
        raise FileNotFoundError(f"no home folder for caches; name a folder in {CACHE_VARIABLE}") from error
    return home / {"win32": "", "darwin": "Library/Caches"}.get(sys.platform, ".cache")


def caches() -> dict[str, tuple[Path, int]]:
    """Return the folder and size in bytes of every cache: compiled kernels, gold standards, data sets."""
    folders = {"compiled kernels": "kernels", "gold standards": "reference", "data sets": "datasets"}
    return {name: (user_cache(folder), size_of(user_cache(folder))) for name, folder in folders.items()}


def size_of(folder: Path) -> int:
    """Return the total bytes of all files below a folder; 0 if it does not exist."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) if folder.is_dir() else 0
