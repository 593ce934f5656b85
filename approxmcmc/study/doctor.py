"""The folders that the package keeps on this machine, and their sizes."""

from pathlib import Path

from approxmcmc.engine.files.paths import user_cache


def caches() -> dict[str, tuple[Path, int]]:
    """Return the folder and size in bytes of every cache: compiled kernels, gold standards, data sets."""
    folders = {"compiled kernels": "kernels", "gold standards": "reference", "data sets": "datasets"}
    return {name: (user_cache(folder), size_of(user_cache(folder))) for name, folder in folders.items()}


def size_of(folder: Path) -> int:
    """Return the bytes of all files below a folder; 0 where there is none."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) if folder.is_dir() else 0
