"""What the reader finds: every public name stands on the page of public names."""

import inspect
import re
from pathlib import Path

import pytest

import approxmcmc as amc

PAGE = (Path(__file__).parents[2] / "docs" / "api.rst").read_text(encoding="utf-8")
ENTRIES = set(re.findall(r"^\.\. auto(?:class|function|data):: approxmcmc\.(\S+)$", PAGE, flags=re.MULTILINE))
MODULES = set(re.findall(r"^\.\. automodule:: (\S+)$", PAGE, flags=re.MULTILINE))
HOMES = {"": amc, **{f"{room}.": getattr(amc, room) for room in amc._ROOMS}}


def names_of(home):
    """Return the public names of the package or of one room, without the rooms themselves."""
    return [name for name in getattr(home, "__all__", ()) if not inspect.ismodule(getattr(home, name))]


@pytest.mark.parametrize("prefix", HOMES)
def test_every_public_name_is_documented(prefix):
    """Under the package's name, the room's, or that of the room that defines it; or with the module that defines it."""
    for name in names_of(HOMES[prefix]):
        module = getattr(getattr(HOMES[prefix], name), "__module__", "") or ""
        documented = {name, f"{prefix}{name}", f"{module.partition('.')[2].partition('.')[0]}.{name}"} & ENTRIES
        assert documented or module in MODULES, f"add {prefix}{name} to docs/api.rst"


def test_every_entry_of_the_page_has_a_line_in_a_table():
    listed = set(re.findall(r"^   approxmcmc\.(\S+)$", PAGE, flags=re.MULTILINE))
    assert listed == ENTRIES
