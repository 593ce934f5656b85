"""Rooms that know roles only: what they must know of a sampler, proposal, test or target, they ask it.

A branch on a concrete class is counted where a name of the library that is a class of none of the roles' files stands
in ``isinstance``, ``issubclass`` or a ``match``; where the name of a member of a role stands as a string; where a name
of a class is compared, ``type(x).__name__ == ...``; and where a member of a role is imported.
"""

import ast
import functools
import importlib
import inspect
import pkgutil
from pathlib import Path

import pytest

import approxmcmc
from approxmcmc.contracts import AcceptanceTest, AnySampler, Proposal, Target

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
        tree = ast.parse(source)
        self.lines: list[int] = []
        self.ours = {node.name for node in ast.walk(tree) if isinstance(node, ast.ClassDef)}
        for node in ast.walk(tree):
            room = (getattr(node, "module", None) or "").split(".")[:2]
            if room[:1] == ["approxmcmc"] and room[1:] not in ([], ["contracts"], ["errors"]):
                self.ours |= {alias.asname or alias.name for alias in node.names}
        self.visit(tree)

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
