"""The page of the race shows what its file holds: no figure of a table or a picture is typed in."""

import csv
import re
from pathlib import Path

import pytest

from studies.race import chart

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "race.md").read_text(encoding="utf-8")
with (DOCS / "_static" / "race.csv").open(newline="", encoding="utf-8") as file:
    ROWS = list(csv.DictReader(file))


def raced_rows():
    """Return the rows of each problem that has a table of its own."""
    names = dict.fromkeys(row["problem"] for row in ROWS if not row["problem"].startswith(chart.RARE))
    return {name: [row for row in ROWS if row["problem"] == name] for name in names}


@pytest.mark.thorough
def test_each_problem_has_its_picture_and_its_table(tmp_path):
    chart.main(DOCS / "_static" / "race.csv", tmp_path)
    for number, (problem, rows) in enumerate(raced_rows().items(), start=1):
        section = PAGE.split(f"## {problem}\n")[1].split("\n## ")[0]
        assert f"_generated/race_{number}.svg" in section and f"_generated/race_{number}.md" in section
        assert (tmp_path / f"race_{number}.md").read_text(encoding="utf-8") == chart.table(rows)
        picture = (tmp_path / f"race_{number}.svg").read_text(encoding="utf-8")
        assert {row["rival"] for row in rows} <= set(re.findall(r">([^<]+)</text>", picture))
    levers = (DOCS / "race_levers.md").read_text(encoding="utf-8")
    for name in ("race_regret.md", "race_fits.md"):
        assert f"{{include}} _generated/{name}" in levers and (tmp_path / name).exists()


def test_the_tables_of_rare_categories_and_levers_show_what_the_file_holds():
    rare = [row for row in ROWS if row["problem"].startswith(chart.RARE)]
    shown = [[cell.strip() for cell in line.strip("|").split("|")] for line in chart.rare_table(rare).splitlines()[2:]]
    told = [(cells[2].replace(" ", ""), cells[3].replace(" ", ""), cells[5]) for cells in shown]
    assert told == [(row["us_per_step"], row["ess_per_second"], row["seconds_to_400"] or "–") for row in rare]
    assert shown[1][4] == "400 [250, 600]" and shown[0][4] == "1" and shown[-1][4] == "27 000 [19 000, 29 000]"
    raced = {name: {row["rival"]: row for row in rows} for name, rows in raced_rows().items()}
    lines = dict(line.strip("| ").split(" | ", 1) for line in chart.levers(raced).splitlines()[2:])
    assert lines["compilation"].endswith("| 2.3 | 3.2 | 7.1 | 3.1")
    assert lines["all, .05"].endswith("| 38 | 5000 | 10 000 | 240 000")
    for page, name in (("race.md", "race_rare"), ("race_levers.md", "race_levers")):
        assert f"{{include}} _generated/{name}.md" in (DOCS / page).read_text(encoding="utf-8")


def test_a_row_without_effective_draws_tells_no_bias():
    row = {**ROWS[0], "effective_draws": "99", "bias": "0.5"}
    assert chart.table([row]).rstrip().endswith("| – |")
    assert chart.table([{**row, "effective_draws": "100"}]).rstrip().endswith("| 0.500 |")
