"""The pictures and the narrow tables of docs/race.md, from the CSV that a race writes.

    python -m studies.race.chart docs/_static/race.csv docs/_static

For each problem without rare categories it writes ``race_N.svg``, bars of min-ESS per second by sampler, and
``race_N.md``, a table that fits on a screen. The problems with rare categories share one picture, ``race_rare.svg``,
with the seconds to 400 effective draws. From the first problem it draws ``race_risk.svg``, the picture of the front
page. It turns a ``race_regret.csv`` in the same folder (written by `studies.race.regret`) into ``race_regret.md``, and
a ``race_fits.csv`` (written by `studies.race.fits`) into ``race_fits.md``.
"""

import csv
import math
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from approxmcmc.engine.files.whole_files import whole_file
from approxmcmc.study.report.svg import COLOURS, subplots, svg_document
from studies.race.fits import markdown as fits_table
from studies.race.regret import markdown as regret_table
from studies.race.table import FEWEST_FOR_MOMENTS, two_digits

RARE = "Rare categories: "
# The samplers on the front page. True: biased, so that the squared bias is added to the risk.
FRONT = {
    "nutpie NUTS": False,
    "exact, pCN(0)": False,
    "t-test .05, pCN(0)": True,
    "control variates, pCN(0), .05": True,
}
# The colour of a bar: the index of the first of these levers that its row names.
LEVERS = {"control variates": 2, "subsampling": 1, "proposal": 0, "none": 3, "no compilation": 3}
OTHERS = "#8c959f"  # other libraries

Row = Mapping[str, str]


def main(source: Path, folder: Path) -> None:
    """Read a race and write its pictures and tables."""
    with source.open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    problems = list(dict.fromkeys(row["problem"] for row in rows if not row["problem"].startswith(RARE)))
    for number, problem in enumerate(problems, start=1):
        raced = [row for row in rows if row["problem"] == problem]
        _write(folder / f"race_{number}.svg", svg_document(_bars(problem, raced)))
        _write(folder / f"race_{number}.md", table(raced))
    _write(folder / "race_risk.svg", svg_document(_risk([row for row in rows if row["problem"] == problems[0]])))
    rare = [row for row in rows if row["problem"].startswith(RARE)]
    if rare:
        _write(folder / "race_rare.svg", svg_document(_rare(rare)))
    if (regret := source.with_name("race_regret.csv")).exists():
        _write(folder / "race_regret.md", regret_table(pd.read_csv(regret)))
    if (fits := source.with_name("race_fits.csv")).exists():
        _write(folder / "race_fits.md", fits_table(pd.read_csv(fits).to_dict("records")))


def table(rows: Sequence[Row]) -> str:
    """Return the narrow table of one problem as Markdown: data per step, min-ESS per second, ratio to NUTS, bias."""
    lines = ["| sampler | data per step | min-ESS/s | times NUTS | bias (sd) |", "|---|--:|--:|--:|--:|"]
    for row in rows:
        times = row["ess_vs_nuts"].strip("()").split(",")[0]
        borrowed = "*" if row["ess_borrowed"] == "True" else ""
        data = f"{float(row['data_per_step']):.0f}" if row["data_per_step"] not in ("", "nan") else "–"
        cells = [row["rival"], data, f"{two_digits(float(row['ess_per_second']))}{borrowed}"]
        told = row["bias"] and float(row.get("effective_draws") or math.inf) >= FEWEST_FOR_MOMENTS
        cells += [two_digits(float(times)) if times else "–", f"{float(row['bias']):.3f}" if told else "–"]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join([*lines, ""])


def _bars(problem: str, rows: Sequence[Row]) -> Any:
    figure, axes = subplots(figsize=(6.4, 0.26 * len(rows) + 1.0))
    _panel(axes, rows, "ess_per_second", "min-ESS per second")
    axes.set_title(problem)
    return figure


def _risk(rows: Sequence[Row]) -> Any:
    """Draw bias^2 + 1 / (min-ESS per second x seconds), in posterior variances, against the seconds."""
    figure, axes = subplots(figsize=(6.4, 3.6))
    seconds = np.geomspace(0.03, 1000.0, 60)
    for row in rows:
        if row["rival"] in FRONT:
            bias = float(row["bias"]) if FRONT[row["rival"]] else 0.0
            risk = bias**2 + 1.0 / (float(row["ess_per_second"]) * seconds)
            axes.plot(seconds, risk, label=row["rival"], color=_colour(row))
    axes.set(xscale="log", yscale="log", xlabel="seconds", ylabel="risk of a mean (posterior variances)")
    axes.legend()
    return figure


def _rare(rows: Sequence[Row]) -> Any:
    """Draw min-ESS per second and seconds to 400 effective draws side by side, a bar for each data set and sampler."""
    named = [{**row, "rival": f"{row['problem'].removeprefix(RARE).split(',')[0]}: {row['rival']}"} for row in rows]
    figure, (mixing, waiting) = subplots(1, 2, figsize=(8.4, 0.26 * len(rows) + 1.0), sharey=True)
    _panel(mixing, named, "ess_per_second", "min-ESS per second")
    _panel(waiting, named, "seconds_to_400", "s to 400 effective draws")
    return figure


def _panel(axes: Any, rows: Sequence[Row], column: str, label: str) -> None:
    """Draw one bar for each row that has a value in `column`, with the value at its end."""
    for place, row in enumerate(rows):
        if row[column] not in ("", "nan"):
            value = float(row[column])
            axes.barh(place, value, color=_colour(row))
            axes.annotate(
                two_digits(value), (value, place), (3, 0), textcoords="offset points", va="center", fontsize=8
            )
    axes.set_xscale("log")
    axes.set_yticks(range(len(rows)), [row["rival"] for row in rows])
    axes.set_ylim(len(rows) - 0.4, -0.6)
    low, high = axes.get_xlim()
    axes.set_xlim(low, high * (high / low) ** 0.12)  # room for the numbers
    axes.set_xlabel(label)
    axes.grid(visible=False, axis="y")


def _colour(row: Row) -> str:
    if row["problem"].startswith(RARE):
        return OTHERS if row["rival"].endswith("MALA") else COLOURS[2]
    if row["rival"].startswith(("nutpie", "blackjax", "numpyro")):
        return OTHERS
    return COLOURS[next(colour for lever, colour in LEVERS.items() if lever in row["lever"])]


def _write(path: Path, text: str) -> None:
    with whole_file(path) as whole:
        whole.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:3]))
