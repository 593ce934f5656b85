"""Files that are written whole or not at all."""

import contextlib
import glob
import os
import time
import uuid
from collections.abc import Iterator
from pathlib import Path


@contextlib.contextmanager
def whole_file(path: Path, *, durable: bool = True) -> Iterator[Path]:
    """Yield a name beside `path` to write to; what lies there on leaving replaces `path`, after an error nothing does.

    Readers see the old file or the new one, never a part. `durable`: on disk before this returns, so that a power cut
    leaves one of the two as well.
    """
    temporary = path.with_name(f".{path.name}.{uuid.uuid4().hex}.tmp")
    try:
        yield temporary
        if durable:
            _flush_to_disk(temporary)
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)
    if durable and os.name == "posix":  # the rename lasts once the folder is on disk; Windows has no such call
        _flush_to_disk(path.parent)


def remove_leftovers(path: Path, *, untouched_for: float = 0.0) -> None:
    """Remove what writers of a file that were killed have left beside it.

    Nobody else may be writing it, or then at least once within the seconds `untouched_for`.
    """
    for leftover in path.parent.glob(f".{glob.escape(path.name)}.*.tmp"):
        with contextlib.suppress(FileNotFoundError):  # its writer has come to the end
            if time.time() - leftover.stat().st_mtime >= untouched_for:
                leftover.unlink()


def _flush_to_disk(path: Path) -> None:
    # Windows flushes only what is open for writing; a folder can be opened for reading alone.
    descriptor = os.open(path, os.O_RDONLY if path.is_dir() else os.O_RDWR)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
