"""The table of plans: how the library samples each model of the zoo, asked while the documentation is built.

`tests/plan_table.py` asks, in a process without the compiler. Each model is a row, each plan a column, and each reason
is a footnote.
"""

import json
import os
import subprocess
import sys
from typing import Any

from capabilities import GENERATED, ROOT, Footnotes, _line

Answers = dict[str, dict[str, tuple[str, float]]]


def asked() -> Answers:
    """Return the answer and the seconds of each plan, by model and plan."""
    command = [sys.executable, "-m", "tests.plan_table", "--json"]
    settings = {"NUMBA_DISABLE_JIT": "1", "PYTENSOR_FLAGS": "mode=FAST_COMPILE,cxx="}
    done = subprocess.run(command, cwd=ROOT, env={**os.environ, **settings}, capture_output=True, text=True, check=True)
    answers: Answers = json.loads(done.stdout)
    return answers


def draw(answers: Answers) -> str:
    """Return the table with its footnotes."""
    from tests.plan_table import FITS, NOT_TRIED, TAKEN

    notes = Footnotes()

    def cell(answer: str, seconds: float) -> str:
        price = "not counted" if seconds == float("inf") else "under 0.1 s" if seconds < 0.1 else f"{seconds:.2g} s"
        if answer == TAKEN:
            return f"**taken**, {price}"
        return price if answer == FITS else f"({price})" if answer == NOT_TRIED else notes.mark(answer)

    summed_out, *plans = next(iter(answers.values()))
    lines = [_line(["model", summed_out, *plans]), _line(["---"] * (2 + len(plans)))]
    for model, by_plan in answers.items():
        why, _ = by_plan[summed_out]
        first = "yes" if why == FITS else notes.mark(why)
        lines.append(_line([model, first, *(cell(*by_plan[plan]) for plan in plans)]))
    return "\n".join([*lines, "", notes.text()])


def refuse_changes(answers: Answers) -> None:
    """Raise if a model has another plan, or another reason, than the stored one."""
    from tests.plan_table import read

    for model, stored in read().items():
        changed = {plan: answers[model][plan][0] for plan in stored if answers[model][plan][0] != stored[plan]}
        if changed:
            raise ValueError(f"{model}: the plans changed, {changed}; see tests/plan_table.py")


def draw_table(app: Any) -> None:
    """Write the table into the folder of generated texts."""
    answers = asked()
    refuse_changes(answers)
    GENERATED.mkdir(exist_ok=True)
    (GENERATED / "plans_table.md").write_text(draw(answers) + "\n", encoding="utf-8")


def setup(app: Any) -> dict[str, bool]:
    """Ask and draw before pages are read."""
    app.connect("builder-inited", draw_table)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
