"""Pictures as files that are kept beside a page: SVG in few bytes, which a page can also hold as an element of its own.

The ink is ``currentColor``: as an element of a page it follows the page's theme, as a file it is black. Of matplotlib's
document, ids that nothing refers to go, a style that repeats is said once, and coordinates keep what can be seen. That
is a third of the bytes.
"""

import re
import zlib
from html import escape

from approxmcmc.study.report.pieces import Figure
from approxmcmc.study.report.svg import inline_svg, svg_document

NAMESPACE = "http://www.w3.org/2000/svg"


def picture(piece: Figure, prefix: str) -> str:
    """Return the SVG file of a figure; its ids begin with `prefix`, since pictures of one page share their ids."""
    element = inline_svg(slim(svg_document(piece.figure)), prefix, escape(piece.title, quote=True))
    lines = "".join(line.strip() + "\n" for line in element.splitlines() if line.strip())
    return lines.replace("<svg ", f'<svg xmlns="{NAMESPACE}" ', 1)


def slim(document: str) -> str:
    """Return matplotlib's SVG document in fewer bytes, drawn alike."""
    return _styles_once(_ids_in_use(rounded(document)))


def rounded(document: str) -> str:
    """Return a picture with its coordinates to a hundredth of a point, its lines to a tenth; words stay as they are."""
    coarse = re.sub(r'\bd="[^"]*"', lambda path: _lines(re.sub(r"(\d+\.\d)\d+", r"\1", path[0])), document)
    return re.sub(r"<[^>]+>", lambda tag: re.sub(r"(\d+\.\d\d)\d+", r"\1", tag[0]), coarse)


def _lines(path: str) -> str:
    """Return a path in few characters; where it has no curves, each point as its way from the one before."""
    if re.search("[CQ]", path):
        return re.sub(" ?([MLCQz]) ?", r"\1", re.sub(r"(\d)\.0(?=[ \"])", r"\1", " ".join(path.split())))
    return 'd="' + "".join(_ways(part) for part in re.findall('M[^M"]*', path)) + '"'


def _ways(part: str) -> str:
    """Return a piece of a path, ``M x y L x y ... z``, with the points after the first relative to the one before."""
    numbers = [float(number) for number in re.findall(r"-?[\d.]+", part)]
    ways = [_short(there - here) for here, there in zip(numbers, numbers[2:], strict=False)]
    way = re.sub(r" (?=-)|(?<=\.\d) (?=\.)", "", " ".join(ways))
    start = " ".join(map(_short, numbers[:2]))
    return f"M{start}{'l' if ways else ''}{way}{'z' if 'z' in part else ''}"


def _short(number: float) -> str:
    return re.sub(r"\b0\.", ".", f"{round(number, 1) + 0.0:g}")


def _ids_in_use(document: str) -> str:
    used = set(re.findall(r'(?:href="#|url\(#)([^")]+)', document))
    return re.sub(r' id="([^"]*)"', lambda found: found[0] if found[1] in used else "", document)


def _styles_once(document: str) -> str:
    """Move styles into one sheet. A class is named by what it says, so that pictures on one page cannot disagree."""
    text_as_page = re.sub(r"font-family: [^;\"]*", "font-family: sans-serif", document)
    styles: dict[str, str] = {}

    def named(found: re.Match[str]) -> str:
        name = f"s{zlib.crc32(found[1].encode()):08x}"
        styles[name] = found[1]
        return f' class="{name}"'

    body = re.sub(r' style="([^"]*)"', named, text_as_page)
    sheet = "".join(f"\n.{name}{{{style}}}" for name, style in styles.items())
    return body.replace("</style>", f"{sheet}</style>", 1)
