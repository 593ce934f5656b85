"""Files and folders that are written atomically, and the temporary files that killed writers left.

A file is written under a temporary name, which replaces the name of the file once all is on disk. The temporary name is

    .<start of the name>.<hash of the name>.<machine>-<process>.<random>.tmp

so that its length does not depend on the name, and the next writer of the same file can see whether the process that
wrote it still runs.
"""

import contextlib
import glob
import hashlib
import os
import platform
import shutil
import stat
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

from approxmcmc.engine.files.checksums import add_checksum

NAME_KEPT = 100  # bytes of the name of a file in its temporary name; systems allow 255 bytes in all
# Seconds after which a temporary file counts as left, if it cannot be seen whether its writer still runs, as on another
# machine. Every writer makes a block of rows, or a chunk of effects, in less.
UNTOUCHED = 3600.0


@contextlib.contextmanager
def whole_file(
    path: Path, *, durable: bool = True, checksum: bool = False, content: str = "", private: bool = False
) -> Iterator[Path]:
    """Yield a temporary name in the folder of `path`; if no error occurs, that file then replaces `path`.

    Readers see the old file or the new one, never a part. What killed writers of `path` left is removed.

    Parameters
    ----------
    path
        The file to write.
    durable
        Flush to disk before returning, so that even after a power cut the old file or the new one is complete.
    checksum
        Add a checksum to the end of the file, see `approxmcmc.engine.files.checksums`.
    content
        What the file holds, for the checksum.
    private
        Let no other user write to the file, whatever the umask: for files that are read only if so.
    """
    remove_leftovers(path)
    temporary = _temporary_name(path)
    try:
        yield temporary
        if checksum:
            add_checksum(temporary, content)
        if private:
            temporary.chmod(stat.S_IMODE(temporary.stat().st_mode) & ~(stat.S_IWGRP | stat.S_IWOTH))
        if durable:
            _flush_to_disk(temporary)
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)
    if durable and os.name == "posix":  # the rename is durable once the folder is flushed; Windows has no such call
        _flush_to_disk(path.parent)


@contextlib.contextmanager
def whole_folder(path: Path) -> Iterator[Path]:
    """Yield the name of a folder to make, next to `path`; if no error occurs, it then replaces the folder `path`.

    What killed writers of `path` left is removed. A writer must touch its folder once in `UNTOUCHED` seconds.
    """
    remove_leftovers(path)
    temporary = _temporary_name(path)
    earlier = _temporary_name(path)
    try:
        yield temporary
        with contextlib.suppress(FileNotFoundError):
            os.replace(path, earlier)  # two renames, because removing the earlier folder would take longer
        os.replace(temporary, path)
        shutil.rmtree(earlier, ignore_errors=True)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


@contextlib.contextmanager
def scratch_folder(path: Path) -> Iterator[Path]:
    """Make a folder next to `path`, yield it, and remove it at the end; what killed writers of `path` left, too."""
    remove_leftovers(path)
    temporary = _temporary_name(path)
    temporary.mkdir()
    try:
        yield temporary
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def remove_leftovers(path: Path) -> None:
    """Remove temporary files and folders next to `path` that killed writers of `path` left.

    Only those are removed whose process has ended on this machine, or that were not modified for `UNTOUCHED` seconds.
    """
    for leftover in path.parent.glob(f"{glob.escape(_start_of_temporary_name(path))}.*.tmp"):
        with contextlib.suppress(FileNotFoundError):  # already renamed by its writer, or removed by another one
            if _writer_has_ended(leftover) or time.time() - leftover.stat().st_mtime >= UNTOUCHED:
                shutil.rmtree(leftover) if leftover.is_dir() else leftover.unlink()


def _temporary_name(path: Path) -> Path:
    writer = f"{_machine()}-{os.getpid()}"
    return path.with_name(f"{_start_of_temporary_name(path)}.{writer}.{uuid.uuid4().hex[:12]}.tmp")


def _start_of_temporary_name(path: Path) -> str:
    name = os.fsencode(path.name)
    shown = name[:NAME_KEPT].decode(errors="ignore")
    return f".{shown}.{hashlib.sha256(name).hexdigest()[:12]}"


def _writer_has_ended(temporary: Path) -> bool:
    """Return whether the process that wrote a temporary file ran on this machine, and has ended."""
    machine, _, process = temporary.name.split(".")[-3].partition("-")
    if os.name != "posix" or machine != _machine() or not process.isdigit():
        return False
    try:
        os.kill(int(process), 0)  # sends no signal
    except ProcessLookupError:
        return True
    except (PermissionError, OverflowError):
        return False
    return False


def _machine() -> str:
    """Return a short text that differs where a process may have another number: by machine, boot and container."""
    parts = [platform.node()]
    with contextlib.suppress(OSError):  # Linux only
        parts.append(Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii"))
        parts.append(os.readlink("/proc/self/ns/pid"))
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:8]


def _flush_to_disk(path: Path) -> None:
    # Windows flushes only files open for writing; a folder can only be opened for reading.
    descriptor = os.open(path, os.O_RDONLY if path.is_dir() else os.O_RDWR)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
