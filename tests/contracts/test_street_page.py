"""The page of the street names every model of its file, and the street has the models that it promises."""

import collections
from pathlib import Path

import pandas as pd
import pytest

pytest.importorskip("pymc")

from studies.street import page
from studies.street.models import KIND

STATIC = Path(__file__).parents[2] / "docs" / "_static"


def test_the_table_says_of_every_model_what_the_file_says():
    found = pd.read_csv(STATIC / "street.csv")
    text = page.markdown(found)
    assert list(found["model"]) == list(KIND)
    for _, row in found.iterrows():
        assert (f"| {row['model']} | {row['dim']} |" in text) == (row["dim"] > 0)
        if pd.isna(row["new_cpu"]) or pd.isna(row["nutpie_cpu"]):
            assert row["model"] in text.partition("Not run on both sides: ")[2]


def test_every_model_that_misses_the_goal_is_named_with_its_cause():
    cells = pd.read_csv(STATIC / "street.csv")
    both = cells.dropna(subset=["new_cpu", "nutpie_cpu"])
    missing = set(both["model"][~(both["within"].astype(bool) & both["within_to_400"].astype(bool))])
    text = page.misses(cells)
    assert missing == {line.split("`")[1] for line in text.splitlines()}
    assert "not explained" not in text
    assert "- `new_one`, as run: not explained yet." in page.misses(
        pd.DataFrame([{"model": "new_one", "new_cpu": 9.0, "nutpie_cpu": 1.0, "within": False, "within_to_400": True}])
    )


def test_runs_with_a_warning_are_counted_and_their_models_named():
    rows = [{"model": name, "seed": seed, "problems": told} for name, seed, told in [("b", 1, None), ("a", 1, "R-hat")]]
    assert page.alarms(pd.DataFrame(rows)) == (
        "Of 2 runs of 2 models, with five seeds each, 1 reported a problem, of a.\n"
    )
    shipped = pd.read_csv(STATIC / "street_alarms.csv")
    assert set(shipped["model"]) <= set(KIND) and (shipped.groupby("model").size() == 5).all()


def test_the_street_has_thirty_models_with_five_hierarchies_and_five_with_factors():
    kinds = collections.Counter(KIND.values())
    assert kinds.total() >= 30
    assert min(kinds["hierarchy"], kinds["factors"]) >= 5
