"""Files of a study: names that are valid for them, and JSON, written atomically; damaged files raise."""

import json
import math
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from approxmcmc.engine.files.whole_files import whole_file
from approxmcmc.errors import StudyError


def write_json(path: Path, content: Mapping[str, Any]) -> None:
    """Write JSON by atomic rename, flushed to disk before this returns; numbers that are not finite become null."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_bytes(path, (json.dumps(plain(content), indent=1, allow_nan=False) + "\n").encode())


def write_bytes(path: Path, content: bytes) -> None:
    """Write a file atomically, flushed to disk before this returns."""
    with whole_file(path) as temporary:
        temporary.write_bytes(content)


def read_json(path: Path, *needed: str) -> dict[str, Any] | None:
    """Return the JSON object in a file, None if there is no file; raise if it is damaged or lacks a `needed` key."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except ValueError as error:  # not JSON, or not text
        raise not_whole(path, f"not JSON, {error}") from error
    if not isinstance(content, dict):
        raise not_whole(path, f"a {type(content).__name__}")
    if lacking := [name for name in needed if name not in content]:
        raise not_whole(path, f"it lacks {', '.join(lacking)}")
    return content


def not_whole(path: Path, reason: str) -> StudyError:
    """Return the error that a file is damaged for this reason; the message says what to do."""
    return StudyError(
        f"{path} is damaged: {reason}. Perhaps a copy of the store was cut off: copy it "
        "again. Or remove this file and run again: only missing results are made."
    )


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


def check_name(role: str, name: str) -> None:
    """Raise StudyError unless the name of a `role` (study, preset, target, sampler) is valid as a file name."""
    pattern = r"[a-z0-9][a-z0-9_-]*" if role in ("study", "preset") else r"[A-Za-z0-9][A-Za-z0-9_.-]*"
    if not isinstance(name, str) or not re.fullmatch(pattern, name):
        marks = "'_' and '-', in lower case" if role in ("study", "preset") else "'_', '-' and '.'"
        raise StudyError(
            f"The name of a {role} is used for files, so it must start with a letter or digit and contain only "
            f"letters, digits, {marks}; found {name!r}."
        )
