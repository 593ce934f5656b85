"""What the reader finds: the page of public names lists every public name."""

import ast
import importlib
import inspect
import itertools
import re
import runpy
from pathlib import Path

import pytest

import approxmcmc as amc

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "api.rst").read_text(encoding="utf-8")
ENTRIES = set(re.findall(r"^   approxmcmc\.(\S+)$", PAGE, flags=re.MULTILINE))  # a page each, modules with their names
HOMES = {"": amc, **{f"{room}.": getattr(amc, room) for room in amc._ROOMS}}


def names_of(home):
    """Return the public names of the package or of one room, without the rooms themselves."""
    return [name for name in getattr(home, "__all__", ()) if not inspect.ismodule(getattr(home, name))]


@pytest.mark.parametrize("prefix", HOMES)
def test_every_public_name_is_documented(prefix):
    """Under the package's name, the room's, or that of the room that defines it; or with its module or a whole room."""
    for name in names_of(HOMES[prefix]):
        module = getattr(getattr(HOMES[prefix], name), "__module__", "") or ""
        room = module.partition(".")[2].partition(".")[0]
        documented = {name, f"{prefix}{name}", f"{room}.{name}", room, prefix.rstrip(".")} & ENTRIES
        assert documented or module.removeprefix("approxmcmc.") in ENTRIES, f"add {prefix}{name} to docs/api.rst"


def test_no_two_pages_share_a_file():
    """Where file names that differ in case alone are one file."""
    renamed = runpy.run_path(str(DOCS / "conf.py"))["autosummary_filename_map"]
    files = [renamed.get(f"approxmcmc.{name}", f"approxmcmc.{name}") for name in ENTRIES]
    assert renamed.keys() <= {f"approxmcmc.{name}" for name in ENTRIES}
    assert len({name.lower() for name in files}) == len(files)


def test_everything_of_the_page_can_be_imported():
    """Autosummary leaves out what cannot, with a warning at best."""
    for name in ENTRIES:
        home, _, member = f"approxmcmc.{name}".rpartition(".")
        assert hasattr(importlib.import_module(home), member), name


def test_every_plot_has_a_picture_in_the_gallery():
    """The scripts run, and their pictures are made, when the pages are built."""
    scripts = "\n".join(path.read_text(encoding="utf-8") for path in (DOCS / "examples" / "plots").glob("*.py"))
    drawn = set(re.findall(r"amc\.(plot_\w+)", scripts))
    assert drawn == {name for name in amc.plots.__all__ if name.startswith("plot_")}


def test_every_picture_of_the_gallery_is_of_a_script_that_begins_with_a_title():
    """Without one the gallery leaves the script out."""
    for path in sorted((DOCS / "examples").glob("*/*.py")):
        title, line = path.read_text(encoding="utf-8").splitlines()[1:3]
        assert set(line) == {"="} and len(line) >= len(title), path.name


def test_text_of_the_examples_begins_below_its_mark():
    """The builder of the pages drops what stands on the line of the mark itself."""
    scripts = [*(DOCS / "examples").rglob("*.py")]
    assert scripts
    for script in scripts:
        assert not re.findall(r"^# ?%% *\S.*$", script.read_text(encoding="utf-8"), flags=re.MULTILINE), script.name


@pytest.mark.thorough
def test_the_picture_of_the_house_names_every_room():
    """The directive draws it when the pages are built, and refuses another set of rooms."""
    house = runpy.run_path(str(DOCS / "_extensions" / "house.py"))
    block = re.search(r"```\{house\}\n(.*?)```", (DOCS / "architecture.md").read_text(encoding="utf-8"), re.DOTALL)[1]
    phrases = dict(line.split(": ", 1) for line in block.strip().splitlines())
    imports = house["imports_of_rooms"](DOCS.parent / "approxmcmc")
    floors = house["floors"](imports)
    assert phrases.keys() == imports.keys()
    assert "[...]" not in house["draw"](floors, phrases)


SECTIONS = re.compile(r"(?:Parameters|Returns|Raises|Attributes)\n-+\n(.*?)(?:\n\n|\Z)", re.DOTALL)


def flat(docstring):
    """Return the lines that follow a name in a section and are not indented below it."""
    found = [section.split("\n") for section in SECTIONS.findall(inspect.cleandoc(docstring))]
    pairs = [pair for lines in found for pair in itertools.pairwise(lines)]
    return [line for name, line in pairs if not name.startswith(" ") and not line.startswith(" ")]


@pytest.mark.thorough
def test_what_a_parameter_means_is_indented_below_its_name():
    assert flat("Do.\n\nParameters\n----------\na\nWhat a means.\n") == ["What a means."]  # planted
    trees = (ast.parse(path.read_text(encoding="utf-8")) for path in Path(amc.__file__).parent.rglob("*.py"))
    named = (ast.Module, ast.ClassDef, ast.FunctionDef)
    docstrings = [ast.get_docstring(node) or "" for tree in trees for node in ast.walk(tree) if isinstance(node, named)]
    assert not [line for docstring in docstrings for line in flat(docstring)]
