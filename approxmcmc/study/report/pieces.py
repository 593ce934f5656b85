"""The pieces of a report: figures and tables, each with the numbers behind it.

A column ``x`` of a table with companions ``x_lower`` and ``x_upper`` is an estimate with its interval; the page prints
the three as one entry, "x [x_lower, x_upper]". NaN prints as a blank: an undefined value is not a zero.
"""

import dataclasses
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import matplotlib.figure
    import pandas as pd


@dataclasses.dataclass(frozen=True)
class Figure:
    """A picture, its caption, and the plotted numbers.

    Parameters
    ----------
    title
        A few words; unique on the page, because file names are made from it.
    caption
        What is drawn, with units and the meaning of the bands.
    figure
        The matplotlib figure, or its SVG document.
    data
        The plotted numbers, as a tidy table; written as CSV next to the page.
    """

    title: str
    caption: str
    figure: "matplotlib.figure.Figure | str"
    data: "pd.DataFrame"


@dataclasses.dataclass(frozen=True)
class Table:
    """Rows of numbers and words.

    Parameters
    ----------
    title
        A few words; unique on the page.
    caption
        What the rows are, with units and the kind of interval.
    data
        One row per line, index ignored. Columns ``x``, ``x_lower``, ``x_upper`` print as one.
    headings
        Printed heading of a column, if its name is not clear enough.
    formats
        Format specification of a column's numbers, such as ``".1%"``; three significant digits otherwise. ``"code"``
        marks a column of commands.
    """

    title: str
    caption: str
    data: "pd.DataFrame"
    headings: Mapping[str, str] = dataclasses.field(default_factory=dict)
    formats: Mapping[str, str] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True)
class Explorer:
    """A figure whose reader chooses what is drawn.

    Parameters
    ----------
    title, caption
        As those of a figure.
    data
        A row for each point of each curve: target, axis, estimand, setting, ``at``, and risk, bias_sq and variance with
        their ends ``_lower`` and ``_upper``.
    styles
        Colour, dash and marker by setting, in the order shown.
    """

    title: str
    caption: str
    data: "pd.DataFrame"
    styles: Mapping[str, Mapping[str, Any]]


@dataclasses.dataclass(frozen=True)
class Note:
    """An important sentence, shown below the answer."""

    text: str


@dataclasses.dataclass(frozen=True)
class Section:
    """A heading, then in this order: paragraphs, a list of terms with their meanings, figures and tables, commands.

    All words are plain text, which the page escapes.
    """

    title: str
    text: tuple[str, ...] = ()
    terms: tuple[tuple[str, str], ...] = ()
    pieces: tuple[Figure | Table | Explorer, ...] = ()
    commands: tuple[str, ...] = ()
