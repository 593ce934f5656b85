"""Files of a study: valid names for them, and JSON with a checksum, written atomically; damaged files raise."""

import json
import math
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from approxmcmc.engine.checks import of_another_type
from approxmcmc.engine.files.checksums import why_damaged, with_checksum
from approxmcmc.engine.files.whole_files import whole_file
from approxmcmc.errors import CacheWarning, StudyError, warn


def write_json(path: Path, content: Mapping[str, Any]) -> None:
    """Write JSON by atomic rename, flushed to disk before this returns; numbers that are not finite become null."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_bytes(path, with_checksum(json.dumps(plain(content), indent=1, allow_nan=False)))


def write_bytes(path: Path, content: bytes) -> None:
    """Write a file atomically, flushed to disk before this returns."""
    with whole_file(path) as temporary:
        temporary.write_bytes(content)


def read_json(path: Path, *needed: str, fields: type | None = None) -> dict[str, Any] | None:
    """Return the JSON object in a file of a store, None if there is no file.

    Raises
    ------
    StudyError
        When the file is damaged, lacks a `needed` key, or holds a value of another type than `fields`, a TypedDict.
    """
    try:
        stored = path.read_bytes()
    except FileNotFoundError:
        return None
    try:
        return json_object(stored, *needed, fields=fields)
    except ValueError as error:
        raise not_whole(path, str(error)) from error


def json_object(stored: bytes, *needed: str, fields: type | None = None) -> dict[str, Any]:
    """Return the JSON object in the bytes of a file with a checksum.

    Raises
    ------
    ValueError
        As `read_json` raises StudyError; the message says what is wrong.
    """
    if damage := why_damaged(stored):
        raise ValueError(damage)
    try:
        content = json.loads(stored)
    except RecursionError as error:
        raise ValueError("its lists are nested too deep") from error
    if not isinstance(content, dict):
        raise ValueError(f"it holds a {type(content).__name__}")
    del content["checksum"]
    if lacking := [name for name in needed if name not in content]:
        raise ValueError(f"it lacks {', '.join(lacking)}")
    if fields is not None and (wrong := of_another_type(content, fields)):
        raise ValueError("; ".join(wrong))
    return content


LONGEST_NAME = 100  # of a study or of its parts: two of them are joined in names of files, of 255 bytes at most
LOST = "it is missing, and its report says that it was written"


def not_whole(path: Path, reason: str) -> StudyError:
    """Return the error that a file of a store is damaged for this reason; the message says what to do."""
    return StudyError(
        f"{path} is damaged: {reason}. Perhaps a copy of the store was cut off: copy it "
        "again. Or remove this file and run again: only missing results are made."
    )


def is_intact(read: Callable[[], Any]) -> bool:
    """Return whether ``read()`` finds its result in the store; warn if the file is damaged and is to be made again."""
    try:
        return read() is not None
    except StudyError as error:
        warn(f"{error} It is made again now.", CacheWarning)
        return False


def plain(value: Any) -> Any:
    """Return a value in JSON form: arrays as lists, non-finite numbers as None, other objects as their repr."""
    if isinstance(value, Mapping):
        return {str(name): plain(inner) for name, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(inner) for inner in value]
    if hasattr(value, "tolist"):  # numpy scalars and arrays
        return plain(value.tolist())
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value if isinstance(value, (str, int, float, bool, type(None))) else repr(value)


def check_name(kind: str, name: str) -> None:
    """Raise StudyError unless the name of a `kind` (study, preset, target, sampler) is valid in the name of a file."""
    pattern = r"[a-z0-9][a-z0-9_-]*" if kind in ("study", "preset") else r"[A-Za-z0-9][A-Za-z0-9_.-]*"
    if not isinstance(name, str) or not re.fullmatch(pattern, name):
        marks = "'_' and '-', in lower case" if kind in ("study", "preset") else "'_', '-' and '.'"
        raise StudyError(
            f"The name of a {kind} is used for files, so it must start with a letter or digit and contain only "
            f"letters, digits, {marks}; found {name!r}."
        )
    if len(name) > LONGEST_NAME:
        raise StudyError(
            f"The name of a {kind} is used for files, so it must have at most {LONGEST_NAME} characters; found "
            f"{len(name)}, {name[:20]!r} and so on."
        )
