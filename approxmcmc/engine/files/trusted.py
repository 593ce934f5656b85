"""Check the ownership of files: compiled kernels are unpickled, and a pickle can run any code."""

import os
import stat
from pathlib import Path


def why_not_trusted(path: Path) -> str | None:
    """Return why another user may have written a file; None if only this user or the administrator can have.

    This needs three things: the file and its folder belong to this user or to root, and no other user may write to the
    folder. (A user who may write to a parent folder can replace the folder, which then belongs to that user.) On
    systems without owners, such as Windows, the folder is assumed private, like a user profile.

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
        return f"other users may write to {path.parent}; `chmod go-w` it once you trust its content, or delete it"
    return None
