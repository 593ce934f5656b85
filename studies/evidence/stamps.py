"""The stamp of a piece: which code drew its files, when, on which machine, and how still that was.

A stamp is believed only if the files are those that it names, by their checksums. Published studies that were drawn
before there were stamps have the version of the code in their provenance, but not the code of their own closure; their
date is unknown. Of other tables nothing is known without a stamp. What is unknown counts as stale.
"""

import dataclasses
import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from approxmcmc.engine.files.whole_files import whole_file
from approxmcmc.study.published import published_studies
from studies.evidence.closure import ROOT, code_of
from studies.evidence.pieces import PUBLISHED, Piece

STAMPS = "docs/evidence"
AND = " and "  # between the versions of a piece with cells of several


@dataclasses.dataclass(frozen=True)
class Origin:
    """What is known of the code that drew a piece; empty texts for what is not.

    `version` is that of all code that draws (`code_version`), `code` the hash of the piece's own closure, `date` the
    day on which it was finished, `machine` the processor and what it did beside.
    """

    version: str = ""
    code: str = ""
    date: str = ""
    machine: str = ""
    wall_minutes: float = 0.0
    cpu_minutes: float = 0.0


def checksum_of(path: Path) -> str:
    """Return a hash of a file; empty if it is missing."""
    return hashlib.blake2b(path.read_bytes(), digest_size=8).hexdigest() if path.exists() else ""


def write_stamp(piece: Piece, facts: dict[str, Any], root: Path = ROOT) -> None:
    """Write the stamp of a piece whose files are in place."""
    stamp = {"piece": piece.name, **facts, "files": {path: checksum_of(root / path) for path in piece.files}}
    folder = root / STAMPS
    folder.mkdir(parents=True, exist_ok=True)
    with whole_file(folder / f"{piece.name}.json") as whole:
        whole.write_text(json.dumps(stamp, indent=1) + "\n", encoding="utf-8")


def origin_of(piece: Piece, root: Path = ROOT) -> Origin:
    """Return what is known of the code that drew the files of a piece."""
    path = root / STAMPS / f"{piece.name}.json"
    if path.exists():
        stamp = json.loads(path.read_text(encoding="utf-8"))
        if stamp["files"] == {file: checksum_of(root / file) for file in piece.files}:
            return Origin(**{field.name: stamp[field.name] for field in dataclasses.fields(Origin)})
    if piece.name in published_studies():
        return Origin(version=_recorded_version(piece.name))
    return Origin()


def _recorded_version(study: str) -> str:
    """Return the version of the code in the provenance of a published study; all of them if there are several."""
    words = json.loads((ROOT / PUBLISHED / f"{study}.json").read_text(encoding="utf-8"))
    versions = {value for key, value in words["provenance"].items() if key.rpartition(": ")[2] == "code_version"}
    return AND.join(sorted(versions))


def why_stale(piece: Piece, origin: Origin) -> str:
    """Return why a piece is older than the code that draws it, or may be; empty if it is not."""
    if not origin.code:
        return "drawn before the code was recorded"
    return "" if origin.code == code_of(piece.entries) else "the code has changed since"


def versions_on(shown: Sequence[Piece], root: Path = ROOT) -> set[str]:
    """Return the versions of the pieces of a page; each piece of unknown version has its own."""
    texts = [origin_of(piece, root).version or f"unknown version of {piece.name}" for piece in shown]
    return {version for text in texts for version in text.split(AND)}
