"""The page: one HTML file that opens without a network, with SVG figures and CSV files in its folder.

Styles, script and pictures are inside the file. All files are first written to a temporary folder. Then the old page
is removed, the files are moved into place, and the new page comes last. So a page and the files in its folder always
come from the same run: where a kill interrupts this, there is no page, and the next report makes it.
"""

import math
import os
import shutil
from collections.abc import Mapping, Sequence
from html import escape
from importlib.resources import files
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
    from approxmcmc.study.results import StudyResults


PAGE = "index.html"


def write_report(results: "StudyResults", folder: str | os.PathLike[str]) -> Path:
    """Write the report of a study from its finished cells.

    Parameters
    ----------
    results
        Records, traces and gold standards of a study at one preset.
    folder
        Receives ``index.html``, ``figures/`` (SVG and CSV) and ``tables/`` (CSV); files of an earlier report under
        these names are replaced.

    Returns
    -------
    Path
        The page.
    """
    from approxmcmc.study.report.content import compose

    return write_page(folder, **compose(results))


def write_page(
    folder: str | os.PathLike[str],
    *,
    title: str,
    subtitle: str,
    banners: Sequence[str],
    answer: Sequence[str],
    sections: Sequence[Section],
    footer: str = "",
) -> Path:
    """Render sections and write the page with its files; return the path of ``index.html``."""
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    with scratch_folder(folder / PAGE) as scratch:
        for kind in ("figures", "tables"):
            (scratch / kind).mkdir()
        names: set[str] = set()
        views = [_section_view(section, names, scratch) for section in sections]
        html = _render(title=title, subtitle=subtitle, banners=banners, answer=answer, sections=views, footer=footer)
        (scratch / PAGE).write_text(html, encoding="utf-8")
        (folder / PAGE).unlink(missing_ok=True)
        for kind in ("figures", "tables"):
            shutil.rmtree(folder / kind, ignore_errors=True)
            os.replace(scratch / kind, folder / kind)
        os.replace(scratch / PAGE, folder / PAGE)
    return folder / PAGE


def _render(**values: Any) -> str:
    with extra("studies", "A report"):
        import jinja2
        from markupsafe import Markup

    here = files("approxmcmc.study.report")
    environment = jinja2.Environment(autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True)
    template = environment.from_string((here / "template.html").read_text(encoding="utf-8"))
    style = Markup((here / "style.css").read_text(encoding="utf-8"))
    script = Markup((here / "sort.js").read_text(encoding="utf-8"))
    return template.render(style=style, script=script, **values)


def _section_view(section: Section, names: set[str], scratch: Path) -> dict[str, Any]:
    identity = unique(slug(section.title), names)
    pieces = []
    for piece in section.pieces:
        anchor = unique(slug(piece.title), names)
        pieces.append(
            _figure_view(piece, anchor, scratch)
            if isinstance(piece, Figure)
            else _saved_table_view(piece, anchor, scratch)
        )
    return {
        "id": identity,
        "title": section.title,
        "text": section.text,
        "terms": section.terms,
        "pieces": pieces,
        "commands": section.commands,
    }


def _figure_view(piece: Figure, anchor: str, scratch: Path) -> dict[str, Any]:
    from markupsafe import Markup

    document = svg_document(piece.figure)
    (scratch / "figures" / f"{anchor}.svg").write_text(document, encoding="utf-8")
    piece.data.to_csv(scratch / "figures" / f"{anchor}.csv", index=False)
    svg = Markup(inline_svg(document, anchor, escape(piece.title, quote=True)))
    return {"id": anchor, "title": piece.title, "caption": piece.caption, "svg": svg}


def _saved_table_view(piece: Table, anchor: str, scratch: Path) -> dict[str, Any]:
    piece.data.to_csv(scratch / "tables" / f"{anchor}.csv", index=False)
    return {"id": anchor, "title": piece.title, "caption": piece.caption, "svg": None} | table_view(piece)


def table_view(piece: Table) -> dict[str, Any]:
    """Return headings and cells of a table as a page shows them: an estimate and its interval share one cell.

    A column without any entry is left out. A column of settings, such as 0.05 and 0.1, has no trailing zeros.
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
    rows = [[_cell(record, name, formats) for name in names] for record in records]
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


def _cell(record: Mapping[Any, Any], name: str, formats: Mapping[str, str]) -> dict[str, Any]:
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
            cell["text"] = text
    return cell


def _has_entry(value: Any) -> bool:
    return value not in ("", None) and not (isinstance(value, float) and math.isnan(value))


def _are_settings(column: Any) -> bool:
    """Return whether all entries are numbers of at most two digits, small enough to be written without a power."""
    return all(_is_number(x) and (x == 0 or 1e-4 <= abs(x) < 100) and float(f"{x:.2g}") == x for x in column)


def _is_number(value: Any) -> bool:
    import numpy as np

    return isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(value, (bool, np.bool_))
