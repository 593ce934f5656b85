"""The page of the street shows what its file holds, and the street has the models that it promises."""

import collections
from pathlib import Path

import pandas as pd
import pytest

pytest.importorskip("pymc")

from studies.street import page
from studies.street.models import KIND

STATIC = Path(__file__).parents[2] / "docs" / "_static"


def test_the_table_is_drawn_from_its_file():
    assert (STATIC / "street.md").read_text(encoding="utf-8") == page.markdown(pd.read_csv(STATIC / "street.csv"))


def test_the_street_has_thirty_models_with_five_hierarchies_and_five_with_factors():
    kinds = collections.Counter(KIND.values())
    assert kinds.total() >= 30
    assert min(kinds["hierarchy"], kinds["factors"]) >= 5
