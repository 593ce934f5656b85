"""One statement says one thing: ``a, b = x, y`` stands where a value reads what another target stores, as in a swap."""

import ast
from pathlib import Path

import pytest

import approxmcmc
from tests.syntax import nodes_of

PACKAGE = Path(approxmcmc.__file__).parent
FILES = sorted(PACKAGE.rglob("*.py"))


def stores(target: ast.expr) -> set[str]:
    """Return the text of what an assignment to `target` changes: names, attributes, and arrays by their entries."""
    changed = set()
    for node in ast.walk(target):
        if isinstance(node, ast.Name | ast.Attribute) and isinstance(node.ctx, ast.Store):
            changed.add(ast.unparse(node))
        elif isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store):
            changed.add(ast.unparse(node.value))
    return changed


def reads(node: ast.expr) -> set[str]:
    """Return the text of all names and attributes that an expression reads, and ``x.`` if it calls a method of x.

    A method may read any attribute of its object.
    """
    texts = {ast.unparse(part) for part in ast.walk(node) if isinstance(part, ast.Name | ast.Attribute)}
    owners = {ast.unparse(part.func.value) for part in ast.walk(node) if is_method_call(part)}
    return texts | {f"{owner}." for owner in owners}


def is_method_call(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)


def depends(value: ast.expr, target: ast.expr) -> bool:
    """Return whether `value` may read what an assignment to `target` changes."""
    texts = reads(value)
    return any(text in texts or f"{text.rpartition('.')[0]}." in texts for text in stores(target))


def parallel(source: str) -> list[int]:
    """Return the lines of parallel assignments of values that could stand one below the other."""
    lines = []
    for node in nodes_of(source):
        if not (
            isinstance(node, ast.Assign)
            and isinstance(node.targets[0], ast.Tuple)
            and isinstance(node.value, ast.Tuple)
        ):
            continue
        targets = node.targets[0].elts
        values = node.value.elts
        if any(isinstance(part, ast.Starred) for part in [*targets, *values]):
            continue
        pairs = [(value, target) for j, value in enumerate(values) for target in targets[:j]]
        indices = [(later, target) for j, later in enumerate(targets) for target in targets[:j]]
        if not any(depends(value, target) for value, target in [*pairs, *indices]):
            lines.append(node.lineno)
    return lines


def test_no_parallel_assignment_of_unrelated_values():
    lines = {path.relative_to(PACKAGE).as_posix(): parallel(path.read_text(encoding="utf-8")) for path in FILES}
    assert {file: numbers for file, numbers in lines.items() if numbers} == {}


@pytest.mark.parametrize(
    ("source", "lines"),
    [
        ("a, b = 1, 2", [1]),
        ("self.a, self.b = a, b", [1]),
        ("a, b = b, a", []),
        ("a, b = b, a + b", []),
        ("x[i], x[j] = x[j], x[i]", []),
        ("i, x[i] = 0, 1", []),
        ("a, b = pair", []),
        ("a, *b = 1, *c", []),
        ("self.a, n = 1, self.count()", []),
        ("\nn, m = len(x), len(y)", [2]),
    ],
)
def test_planted_statements(source, lines):
    assert parallel(source) == lines
