"""The page: one HTML file that opens without a network, with SVG figures and CSV files in its folder.

Styles, script and pictures are inside the file. All files are first written to a temporary folder. Then the old page
is removed, the files are moved into place, and the new page comes last. So a page and the files in its folder always
come from the same run: where a kill interrupts this, there is no page, and the next report makes it.
"""

import importlib.resources
import math
import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from approxmcmc.engine.extras import extra
from approxmcmc.engine.files.whole_files import scratch_folder
from approxmcmc.study.record import cause
from approxmcmc.study.report.families import family
from approxmcmc.study.report.pieces import Figure, Section, Table
from approxmcmc.study.report.svg import inline_svg, svg_document
from approxmcmc.study.report.wording import estimate, number, slug, unique

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
    return template.render(
        style=Markup((folder / "style.css").read_text(encoding="utf-8")),
        script=Markup((folder / "sort.js").read_text(encoding="utf-8")),
        title=report.title,
        subtitle=report.subtitle,
        banners=list(map(worded, report.notes)),
        answer=list(map(worded, report.answer)),
        sections=[_section_view(section, names, files, worded) for section in report.sections],
        footer=report.footer,
        linked=files is not None,
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
        head = {"id": anchor, "title": worded(piece.title), "caption": worded(piece.caption), "svg": None}
        if isinstance(piece, Figure):
            pieces.append(head | _figure_view(piece, anchor, files, worded))
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
    if files is not None:
        (files / "figures" / f"{anchor}.svg").write_text(document, encoding="utf-8")
        piece.data.to_csv(files / "figures" / f"{anchor}.csv", index=False)
    return {"svg": Markup(inline_svg(document, anchor, escape(worded(piece.title), quote=True)))}


def _table_view(piece: Table, anchor: str, files: Path | None, worded: Callable[[str], str]) -> dict[str, Any]:
    if files is not None:
        piece.data.to_csv(files / "tables" / f"{anchor}.csv", index=False)
    return table_view(piece, worded)


def table_view(piece: Table, worded: Callable[[str], str] = str) -> dict[str, Any]:
    """Return headings and cells of a table as a page shows them: an estimate and its interval share one cell.

    `worded` replaces labels by names. A column without any entry is left out. A column of settings, such as 0.05 and
    0.1, has no trailing zeros.
    """
    present = list(piece.data.columns)
    ends = {f"{base}{end}" for base in present for end in ("_lower", "_upper")}
    records = piece.data.to_dict("records")
    names = [name for name in present if name not in ends and any(_has_entry(record[name]) for record in records)]
    formats = {name: "g" for name in names if f"{name}_lower" not in present and _are_settings(piece.data[name])}
    formats |= piece.formats
    columns = [
        {
            "heading": piece.headings.get(name, str(name).replace("_", " ")),
            "numeric": any(_is_number(record[name]) for record in records) and formats.get(name) != "code",
        }
        for name in names
    ]
    rows = [[_cell(record, name, formats, worded) for name in names] for record in records]
    return {"columns": columns, "rows": rows, "families": _families(records)}


def _families(records: Sequence[Mapping[Any, Any]]) -> list[str]:
    """Return a text for each row, equal for rows that the page folds together; "" if no rows are folded."""
    settings = [str(record.get("setting", "")) for record in records]
    if len(set(map(family, settings))) == len(set(settings)):
        return [""] * len(records)
    return [
        "|".join([family(setting), *(str(record.get(name, "")) for name in ("target", "estimand", "time"))])
        for setting, record in zip(settings, records, strict=True)
    ]


def _cell(
    record: Mapping[Any, Any], name: str, formats: Mapping[str, str], worded: Callable[[str], str]
) -> dict[str, Any]:
    value = record[name]
    spec = formats.get(name, "")
    cell: dict[str, Any] = {
        "text": "",
        "interval": "",
        "sort": None,
        "numeric": False,
        "code": spec == "code",
        "long": "",
    }
    if _is_number(value):
        missing = math.isnan(float(value))
        cell.update(numeric=True, sort="" if missing else repr(float(value)))
        if f"{name}_lower" in record:
            lower = float(record[f"{name}_lower"])
            upper = float(record[f"{name}_upper"])
            cell["text"], cell["interval"] = estimate(float(value), lower, upper, spec)
        else:
            cell["text"] = number(value, spec)
    elif value is not None:
        text = str(value)
        if "\n" in text.strip():
            cell.update(text=cause(text), long=text)
        else:
            cell["text"] = text if cell["code"] else worded(text)
    return cell


def _has_entry(value: Any) -> bool:
    return value not in ("", None) and not (isinstance(value, float) and math.isnan(value))


def _are_settings(column: Any) -> bool:
    """Return whether all entries are numbers of at most two digits, small enough to be written without a power."""
    return all(_is_number(x) and (x == 0 or 1e-4 <= abs(x) < 100) and float(f"{x:.2g}") == x for x in column)


def _is_number(value: Any) -> bool:
    import numpy as np

    return isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(value, (bool, np.bool_))
