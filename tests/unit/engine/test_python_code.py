"""Whatever code that Python runs reads changes its hash, or is listed as unknown; nothing else does."""

import dataclasses
import threading

import numpy as np
import pandas as pd
import pytest
from numba.core.typing.templates import builtin_registry

from approxmcmc.engine.compiler import identity
from approxmcmc.engine.compiler.identity import content_id
from approxmcmc.engine.compiler.libraries import installed_version
from approxmcmc.engine.compiler.python_code import code_content
from tests.mutations import CASES, REFUSED, function


def content(value):
    return code_content(value, libraries=installed_version)


def contents(case, versions):
    for version in versions:
        registered = len(builtin_registry.attributes)
        yield content(function(case, "two functions deep", version))
        del builtin_registry.attributes[registered:]  # as in a process that imports one of the modules
        identity._overloads.cache_clear()


@pytest.mark.thorough
@pytest.mark.parametrize(
    "case", [pytest.param(name, marks=[pytest.mark.needs_jit] * case.is_only_of_numba) for name, case in CASES.items()]
)
def test_a_mutation_changes_the_hash(case, monkeypatch):
    monkeypatch.setattr(np, "given_by_the_user", None, raising=False)
    first, again, second = contents(CASES[case], (0, 0, 1))
    assert first == again
    assert first.id != second.id
    assert first.unknown == ()


@pytest.mark.thorough
@pytest.mark.parametrize("case", REFUSED)
def test_what_a_kernel_refuses_is_hashed_alike_in_two_modules(case):
    first, again = contents(REFUSED[case], (0, 0))
    assert first == again


OVERLOADS = """
import numpy as np
from numba import types
from numba.extending import overload, overload_attribute

@overload(np.trace)
def trace(x):
    return lambda x: 0.0

@overload_attribute(types.Array, "of_the_test")
def of_the_test(x):
    return lambda x: 0.0
"""


@pytest.mark.thorough
@pytest.mark.parametrize(("home", "is_content"), [("pytensor.made_up", False), ("my_module", True)])
def test_only_overloads_of_the_user_are_content(home, is_content):
    """A library declares its own when it is imported, which may be after the first plan of a study."""

    def reading(x):
        return np.trace(x) + x.of_the_test

    before = content(reading)
    registered = len(builtin_registry.globals), len(builtin_registry.attributes)
    exec(OVERLOADS, {"__name__": home})
    after = content(reading)
    del builtin_registry.globals[registered[0] :]
    del builtin_registry.attributes[registered[1] :]
    identity._overloads.cache_clear()
    assert (before != after) is is_content


class Counter:
    def __init__(self, start):
        self.start = start


@dataclasses.dataclass(frozen=True)
class Settings:
    scale: float
    seconds: float = dataclasses.field(default=0.0, compare=False)


OBJECTS = {
    "instance": (lambda: Counter(1), lambda: Counter(2)),
    "dataclass": (lambda: Settings(1.0, seconds=3.0), lambda: Settings(2.0, seconds=3.0)),
    "table": (lambda: pd.DataFrame({"a": [1.0], "b": ["x"]}), lambda: pd.DataFrame({"a": [1.0], "b": ["y"]})),
    "objects in an array": (lambda: np.array([None, "a"], dtype=object), lambda: np.array([None, "b"], dtype=object)),
    "nested": (lambda: {"a": [Counter(np.zeros(2))]}, lambda: {"a": [Counter(np.ones(2))]}),
}


@pytest.mark.parametrize("kind", OBJECTS)
def test_an_object_counts_by_what_it_holds(kind):
    def reading(value):
        return content(lambda: value)

    make, make_other = OBJECTS[kind]
    assert reading(make()) == reading(make())
    assert reading(make()).id != reading(make_other()).id
    assert reading(make()).unknown == ()


def test_a_field_outside_comparisons_is_no_content():
    assert content(Settings(1.0, seconds=1.0)) == content(Settings(1.0, seconds=2.0))


def test_the_hash_is_the_same_after_the_object_was_pickled():
    """Pickle writes `__slotnames__` into the class."""

    class Fresh(Counter):
        pass

    before = content(Fresh(1))
    Fresh(1).__reduce_ex__(4)
    assert content(Fresh(1)) == before


def test_an_object_without_readable_content_is_named_with_its_reader():
    generator = np.random.default_rng(0)
    lock = threading.Lock()

    def draw():
        with lock:
            return generator.random()

    [sentence] = content(draw).unknown
    assert "draw: generator refers to a random generator, whose state changes" in sentence


def test_pieces_say_which_function_changed():
    def make(number):
        def helper():
            return number

        def unchanged():
            return 1

        return lambda: (unchanged(), helper(), unchanged())

    first, second = (content(make(number)).pieces for number in (1.0, 2.0))
    assert first.keys() == second.keys()
    assert {name for name in first if first[name] != second[name]} == {"number"}


def test_a_function_that_a_kernel_could_call_has_the_hash_of_a_kernel():
    def start(target, rng):
        return rng.normal(size=target.dim)

    assert content(start).id == content_id(start)
