"""The page of the race shows what its file holds: no figure of a table or a picture is typed in."""

import csv
import re
from pathlib import Path

from studies.race import chart

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "race.md").read_text(encoding="utf-8")
with (DOCS / "_static" / "race.csv").open(newline="", encoding="utf-8") as file:
    ROWS = list(csv.DictReader(file))


def raced():
    """Return the rows of each problem that has a table of its own."""
    names = dict.fromkeys(row["problem"] for row in ROWS if not row["problem"].startswith(chart.RARE))
    return {name: [row for row in ROWS if row["problem"] == name] for name in names}


def test_each_problem_has_its_picture_and_its_table(tmp_path):
    chart.main(DOCS / "_static" / "race.csv", tmp_path)
    for number, (problem, rows) in enumerate(raced().items(), start=1):
        section = PAGE.split(f"## {problem}\n")[1].split("\n## ")[0]
        assert f"_generated/race_{number}.svg" in section and f"_generated/race_{number}.md" in section
        assert (tmp_path / f"race_{number}.md").read_text(encoding="utf-8") == chart.table(rows)
        picture = (tmp_path / f"race_{number}.svg").read_text(encoding="utf-8")
        assert {row["rival"] for row in rows} <= set(re.findall(r">([^<]+)</text>", picture))
    levers = (DOCS / "race_levers.md").read_text(encoding="utf-8")
    for name in ("race_regret.md", "race_fits.md"):
        assert f"{{include}} _generated/{name}" in levers and (tmp_path / name).exists()


def test_rare_categories_on_the_page_and_in_the_file_are_the_same():
    table = re.search(r"^\| data \| sampler .*?\n\n", PAGE, flags=re.MULTILINE | re.DOTALL)[0]
    shown = [[cell.strip() for cell in line.strip("|").split("|")] for line in table.strip().splitlines()[2:]]
    told = [(cells[2].replace(" ", ""), cells[3].replace(" ", ""), cells[5]) for cells in shown]
    held = [row for row in ROWS if row["problem"].startswith(chart.RARE)]
    assert told == [(row["us_per_step"], row["ess_per_second"], row["seconds_to_400"] or "–") for row in held]


def test_a_row_without_effective_draws_tells_no_bias():
    row = {**ROWS[0], "effective_draws": "99", "bias": "0.5"}
    assert chart.table([row]).rstrip().endswith("| – |")
    assert chart.table([{**row, "effective_draws": "100"}]).rstrip().endswith("| 0.500 |")
