"""The page of the race shows what its file holds: no figure of a table or a picture is typed in."""

import csv
import re
from pathlib import Path

import pandas as pd
import pytest

from studies.race import chart

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "race.md").read_text(encoding="utf-8")
with (DOCS / "_static" / "race.csv").open(newline="", encoding="utf-8") as file:
    ROWS = list(csv.DictReader(file))


def raced():
    """Return the rows of each problem that has a table of its own."""
    names = dict.fromkeys(row["problem"] for row in ROWS if not row["problem"].startswith(chart.RARE))
    return {name: [row for row in ROWS if row["problem"] == name] for name in names}


@pytest.mark.parametrize(("number", "problem"), list(enumerate(raced(), start=1)))
def test_each_problem_has_its_picture_and_its_table(number, problem):
    section = PAGE.split(f"## {problem}\n")[1].split("\n## ")[0]
    assert f"_static/race_{number}.svg" in section and f"_static/race_{number}.md" in section
    assert (DOCS / "_static" / f"race_{number}.md").read_text(encoding="utf-8") == chart.table(raced()[problem])
    picture = (DOCS / "_static" / f"race_{number}.svg").read_text(encoding="utf-8")
    assert {row["rival"] for row in raced()[problem]} <= set(re.findall(r">([^<]+)</text>", picture))


def test_rare_categories_on_the_page_and_in_the_file_are_the_same():
    table = re.search(r"^\| data \| sampler .*?\n\n", PAGE, flags=re.MULTILINE | re.DOTALL)[0]
    shown = [[cell.strip() for cell in line.strip("|").split("|")] for line in table.strip().splitlines()[2:]]
    told = [(cells[2].replace(" ", ""), cells[3].replace(" ", ""), cells[5]) for cells in shown]
    held = [row for row in ROWS if row["problem"].startswith(chart.RARE)]
    assert told == [(row["us_per_step"], row["ess_per_second"], row["seconds_to_400"] or "–") for row in held]


def test_the_choice_in_hindsight_on_the_page_is_that_of_its_file():
    assert "{include} _static/race_regret.md" in (DOCS / "race_levers.md").read_text(encoding="utf-8")
    held = chart.regret_table(pd.read_csv(DOCS / "_static" / "race_regret.csv"))
    assert (DOCS / "_static" / "race_regret.md").read_text(encoding="utf-8") == held


def test_a_row_without_effective_draws_tells_no_bias():
    row = {**ROWS[0], "effective_draws": "99", "bias": "0.5"}
    assert chart.table([row]).rstrip().endswith("| – |")
    assert chart.table([{**row, "effective_draws": "100"}]).rstrip().endswith("| 0.500 |")
