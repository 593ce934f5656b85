"""What the street's page shows of its CSV files: a picture, a table, models that miss the goal, a count of alarms."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from approxmcmc.engine.files.whole_files import whole_file
from approxmcmc.study.report.svg import COLOURS, subplots, svg_document
from studies.street.goal import ENOUGH, SECONDS, TIMES

# Why a model misses the goal.
CAUSES = {
    "growth_curves": "its chains, with a prior by PyTensor, take 6 s to compile, and trajectories of NUTS diverge",
    "opinions": "all effects stay parameters, so terms and gradients are compiled, and draws take half of the time",
    "grades": "most of our time is compilation, which is not scaled to 400 draws, and most of nutpie's is draws",
}
HEADER = (
    "model", "parameters", "ours, new", "ours, again", "nutpie", "to 400: ours", "to 400: nutpie",
    "shift (95 % if unbiased)", "chosen",
)  # fmt: skip


def markdown(cells: pd.DataFrame) -> str:
    """Return the table, a row for each model, and a sentence with counts."""
    lines = [
        f"| {' | '.join(HEADER)} |",
        f"|{'---|' * len(HEADER)}",
        *(_line(row) for _, row in cells.iterrows() if row["dim"]),
    ]
    both = cells.dropna(subset=["new_cpu", "nutpie_cpu"])
    ratio, to_400 = ((both[f"new_{of}"] / both[f"nutpie_{of}"]).median() for of in ("cpu", "to_400"))
    reporting = int(both["problems"].notna().sum())
    missing = sorted({*cells["model"]} - {*both["model"]})
    within, scaled = (int(both[name].sum()) for name in ("within", "within_to_400"))
    counted = (
        f"{within} of {len(both)} models take at most {TIMES:g} times nutpie's seconds plus {SECONDS:g}, its seconds "
        f"extended to 400 effective draws where it has fewer; {scaled} if both runs are scaled to 400. The median "
        f"ratio of CPU seconds is {ratio:.2f}, and scaled {to_400:.2f}. Our runs that report a problem: {reporting}."
    )
    return "\n".join([*lines, "", counted, *([f"Not run on both sides: {', '.join(missing)}."] if missing else []), ""])


def misses(cells: pd.DataFrame) -> str:
    """Return a list of the models that miss the goal, as run or scaled to 400 effective draws, each with its cause."""
    both = cells.dropna(subset=["new_cpu", "nutpie_cpu"])
    lines = []
    for _, row in both.iterrows():
        missed = [what for what, name in (("as run", "within"), ("scaled to 400", "within_to_400")) if not row[name]]
        if missed:
            lines.append(
                f"- `{row['model']}`, {' and '.join(missed)}: {CAUSES.get(row['model'], 'not explained yet')}."
            )
    return "\n".join([*lines, ""])


def picture(cells: pd.DataFrame) -> Any:
    """Draw our seconds against nutpie's, a point for each model, with the line of the goal and that of equal times.

    nutpie's seconds are extended to 400 effective draws where it has fewer, as in the goal.
    """
    both = cells.dropna(subset=["new_cpu", "nutpie_cpu"])
    has_few = both[["nutpie_ess_bulk", "nutpie_ess_tail"]].min(axis=1) < ENOUGH
    extended = both[["nutpie_cpu", "nutpie_to_400"]].max(axis=1)
    theirs = both["nutpie_cpu"].where(~has_few, extended)
    figure, axes = subplots(figsize=(5.4, 4.4))
    ends = np.geomspace(theirs.min() / 1.5, 1.5 * theirs.max())
    axes.plot(ends, TIMES * ends + SECONDS, color=COLOURS[1], label=f"goal: {TIMES:g} times nutpie's + {SECONDS:g} s")
    axes.plot(ends, ends, color="#8c959f", linewidth=1.0, label="equal")
    axes.plot(theirs, both["new_cpu"], "o", color=COLOURS[0], markersize=4.0)
    for index, row in both[~both["within"].astype(bool)].iterrows():
        place = (theirs[index], row["new_cpu"])
        axes.annotate(row["model"], place, (5, 3), textcoords="offset points", fontsize=8)
    axes.set(xscale="log", yscale="log", xlabel="nutpie, CPU s", ylabel="ours, a model new to the machine, CPU s")
    axes.legend()
    return figure


def _line(row: pd.Series) -> str:
    seconds = [_seconds(row[name]) for name in ("new_cpu", "again_cpu", "nutpie_cpu", "new_to_400", "nutpie_to_400")]
    shift = "–" if pd.isna(row["shift"]) else f"{row['shift']:.2f} ({row['shift_if_unbiased']:.2f})"
    chosen = "–" if pd.isna(row["chosen"]) else str(row["chosen"]).partition(" (")[0]
    return f"| {row['model']} | {row['dim']:.0f} | {' | '.join(seconds)} | {shift} | {chosen} |"


def _seconds(value: float) -> str:
    if pd.isna(value):
        return "–"
    return f"{value:.1f}" if value < 100.0 else f"{value:.0f}"


def alarms(runs: pd.DataFrame) -> str:
    """Return a sentence that counts the runs with a warning, and names their models."""
    warned = runs.dropna(subset=["problems"])
    names = f", of {', '.join(sorted(set(warned['model'])))}" if len(warned) else ""
    models = runs["model"].nunique()
    return f"Of {len(runs)} runs of {models} models, with five seeds each, {len(warned)} reported a problem{names}.\n"


def main(file: Path, false_alarms: Path, folder: Path) -> None:
    """Write what the page shows of two CSV files into a folder: ``street`` and ``street_*``, Markdown and SVG."""
    cells = pd.read_csv(file)
    texts = {
        "street.md": markdown(cells),
        "street_misses.md": misses(cells),
        "street_alarms.md": alarms(pd.read_csv(false_alarms)),
        "street.svg": svg_document(picture(cells)),
    }
    for name, text in texts.items():
        with whole_file(folder / name) as whole:
            whole.write_text(text, encoding="utf-8")
