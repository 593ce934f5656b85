"""Objects show themselves in a notebook: well-formed, escaped, and with what they are made of."""

import ast
import math
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pandas as pd
import pytest

import approxmcmc as amc
from approxmcmc import errors
from approxmcmc.contracts.arguments import naming_the_arguments
from approxmcmc.contracts.component import html_table
from approxmcmc.design.choice import Choice
from approxmcmc.output.shown_table import ShownTable
from approxmcmc.targets.batches.base import PythonPrior
from approxmcmc.targets.cutpoints import OrderedPrior
from approxmcmc.targets.normal_prior import NormalPrior
from approxmcmc.targets.tall_data import Prior
from tests.models import logistic, normal_mean

SAMPLER = amc.MetropolisHastings(amc.RandomWalk(0.25), amc.SequentialTTest(epsilon=0.05))


def text_of(html):
    """Return the text of a fragment, which must be well-formed."""
    return " ".join(ElementTree.fromstring(f"<div>{html}</div>").itertext())


def test_a_sampler_shows_its_pieces():
    shown = text_of(SAMPLER._repr_html_())
    assert all(piece in shown for piece in ("MetropolisHastings", "RandomWalk", "0.25", "SequentialTTest", "0.05"))


@pytest.mark.parametrize("target", [logistic(1500), normal_mean(), amc.targets.alarm_network(J=1, M=1)], ids=repr)
def test_a_target_shows_its_sizes(target):
    shown = text_of(target._repr_html_())
    assert f"{target.n_obs:,}" in shown
    assert all(name in shown for name in target.variables.shapes)


def test_a_regression_shows_its_coefficients_and_its_prior():
    X = pd.DataFrame({"age": [1.0, 2.0, 3.0], "kind": ["a", "b", "a"]})
    target = amc.targets.LogisticRegression(X, [0, 1, 1], prior_scale=2.0, intercept=True)
    shown = text_of(target._repr_html_())
    assert "intercept, age" in shown and "N(0, 2²) for each parameter" in shown
    assert str(target).splitlines() == [
        "LogisticRegression(n_obs=3, dim=3; reference levels: kind=a)",
        "  beta: intercept, age",
        "  kind: b",
        "  prior: N(0, 2²) for each parameter",
    ]


@pytest.mark.parametrize(
    ("prior", "text"),
    [
        (Prior(math.inf, None), "flat"),
        (Prior(1.0, lambda theta: 0.0), "the function <lambda>"),
        (NormalPrior(np.zeros(3), np.array([1.0, 2.5, 1.0])), "independent normal, with standard deviation 1 or 2.5"),
        (
            NormalPrior(np.zeros(6), np.arange(1.0, 7.0)),
            "independent normal, with 6 standard deviations from 1 to 6",
        ),
        (OrderedPrior(1.0, math.inf, 2), "N(0, 1²) for each coefficient, flat for increasing cutpoints"),
        (PythonPrior(None, None, lambda: ""), "that of the model"),
    ],
    ids=lambda case: case if isinstance(case, str) else "",
)
def test_a_prior_in_words(prior, text):
    assert prior.text == text


def test_a_choice_shows_its_table():
    table = pd.DataFrame({"candidate": ["a < b"], "price": [0.123456], "us_per_step": [math.nan]})
    choice = Choice(None, None, np.zeros(1), 1, table, "x < y", {}, "a < b")
    for shown in (text_of(choice._repr_html_()), repr(choice)):
        assert all(piece in shown for piece in ("x < y", "a < b", "0.1235")) and "us_per_step" not in shown


def test_a_table_shows_texts_in_full_and_no_empty_column():
    """pandas cuts a text after 50 characters, and hides columns that do not fit."""
    long = "the finding is longer than fifty characters, and has its most important word at its very end: <here>"
    rows = {"check": ["R-hat", "ESS"], "value": [1.23456, math.nan], "limit": [math.nan] * 2, "finding": [long, ""]}
    table = ShownTable(rows)
    assert repr(table).splitlines() == [
        "   check  value",
        "0  R-hat  1.235",
        f"     finding: {long}",
        "1    ESS       ",
    ]
    assert long in text_of(table._repr_html_()) and "limit" not in text_of(table._repr_html_())
    assert type(table[["check"]]) is type(table.query("value > 1")) is pd.DataFrame
    pd.testing.assert_frame_equal(pd.DataFrame(table), pd.DataFrame(rows))
    assert "[200 rows" in repr(ShownTable({"value": np.arange(200)})) and repr(ShownTable({"a": []}))


def test_text_is_escaped():
    assert "<script>" not in html_table("<script>", {"<script>": "<script>"})


@pytest.mark.thorough
def test_every_warning_has_a_category_of_the_package():
    categories = {name for name, kind in vars(errors).items() if isinstance(kind, type) and issubclass(kind, Warning)}
    assert all(issubclass(getattr(errors, name), errors.ApproxMCMCWarning) for name in categories)
    calls = 0
    for path in Path(amc.__file__).parent.rglob("*.py"):
        for call in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            function = ast.unparse(call.func) if isinstance(call, ast.Call) else ""
            assert function != "warnings.warn" or path.name == "errors.py", f"{path.name} must call errors.warn"
            if function == "warn":
                named = {node.id for node in ast.walk(call) if isinstance(node, ast.Name)}
                assert named & categories, f"{path.name}:{call.lineno} warns without a category"
                calls += 1
    assert calls > 15


def test_a_warning_points_at_the_line_of_the_caller():
    """Through any number of the package's own calls and decorators."""
    code = 'def inner():\n    warn("slow", CacheWarning)\ndef public(draws: int = 1):\n    inner()'
    names = {"warn": errors.warn, "CacheWarning": errors.CacheWarning}
    exec(compile(code, str(Path(amc.__file__).parent / "sampling" / "planted.py"), "exec"), names)
    with pytest.warns(errors.CacheWarning, match="slow") as warned:
        naming_the_arguments(names["public"])(draws=2)
    assert [warning.filename for warning in warned] == [__file__]
