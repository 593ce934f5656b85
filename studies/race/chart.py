"""The pictures and the narrow tables of docs/race.md, from the CSV that a race writes.

    python -m studies.race.chart docs/_static/race.csv docs/_static

For each problem without rare categories it writes ``race_N.svg``, bars of min-ESS per second by sampler, and
``race_N.md``, a table that fits on a screen. The problems with rare categories share one picture, ``race_rare.svg``,
and one table, ``race_rare.md``, with the seconds to 400 effective draws. The table ``race_levers.md`` says how much
each lever gains on each problem. From the first problem it draws ``race_risk.svg``, the picture of the front
page. It turns a ``race_regret.csv`` in the same folder (written by `studies.race.regret`) into ``race_regret.md``, and
a ``race_fits.csv`` (written by `studies.race.fits`) into ``race_fits.md``, and a ``race_answers.csv`` (written by
`studies.race.answer`) into ``race_answers.md`` and ``race_answers_of_others.md``.
"""

import csv
import math
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from approxmcmc.engine.files.whole_files import whole_file
from approxmcmc.study.report.svg import COLOURS, subplots, svg_document
from studies.race.answer import markdown as answer_table, markdown_of_others
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
# The table of levers: lever, what is compared, the row of the race and its column of ratios.
TO_EXACT = "to the exact step, same proposal, steps"
TO_NUTS = "to NUTS of nutpie, min-ESS/s"
GAINS = (
    ("proposal, pCN(0)", "to the walk, exact steps, min-ESS/s", "exact, pCN(0)", "ess_vs_walk"),
    ("subsampling, rows", "t-test .05, walk, to the exact step", "t-test .05, rows, walk", "steps_vs_same"),
    ("subsampling, blocks", "t-test .05, walk, to the exact step", "t-test .05, walk", "steps_vs_same"),
    ("control variates, walk, .01", TO_EXACT, "control variates, walk, .01", "steps_vs_same"),
    ("control variates, pCN(0), .01", TO_EXACT, "control variates, pCN(0), .01", "steps_vs_same"),
    ("control variates, pCN(0), .05", TO_EXACT, "control variates, pCN(0), .05", "steps_vs_same"),
    ("all levers but subsampling", TO_NUTS, "exact, pCN(0)", "ess_vs_nuts"),
    ("all, .01", TO_NUTS, "control variates, pCN(0), .01", "ess_vs_nuts"),
    ("all, .05", TO_NUTS, "control variates, pCN(0), .05", "ess_vs_nuts"),
)
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
    _write(folder / "race_levers.md", levers({problem: _by_rival(rows, problem) for problem in problems}))
    rare = [row for row in rows if row["problem"].startswith(RARE)]
    if rare:
        _write(folder / "race_rare.svg", svg_document(_rare(rare)))
        _write(folder / "race_rare.md", rare_table(rare))
    if (regret := source.with_name("race_regret.csv")).exists():
        _write(folder / "race_regret.md", regret_table(pd.read_csv(regret)))
    if (fits := source.with_name("race_fits.csv")).exists():
        _write(folder / "race_fits.md", fits_table(pd.read_csv(fits).to_dict("records")))
    if (answers := source.with_name("race_answers.csv")).exists():
        _write(folder / "race_answers.md", answer_table(pd.read_csv(answers)))
        _write(folder / "race_answers_of_others.md", markdown_of_others(pd.read_csv(answers)))


def table(rows: Sequence[Row]) -> str:
    """Return the narrow table of one problem as Markdown: data per step, min-ESS per second, ratio to NUTS, bias."""
    lines = ["| sampler | data per step | min-ESS/s | times NUTS | bias (sd) |", "|---|--:|--:|--:|--:|"]
    for row in rows:
        times = row["ess_vs_nuts"].strip("()").split(",")[0]
        borrowed = "*" if row["ess_borrowed"] == "True" else ""
        data = f"{float(row['data_per_step']):.0f}" if row["data_per_step"] not in ("", "nan") else "–"
        cells = [row["rival"], data, f"{two_digits(float(row['ess_per_second']))}{borrowed}"]
        shows_bias = row["bias"] and float(row.get("effective_draws") or math.inf) >= FEWEST_FOR_MOMENTS
        cells.append(two_digits(float(times)) if times else "–")
        cells.append(f"{float(row['bias']):.3f}" if shows_bias else "–")
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join([*lines, ""])


def rare_table(rows: Sequence[Row]) -> str:
    """Return the table of the problems with rare categories as Markdown, with ratios to MALA over rounds."""
    headings = ("data", "sampler", "µs per step", "min-ESS/s", "times MALA", "s to 400 effective draws")
    lines = [f"| {' | '.join(headings)} |", "|---|---|--:|--:|--:|--:|"]
    before = ""
    for row in rows:
        data = row["problem"].removeprefix(RARE)
        middle, *ends = _three(row["ess_vs_mala"]) or [1.0]
        cells = ["" if data == before else data, re.sub(r"(\w+Test|steps=\d+)", r"`\1`", row["rival"])]
        cells += [_spaced(float(row[name])) for name in ("us_per_step", "ess_per_second")]
        cells += [f"{_spaced(middle)} [{', '.join(map(_spaced, ends))}]" if ends else _spaced(middle)]
        lines.append(f"| {' | '.join([*cells, row['seconds_to_400'] or '–'])} |")
        before = data
    return "\n".join([*lines, ""])


def levers(problems: Mapping[str, Mapping[str, Row]]) -> str:
    """Return the table of the gain of each lever on each problem, from its rows by sampler, as Markdown."""
    lines = [f"| lever | what is compared | {' | '.join(problems)} |", f"|---|---|{'--:|' * len(problems)}"]

    def add(lever: str, what: str, gains: Iterable[float]) -> None:
        lines.append(f"| {lever} | {what} | {' | '.join(map(_spaced, gains))} |")

    raced = list(problems.values())
    add("compilation", "exact walk, to NumPy", (1 / _three(r["NumPy exact, walk"]["steps_vs_same"])[0] for r in raced))
    rows, blocks = (
        [float(r[name]["us_per_step"]) for r in raced] for name in ("t-test .05, rows, walk", "t-test .05, walk")
    )
    add(
        "order of the data", "blocks to rows, same test", (row / block for row, block in zip(rows, blocks, strict=True))
    )
    for lever, what, name, column in GAINS:
        add(lever, what, (_three(r[name][column])[0] for r in raced))
    return "\n".join([*lines, ""])


def _by_rival(rows: Sequence[Row], problem: str) -> dict[str, Row]:
    return {row["rival"]: row for row in rows if row["problem"] == problem}


def _three(cell: str) -> list[float]:
    """Return median, smallest and largest of the rounds; an empty list for an empty cell."""
    return [float(value) for value in cell.strip("()").split(",") if value]


def _spaced(value: float) -> str:
    """Return a number with two significant digits, with spaces between thousands from ten thousand on."""
    return f"{float(two_digits(value)):,.0f}".replace(",", " ") if value >= 1e4 else two_digits(value)


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
    for y, row in enumerate(rows):
        if row[column] not in ("", "nan"):
            value = float(row[column])
            axes.barh(y, value, color=_colour(row))
            axes.annotate(two_digits(value), (value, y), (3, 0), textcoords="offset points", va="center", fontsize=8)
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
