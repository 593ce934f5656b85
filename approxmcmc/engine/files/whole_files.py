"""Files and folders that are written atomically."""

import contextlib
import glob
import os
import shutil
import time
import uuid
from collections.abc import Iterator
from pathlib import Path


@contextlib.contextmanager
def whole_file(path: Path, *, durable: bool = True) -> Iterator[Path]:
    """Yield a temporary name in the folder of `path`; if no error occurs, that file then replaces `path`.

    Readers see the old file or the new one, never a part. `durable`: flush to disk before returning, so that even after
    a power cut one of the two is complete.
    """
    temporary = path.with_name(f".{path.name}.{uuid.uuid4().hex}.tmp")
    try:
        yield temporary
        if durable:
            _flush_to_disk(temporary)
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)
    if durable and os.name == "posix":  # the rename is durable once the folder is flushed; Windows has no such call
        _flush_to_disk(path.parent)


@contextlib.contextmanager
def whole_folder(path: Path, *, untouched_for: float) -> Iterator[Path]:
    """Yield the name of a folder to make, next to `path`; if no error occurs, it then replaces the folder `path`.

    Leftovers of killed writers are removed first; so every writer must touch its folder within `untouched_for` seconds.
    """
    remove_leftovers(path, untouched_for=untouched_for)
    temporary, earlier = (path.with_name(f".{path.name}.{uuid.uuid4().hex}.tmp") for _ in range(2))
    try:
        yield temporary
        with contextlib.suppress(FileNotFoundError):
            os.replace(path, earlier)  # two renames, because removing the earlier folder would take longer
        os.replace(temporary, path)
        shutil.rmtree(earlier, ignore_errors=True)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def remove_leftovers(path: Path, *, untouched_for: float = 0.0) -> None:
    """Remove temporary files and folders that killed writers of `path` left next to it.

    Only those not modified for `untouched_for` seconds are removed. Call only if no writer of `path` is active, or
    every writer touches its file within `untouched_for` seconds.
    """
    for leftover in path.parent.glob(f".{glob.escape(path.name)}.*.tmp"):
        with contextlib.suppress(FileNotFoundError):  # already renamed by its writer
            if time.time() - leftover.stat().st_mtime >= untouched_for:
                shutil.rmtree(leftover) if leftover.is_dir() else leftover.unlink()


def _flush_to_disk(path: Path) -> None:
    # Windows flushes only files open for writing; a folder can only be opened for reading.
    descriptor = os.open(path, os.O_RDONLY if path.is_dir() else os.O_RDWR)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
