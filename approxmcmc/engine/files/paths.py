"""The folders of caches: where they are, how large, and whether to trust a file in them."""

import contextlib
import errno
import os
import stat
import sys
from pathlib import Path

with contextlib.suppress(ImportError):  # Windows has neither
    import grp
    import pwd

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
    return (Path(named).expanduser() if named else _platform_cache() / "approxmcmc") / kind


def _platform_cache() -> Path:
    announced = Path(os.environ.get({"win32": "LOCALAPPDATA", "darwin": ""}.get(sys.platform, "XDG_CACHE_HOME"), ""))
    if announced.is_absolute():  # the XDG specification: a relative path is invalid, and is ignored
        return announced
    try:
        home = Path.home()
    except RuntimeError as error:
        raise FileNotFoundError(f"no home folder for caches; name a folder in {CACHE_VARIABLE}") from error
    return home / {"win32": "", "darwin": "Library/Caches"}.get(sys.platform, ".cache")


def size_of(folder: Path) -> int:
    """Return the total bytes of all files below a folder; 0 if it does not exist."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) if folder.is_dir() else 0


def make_private(folder: Path) -> None:
    """Make a folder, and those above it that are missing, for this user only, whatever the umask."""
    if not folder.is_dir():
        make_private(folder.parent)
        folder.mkdir(mode=0o700, exist_ok=True)


def why_not_trusted(path: Path) -> str | None:
    """Return why another user may have written a file; None if only this user or root can write to it and its folder.

    So the file and its folder must belong to this user or to root, and no other user may write to either. (A user who
    may write to a parent folder can replace the folder, which then belongs to that user.) Members of a group may write
    if the group is the user's private one: many Linux systems give each user a group of the same name, and the umask
    0002. On systems without owners, such as Windows, the result is always None: the folder is assumed private, like a
    user profile.

    The answer holds for the moment of the call; to read a small file, use `read_trusted`.

    Raises
    ------
    FileNotFoundError
        When there is no such file.
    """
    if os.name != "posix":
        return None
    folder = path.parent.stat()
    file = path.stat()
    return _why_not(folder, path.parent) or _why_not(file, path)


def read_trusted(path: Path) -> bytes:
    """Return the bytes of a file that no other user can have written.

    Folder and file are opened once, and judged and read as opened, so that exchanging either of them meanwhile has no
    effect. A link in place of the file is refused; a folder may be a link, because the folder itself is judged.

    Raises
    ------
    FileNotFoundError
        When there is no such file.
    UntrustedFileError
        When another user may have written it.
    """
    if os.name != "posix":
        return path.read_bytes()
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        if why := _why_not(os.fstat(folder), path.parent):
            raise UntrustedFileError(why)
        try:  # O_NONBLOCK: a pipe in place of the file must not make this process wait
            file = os.open(path.name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=folder)
        except OSError as error:
            if error.errno == errno.ELOOP:
                raise UntrustedFileError(f"{path} is a link") from error
            raise
    finally:
        os.close(folder)
    with os.fdopen(file, "rb") as stream:
        status = os.fstat(stream.fileno())
        if why := _why_not(status, path):
            raise UntrustedFileError(why)
        if not stat.S_ISREG(status.st_mode):
            raise UntrustedFileError(f"{path} is not a file")
        return stream.read()


class UntrustedFileError(OSError):
    """Another user may have written a file."""


def _why_not(status: os.stat_result, path: Path) -> str | None:
    if status.st_uid not in {os.geteuid(), 0}:
        return f"{path} belongs to another user (number {status.st_uid})"
    writable = status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    if writable == stat.S_IWGRP and _is_private_group(status.st_gid):
        return None
    if writable:
        return f"other users may write to {path}; `chmod go-w` it once you trust its content, or delete it"
    return None


def _is_private_group(group: int) -> bool:
    """Return whether a group is the primary one of this user, has the user's name, and lists no other member."""
    try:
        user = pwd.getpwuid(os.geteuid())
        entry = grp.getgrgid(group)
    except KeyError:  # as in a container whose user is a bare number
        return False
    return group == user.pw_gid and entry.gr_name == user.pw_name and set(entry.gr_mem) <= {user.pw_name}
