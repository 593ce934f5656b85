"""What a study publishes from its store: a page of the documentation, and the numbers that ship with the package."""

import dataclasses
import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from approxmcmc.errors import StudyError
from approxmcmc.study.json_files import plain, write_bytes
from approxmcmc.study.report.content import compose_published
from approxmcmc.study.report.evidence import gather
from approxmcmc.study.report.markdown import markdown_page

if TYPE_CHECKING:
    from approxmcmc.study.results import StudyResults

DIGITS = "%.7g"


def publish(results: "StudyResults", pages: str | os.PathLike[str], data: str | os.PathLike[str]) -> tuple[Path, Path]:
    """Write the page of a study below `pages` and its numbers below `data`; return both paths.

    Nothing on the page is typed in: it has the sections of the report that a reader of results needs, and every number
    on it comes from the store.

    Parameters
    ----------
    results
        Records, traces and gold standards of a study at one preset.
    pages, data
        Folders; ``<study>.md`` and ``<study>.csv`` there are replaced, whole or not at all.

    Raises
    ------
    StudyError
        If no target has both a finished cell and a gold standard.
    """
    numbers = numbers_of(results)
    note = f"Written by `approxmcmc publish` from what `{results.command}` leaves in its store. Do not edit."
    page = markdown_page(note=note, **compose_published(results))
    paths = Path(pages) / f"{results.study.name}.md", Path(data) / f"{results.study.name}.csv"
    for path, text in zip(paths, (page, numbers), strict=True):
        path.parent.mkdir(parents=True, exist_ok=True)
        write_bytes(path, text.encode())
    return paths


def numbers_of(results: "StudyResults") -> str:
    """Return the text that `load_results` reads: a line of provenance, then the risks as CSV."""
    import pandas as pd

    judged = [contest for contest in gather(results) if contest.reference is not None]
    if not judged:
        raise StudyError(
            f"Nothing of {results.study.name} can be published: a risk needs finished cells of a target and its gold "
            f"standard, and {results.store.folder} has no such target. `approxmcmc status` shows what is missing."
        )
    frame = pd.concat([contest.at_budgets.assign(target=contest.target) for contest in judged], ignore_index=True)
    frame.insert(0, "target", frame.pop("target"))
    table = frame.to_csv(index=False, float_format=DIGITS, lineterminator="\n")
    return f"#{json.dumps(plain(_facts(results)), allow_nan=False)}\n{table}"


def _facts(results: "StudyResults") -> dict[str, Any]:
    study = results.study
    return {
        "study": study.name,
        "preset": results.preset,
        "reference": study.reference,
        "budget": dataclasses.asdict(study.budget),
        "command": results.command,
        "provenance": results.provenance,
    }
