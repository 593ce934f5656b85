"""One class name has one meaning: no two files of the package define a class of the same name."""

import ast
from collections import defaultdict
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[2] / "approxmcmc"
SHARED = {"Target": "a role, and the target made of a user's functions, whose public name it is"}


def places_of_classes(sources):
    """Return the files, of a mapping from file to text, that define each class at their top level."""
    places = defaultdict(list)
    for file, text in sources.items():
        for node in ast.parse(text).body:
            if isinstance(node, ast.ClassDef):
                places[node.name].append(file)
    return places


@pytest.fixture(scope="module")
def several():
    sources = {
        str(file.relative_to(PACKAGE)): file.read_text(encoding="utf-8") for file in sorted(PACKAGE.rglob("*.py"))
    }
    return {name: files for name, files in places_of_classes(sources).items() if len(files) > 1}


def test_a_class_name_has_one_meaning(several):
    assert {name: files for name, files in several.items() if name not in SHARED} == {}


def test_names_that_are_shared_are_shared(several):
    assert set(SHARED) <= set(several)


def test_a_second_class_of_a_name_is_seen():
    found = places_of_classes({"a.py": "class Clock:\n    pass\n", "b.py": "class Clock:\n    class Inner: ...\n"})
    assert found == {"Clock": ["a.py", "b.py"]}
