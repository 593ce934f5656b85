"""Whatever a user's function reads, at any depth: its change gives another hash, or an error, never the same hash."""

import types

import numpy as np
import pytest
from numba.core.typing.templates import builtin_registry

from approxmcmc.engine.compiler import identity
from approxmcmc.engine.compiler.identity import UnknownContentError, content_id
from tests.mutations import CASES, DEPTHS, REFUSED, function


def hashes(case, depth):
    """Return the hashes of two modules with the first version, and of one with the second."""
    found = []
    for version in (0, 0, 1):
        registered = len(builtin_registry.attributes)
        found.append(content_id(function(CASES[case], depth, version)))
        del builtin_registry.attributes[registered:]  # as in a process that imports one of the modules
        identity._overloads.cache_clear()
    return found


@pytest.fixture(autouse=True)
def _forget_what_libraries_were_given(monkeypatch):
    monkeypatch.setattr(np, "given_by_the_user", None, raising=False)


@pytest.mark.thorough
@pytest.mark.parametrize("depth", DEPTHS)
@pytest.mark.parametrize(
    "case", [pytest.param(name, marks=[pytest.mark.needs_jit] * case.is_only_of_numba) for name, case in CASES.items()]
)
def test_a_mutation_changes_the_hash(case, depth):
    first, again, second = hashes(case, depth)
    assert first == again  # of another module with the same source
    assert first != second


@pytest.mark.thorough
@pytest.mark.parametrize("case", [name for name, case in CASES.items() if not case.has_equal_values])
def test_the_mutations_change_values(case, monkeypatch):
    """In plain Python; or the table would prove nothing."""
    monkeypatch.setattr("numba.core.config.DISABLE_JIT", True)
    one, other = (function(CASES[case], "two functions deep", version)(1.0) for version in (0, 1))
    assert one != other


@pytest.mark.thorough
@pytest.mark.parametrize("depth", DEPTHS)
@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_hashed_is_refused(case, depth):
    with pytest.raises(UnknownContentError):
        content_id(function(REFUSED[case], depth))


def _without_inner_functions(monkeypatch):
    """Follow the functions inside a function, but not those inside them."""
    add, depth = identity.Walk._add_code, []

    def shallow(walk, code, function, closure):
        if len(depth) < 2:
            depth.append(code)
            add(walk, code, function, closure)
            depth.pop()

    def whole(walk, code, function, closure):
        outer, depth[:] = depth[:], [] if code is function.__code__ else depth
        shallow(walk, code, function, closure)
        depth[:] = outer

    monkeypatch.setattr(identity.Walk, "_add_code", whole)


def _classes_by_name(monkeypatch):
    ways = tuple(
        (kinds, (lambda walk, value: walk.put(value.__qualname__)) if kinds is type else add)
        for kinds, add in identity._WAYS
    )
    monkeypatch.setattr(identity, "_WAYS", ways)


def _flat_tuples(monkeypatch):
    def flat(walk, value):
        for item in value:
            walk.add(item)

    monkeypatch.setattr(identity.Walk, "_add_tuple", flat)


def _modules_by_name(monkeypatch):
    monkeypatch.setattr(identity.Walk, "finish", lambda walk: None)


def _no_overloads(monkeypatch):
    monkeypatch.setattr(identity.Walk, "_add_overloads", lambda walk, templates: None)


def _defaults_by_place(monkeypatch):
    add = identity.Walk._add_parts

    def without(walk, kind, *parts):
        add(walk, kind, *(parts[:1] if kind == "defaults" else parts))

    monkeypatch.setattr(identity.Walk, "_add_parts", without)


def _arrays_by_bytes(monkeypatch):
    monkeypatch.setattr(identity.Walk, "_add_array", lambda walk, value: walk.put(np.asarray(value).tobytes()))


def _libraries_by_claim(monkeypatch):
    """Believe the name of a module that a function claims."""
    monkeypatch.setattr(
        identity.Walk, "_belongs_to_library", lambda walk, value: not isinstance(value, types.ModuleType) or True
    )


@pytest.mark.parametrize(
    ("plant", "case", "depth"),
    [
        (_without_inner_functions, "global", "two functions deep"),
        (_classes_by_name, "order of the fields of a named tuple", "directly"),
        (_classes_by_name, "method of a class", "directly"),
        (_flat_tuples, "the length of inner tuples", "directly"),
        (_modules_by_name, "module passed on", "directly"),
        (_no_overloads, "overloaded method", "directly"),
        (_defaults_by_place, "keyword-only default", "directly"),
        (_arrays_by_bytes, "an array's shape", "directly"),
        (_libraries_by_claim, "function that a library was given", "directly"),
    ],
)
def test_planted_bugs_are_found(plant, case, depth, monkeypatch):
    first, again, second = hashes(case, depth)
    assert first == again != second
    plant(monkeypatch)
    first, again, second = hashes(case, depth)
    assert first == again == second
