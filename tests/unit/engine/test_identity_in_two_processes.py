"""Processes with one folder of kernels: none runs code that another one compiled for another content.

Three processes compile or read the same cases: the first version, the second version, and the first one again. The
second process must read no kernel from disk, the third must read every one.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.mutations import CASES, DEPTHS, function

REPOSITORY = Path(__file__).parents[3]
TWO_DEEP, THREE_DEEP = "two functions deep", "in a helper of a helper of another module"
FEW = [
    "global",
    "attribute of an inner module",
    "the length of inner tuples",
    "keyword-only default",  # numba refuses it: an error in every process, never a value
    "order of the fields of a named tuple",
    "method of a jitclass",
    "global of an overload",
]
# Compiled when it is defined, with a content that was not seen then: a kernel that calls it is never kept.
NEVER_KEPT = {"types that a jitted function was given"}
X = 2.0

pytestmark = pytest.mark.needs_jit

# Prints for each case the value of its kernel, None if numba refuses it; and whether the kernel was read from disk.
ANSWERS = """
import json, sys
from numba import types as nb
from numba.core.errors import TypingError
from approxmcmc.engine.compiler import identity
from approxmcmc.engine.compiler.compile import kernel
from tests.mutations import CASES, function

(version, depths, names, x), is_planted = json.loads(sys.argv[1]), sys.argv[2] == "planted"
if is_planted:
    add = identity.Walk._add_code

    def without_inner_functions(walk, code, owner, closure):
        if code is owner.__code__:
            add(walk, code, owner, closure)

    identity.Walk._add_code = without_inner_functions

answers = {}
for depth in depths:
    for name in names:
        try:
            compiled = kernel(function(CASES[name], depth, version), nb.float64(nb.float64))
            answers[f"{name}, {depth}"] = compiled(x), bool(sum(compiled.stats.cache_hits.values()))
        except TypingError:
            answers[f"{name}, {depth}"] = None, False
print(json.dumps(answers))
"""


def answers(folder, version, depths, names, *, planted=False):
    """Return by case, of a new process: (value of the kernel, whether it was read from disk)."""
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY), "APPROXMCMC_CACHE_DIR": str(folder)}
    arguments = [json.dumps([version, depths, names, X]), "planted" if planted else ""]
    done = subprocess.run(
        [sys.executable, "-c", ANSWERS, *arguments], check=False, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return {case: tuple(answer) for case, answer in json.loads(done.stdout).items()}


def expected(version, depths, names, monkeypatch):
    """Return by case the value in plain Python; None for what numba refuses, and where Python has no such thing."""
    with monkeypatch.context() as patch:
        patch.setattr("numba.core.config.DISABLE_JIT", True)
        return {
            f"{name}, {depth}": function(CASES[name], depth, version)(X) if has_a_value(CASES[name]) else None
            for depth in depths
            for name in names
        }


def has_a_value(case):
    """Return whether numba and plain Python both give a value, which differs between the versions."""
    return case.is_compiled and not case.has_equal_values


def check_three_processes(folder, depths, names, monkeypatch):
    """Compare the values of three processes with plain Python, and see which kernels were read from disk."""
    cases = {f"{name}, {depth}": name for depth in depths for name in names}
    refused = {case for case, name in cases.items() if not CASES[name].is_compiled}
    kept = {case for case, name in cases.items() if name not in NEVER_KEPT} - refused
    for version, from_disk in ((0, set()), (1, set()), (0, kept)):
        found = answers(folder, version, depths, names)
        values = expected(version, depths, names, monkeypatch)
        assert {case for case, (value, _) in found.items() if value is None} == refused
        wrong = {case: value for case, (value, _) in found.items() if values[case] not in (None, value)}
        assert wrong == {}
        assert {case for case, (_, was_read) in found.items() if was_read} == from_disk


@pytest.mark.slow
def test_a_process_with_another_content_compiles_its_own_kernels(tmp_path, monkeypatch):
    check_three_processes(tmp_path, [TWO_DEEP, THREE_DEEP], FEW, monkeypatch)


@pytest.mark.recompiles
@pytest.mark.parametrize("depth", DEPTHS)
def test_every_content_that_numba_compiles_has_its_own_kernel(depth, tmp_path, monkeypatch):
    names = [name for name, case in CASES.items() if case.is_compiled]
    check_three_processes(tmp_path, [depth], names, monkeypatch)


@pytest.mark.slow
def test_a_planted_bug_runs_the_code_of_the_other_process(tmp_path, monkeypatch):
    """A hash that ignores what is defined inside a function."""
    first, second = (answers(tmp_path, version, [TWO_DEEP], ["global"], planted=True) for version in (0, 1))
    [(case, stale)] = expected(0, [TWO_DEEP], ["global"], monkeypatch).items()
    assert first == {case: (stale, False)}
    assert second == {case: (stale, True)}
    assert stale != expected(1, [TWO_DEEP], ["global"], monkeypatch)[case]
