"""Whose file is this? Compiled kernels are unpickled, and a pickle runs what its author wants."""

import os
import stat
from pathlib import Path


def why_not_trusted(path: Path) -> str | None:
    """Return why another user may have written a file, or None where only this one, or the administrator, can have.

    That takes three things: the file and its folder belong to this user or to root, and nobody else may write to the
    folder. (Whoever may write to a folder above can put another folder in place, which then belongs to another user.)
    Where the system knows no owners, on Windows, the folder is taken for private, as that of a profile is.

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
    if folder.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        return f"other users may write to {path.parent}; `chmod go-w` it once you trust what lies there, or delete it"
    return None
