"""A results page of the documentation: sections of a report as Markdown, pictures by name, tables with their intervals.

The documentation puts each picture into the page as an element whose ink follows the theme: it opens without a network.
A caption stands between two comments of the same name, so that a front page can show picture and caption.
"""

import re
from collections.abc import Sequence
from html import escape
from typing import Any

from approxmcmc.study.report.page import table_view
from approxmcmc.study.report.pieces import Figure, Section, Table
from approxmcmc.study.report.wording import slug


def markdown_page(
    *,
    title: str,
    subtitle: str,
    banners: Sequence[str],
    answer: Sequence[str],
    sections: Sequence[Section],
    pictures: Sequence[str],
    note: str,
) -> str:
    """Return the page.

    Parameters
    ----------
    title, subtitle, banners, answer, sections
        As in :func:`approxmcmc.study.report.page.write_page`.
    pictures
        Path of the picture of each figure, from the page, in the order of the figures.
    note
        A comment for who opens the source, such as the command that makes the page.
    """
    parts = [f"<!-- {note} -->", f"# {plain_text(title)}", plain_text(subtitle)]
    places = iter(pictures)
    listed = "\n".join(f"- {plain_text(banner)}" for banner in banners)
    parts += [f":::{{note}}\n{listed}\n:::"] if banners else []
    parts += [plain_text(sentence) for sentence in answer]
    for section in sections:
        parts += [f"## {plain_text(section.title)}", *map(plain_text, section.text)]
        parts += [f"- **{plain_text(term)}**: {plain_text(meaning)}" for term, meaning in section.terms]
        parts += [
            _figure(piece, next(places)) if isinstance(piece, Figure) else _table(piece) for piece in section.pieces
        ]
        parts += [f"```text\n{command}\n```" for command in section.commands]
    return "\n\n".join(part for part in parts if part) + "\n"


def plain_text(text: str) -> str:
    """Return text on one line, with all that Markdown or HTML would read escaped."""
    return re.sub(r"([\\`*_{}\[\]#|$~])", r"\\\1", escape(" ".join(text.split()), quote=False))


def _figure(piece: Figure, place: str) -> str:
    anchor = slug(piece.title)
    body = f"::::{{container}} result-figure\n```{{raw}} html\n:file: {place}\n```\n::::"
    caption = f"<!-- {anchor} -->\n\n*{plain_text(piece.caption)}*\n\n<!-- {anchor} -->"
    return f"### {plain_text(piece.title)}\n\n{body}\n\n{caption}"


def _table(piece: Table) -> str:
    view = table_view(piece)
    if not view["rows"]:
        return ""
    head = "".join(f"<th{_number(column)}>{escape(column['heading'])}</th>" for column in view["columns"])
    rows = "\n".join("<tr>" + "".join(map(_cell, row)) + "</tr>" for row in view["rows"])
    body = f'<table class="result-table">\n<thead><tr>{head}</tr></thead>\n<tbody>\n{rows}\n</tbody></table>'
    caption = f"*{plain_text(piece.caption)}*"
    return (
        f"### {plain_text(piece.title)}\n\n{caption}\n\n"
        f'```{{raw}} html\n<div class="result-scroll">\n{body}\n</div>\n```'
    )


def _cell(cell: dict[str, Any]) -> str:
    if cell["long"]:
        return f"<td>{escape(cell['text'])}</td>"
    text = f"<code>{escape(cell['text'])}</code>" if cell["code"] else escape(cell["text"])
    interval = f' <span class="interval">{escape(cell["interval"])}</span>' if cell["interval"] else ""
    return f"<td{_number(cell)}>{text}{interval}</td>"


def _number(entry: dict[str, Any]) -> str:
    return ' class="number"' if entry["numeric"] else ""
