"""Results of studies on pages: drawn, and numbers written, from the tables that ship with the package.

An empty block ``{study} NAME`` becomes the page of a study, below its title and opening paragraph. The role ``{result}`` of
``NAME; PIECE; COLUMN = VALUE; ...; COLUMN`` is a number of one row, to the digits that its interval supports; ``{estimate}``
has the interval with it. A number that is not there is a warning, hence an error of the build.
"""

import functools
import re
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx.util import logging

from approxmcmc.errors import StudyError
from approxmcmc.study.load import load_study
from approxmcmc.study.published import number_of, shipped
from approxmcmc.study.report.drawn_page import page_body
from approxmcmc.study.report.wording import estimate, estimate_text

ROOT = Path(__file__).parents[2]
LINE = re.compile(r"^```\{study\} (\w+)\n```$", re.MULTILINE)
_log = logging.getLogger(__name__)


def draw_pages(app: Any, document: str, source: list[str]) -> None:
    """Put what ships of a study in the place of its line."""
    source[0] = LINE.sub(functools.partial(_drawn, app.env, document), source[0])


def _drawn(env: Any, document: str, line: re.Match[str]) -> str:
    name = line[1]
    words, table = shipped(name)
    for end in ("csv.gz", "json"):
        env.note_dependency(str(ROOT / f"approxmcmc/study/published_results/{name}.{end}"), docname=document)
    return page_body(words, table, _not_run(name, words["preset"]))


def _not_run(name: str, shown: str) -> list[str]:
    """Return the commands of the larger presets that are not on the page."""
    study = load_study(ROOT / "studies" / f"{name}.py")
    larger = study.preset_names[study.preset_names.index(shown) + 1 :] if shown in study.preset_names else []
    return [f"approxmcmc run studies/{name} --preset {preset}" for preset in larger]


def looked_up(text: str, *, interval: bool) -> str:
    """Return the number that a reference names, as text."""
    name, piece, *where, column = (part.strip() for part in text.split(";"))
    conditions = [(key.strip(), value.strip()) for key, _, value in (one.partition("=") for one in where)]
    value, lower, upper, spec = number_of(name, piece, conditions, column)
    if interval:
        return estimate_text(value, lower, upper, spec)
    centre, bracket = estimate(value, lower, upper, spec)
    scale = bracket.partition("]")[2].strip()
    return f"{centre} {scale}".strip() if scale else centre


def _role(kind: str, raw: str, text: str, line: int, inliner: Any, options: Any = None, content: Any = ()) -> Any:
    try:
        return [nodes.Text(looked_up(text, interval=kind == "estimate"))], []
    except (StudyError, ValueError) as problem:
        _log.warning("%s", problem, location=(inliner.document.settings.env.docname, line))
        return [nodes.Text(f"({text})")], []


def setup(app: Any) -> dict[str, bool]:
    """Draw pages as they are read, and add the roles."""
    app.connect("source-read", draw_pages)
    for kind in ("result", "estimate"):
        app.add_role(kind, functools.partial(_role, kind))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
