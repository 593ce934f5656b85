"""Where the package keeps what it can make again: compiled kernels, downloaded data, gold standards."""

import os
import sys
from pathlib import Path

CACHE_VARIABLE = "APPROXMCMC_CACHE_DIR"


def user_cache(kind: str) -> Path:
    """Return the folder for one kind of file, below ``APPROXMCMC_CACHE_DIR`` or the platform's cache folder."""
    named = os.environ.get(CACHE_VARIABLE)
    if named:
        return Path(named) / kind
    home = Path.home()
    platforms = {"win32": os.environ.get("LOCALAPPDATA", home), "darwin": home / "Library" / "Caches"}
    platform_cache = platforms.get(sys.platform) or os.environ.get("XDG_CACHE_HOME") or home / ".cache"
    return Path(platform_cache) / "approxmcmc" / kind
