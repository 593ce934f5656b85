"""The table of the street's page and its count of alarms, drawn from CSV files when the documentation is built."""

from pathlib import Path

import pandas as pd

from approxmcmc.engine.files.whole_files import whole_file

# The goal: at most TIMES x nutpie's seconds + SECONDS.
TIMES = 1.2
SECONDS = 2.0
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
    """Write the table and the sentence of two CSV files into a folder, as ``street.md`` and ``street_alarms.md``."""
    texts = {"street": markdown(pd.read_csv(file)), "street_alarms": alarms(pd.read_csv(false_alarms))}
    for name, text in texts.items():
        with whole_file(folder / f"{name}.md") as whole:
            whole.write_text(text, encoding="utf-8")
