"""Publish a study from its store: a documentation page, its pictures, and the numbers that ship with the package."""

import dataclasses
import json
import os
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from approxmcmc.errors import StudyError
from approxmcmc.study.json_files import plain, write_bytes
from approxmcmc.study.report.content import compose_published
from approxmcmc.study.report.evidence import gather
from approxmcmc.study.report.markdown import markdown_page, picture
from approxmcmc.study.report.pieces import Figure, Section
from approxmcmc.study.report.wording import slug, unique

if TYPE_CHECKING:
    from approxmcmc.study.results import StudyResults

DIGITS = "%.7g"


def publish(
    results: "StudyResults",
    pages: str | os.PathLike[str],
    pictures: str | os.PathLike[str],
    data: str | os.PathLike[str],
) -> list[Path]:
    """Write the page of a study, its pictures and its numbers; return the paths of page, first picture and numbers.

    All numbers on the page come from the store; nothing is typed by hand. The page has the sections of the report that
    matter to readers of results. Numbers are written if risks are known, that is, if a target has both a finished cell
    and a gold standard; other studies only get a page with pictures.

    Parameters
    ----------
    results
        Records, traces and gold standards of a study at one preset.
    pages, pictures, data
        Folders. Earlier output of this study is replaced, each file atomically: ``<study>.md`` in `pages`, the first
        picture ``<study>.svg`` and the others, ``<study>/*.svg``, in `pictures`, ``<study>.csv`` in `data`.

    Raises
    ------
    StudyError
        If no cell is done.
    """
    if not (results.records["status"] == "done").any():
        raise StudyError(
            f"Nothing of {results.study.name} can be published: no cell is done in {results.store.folder}. Run the "
            "study first; `approxmcmc status` shows what is missing."
        )
    name, content = results.study.name, compose_published(results)
    page, shown = Path(pages) / f"{name}.md", _write_pictures(name, content["sections"], Path(pictures))
    places = [Path(os.path.relpath(picture, page.parent)).as_posix() for picture in shown]
    note = f"Written by `approxmcmc publish` from what `{results.command}` leaves in its store. Do not edit."
    _write(page, markdown_page(note=note, pictures=places, **content))
    numbers, text = Path(data) / f"{name}.csv", numbers_of(results)
    if not text:
        numbers.unlink(missing_ok=True)  # left by an earlier form of the study
        return [page, *shown[:1]]
    _write(numbers, text)
    return [page, *shown[:1], numbers]


def _write_pictures(name: str, sections: Sequence[Section], folder: Path) -> list[Path]:
    """Write the pictures of all figures and return their paths; remove pictures of an earlier page."""
    figures = [piece for section in sections for piece in section.pieces if isinstance(piece, Figure)]
    shutil.rmtree(folder / name, ignore_errors=True)
    taken: set[str] = set()
    paths = []
    for number, figure in enumerate(figures):
        own = unique(slug(figure.title), taken)
        paths.append(folder / name / f"{own}.svg" if number else folder / f"{name}.svg")
        _write(paths[-1], picture(figure, f"p{number}"))
    return paths


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    write_bytes(path, text.encode())


def numbers_of(results: "StudyResults") -> str:
    """Return the text that `load_results` reads: a line of provenance, then the risks as CSV; "" without a risk."""
    import pandas as pd

    judged = [contest for contest in gather(results) if contest.reference is not None]
    if not judged:
        return ""
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
