"""Draw a page of the documentation from the published results of a study: its picture, its answer, then the rest.

The statements are made here, and not when the study ran: whether settings are ranked, how often verdicts may err, and
how many digits of a number are shown.
"""

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from approxmcmc.engine.checks import nearest
from approxmcmc.errors import StudyError
from approxmcmc.study.names import spelled
from approxmcmc.study.report.answer import answers, parted
from approxmcmc.study.report.content import judged_sections
from approxmcmc.study.report.intervals import LEAST_REPLICATES
from approxmcmc.study.report.markdown import (
    fenced,
    figure_block,
    picture,
    plain_text,
    section_block,
    table_block,
)
from approxmcmc.study.report.page_warnings import limits
from approxmcmc.study.report.pieces import Explorer, Figure, Section, Table
from approxmcmc.study.report.published_files import CURVES, RISK, in_words, rows_of, unpacked
from approxmcmc.study.report.scores import DEPARTURES, Scores, verdicts_of
from approxmcmc.study.report.tables import tells_costs
from approxmcmc.study.report.who_wins import who_wins
from approxmcmc.study.report.wording import slug

if TYPE_CHECKING:
    import pandas as pd

WITHOUT_INTERVAL = (
    "Intervals are 95 %. A blank is undefined, never zero. A number without an interval is a setting, a count, an "
    "exact value, or a summary of these chains; its caption says which."
)


def page_body(words: Mapping[str, Any], table: "pd.DataFrame", commands: Sequence[str] = (), opening: str = "") -> str:
    """Return the page below its title and opening paragraph, as Markdown.

    Parameters
    ----------
    words, table
        The published results, from :func:`approxmcmc.study.published.read_published`.
    commands
        The commands that run the presets that are not on the page.
    opening
        Title of the picture that the page opens with; by default the first one.

    Raises
    ------
    StudyError
        If the page has no such picture; the message names the nearest.
    """
    scores = _named_scores(words, table)
    verdicts = verdicts_of(scores)
    sections = _sections(words, table, scores)
    first = _opening(words, sections, opening)
    notes = [*words["notes"], *limits(scores)]
    worded = in_words(words, table)
    parts = [worded(figure_block(first, "p0"))] if first else []
    for lead, text in map(parted, [*answers(verdicts), *words["told"]]):
        parts.append(f"**{lead.strip()}** {worded(plain_text(text)).lstrip()}" if lead else worded(plain_text(text)))
    if notes:
        items = [f"- {worded(plain_text(note))}" for note in notes]
        parts.append("\n".join([":::{note}", *items, ":::"]))
    parts.append(plain_text(f"{_source(words)} {WITHOUT_INTERVAL}"))
    number = 1
    for section in sections:
        still = [piece for piece in section.pieces if not isinstance(piece, Explorer)]
        rest = tuple(piece for piece in still if piece is not first and _says_something(piece))
        if rest or section.text or section.terms or section.commands:
            text, number = section_block(section, rest, number)
            parts.append(text if section.title in ("Census", "Provenance") else worded(text))
    if commands:
        parts += ["## Not run", *(fenced(command, "text") for command in commands)]
    return "\n\n".join(parts) + "\n"


def opening_picture(words: Mapping[str, Any], table: "pd.DataFrame", opening: str = "") -> str | None:
    """Return the picture that a page opens with as an SVG file; None if the study has no picture.

    Arguments and errors as for :func:`page_body`.
    """
    first = _opening(words, _sections(words, table, _named_scores(words, table)), opening)
    return None if first is None else in_words(words, table)(picture(first, "o"))


def _named_scores(words: Mapping[str, Any], table: "pd.DataFrame") -> list[Scores]:
    """Return the risks of each target, with the names that the study shows."""
    names = words.get("names") or {}
    return [scores_of_target.named(names) for scores_of_target in scores_of(words, table)]


def _sections(words: Mapping[str, Any], table: "pd.DataFrame", scores: list[Scores]) -> list[Section]:
    """Return all sections of a page in their order."""
    names = words.get("names") or {}
    return [
        *who_wins(scores, {spelled(name, names): kind for name, kind in (words.get("families") or {}).items()}),
        *judged_sections(verdicts_of(scores)),
        *_unpacked(words, table),
    ]


def _opening(words: Mapping[str, Any], sections: Sequence[Section], title: str) -> Figure | None:
    """Return the picture with this title, or without a title the first, if there is one."""
    pictures = {piece.title: piece for section in sections for piece in section.pieces if isinstance(piece, Figure)}
    return _named(pictures, title, words["study"]) if title else next(iter(pictures.values()), None)


