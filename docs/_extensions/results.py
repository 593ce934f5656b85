"""Results of studies on pages: drawn, and numbers written, from the tables that ship with the package.

An empty block ``{study} NAME`` becomes the page of a study, below its title and opening paragraph; with ``; TITLE`` the
picture of that title comes first. ``{picture} NAME; TITLE`` is one picture of it, ``{columns} NAME; TITLE; COLUMN;
...`` some columns of one of its tables, ``{verdicts} NAME`` the numbers that a paper printed beside ours, and
``{spent} all`` the machine time of all studies. ``{pictures} all`` is the opening picture of each study of the table.
``{evidence} all`` lists what draws every table, and what is older than the code that draws it. A page with
tables ends with a line that says which version of the code drew them; tables of two versions on one page are an error,
except on pages that `studies.evidence.pieces` names. The role
``{result}`` of ``NAME; PIECE; COLUMN = VALUE; ...; COLUMN`` is a number of one row, to the digits that its interval
supports; ``{estimate}`` has the interval with it. A number that is not there is a warning, hence an error of the build.
"""

import functools
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from docutils import nodes
from looked_up import looked_up
from sphinx.util import logging

from approxmcmc.errors import StudyError
from approxmcmc.study.load import load_study
from approxmcmc.study.published import read_published
from approxmcmc.study.report.drawn_page import columns_of, figure_of, opening_picture, page_body
from approxmcmc.study.report.machine_time import machine_time_block
from approxmcmc.study.report.verdicts import verdicts_block
from studies.evidence import ledger, pieces, stamps
from studies.race import chart
from studies.street import page as street
from tests.bench import cost_model

ROOT = Path(__file__).parents[2]
GENERATED = ROOT / "docs" / "_generated"
STUDY, PICTURE, COLUMNS, VERDICTS = (
    re.compile(rf"^```\{{{kind}\}} (.+)\n```$", re.MULTILINE) for kind in ("study", "picture", "columns", "verdicts")
)
MACHINE_TIME = "```{spent} all\n```"
EVIDENCE = "```{evidence} all\n```"
PICTURES = "```{pictures} all\n```"
LINK = re.compile(r"^\| \[\]\((\w+)\.md\)", re.MULTILINE)  # a row of the table of pages
HEADING = re.compile(r"^# (.+)$", re.MULTILINE)
_log = logging.getLogger(__name__)


def draw_pages(app: Any, document: str, source: list[str]) -> None:
    """Replace the blocks by what they name in the results that ship with the package, and say what drew them."""
    shown = pieces.shown_on(source[0])
    if len(stamps.versions_on(shown)) > 1 and document not in pieces.MIXED:
        _log.warning("its tables are of several versions: %s", ledger.line_of_page(shown), location=document)
    if shown:
        source[0] += f"\n\n{ledger.line_of_page(shown)}\n"
    for line, drawn in ((STUDY, _page), (PICTURE, _picture), (COLUMNS, _columns), (VERDICTS, _verdicts)):
        source[0] = line.sub(functools.partial(_drawn, app.env, document, drawn), source[0])
    if MACHINE_TIME in source[0]:
        source[0] = source[0].replace(MACHINE_TIME, machine_time_block())
    if EVIDENCE in source[0]:
        source[0] = source[0].replace(EVIDENCE, ledger.table(ROOT / "docs"))
    if PICTURES in source[0]:
        source[0] = source[0].replace(PICTURES, _pictures(LINK.findall(source[0])))


def _drawn(env: Any, document: str, drawn: Callable[..., str], line: re.Match[str]) -> str:
    name, *rest = (part.strip() for part in line[1].split(";"))
    for end in ("csv.gz", "json"):
        env.note_dependency(str(ROOT / f"approxmcmc/study/published_results/{name}.{end}"), docname=document)
    return drawn(name, *rest)


def _page(name: str, opening: str = "") -> str:
    words, table = read_published(name)
    return page_body(words, table, _not_run(name, words["preset"]), opening)


def _picture(name: str, title: str) -> str:
    return figure_of(*read_published(name), title)


def _columns(name: str, title: str, *columns: str) -> str:
    return columns_of(*read_published(name), title, columns)


def _pictures(names: list[str]) -> str:
    """Return the opening picture of each page as a link to it; the pictures are files."""
    folder = GENERATED / "results"
    folder.mkdir(parents=True, exist_ok=True)
    lines = []
    for name in names:
        page = (ROOT / "docs" / "results" / f"{name}.md").read_text(encoding="utf-8")
        [study] = STUDY.findall(page)
        _, _, opening = (part.strip() for part in study.partition(";"))
        drawn = opening_picture(*read_published(name), opening)
        if drawn is None:
            continue
        (folder / f"{name}.svg").write_text(drawn, encoding="utf-8")
        [title] = HEADING.findall(page)[:1]
        # one paragraph with a line break, so that the title stays below its picture
        lines.append(f"[![{title}](../_generated/results/{name}.svg)]({name}.md)\\\n[]({name}.md)")
    return "\n\n".join([":::{container} result-gallery", *lines, ":::"])


def _verdicts(name: str) -> str:
    return verdicts_block(*read_published(name))


def _not_run(name: str, shown: str) -> list[str]:
    """Return the commands of the larger presets that are not on the page."""
    study = load_study(ROOT / "studies" / f"{name}.py")
    larger = study.preset_names[study.preset_names.index(shown) + 1 :] if shown in study.preset_names else []
    return [f"approxmcmc run studies/{name} --preset {preset}" for preset in larger]


def draw_tables(app: Any) -> None:
    """Draw the pictures and tables of the race, the street and large data from their files."""
    GENERATED.mkdir(exist_ok=True)
    chart.main(ROOT / "docs/_static/race.csv", GENERATED)
    street.main(ROOT / "docs/_static/street.csv", ROOT / "docs/_static/street_alarms.csv", GENERATED)
    cost_model.main(ROOT / "docs/_static/scale.jsonl", GENERATED)


def _role(kind: str, raw: str, text: str, line: int, inliner: Any, options: Any = None, content: Any = ()) -> Any:
    try:
        return [nodes.Text(looked_up(text, interval=kind == "estimate"))], []
    except (StudyError, ValueError) as problem:
        _log.warning("%s", problem, location=(inliner.document.settings.env.docname, line))
        return [nodes.Text(f"({text})")], []


def setup(app: Any) -> dict[str, bool]:
    """Draw pages as they are read, and add the roles."""
    app.connect("builder-inited", draw_tables)
    app.connect("source-read", draw_pages)
    for kind in ("result", "estimate"):
        app.add_role(kind, _role)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
