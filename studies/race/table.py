"""The tables of a race, as race.json, race.csv and race.md."""

import csv
import json
import math
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TextIO

from approxmcmc.engine.files.whole_files import whole_file

COLUMNS = (
    "sampler", "lever", "µs per step", "data per step", "min-ESS/s", "steps/s: exact, same proposal",
    "min-ESS/s: exact, same proposal", "exact walk", "NUTS (nutpie)", "max shift (95 % if unbiased)", "bias (upper)",
    "risk at 1 s", "s to 400 effective draws",
)  # fmt: skip
FEWEST_FOR_MOMENTS = 100  # with fewer effective draws, neither shift, bias nor risk is shown


def markdown(title: str, rows: Iterable[Mapping[str, Any]]) -> str:
    """Return the table of one problem as Markdown."""
    lines = [f"## {title}", "", f"| {' | '.join(COLUMNS)} |", f"|{'---|' * len(COLUMNS)}"]
    for row in rows:
        moments = (
            f"{row['max_shift']:.3f} ({row['max_shift_if_unbiased']:.3f})",
            f"{row['bias']:.3f} ({row['bias_upper']:.3f})",
            two_digits(row["risk_1s"]),
        )
        cells = [
            row["rival"], row["lever"], two_digits(row["us_per_step"]),
            "" if math.isnan(row["data_per_step"]) else f"{row['data_per_step']:.0f}",
            f"{two_digits(row['ess_per_second'])}{'*' if row['ess_borrowed'] else ''}",
            *(_ratio(row[name]) for name in ("steps_vs_same", "ess_vs_same", "ess_vs_walk", "ess_vs_nuts")),
            *(moments if row["effective_draws"] >= FEWEST_FOR_MOMENTS else ("–",) * len(moments)),
            "" if math.isnan(row["seconds_to_400"]) else two_digits(row["seconds_to_400"]),
        ]  # fmt: skip
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join([*lines, ""])


def two_digits(value: float) -> str:
    """Return a number with two significant digits, without an exponent from 0.001 on."""
    text = f"{value:.1e}"
    if 0.0 < abs(value) < 1e-3:
        return text
    return f"{float(text):g}" if abs(value) < 1e6 else f"{float(text):.0f}"


def _ratio(values: tuple[float, float, float] | None) -> str:
    if values is None:
        return ""
    middle, low, high = (two_digits(value) for value in values)
    return middle if middle == low == high else f"{middle} [{low}, {high}]"


def write(results: Mapping[str, Any], folder: Path) -> None:
    """Rewrite the three files, so that an interrupted race leaves complete files of the problems so far."""
    with whole_file(folder / "race.json") as path:
        path.write_text(json.dumps(results, indent=1))
    with whole_file(folder / "race.md") as path:
        path.write_text("\n".join(markdown(r["problem"], r["rows"]) for r in results["results"]))
    with whole_file(folder / "race.csv") as path, path.open("w", newline="") as file:
        rows = [{"problem": result["problem"], **row} for result in results["results"] for row in result["rows"]]
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)


def join(files: Sequence[Path], out: TextIO) -> None:
    """Write the rows of several CSV files as one, with the columns of all; a file without a column leaves it empty."""
    rows: list[dict[str, str]] = []
    for path in files:
        with path.open(newline="", encoding="utf-8") as file:
            rows += csv.DictReader(file)
    columns = list(dict.fromkeys(column for row in rows for column in row))
    writer = csv.DictWriter(out, columns, restval="", lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)


if __name__ == "__main__":
    join([Path(name) for name in sys.argv[1:]], sys.stdout)
