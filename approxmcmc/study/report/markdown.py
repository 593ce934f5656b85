"""Sections of a report as Markdown for the documentation: pictures inside the page, tables with their intervals.

Pages of the documentation contain each picture as SVG text, so they need no network. The ink is ``currentColor``:
inside a page the picture follows the page's theme, as a file it is black. From matplotlib's document, unused ids are
removed, repeated styles are written once, and coordinates keep visible precision. This leaves a third of the bytes.
"""

import re
import zlib
from collections.abc import Sequence
from html import escape
from typing import Any

from approxmcmc.study.report.cells import table_view
from approxmcmc.study.report.pieces import Figure, Section, Table
from approxmcmc.study.report.svg import inline_svg, rounded, svg_document
from approxmcmc.study.report.wording import NO_INTERVAL

NAMESPACE = "http://www.w3.org/2000/svg"


def picture(piece: Figure, prefix: str) -> str:
    """Return the SVG file of a figure; its ids begin with `prefix`, so that pictures of one page have different ids."""
    element = inline_svg(slim(svg_document(piece.figure)), prefix, escape(piece.title, quote=True))
    lines = "".join(line.strip() + "\n" for line in element.splitlines() if line.strip())
    return lines.replace("<svg ", f'<svg xmlns="{NAMESPACE}" ', 1)


def slim(document: str) -> str:
    """Return matplotlib's SVG document in fewer bytes, with the same appearance."""
    return _styles_once(_ids_in_use(rounded(document)))


def _ids_in_use(document: str) -> str:
    used = set(re.findall(r'(?:href="#|url\(#)([^")]+)', document))
    return re.sub(r' id="([^"]*)"', lambda match: match[0] if match[1] in used else "", document)


def _styles_once(document: str) -> str:
    """Move styles into one sheet; a class is named by its content, so that pictures of one page can share it."""
    family = r"font-family: (?:&#?\w+;|[^;\"])*"  # quotes of names are character references, which end in a semicolon
    text_as_page = re.sub(family, "font-family: sans-serif", document)
    styles: dict[str, str] = {}

    def named(match: re.Match[str]) -> str:
        name = f"s{zlib.crc32(match[1].encode()):08x}"
        styles[name] = match[1]
        return f' class="{name}"'

    body = re.sub(r' style="([^"]*)"', named, text_as_page)
    sheet = "".join(f"\n.{name}{{{style}}}" for name, style in styles.items())
    return body.replace("</style>", f"{sheet}</style>", 1)


def section_block(section: Section, pieces: Sequence[Figure | Table], number: int) -> tuple[str, int]:
    """Return a section with these pieces, its first picture having this `number`, and the next picture's number."""
    parts = [f"## {plain_text(section.title)}", *map(plain_text, section.text)]
    parts += [f"- **{plain_text(term)}**: {plain_text(meaning)}" for term, meaning in section.terms]
    for piece in pieces:
        if isinstance(piece, Figure):
            parts.append(f"### {plain_text(piece.title)}\n\n{figure_block(piece, f'p{number}')}")
            number += 1
        else:
            parts.append(_table(piece))
    parts += [fenced(command, "text") for command in section.commands]
    return "\n\n".join(part for part in parts if part), number


def plain_text(text: str) -> str:
    """Return text on one line, with all Markdown and HTML characters escaped."""
    line = re.sub(r"([\\`*_{}\[\]#|$~])", r"\\\1", escape(" ".join(text.split()), quote=False))
    return re.sub(r"^(\d*)([-+=:%(.)])", r"\1\\\2", line)  # a list, rule, directive, comment or label


def fenced(content: str, info: str, mark: str = "`") -> str:
    """Return a block of `content` between fences of `mark` that no line of the content can close."""
    longest = max(map(len, re.findall(f"{mark}+", content)), default=0)
    fence = mark * max(3, longest + 1)
    return f"{fence}{info}\n{content.removesuffix(chr(10))}\n{fence}"


def figure_block(piece: Figure, prefix: str) -> str:
    """Return picture and caption as Markdown; the ids of the picture begin with `prefix`."""
    drawn = fenced(picture(piece, prefix), "{raw} html")
    return f"{fenced(drawn, '{container} result-figure', ':')}\n\n*{plain_text(piece.caption)}*"


def _table(piece: Table) -> str:
    if piece.data.empty:
        return ""
    return f"### {plain_text(piece.title)}\n\n*{plain_text(piece.caption)}*\n\n{table_block(piece)}"


def table_block(piece: Table) -> str:
    """Return a table as Markdown, without title and caption."""
    view = table_view(piece)
    head = "".join(f"<th{_number(column)}>{escape(column['heading'])}</th>" for column in view["columns"])
    rows = "\n".join("<tr>" + "".join(map(_cell, row)) + "</tr>" for row in view["rows"])
    body = f'<table class="result-table">\n<thead><tr>{head}</tr></thead>\n<tbody>\n{rows}\n</tbody></table>'
    return fenced(f'<div class="result-scroll">\n{body}\n</div>', "{raw} html")


def _cell(cell: dict[str, Any]) -> str:
    if cell["long"]:
        return f"<td>{escape(cell['text'])}</td>"
    text = f"<code>{escape(cell['text'])}</code>" if cell["code"] else escape(cell["text"])
    interval_text = cell["interval"].replace(NO_INTERVAL, "").strip()
    interval = f' <span class="interval">{escape(interval_text)}</span>' if interval_text else ""
    return f"<td{_number(cell)}>{text}{interval}</td>"


def _number(entry: dict[str, Any]) -> str:
    return ' class="number"' if entry["numeric"] else ""
