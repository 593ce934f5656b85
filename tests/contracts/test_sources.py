"""The pages on sources and errata: no empty cell, and every study and test that they name exists."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = {name: (ROOT / "docs" / name).read_text(encoding="utf-8") for name in ("sources.md", "errata.md")}


@pytest.mark.parametrize("page", PAGES)
def test_every_file_that_is_named_exists(page):
    paths = re.findall(r"`((?:studies|tests)/[\w/]+\.py)`", PAGES[page])
    assert len(paths) > 10
    assert not [path for path in paths if not (ROOT / path).is_file()]


def test_no_cell_of_the_table_is_empty():
    rows = [line for line in PAGES["sources.md"].splitlines() if line.startswith("|")]
    assert len(rows) > 50
    for row in rows:
        cells = [cell.strip() for cell in row.strip("|").split("|")]
        assert len(cells) == 4 and all(cells), row


def test_every_numbered_item_of_the_papers_has_a_row():
    text = PAGES["sources.md"]
    austerity, noisy, firefly = (text.split(f"{{cite}}`{key}`\n", 1)[1].split("\n## ")[0]
                                 for key in ("korattikara2013", "alquier2016", "draves2019"))  # fmt: skip
    for section, kind, numbers in (
        (austerity, "figure", range(1, 9)),
        (austerity, "theorem", (1, 2)),
        (noisy, "algorithm", range(1, 11)),
        (noisy, "figure", range(1, 9)),
        (noisy, "table", (1, 2)),
        (firefly, "algorithm", range(1, 6)),
    ):
        for number in numbers:
            found = rf"\| [^|]*\b{kind}s?\b[^|]*\b{number}\b(?!\.)[^|]*\|"
            assert re.search(found, section), f"{kind} {number}"
    for number in ("2.1", "2.2", "2.3", "2.4", "3.1", "3.2", "3.3", "3.4"):
        assert re.search(rf"\| [^|]*\b{re.escape(number)}\b[^|]*\|", noisy), number
