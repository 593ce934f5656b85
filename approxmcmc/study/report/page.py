"""The page: one HTML file that opens without a network, with figures (SVG, PDF) and tables (CSV, LaTeX) in its folder.

Styles, script and pictures are inside the file. All files are first written to a temporary folder. Then the old page
is removed, the files are moved into place, and the new page comes last. So a page and the files in its folder always
come from the same run: where a kill interrupts this, there is no page, and the next report makes it.
"""

import importlib.resources
import os
import shutil
from collections.abc import Callable
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from approxmcmc.engine.extras import extra
from approxmcmc.engine.files.whole_files import scratch_folder
from approxmcmc.study.report import explorer
from approxmcmc.study.report.answer import parted
from approxmcmc.study.report.cells import table_view
from approxmcmc.study.report.latex import latex_table
from approxmcmc.study.report.pieces import Explorer, Figure, Section, Table
from approxmcmc.study.report.svg import inline_svg, pdf_file, svg_document
from approxmcmc.study.report.wording import slug, unique

if TYPE_CHECKING:
    from approxmcmc.study.report.document import Report


PAGE = "index.html"
PROVENANCE = "Provenance"  # a section that keeps the labels of the code


def write_page(folder: str | os.PathLike[str], report: "Report") -> Path:
    """Render a report and write the page with its files; return the path of ``index.html``."""
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    with scratch_folder(folder / PAGE) as scratch:
        for kind in ("figures", "tables"):
            (scratch / kind).mkdir()
        (scratch / PAGE).write_text(page_text(report, scratch), encoding="utf-8")
        (folder / PAGE).unlink(missing_ok=True)
        for kind in ("figures", "tables"):
            shutil.rmtree(folder / kind, ignore_errors=True)
            os.replace(scratch / kind, folder / kind)
        os.replace(scratch / PAGE, folder / PAGE)
    return folder / PAGE


def page_text(report: "Report", files: Path | None = None) -> str:
    """Return the page of a report; with `files`, its figures and tables are also written to that folder, and linked."""
    with extra("studies", "A report"):
        import jinja2
        from markupsafe import Markup

    folder = importlib.resources.files("approxmcmc.study.report")
    environment = jinja2.Environment(autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True)
    template = environment.from_string((folder / "template.html").read_text(encoding="utf-8"))
    names: set[str] = set()
    worded = report.worded
    explored = any(isinstance(piece, Explorer) for section in report.sections for piece in section.pieces)
    return template.render(
        style=Markup((folder / "style.css").read_text(encoding="utf-8")),
        script=Markup((folder / "sort.js").read_text(encoding="utf-8")),
        title=report.title,
        subtitle=report.subtitle,
        banners=list(map(worded, report.notes)),
        answer=[(lead, worded(text)) for lead, text in map(parted, report.answer)],
        sections=[_section_view(section, names, files, worded) for section in report.sections],
        footer=report.footer,
        linked=files is not None,
        library=Markup(explorer.library()) if explored else "",
        explorer=Markup(explorer.script()) if explored else "",
    )


def _section_view(
    section: Section, names: set[str], files: Path | None, worded: Callable[[str], str]
) -> dict[str, Any]:
    if section.title == PROVENANCE:
        worded = str
    identity = unique(slug(section.title), names)
    pieces = []
    for piece in section.pieces:
        anchor = unique(slug(piece.title), names)
        kind = type(piece).__name__
        head: dict[str, Any] = {
            "kind": kind,
            "id": anchor,
            "title": worded(piece.title),
            "caption": worded(piece.caption),
        }
        if isinstance(piece, Figure):
            pieces.append(head | _figure_view(piece, anchor, files, worded))
        elif isinstance(piece, Explorer):
            pieces.append(head | _explorer_view(piece, anchor, files))
        else:
            pieces.append(head | _table_view(piece, anchor, files, worded))
    return {
        "id": identity,
        "title": worded(section.title),
        "text": list(map(worded, section.text)),
        "terms": [(term, worded(meaning)) for term, meaning in section.terms],
        "pieces": pieces,
        "commands": section.commands,
    }


def _figure_view(piece: Figure, anchor: str, files: Path | None, worded: Callable[[str], str]) -> dict[str, Any]:
    from markupsafe import Markup

    document = svg_document(piece.figure, worded)
    drawn = None if isinstance(piece.figure, str) else piece.figure  # None: only the picture is known
    if files is not None:
        (files / "figures" / f"{anchor}.svg").write_text(document, encoding="utf-8")
        piece.data.to_csv(files / "figures" / f"{anchor}.csv", index=False)
        if drawn is not None:
            (files / "figures" / f"{anchor}.pdf").write_bytes(pdf_file(drawn))
    element = inline_svg(document, anchor, escape(worded(piece.title), quote=True))
    return {"svg": Markup(element), "pdf": drawn is not None}


def _explorer_view(piece: Explorer, anchor: str, files: Path | None) -> dict[str, Any]:
    from markupsafe import Markup

    if files is not None:
        piece.data.to_csv(files / "figures" / f"{anchor}.csv", index=False)
    return {"curves": Markup(explorer.content(piece))}


def _table_view(piece: Table, anchor: str, files: Path | None, worded: Callable[[str], str]) -> dict[str, Any]:
    if files is not None:
        piece.data.to_csv(files / "tables" / f"{anchor}.csv", index=False)
        (files / "tables" / f"{anchor}.tex").write_text(latex_table(piece, worded), encoding="utf-8")
    return table_view(piece, worded)
