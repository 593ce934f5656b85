"""A results page of the documentation: sections of a report as Markdown, pictures inside, tables with their intervals.

Pictures are SVG elements whose ink follows the page's theme, so that the page needs no other file and no network. What
stands between two comments of the same name can be included elsewhere, such as a picture on a front page.
"""

import re
from collections.abc import Sequence
from html import escape
from typing import Any

from approxmcmc.study.report.page import table_view
from approxmcmc.study.report.pieces import Figure, Section, Table
from approxmcmc.study.report.svg import inline_svg, svg_document
from approxmcmc.study.report.wording import slug


def markdown_page(
    *, title: str, subtitle: str, banners: Sequence[str], answer: Sequence[str], sections: Sequence[Section], note: str
) -> str:
    """Return the page.

    Parameters
    ----------
    title, subtitle, banners, answer, sections
        As in :func:`approxmcmc.study.report.page.write_page`.
    note
        A comment for who opens the source, such as the command that makes the page.
    """
    parts = [f"<!-- {note} -->", f"# {plain_text(title)}", plain_text(subtitle)]
    listed = "\n".join(f"- {plain_text(banner)}" for banner in banners)
    parts += [f":::{{note}}\n{listed}\n:::"] if banners else []
    parts += [plain_text(sentence) for sentence in answer]
    for section in sections:
        parts += [f"## {plain_text(section.title)}", *map(plain_text, section.text)]
        parts += [f"- **{plain_text(term)}**: {plain_text(meaning)}" for term, meaning in section.terms]
        parts += [_figure(piece) if isinstance(piece, Figure) else _table(piece) for piece in section.pieces]
        parts += [f"```text\n{command}\n```" for command in section.commands]
    return "\n\n".join(part for part in parts if part) + "\n"


def plain_text(text: str) -> str:
    """Return text on one line, with all that Markdown or HTML would read escaped."""
    return re.sub(r"([\\`*_{}\[\]#|$~])", r"\\\1", escape(" ".join(text.split()), quote=False))


def _figure(piece: Figure) -> str:
    anchor = slug(piece.title)
    svg = inline_svg(_rounded(svg_document(piece.figure)), anchor, escape(piece.title, quote=True))
    lines = "".join(line.strip() + "\n" for line in svg.splitlines() if line.strip())  # a blank line ends HTML
    caption = f"*{plain_text(piece.caption)}*"
    body = f'```{{raw}} html\n<div class="result-figure" id="{anchor}">\n{lines}</div>\n```'
    return f"### {plain_text(piece.title)}\n\n<!-- {anchor} -->\n\n{body}\n\n{caption}\n\n<!-- {anchor} -->"


def _rounded(document: str) -> str:
    """Return a picture with its coordinates to a hundredth of a point, its lines to a tenth; words stay as they are."""
    coarse = re.sub(r'\bd="[^"]*"', lambda path: re.sub(r"(\d+\.\d)\d+", r"\1", path[0]), document)
    return re.sub(r"<[^>]+>", lambda tag: re.sub(r"(\d+\.\d\d)\d+", r"\1", tag[0]), coarse)


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
