"""Names: which are on top, in which room each is, and that no two classes of the package share one."""

import ast
import importlib
import re
from collections import defaultdict
from pathlib import Path

import pytest

import approxmcmc as amc

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "approxmcmc"


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
    assert several == {}


def test_a_second_class_of_a_name_is_seen():
    found = places_of_classes({"a.py": "class Clock:\n    pass\n", "b.py": "class Clock:\n    class Inner: ...\n"})
    assert found == {"Clock": ["a.py", "b.py"]}


RUN = {  # from a model to its answer, in addition to the names that README, tutorials and gallery use
    "audit",
    "choose_sampler",
    "importance_sampling",
    "latents",
    "load",
    "log_likelihood",
    "loo_subsample",
    "posterior_predictive",
    "predict",
    "resume",
    "save",
    "stein_discrepancy",
}


def typed(text):
    """Return the names on top that a text types."""
    return set(re.findall(r"\bamc\.([A-Za-z_]\w*)", text))


def test_on_top_is_what_the_docs_say():
    """See the head of docs/api.rst."""
    shown = [ROOT / "README.md", *(ROOT / "docs" / "examples").rglob("*.py")]
    names = set().union(*(typed(path.read_text(encoding="utf-8")) for path in shown))
    assert set(amc._NAMES) == (names - set(amc._ROOMS)) | RUN | {"Target"}
    assert len(amc._NAMES) <= 50


def test_a_name_on_top_is_that_of_its_room():
    files = {
        "approxmcmc.api",
        "approxmcmc.auditing",
        "approxmcmc.importance",
        "approxmcmc.interop.pymc",
        "approxmcmc.leave_one_out",
        "approxmcmc.prediction",
        "approxmcmc.resuming",
    }
    for name, home in amc._NAMES.items():
        assert home in files or name in importlib.import_module(home).__all__


def test_a_public_name_has_one_room():
    """But for a class that a second room returns or takes, under the same name."""
    places = defaultdict(set)
    for room in amc._ROOMS:
        for name in getattr(getattr(amc, room), "__all__", ()):
            places[name].add(id(getattr(getattr(amc, room), name)))
    assert [name for name, objects in places.items() if len(objects) > 1] == []


def test_a_name_that_is_in_a_room_is_found():
    with pytest.raises(AttributeError, match=r"it is approxmcmc\.acceptance\.BernsteinTest"):
        _ = amc.BernsteinTest
    with pytest.raises(AttributeError, match="public names: AuxiliaryChain, ControlVariate, "):
        _ = amc.BernsteinTests


def test_type_checkers_see_every_name_of_the_top_level():
    """`__init__.pyi` holds the names of `__init__.py`, each from the same module."""
    homes = {
        alias.asname: node.module if alias.asname not in amc._ROOMS else "approxmcmc"
        for node in ast.parse((PACKAGE / "__init__.pyi").read_text(encoding="utf-8")).body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert homes == amc._NAMES | dict.fromkeys(amc._ROOMS, "approxmcmc")


def test_every_target_is_a_target():
    assert issubclass(amc.targets.LogisticRegression, amc.Target)
    assert issubclass(amc.FunctionTarget, amc.Target)
