"""The capability table: what works with which regression, asked of the library while the documentation is built.

`tests/capabilities.py` asks, in a process without the compiler. Families with the same answers share a row, questions
with the same answers a column, and each reason is a footnote.
"""

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
GENERATED = ROOT / "docs" / "_generated"
WORKS = "✓"

Answers = dict[str, dict[str, dict[str, str]]]


def asked() -> Answers:
    """Return the answers by family, design and question: "" or a reason."""
    command = [sys.executable, "-m", "tests.capabilities", "--json"]
    done = subprocess.run(
        command, cwd=ROOT, env={**os.environ, "NUMBA_DISABLE_JIT": "1"}, capture_output=True, text=True, check=True
    )
    answers: Answers = json.loads(done.stdout)
    return answers


class Footnotes:
    """Numbers reasons in the order in which they are first named."""

    def __init__(self) -> None:
        self.reasons: dict[str, int] = {}

    def mark(self, reason: str) -> str:
        """Return the mark of a reason."""
        return f"[^why{self.reasons.setdefault(reason, len(self.reasons) + 1)}]"

    def text(self) -> str:
        """Return all footnotes."""
        return "\n".join(f"[^why{number}]: {_plain(reason)}" for reason, number in self.reasons.items())


def _plain(reason: str) -> str:
    """Return a reason as text that Markdown leaves unchanged."""
    for character in "\\`*_[]<>|":
        reason = reason.replace(character, "\\" + character)
    return " ".join(reason.split())


def cell(by_design: dict[str, str], notes: Footnotes) -> str:
    """Return what a cell shows, given the answers for each design."""
    reasons = set(by_design.values())
    if len(reasons) == 1:
        [reason] = reasons
        return notes.mark(reason) if reason else WORKS
    refused = ", ".join(f"{design}{notes.mark(reason)}" for design, reason in by_design.items() if reason)
    return f"{WORKS}; not {refused}"


def table(answers: Answers, questions: Sequence[str], notes: Footnotes) -> str:
    """Return the table of some questions: which work for all, and a table of the others."""
    cells: dict[str, dict[str, dict[str, str]]] = {
        question: {
            family: {design: of_model[question] for design, of_model in by_design.items() if not of_model["made"]}
            for family, by_design in answers.items()
        }
        for question in questions
    }
    everywhere = [one for one in questions if not any(any(each.values()) for each in cells[one].values())]
    rest = [one for one in questions if one not in everywhere]
    columns = _alike(rest, lambda question: cells[question])
    rows = _alike(list(answers), lambda family: [cells[same[0]][family] for same in columns])
    lines = [f"Works for every model: {', '.join(everywhere)}.", ""] if everywhere else []
    lines += [_line(["", *(", ".join(same) for same in columns)]), _line(["---"] * (len(columns) + 1))]
    for families in rows:
        shown = [cell(cells[same[0]][families[0]], notes) for same in columns]
        lines.append(_line(["; ".join(families), *shown]))
    return "\n".join(lines)


def designs(answers: Answers, question: str, notes: Footnotes) -> str:
    """Return the table of one question by family and design; a model that cannot be made has its own reason."""
    names = list(next(iter(answers.values())))
    rows = {
        family: [of_model["made"] or of_model[question] for of_model in by_design.values()]
        for family, by_design in answers.items()
    }
    lines = [_line(["", *names]), _line(["---"] * (len(names) + 1))]
    for families in _alike(list(rows), lambda family: rows[family]):
        lines.append(_line(["; ".join(families), *(notes.mark(why) if why else WORKS for why in rows[families[0]])]))
    return "\n".join(lines)


def _alike(names: Sequence[str], key: Any) -> list[list[str]]:
    """Return the names in groups with equal keys, in the order of their first members."""
    groups: list[tuple[Any, list[str]]] = []
    for name in names:
        found = next((group for value, group in groups if value == key(name)), None)
        if found is None:
            groups.append((key(name), [name]))
        else:
            found.append(name)
    return [group for _, group in groups]


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def draw(answers: Answers) -> dict[str, str]:
    """Return the text of each part of the page by its name."""
    from tests.capabilities import ABILITIES, GROUPS_INTEGRATED, SAMPLERS

    notes = Footnotes()
    return {
        "designs": designs(answers, "made", notes),
        "abilities": table(answers, [one for one in ABILITIES if one != GROUPS_INTEGRATED], notes),
        "samplers": table(answers, list(SAMPLERS), notes),
        "groups": designs(answers, GROUPS_INTEGRATED, notes),
        "reasons": notes.text(),
    }


def refuse_losses(answers: Answers) -> None:
    """Raise if a stored cell does not work any more."""
    from tests.capabilities import lost, read

    for family, by_design in read().items():
        for design, stored in by_design.items():
            if missing := lost(answers[family][design], stored):
                raise ValueError(f"{family}, {design}: what worked before fails now, {missing}")


def draw_tables(app: Any) -> None:
    """Write the tables into the folder of generated texts."""
    answers = asked()
    refuse_losses(answers)
    GENERATED.mkdir(exist_ok=True)
    for name, text in draw(answers).items():
        (GENERATED / f"capabilities_{name}.md").write_text(text + "\n", encoding="utf-8")


def setup(app: Any) -> dict[str, bool]:
    """Ask and draw before pages are read."""
    app.connect("builder-inited", draw_tables)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
