"""Roles know no members, and code asks a sampler, proposal, test or target what it must know of it.

The rooms of `ROLES_ONLY` have no branch on a concrete class. All other rooms may have those of `ALLOWED`, each with a
reason, and the base classes of `BASES`. The files of the roles name no member outside examples.

A branch on a concrete class is counted where a name of the library that is a class of none of the roles' files stands
in ``isinstance``, ``issubclass`` or a ``match``; where the name of a member of a role stands as a string; where a name
of a class is compared, ``type(x).__name__ == ...``; and where a member of a role is imported.
"""

import ast
import functools
import importlib
import inspect
import pkgutil
import re
from pathlib import Path

import pytest

import approxmcmc
from approxmcmc.contracts import AcceptanceTest, AnySampler, Proposal, Target
from tests.syntax import nodes_of, tree_of

PACKAGE = Path(approxmcmc.__file__).parent
ROLES_ONLY = ("bounds", "couplings")
MEMBERS = (AcceptanceTest, AnySampler, Proposal, Target)
ROOMS = ("acceptance", "proposals", "samplers", "surrogate", "targets", "whole_chains")


@functools.cache
def members() -> frozenset[str]:
    """Return the names of all classes that play a role, those of the roles themselves left out."""
    found = set()
    for room in ROOMS:
        if not (PACKAGE / room).is_dir():
            continue
        for module in pkgutil.walk_packages([str(PACKAGE / room)], f"approxmcmc.{room}."):
            classes = inspect.getmembers(importlib.import_module(module.name), inspect.isclass)
            found |= {name for name, value in classes if issubclass(value, MEMBERS)}
    return frozenset(found) - {name for name, _ in inspect.getmembers(approxmcmc.contracts, inspect.isclass)}


class Branches(ast.NodeVisitor):
    """Collect the branches on concrete classes of a file, by line; see the head of this file."""

    def __init__(self, source: str) -> None:
        nodes = nodes_of(source)
        self.lines: list[int] = []
        self.ours = {node.name for node in nodes if isinstance(node, ast.ClassDef)}
        for node in nodes:
            room = (getattr(node, "module", None) or "").split(".")[:2]
            if room[:1] == ["approxmcmc"] and room[1:] not in ([], ["contracts"], ["errors"]):
                self.ours |= {alias.asname or alias.name for alias in node.names}
        self.visit(tree_of(source))

    def add(self, node: ast.AST) -> None:
        self.lines.append(node.lineno)

    def visit_Call(self, node: ast.Call) -> None:
        if isinstance(node.func, ast.Name) and node.func.id in ("isinstance", "issubclass"):
            kinds = node.args[1].elts if isinstance(node.args[1], ast.Tuple) else node.args[1:]
            for kind in kinds:
                if self.is_ours(kind):
                    self.add(kind)
        self.generic_visit(node)

    def is_ours(self, kind: ast.expr) -> bool:
        return (isinstance(kind, ast.Name) and kind.id in self.ours) or (
            isinstance(kind, ast.Attribute) and kind.attr in members()
        )

    def visit_MatchClass(self, node: ast.MatchClass) -> None:
        if self.is_ours(node.cls):
            self.add(node)
        self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> None:
        if node.value in members():
            self.add(node)

    def visit_Compare(self, node: ast.Compare) -> None:
        if any(isinstance(side, ast.Attribute) and side.attr == "__name__" for side in [node.left, *node.comparators]):
            self.add(node)
        self.generic_visit(node)

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        if (node.module or "").startswith("approxmcmc"):
            self.lines += [node.lineno for alias in node.names if alias.name in members() | set(ROOMS)]

    def visit_Import(self, node: ast.Import) -> None:
        self.lines += [node.lineno for alias in node.names if alias.name.startswith("approxmcmc")]


def branches(source: str) -> list[int]:
    """Return the lines with a branch on a concrete class."""
    return sorted(Branches(source).lines)


@pytest.mark.parametrize("path", [p for room in ROLES_ONLY for p in sorted((PACKAGE / room).rglob("*.py"))], ids=str)
def test_it_knows_roles_only(path):
    assert branches(path.read_text(encoding="utf-8")) == []


# --- branches on a member, in all other rooms ---

