"""The minutes that README promises are those that the session `minutes` measured."""

import math
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
MEASURED = tomllib.loads((ROOT / "docs" / "minutes.toml").read_text(encoding="utf-8"))
MOST = {"wall": 4.0, "cpu": 6.0}  # minutes of `tests` on two cores: what a contributor waits before a commit


def sentence(measured):
    """Return what README says of its two commands: whole minutes, rounded up."""
    reproduce, tests = (math.ceil(measured[name]["wall"]) for name in ("reproduce", "tests"))
    return f"On two cores they take {reproduce} and {tests} minutes after the installation"


def test_readme_says_what_was_measured():
    readme = " ".join((ROOT / "README.md").read_text(encoding="utf-8").split())
    assert sentence(MEASURED) in readme


def test_they_were_measured_on_two_cores():
    assert {row["cores"] for row in MEASURED.values()} == {2}


@pytest.mark.parametrize("clock", MOST)
def test_the_session_tests_is_short(clock):
    assert MEASURED["tests"][clock] <= MOST[clock]


def test_minutes_are_rounded_up():
    measured = {"reproduce": {"wall": 7.1}, "tests": {"wall": 4.0}}
    assert sentence(measured) == "On two cores they take 8 and 4 minutes after the installation"
