"""The report of a study as an object: sentences, tables and figures, which a page, a notebook and files show.

Tables come first: a figure is drawn from a table, and keeps it. One renderer makes the page and what a notebook shows
(:mod:`approxmcmc.study.report.page`); the documentation prints the same sections as Markdown.
"""

import dataclasses
import os
from collections.abc import Callable
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from approxmcmc.engine.checks import nearest
from approxmcmc.errors import StudyError
from approxmcmc.study.report.latex import latex_table
from approxmcmc.study.report.pieces import Explorer, Figure, Section, Table
from approxmcmc.study.report.svg import name_texts, svg_document

if TYPE_CHECKING:
    import pandas as pd

FOOTER = (
    "Intervals are 95 %, unless a caption says otherwise. Blank: not defined, or none, never zero. Press a table "
    "heading to sort."
)
HEIGHT = 900  # height of the frame in a notebook, in pixels


def _unchanged(text: str) -> str:
    return text


class Picture(str):
    """An SVG document, which a notebook shows as a picture."""

    __slots__ = ()

    def savefig(self, path: str | os.PathLike[str]) -> None:
        """Write the picture as SVG, as `savefig` of a figure of matplotlib does.

        Raises
        ------
        StudyError
            If the file is to have another form.
        """
        if Path(path).suffix != ".svg":
            raise StudyError(
                f"The picture of an analysis is stored as SVG, and cannot be written as {Path(path).name}. Call the "
                "analysis with the results: the figure that it returns is one of matplotlib, which writes other forms."
            )
        Path(path).write_text(self, encoding="utf-8")

    def _repr_svg_(self) -> str:
        return str(self)


@dataclasses.dataclass(frozen=True, eq=False)
class Report:
    """What a study found: the answer, then the tables and figures behind it.

    Parameters
    ----------
    title, subtitle
        Head of the page.
    notes
        Warnings, which follow the answer.
    answer
        Sentences: which setting to use, how wrong it is, what is undecided.
    sections
        The sections in order.
    footer
        Last line of the page.
    worded
        Replaces labels of settings and targets by the names that the study gives them, in every text that is shown.
        Data keep the labels.

    Examples
    --------
    >>> report = results.report()  # doctest: +SKIP
    >>> report.tables  # doctest: +SKIP
    >>> report.table("What to use at each budget").to_csv("use.csv")  # doctest: +SKIP
    >>> print(report.latex("What to use at each budget"))  # doctest: +SKIP
    >>> report.figure("Risk against time, mnist").savefig("risk.pdf")  # doctest: +SKIP
    >>> report.write("page")  # doctest: +SKIP
    """

    title: str
    subtitle: str
    notes: tuple[str, ...]
    answer: tuple[str, ...]
    sections: tuple[Section, ...]
    footer: str = FOOTER
    worded: Callable[[str], str] = _unchanged

    @property
    def tables(self) -> list[str]:
        """Titles of the tables."""
        return list(self._pieces(Table))

    @property
    def figures(self) -> list[str]:
        """Titles of the figures."""
        return list(self._pieces(Figure))

    def table(self, title: str) -> "pd.DataFrame":
        """Return the rows of a table, or those that a figure draws, by its title.

        Raises
        ------
        StudyError
            If the report has no such table or figure; the message names the nearest.
        """
        return self._piece("table or figure", title, Table, Figure, Explorer).data.copy()

    def latex(self, title: str) -> str:
        r"""Return a table as LaTeX, for ``\usepackage{booktabs}``: the names and cells of the page.

        Raises
        ------
        StudyError
            If the report has no such table; the message names the nearest.
        """
        return latex_table(self._piece("table", title, Table), self.worded)

    def figure(self, title: str) -> Any:
        """Return a figure by its title, with the names of the study.

        It is one of matplotlib; an analysis of the study that did not run again is a picture in SVG.

        Raises
        ------
        StudyError
            If the report has no such figure; the message names the nearest.
        """
        drawn = self._piece("figure", title, Figure).figure
        if isinstance(drawn, str):
            return Picture(svg_document(drawn, self.worded))
        name_texts(drawn, self.worded)
        return drawn

    def write(self, folder: str | os.PathLike[str]) -> Path:
        """Write the page ``index.html`` with figures (SVG, PDF, CSV) and tables (CSV, LaTeX); return its path.

        Files of an earlier report under these names are replaced.
        """
        from approxmcmc.study.report.page import write_page

        return write_page(folder, self)

    def _repr_html_(self) -> str:
        """Return the page in a frame, whose styles and script stay apart from those of the notebook."""
        from approxmcmc.study.report.page import page_text

        page = escape(page_text(self), quote=True)
        return f'<iframe srcdoc="{page}" style="width: 100%; height: {HEIGHT}px; border: 0"></iframe>'

    def __repr__(self) -> str:
        """Return title and answer as text, and the titles of tables and figures."""
        listed = [f"tables: {', '.join(self.tables)}", f"figures: {', '.join(self.figures)}"]
        return "\n".join(map(self.worded, [self.title, *self.answer, *self.notes, *listed]))

    def _pieces(self, *kinds: type) -> dict[str, Any]:
        return {piece.title: piece for section in self.sections for piece in section.pieces if isinstance(piece, kinds)}

    def _piece(self, what: str, title: str, *kinds: type) -> Any:
        of_study = self._pieces(*kinds)
        shown = {self.worded(name): piece for name, piece in of_study.items()}
        by_title = shown | of_study  # a title of the study itself comes first
        if title not in by_title:
            raise StudyError(f"The report has no {what} {nearest(title, by_title)}")
        return by_title[title]
