"""Matplotlib figures as SVG inside a page: unique ids, no network address, colours that follow the theme.

Text and axes are drawn in one ink colour; inside the page that ink, and black, become ``currentColor``, so that the
same picture is readable on a light and on a dark background. Text stays text: it can be selected and searched.
"""

import contextlib
import io
import re
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from approxmcmc.study.report.safe_svg import safe_svg

if TYPE_CHECKING:
    from matplotlib.figure import Figure as MatplotlibFigure

INK = "#24292f"
# Distinct for colour-blind readers (after Okabe and Ito), with a lightness that works on white and on near-black.
COLOURS = ("#3a86c8", "#e07b39", "#2a9d76", "#b5629e", "#b99512", "#7a6fd0", "#4fb0c6", "#c8553d")
DASHES: tuple[Any, ...] = ("-", (0, (6, 2)), (0, (2, 1.5)), (0, (6, 2, 1.5, 2)), (0, (10, 3)))
MARKERS = "osD^vP*X"

STYLE: Any = {  # matplotlib's rcParams
    "svg.fonttype": "none",
    "svg.hashsalt": "approxmcmc",
    "font.family": "sans-serif",
    "font.size": 10,
    "axes.titlesize": 10,
    "axes.labelsize": 10,
    "legend.fontsize": 9,
    "legend.frameon": False,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.linewidth": 0.8,
    "axes.grid": True,
    "grid.color": INK,
    "grid.alpha": 0.13,
    "grid.linewidth": 0.6,
    "lines.linewidth": 1.6,
    "hatch.linewidth": 0.5,
    "hatch.color": INK,
    "text.color": INK,
    "axes.edgecolor": INK,
    "axes.labelcolor": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "figure.facecolor": "none",
    "axes.facecolor": "none",
    "savefig.facecolor": "none",
    "savefig.bbox": "tight",  # with the tight box a wide label or legend is not cut off
    "savefig.pad_inches": 0.04,
    "figure.constrained_layout.use": True,
}

NAMED: weakref.WeakSet[Any] = weakref.WeakSet()
"""Texts of figures that show names in place of labels."""


def styled() -> contextlib.AbstractContextManager[None]:
    """Return a context in which matplotlib has the style of the report, whatever style a program has set."""
    from matplotlib import style

    return style.context(["default", STYLE])


def subplots(*args: Any, **kwargs: Any) -> tuple["MatplotlibFigure", Any]:
    """Make a figure and axes in the style of the report, like ``matplotlib.pyplot.subplots``, without global state."""
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure as MatplotlibFigure

    figsize = kwargs.pop("figsize", (7.2, 3.8))
    with styled():
        figure = MatplotlibFigure(figsize=figsize)
        FigureCanvasSVG(figure)
        axes = figure.subplots(*args, **kwargs)
    return figure, axes


def literal(text: str) -> str:
    r"""Return a name for a figure of matplotlib, which reads what is between dollar signs as mathematics.

    Examples
    --------
    >>> print(literal("$5 or $6"), literal("walk"))
    \$5 or \$6 walk
    """
    return text.replace("$", r"\$")


def pdf_file(figure: "MatplotlibFigure") -> bytes:
    """Return a figure as a PDF file: the same bytes for the same figure."""
    buffer = io.BytesIO()
    with styled():
        figure.savefig(buffer, format="pdf", metadata={"CreationDate": None})
    return buffer.getvalue()


def svg_document(figure: "MatplotlibFigure | str", worded: Callable[[str], str] | None = None) -> str:
    """Return a figure, or an SVG document, as a safe SVG document: the same text for the same figure.

    A document may come from a store of another user; so what a picture does not need is left out of it. `worded`
    replaces labels in its texts by names; a figure of matplotlib makes room for them.
    """
    if isinstance(figure, str):
        document = safe_svg(figure)
        return document if worded is None else re.sub(r">([^<>]+)<", lambda text: f">{worded(text[1])}<", document)
    if worded is not None:
        name_texts(figure, worded)

    buffer = io.StringIO()
    with styled():
        figure.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None})
    return safe_svg(buffer.getvalue())


def name_texts(figure: "MatplotlibFigure", worded: Callable[[str], str]) -> None:
    """Replace the labels in the texts of a figure, once: a name may contain its label, as "NUTS of PyMC" does."""
    from matplotlib.text import Text

    for text in figure.findobj(Text):
        assert isinstance(text, Text)  # findobj is typed by the base of all artists
        if text in NAMED:
            continue
        shown = text.get_text()
        named = worded(shown)
        if named != shown:
            text.set_text(named if "$" in shown else literal(named))
            NAMED.add(text)


def rounded(document: str) -> str:
    """Cut the coordinates of a picture to hundredths of a point, those of its lines to tenths; text is unchanged.

    A picture that has been cut stays as it is.
    """
    coarse = re.sub(r'\bd="[^"]*"', lambda path: _lines(re.sub(r"(\d+\.\d)\d+", r"\1", path[0])), document)
    return re.sub(r"<[^>]+>", lambda tag: re.sub(r"(\d+\.\d\d)\d+", r"\1", tag[0]), coarse)


def _lines(path: str) -> str:
    """Return a path in fewer characters; if it has no curves, each point is relative to the one before."""
    if "l" in path:  # its points are relative
        return path
    if re.search("[CQ]", path):
        return re.sub(" ?([MLCQz]) ?", r"\1", re.sub(r"(\d)\.0(?=[ \"])", r"\1", " ".join(path.split())))
    return 'd="' + "".join(_ways(part) for part in re.findall('M[^M"]*', path)) + '"'


def _ways(part: str) -> str:
    """Return a piece of a path, ``M x y L x y ... z``, with each point but the first relative to the one before."""
    numbers = [float(number) for number in re.findall(r"-?[\d.]+", part)]
    ways = [_short(following - current) for current, following in zip(numbers, numbers[2:], strict=False)]
    way = re.sub(r" (?=-)|(?<=\.\d) (?=\.)", "", " ".join(ways))
    start = " ".join(map(_short, numbers[:2]))
    return f"M{start}{'l' if ways else ''}{way}{'z' if 'z' in part else ''}"


def _short(number: float) -> str:
    return re.sub(r"\b0\.", ".", f"{round(number, 1) + 0.0:g}")


def inline_svg(document: str, prefix: str, label: str) -> str:
    """Return an SVG document as an element for an HTML page.

    Parameters
    ----------
    document
        Output of :func:`svg_document`.
    prefix
        Prefix of every id and every reference to one: pictures on one page must not share clip paths.
    label
        Escaped text for screen readers.
    """
    start = document.index("<svg")
    body = re.sub(r"<metadata>.*?</metadata>", "", document[start:], flags=re.DOTALL)
    body = re.sub(r'\sxmlns(?::\w+)?="[^"]*"', "", body)
    body = body.replace("xlink:href=", "href=")
    body = re.sub(r'\bid="([^"]+)"', rf'id="{prefix}-\1"', body)
    body = re.sub(r"url\(#([^)]+)\)", rf"url(#{prefix}-\1)", body)
    body = re.sub(r'href="#([^"]+)"', rf'href="#{prefix}-\1"', body)
    body = re.sub(r'(<svg[^>]*?)\swidth="[^"]*"', r"\1", body, count=1)
    body = re.sub(r'(<svg[^>]*?)\sheight="[^"]*"', r"\1", body, count=1)
    for ink in (INK, INK.upper(), "#000000"):  # black is matplotlib's default colour
        body = body.replace(ink, "currentColor")
    return body.replace("<svg", f'<svg role="img" aria-label="{label}"', 1)
