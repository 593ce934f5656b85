"""The page on large data shows what its file of runs holds: no figure of a table is typed in."""

from pathlib import Path

import pytest

from tests.bench import cost_model

DOCS = Path(__file__).parents[2] / "docs"
RUNS = cost_model.read_runs(DOCS / "_static" / "scale.jsonl")


def test_the_page_shows_every_table():
    page = (DOCS / "scale.md").read_text(encoding="utf-8")
    assert all(f"{{include}} _generated/{name}" in page for name in cost_model.tables(RUNS))


def test_a_line_is_found_again():
    """Start-up and rate of made-up runs, and a phase without start-up."""
    runs = [
        {"rows": n, "columns": 10, "workers": 0, "seconds": {"mode": 2.0 + 3e-6 * n, "check": 1e-6 * n - 0.1}}
        for n in (10**6, 10**7, 10**8)
    ]
    assert cost_model.fit(runs, "mode") == pytest.approx((2.0, 3e-6))
    assert cost_model.predicted(runs, "mode", 10**8) == pytest.approx(302.0)
    assert cost_model.fit(runs, "check")[0] == 0.0
