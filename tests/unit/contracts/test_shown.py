"""Objects show themselves in a notebook: well-formed, escaped, and with what they are made of."""

import ast
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


def test_a_choice_shows_its_table():
    table = pd.DataFrame({"candidate": ["a < b"], "price": [0.123456]})
    shown = text_of(Choice(None, None, np.zeros(1), 1, table, "x < y", {}, "a < b")._repr_html_())
    assert all(piece in shown for piece in ("x < y", "a < b", "0.123"))


def test_text_is_escaped():
    assert "<script>" not in html_table("<script>", {"<script>": "<script>"})


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