def _says_something(piece: Figure | Table) -> bool:
    return not piece.title.startswith("Cost of a decision") or tells_costs(piece.data)


def figure_of(words: Mapping[str, Any], table: "pd.DataFrame", title: str) -> str:
    """Return one picture of a page with its caption, as Markdown.

    Raises
    ------
    StudyError
        If the page has no such picture; the message names the nearest.
    """
    sections = [*judged_sections(verdicts_of(scores_of(words, table))), *_unpacked(words, table)]
    figures = {piece.title: piece for section in sections for piece in section.pieces if isinstance(piece, Figure)}
    return in_words(words, table)(figure_block(_named(figures, title, words["study"]), f"{slug(title)}-"))


def _named(pictures: Mapping[str, Figure], title: str, study: str) -> Figure:
    if title not in pictures:
        raise StudyError(f"The page of {study} has no picture {nearest(title, pictures)}")
    return pictures[title]


def columns_of(words: Mapping[str, Any], table: "pd.DataFrame", title: str, columns: Sequence[str]) -> str:
    """Return some columns of a table of a page, with their intervals, as Markdown.

    Raises
    ------
    StudyError
        If the page has no such table, or the table no such column; the message names the nearest.
    """
    pieces = [piece for section in _unpacked(words, table) for piece in section.pieces]
    tables = {piece.title: piece for piece in pieces if isinstance(piece, Table)}
    if title not in tables:
        raise StudyError(f"The page of {words['study']} has no table {nearest(title, tables)}")
    piece = tables[title]
    for name in columns:
        if name not in piece.data:
            raise StudyError(f"{words['study']}, {title}: there is no column {nearest(name, list(piece.data))}")
    ends = [f"{name}{end}" for name in columns for end in ("", "_lower", "_upper")]
    chosen = dataclasses.replace(piece, data=piece.data[[name for name in ends if name in piece.data]])
    return in_words(words, table)(table_block(chosen))


def scores_of(words: Mapping[str, Any], table: "pd.DataFrame") -> list[Scores]:
    """Return the published risks of each target that has a gold standard."""
    risks = rows_of(table, RISK)
    if not len(risks):
        return []
    ends = [name for name in risks if name.endswith(("_lower", "_upper"))]
    risks.loc[risks.replicates < LEAST_REPLICATES, ends] = math.nan
    curves = {field: rows_of(table, title) for field, title in CURVES.items()}
    scores = []
    for target, rows in risks.groupby("target", sort=False):
        exact = words["exact"].get(target)
        more: dict[str, Any] = {
            field: curve[curve["target"] == target].drop(columns="target").reset_index(drop=True)
            for field, curve in curves.items()
            if len(curve)
        }
        more |= {"gold_draws": int((words.get("gold_draws") or {}).get(target, 0))}
        more |= {"waits": (words.get("waits") or {}).get(target, {}), "clock_name": words.get("clock", "wall")}
        departures = rows_of(table, f"{DEPARTURES}, {target}")
        judged = _judged(rows.drop(columns="target"), exact)
        scores.append(Scores(str(target), exact, judged, departures=departures, **more))
    return scores


def _judged(risks: "pd.DataFrame", exact: str | None) -> "pd.DataFrame":
    """Return risks without the ratios that say nothing: an interval from 0 to infinity, or an end over itself."""
    risks = risks.reset_index(drop=True)
    ratio = ["ratio", "ratio_lower", "ratio_upper"]
    if exact is not None:
        risks.loc[(risks.setting == exact) & risks.ratio_lower.notna(), ratio] = 1.0
        risks.loc[(risks.ratio_lower <= 0.0) & np.isinf(risks.ratio_upper), ratio] = math.nan
    return risks


def _unpacked(words: Mapping[str, Any], table: "pd.DataFrame") -> list[Section]:
    return unpacked(words["sections"], table, words["pictures"])


def _source(words: Mapping[str, Any]) -> str:
    machine = words["provenance"]
    processor = machine.get("processor", "")
    clock = f"Seconds are those of the {words.get('clock', 'wall')} clock"
    suite = f"suite version {words['version']}"
    source = f"Source: {words['reference'] or 'not stated'}. Preset {words['preset']}, {suite}."
    return f"{source} {clock}, on {processor or 'a machine that was not named'}."
