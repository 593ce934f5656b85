r"""Checksums at the end of files: a file that was damaged after it was written is never taken for a good one.

The last characters of a file with a checksum are always ``"checksum": "<64 hexadecimal digits>"}`` and a line end. The
digits are a hash of all bytes before, and of a text on the content, such as the hash of the data in the file: a good
file under the name of another one has another hash. Readers of netCDF-4, NumPy and kernel files ignore what follows
their own end; in a JSON file the checksum is the last entry of the object. So one function checks every kind of file,
before any library parses it.

A hash detects damage and exchanged files. It does not detect forgery: whoever changes a file can compute it again.

The hash is SHA-256 of the SHA-256 of all pieces of 16 MB, which are computed on all cores, or on NUMBA_NUM_THREADS
threads. It takes .7 s of CPU time per GB, with SHA instructions of the processor.
"""

import hashlib
import re
from pathlib import Path

from approxmcmc.contracts.hashing import in_threads

PIECE = 1 << 24  # bytes
MARK = re.compile(rb'"checksum": "([0-9a-f]{64})"\}\n\Z')
LENGTH = len('"checksum": ""}\n') + 64  # bytes of a mark, the end of a file that MARK matches
ADDED = len("\n{") + LENGTH  # bytes that `add_checksum` adds to a file


def add_checksum(path: Path, content: str = "") -> None:
    """Add a checksum to the end of a complete file; `content` names what the file holds."""
    with path.open("ab") as file:
        file.write(b"\n{")
    checksum = _mark(_hash(path, path.stat().st_size, content))
    with path.open("ab") as file:
        file.write(checksum)


def with_checksum(text: str, content: str = "") -> bytes:
    """Return the text of a JSON object with its checksum as last entry; `content` names what it holds."""
    entries = text.rstrip().removesuffix("}").rstrip()
    opened = (entries + ("\n" if entries.endswith("{") else ",\n")).encode()
    return opened + _mark(_hash(opened, len(opened), content))


def checksum_of(content: bytes) -> str:
    """Return the checksum of the bytes of a file, for another file that names it."""
    return _hash(content, len(content), "")


def has_checksum(file: Path | bytes) -> bool:
    """Return whether a file, or its bytes, ends with a checksum, right or wrong."""
    return _last_mark(file) is not None


def why_damaged(file: Path | bytes, content: str = "") -> str | None:
    """Return why a file, or its bytes, is not as it was written; None if its checksum is right.

    Raises
    ------
    OSError
        When the file cannot be read.
    """
    mark = _last_mark(file)
    if mark is None:
        return "it has no checksum at its end: it was cut off, or written by another program or version"
    if _hash(file, _size(file) - LENGTH, content) != mark[1].decode():
        exchanged = ", or holds other data than its name says" if content else ""
        return f"its checksum is wrong: it was damaged or changed after it was written{exchanged}"
    return None


def _mark(checksum: str) -> bytes:
    return f'"checksum": "{checksum}"}}\n'.encode()


def _last_mark(file: Path | bytes) -> re.Match[bytes] | None:
    return MARK.search(_read(file, max(0, _size(file) - LENGTH), _size(file)))


def _hash(file: Path | bytes, size: int, content: str) -> str:
    """Return the checksum of the first `size` bytes."""
    hashes = in_threads(
        lambda start: hashlib.sha256(_read(file, start, min(start + PIECE, size))).digest(), range(0, size, PIECE)
    )
    return hashlib.sha256(b"".join(hashes) + content.encode()).hexdigest()


def _size(file: Path | bytes) -> int:
    return len(file) if isinstance(file, bytes) else file.stat().st_size


def _read(file: Path | bytes, start: int, end: int) -> bytes:
    if isinstance(file, bytes):
        return file[start:end]
    with file.open("rb") as stream:  # not mapped: a bad sector of the disk then raises OSError
        stream.seek(start)
        return stream.read(end - start)