# Classes from which members derive, and which have a protocol of their own: to ask for them is to ask for a role.
BASES = {
    "Regression": "rows with linear predictors: family, design and prior",
    "FamilyRegression": "a regression with one family, by its name",
    "BinaryRegression": "a regression of two classes",
    "ColumnRegression": "a regression with one column of responses",
    "TallDataTarget": "a target on arrays with one row for each term",
    "StandsForRows": "a target whose terms represent several rows of another one",
    "ExponentialFamily": "a model by its statistics, with an unknown normaliser",
    "ChainSampler": "a sampler of another library, or of the user, that draws one chain at a time",
}
ALLOWED = {
    ("acceptance/annealed.py", "SequentialTTest"): "its epochs are t-tests",
    ("design/target_profile.py", "ControlVariate"): "the choice has made the control variate, and reads its pilot",
    ("further_runs.py", "NUTS"): "a further run changes settings that no other sampler has",
    ("output/target_folder.py", "ControlVariate"): "stores the pilot and the centre of a control variate",
    ("output/target_folder.py", "NormalStatistics"): "stores the sums that stand for the rows",
    ("plots/influential_rows.py", "ControlVariate"): "draws the numbers of a control variate",
    ("plots/statistic.py", "SequentialTTest"): "draws the boundary of this test",
    ("updating.py", "ControlVariate"): "an update may move the centre of a control variate",
    ("surrogate/control_variate.py", "ControlVariate"): "its own file: it refuses to be nested",
}


def branches_on_members(source: str) -> set[str]:
    """Return the names of members in ``isinstance``, ``issubclass`` and ``match``."""
    kinds: list[ast.AST] = []
    for node in nodes_of(source):
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") in ("isinstance", "issubclass"):
            kinds += ast.walk(node.args[1])
        elif isinstance(node, ast.MatchClass):
            kinds.append(node.cls)
    names = {kind.id if isinstance(kind, ast.Name) else getattr(kind, "attr", "") for kind in kinds}
    return names & members() - BASES.keys()


def test_branches_on_a_member_have_a_reason():
    found = {
        (path.relative_to(PACKAGE).as_posix(), name)
        for path in PACKAGE.rglob("*.py")
        for name in branches_on_members(path.read_text(encoding="utf-8"))
    }
    assert found == ALLOWED.keys()


def test_a_planted_branch_on_a_member_is_found():
    source = "isinstance(x, (int, amc.Gibbs))\nisinstance(y, int | NUTS)\nmatch z:\n    case ExactTest(): pass\n"
    assert branches_on_members(source + "isinstance(x, Regression)") == {"Gibbs", "NUTS", "ExactTest"}


# --- the files of the roles ---

OF_THE_FIELD = {"Gibbs"}  # words for a method as well as names of a member
LIBRARIES = {"PyTensor", "NUTS"}


def names_of_members(source: str) -> set[str]:
    """Return the members and libraries that the text of a file names, outside the examples of docstrings."""
    texts = [
        node.value.partition("Examples\n")[0]
        for node in nodes_of(source)
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    ]
    words = set(re.findall(r"\w+", " ".join(texts)))
    return words & (members() | LIBRARIES) - OF_THE_FIELD - BASES.keys()


@pytest.mark.parametrize("path", sorted((PACKAGE / "contracts").glob("*.py")), ids=lambda path: path.name)
def test_a_role_names_no_member(path):
    assert names_of_members(path.read_text(encoding="utf-8")) == set()


def test_a_planted_name_of_a_member_is_found():
    assert names_of_members('def f():\n    raise ValueError(f"use {x} or Exchange")') == {"Exchange"}
    assert names_of_members('def f():\n    """Do.\n\n    Examples\n    --------\n    >>> Exchange()\n    """') == set()


@pytest.mark.parametrize(
    ("source", "lines"),
    [
        ("from approxmcmc.samplers import Gibbs\n\ndef f(x):\n    return isinstance(x, Gibbs)", [1, 4]),
        ("from approxmcmc.bounds.law import Law\nif isinstance(x, (int, Law)): pass", [2]),
        ("class Form:\n    pass\nissubclass(x, Form)", [3]),
        ("import approxmcmc as amc\nisinstance(x, amc.Gibbs)", [1, 2]),
        ("from approxmcmc import samplers\nisinstance(x, samplers.Exchange)", [1, 2]),
        ('if settings["kind"] == "RandomWalk": pass', [1]),
        ("if type(x).__name__ == name: pass", [1]),
        ("from approxmcmc.samplers import Gibbs as G\nmatch x:\n    case G(): pass", [1, 3]),
        ("from approxmcmc.contracts import DiscreteTarget\nisinstance(x, DiscreteTarget)", []),
        ("import xarray as xr\nisinstance(x, (xr.DataTree, tuple))\nname = type(x).__name__", []),
        ('raise TypeError("a sampler such as Gibbs(), found nothing")', []),
    ],
)
def test_planted_branches_are_found(source, lines):
    assert branches(source) == lines


def test_the_members_of_the_roles_are_known():
    assert {"ExactTest", "RandomWalk", "Gibbs", "ControlVariate", "ThinnedTest", "LogisticRegression"} <= members()
    assert not {"Target", "DiscreteTarget", "Sampler"} & members()
