"""What code reads, from its bytes: the same as Python's disassembler says."""

import collections
import dis
import importlib
import json
import statistics
import types

import numpy as np
import pytest

from approxmcmc.engine.compiler.reads import Import, Path, reads_of

FIRST = ("LOAD_GLOBAL", "LOAD_NAME", "LOAD_DEREF", "LOAD_FROM_DICT_OR_GLOBALS", "LOAD_FROM_DICT_OR_DEREF")


def codes_of(value):
    """Yield a code object, and those of the functions and classes inside it."""
    yield value
    for constant in value.co_consts:
        if isinstance(constant, types.CodeType):
            yield from codes_of(constant)


def by_disassembly(code):
    """Return paths as texts, imported modules, and constants."""
    paths, imports, constants, is_open = [], [], {}, False
    for each in dis.get_instructions(code):
        if each.opname == "EXTENDED_ARG":
            continue
        if each.opname == "LOAD_ATTR" and is_open:
            paths[-1] += f".{each.argval}"
            continue
        is_open = each.opname in FIRST
        if is_open:
            paths.append(each.argval)
        elif each.opname == "IMPORT_NAME":
            imports.append(each.argval)
        elif each.opcode in dis.hasconst:
            constants[each.arg] = each.argval
    return set(paths), imports, list(constants.values())


@pytest.mark.thorough
@pytest.mark.parametrize(
    "module", [collections, json.decoder, statistics, np.lib._npyio_impl, importlib.import_module("pdb")]
)
def test_bytes_and_the_disassembler_agree(module):
    with open(module.__file__, encoding="utf-8") as source:
        top = compile(source.read(), module.__file__, "exec")
    codes = list(codes_of(top))
    assert len(codes) > 5
    for code in codes:
        reads = reads_of(code)
        paths, imports, constants = by_disassembly(code)
        assert {".".join((path.name, *path.attributes)) for path in reads.paths} == paths
        assert [each.module for each in reads.imports] == imports
        assert repr(list(reads.constants)) == repr(constants)


FUNCTION = """
def function(x):
    'A docstring is not a constant that the function loads.'
    from ..package import first, second
    import package.module

    return np.linalg.norm(x) + np + x.attribute

def make(outer):
    return lambda: outer.real
"""


def test_paths_go_through_attributes_that_are_read_in_a_row():
    scope = {}
    exec(FUNCTION, scope)
    reads = reads_of(scope["function"].__code__)
    assert reads.paths == (Path("np", False, ("linalg", "norm")), Path("np", False, ()))
    assert reads.imports == (Import("package", 2, ("first", "second")), Import("package.module", 0, ()))
    assert scope["function"].__doc__ not in reads.constants
    assert reads_of(scope["make"](1).__code__).paths == (Path("outer", True, ("real",)),)
