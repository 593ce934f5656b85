"""Cached output of a study's analyses, kept in the store to draw a page again quickly.

Stored under a hash of everything that it may depend on: every record and report of the store; the code of the package,
of the study, of the folders next to it and of modules from outside the environment; the versions of the libraries. If
any of these differs, the analysis runs again. A study without a file caches nothing, because its changes cannot be
detected.
"""

import contextlib
import hashlib
import json
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from approxmcmc.engine.compiler.code_version import PACKAGE, version
from approxmcmc.engine.files.checksums import with_checksum
from approxmcmc.study.json_files import read_json, write_bytes
from approxmcmc.study.machine import LIBRARIES
from approxmcmc.study.report.pieces import Figure, Note, Table
from approxmcmc.study.report.svg import svg_document

if TYPE_CHECKING:
    import pandas as pd

    from approxmcmc.study.results import StudyResults

Piece = Figure | Table | Note
KINDS = {kind.__name__: kind for kind in (Figure, Table, Note)}
DRAWS_PICTURES = ("matplotlib", "pandas")


def cached_pieces(results: "StudyResults", name: str, make: Callable[["StudyResults"], Iterable[Piece]]) -> list[Piece]:
    """Return the pieces that ``make(results)`` yields; read them from the store if nothing has changed since.

    If the store is not writable, the output is computed each time.
    """
    if not results.source:
        return list(make(results))
    path = results.store.folder / "pieces" / f"{name}.json"
    state = _state(results)
    with contextlib.suppress(Exception):  # a damaged or forged file fails in many ways; its output is made again
        stored = read_json(path, "state", "pieces", "name")
        if stored is not None and (stored["name"], stored["state"]) == (name, state):
            return [_revived(piece) for piece in stored["pieces"]]
    pieces = list(make(results))
    with contextlib.suppress(OSError):
        path.parent.mkdir(exist_ok=True)
        content = {"name": name, "state": state, "pieces": [_plain(piece) for piece in pieces]}
        write_bytes(path, with_checksum(json.dumps(content, default=_number_or_text)))
    return pieces


def _state(results: "StudyResults") -> str:
    digest = hashlib.blake2b(digest_size=16)
    digest.update(repr([(name, version(name)) for name in (*LIBRARIES, *DRAWS_PICTURES)]).encode())
    for path in [*_code(Path(results.source).resolve()), *_reports(results.store.folder)]:
        digest.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()


def _reports(folder: Path) -> Iterator[Path]:
    """Yield the JSON files of plan, cells, gold standards and biases in the store; they contain hashes of the draws."""
    yield folder / "plan.json"
    for part in ("cells", "gold", "bias"):
        yield from sorted((folder / part).rglob("*.json"))


def _code(study: Path) -> list[Path]:
    files = {Path(file) for module in list(sys.modules.values()) if (file := getattr(module, "__file__", None))}
    imported = {path for path in files if not any(map(path.is_relative_to, (sys.prefix, sys.base_prefix)))}
    beside = study.parent.glob("*/**/*.py")
    return sorted(path for path in {study, *beside, *PACKAGE.rglob("*.py"), *imported} if path.is_file())


def _plain(piece: Piece) -> dict[str, Any]:
    fields = {"kind": type(piece).__name__, **vars(piece)}
    if not isinstance(piece, Note):
        fields["data"] = _as_lists(piece.data)
    if isinstance(piece, Figure):
        fields["figure"] = svg_document(piece.figure)
    return fields


def _revived(fields: dict[str, Any]) -> Piece:
    kind = KINDS[fields.pop("kind")]
    if "data" in fields:
        fields["data"] = _frame(**fields["data"])
    piece: Piece = kind(**fields)
    return piece


def _as_lists(frame: "pd.DataFrame") -> dict[str, list[Any]]:
    return {"columns": list(frame.columns), "rows": frame.to_numpy(dtype=object).tolist()}


def _frame(columns: list[Any], rows: list[list[Any]]) -> "pd.DataFrame":
    import pandas as pd

    return pd.DataFrame(rows, columns=columns)


def _number_or_text(value: Any) -> Any:
    """Return a value that JSON lacks: a number or array of NumPy as numbers, any other object as its text."""
    return value.tolist() if hasattr(value, "tolist") else str(value)
