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
            assert row["model"] in text.partition("Not run: ")[2]


def test_the_street_has_thirty_models_with_five_hierarchies_and_five_with_factors():
    kinds = collections.Counter(KIND.values())
    assert kinds.total() >= 30
    assert min(kinds["hierarchy"], kinds["factors"]) >= 5
