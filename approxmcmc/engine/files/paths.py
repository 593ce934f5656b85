"""The package's caches, such as compiled kernels and gold standards: folders, sizes, and whether to trust a file."""

import os
import stat
import sys
from pathlib import Path

CACHE_VARIABLE = "APPROXMCMC_CACHE_DIR"


def user_cache(kind: str) -> Path:
    """Return the folder named `kind` below ``APPROXMCMC_CACHE_DIR`` or the package's folder in the platform's cache.

    The folder need not exist.

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
    """Return the folder and size in bytes of each cache whose files outlive a run."""
    folders = {
        "compiled kernels": "kernels",
        "gold standards": "reference",
        "data sets": "datasets",
        "rows in a random order": "shuffled_data",
        "rows of sources": "laid_out_rows",
    }
    return {name: (user_cache(folder), size_of(user_cache(folder))) for name, folder in folders.items()}


def size_of(folder: Path) -> int:
    """Return the total bytes of all files below a folder; 0 if it does not exist."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) if folder.is_dir() else 0


def why_not_trusted(path: Path) -> str | None:
    """Return why another user may have written a file; None if only this user or root can write to it and its folder.

    Compiled kernels are unpickled, and a pickle can run any code. So the file and its folder must belong to this user
    or to root, and no other user may write to either. (A user who may write to a parent folder can replace the
    folder, which then belongs to that user.) On systems without owners, such as Windows, the result is always None: the
    folder is assumed private, like a user profile.

    Raises
    ------
    FileNotFoundError
        When there is no such file.
    """
    if os.name != "posix":
        return None
    trusted = {os.geteuid(), 0}
    folder, file = path.parent.stat(), path.stat()
    for place, status in ((path.parent, folder), (path, file)):
        if status.st_uid not in trusted:
            return f"{place} belongs to another user (number {status.st_uid})"
        if status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
            return f"other users may write to {place}; `chmod go-w` it once you trust its content, or delete it"
    return None
