"""The page on adding a member: its toys, one of each role, run as they are printed."""

import re
from pathlib import Path

import pytest

from approxmcmc.contracts import Component

PAGE = Path(__file__).parents[2] / "docs" / "adding_a_sampler.md"


@pytest.fixture
def registry(monkeypatch):
    """Let the toys go when the test is over: other tests look at every component there is."""
    monkeypatch.setattr(Component, "_registry", dict(Component._registry))


@pytest.mark.thorough
@pytest.mark.recompiles
@pytest.mark.slow
def test_the_page_runs_from_top_to_bottom(registry):
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), flags=re.DOTALL)
    scope = {"__name__": "adding_a_sampler"}
    for block in blocks:
        exec(compile(block, f"<{PAGE.name}>", "exec"), scope)  # a file that is there would be read as Python
    assert {"UniformWalk", "FirstLookTest", "WaitingTimes", "PriorSampler", "study"} <= scope.keys()
