"""What a code object reads from outside: globals, closure variables, imports, and attributes of each.

The byte code is read, not run. A read is a path: the name of a variable, and the attributes that are taken of it in the
instructions that follow, such as ``package.module.CONSTANT``. `dis.get_instructions` gives the same in ten times the
time, which was most of the cost of a hash (`tests/unit/engine/test_reads.py` compares the two).
"""

import dis
import functools
import types
from collections.abc import Iterator
from typing import Any, NamedTuple

_GLOBALS = frozenset({"LOAD_GLOBAL", "LOAD_NAME", "LOAD_FROM_DICT_OR_GLOBALS"})
_CELLS = frozenset({"LOAD_DEREF", "LOAD_FROM_DICT_OR_DEREF"})
_ATTRIBUTES = frozenset({"LOAD_ATTR"})
_HALVED = frozenset({"LOAD_GLOBAL", "LOAD_ATTR"})  # the lowest bit of the argument says whether a call follows
_CONSTANTS = frozenset(dis.opname[code] for code in dis.hasconst)
_TRANSPARENT = frozenset({"CACHE"})  # may stand between a variable and its attribute


class Path(NamedTuple):
    """A variable of this `name`, a closure variable if `is_cell`, and the `attributes` that are read of it in a row."""

    name: str
    is_cell: bool
    attributes: tuple[str, ...]


class Import(NamedTuple):
    """An import inside a function: ``import module``, or ``from module import names``; `level` counts leading dots."""

    module: str
    level: int
    names: tuple[str, ...]


class Reads(NamedTuple):
    """What one code object reads, without the code objects of functions defined inside it.

    `constants` are those that instructions load: a docstring is not one of them, an inner code object is.
    """

    paths: tuple[Path, ...]
    imports: tuple[Import, ...]
    constants: tuple[Any, ...]


@functools.lru_cache(maxsize=4096)
def reads_of(code: types.CodeType) -> Reads:
    """Return what `code` reads; remembered for equal code."""
    cells = (*code.co_varnames, *(name for name in code.co_cellvars if name not in code.co_varnames), *code.co_freevars)
    paths: list[Path] = []
    imports: list[Import] = []
    constants: dict[int, Any] = {}
    loaded: list[Any] = [None, None]  # the constants that the last instructions loaded
    has_open_path = False  # whether an attribute that comes next belongs to the last path
    for operation, argument in _instructions(code.co_code):
        if operation in _TRANSPARENT:
            continue
        if operation in _ATTRIBUTES and has_open_path:
            last = paths[-1]
            paths[-1] = last._replace(attributes=(*last.attributes, code.co_names[argument]))
            continue
        has_open_path = operation in _GLOBALS or operation in _CELLS
        if operation in _GLOBALS:
            paths.append(Path(code.co_names[argument], False, ()))
        elif operation in _CELLS:
            paths.append(Path(cells[argument], True, ()))
        elif operation in _CONSTANTS:
            constants[argument] = code.co_consts[argument]
            loaded.append(code.co_consts[argument])
        elif operation == "LOAD_SMALL_INT":
            loaded.append(argument)
        elif operation == "IMPORT_NAME":
            level, names = loaded[-2:]  # the compiler loads both just before
            imports.append(Import(code.co_names[argument], level, tuple(names or ())))
    return Reads(tuple(dict.fromkeys(paths)), tuple(imports), tuple(constants.values()))


def _instructions(byte_code: bytes) -> Iterator[tuple[str, int]]:
    """Yield the name and the argument of each instruction: two bytes, with more bytes of the argument before them."""
    more = 0
    for operation, low in zip(byte_code[::2], byte_code[1::2], strict=True):
        argument = more << 8 | low
        name = dis.opname[operation]
        more = argument if name == "EXTENDED_ARG" else 0
        if name != "EXTENDED_ARG":
            yield name, argument >> 1 if name in _HALVED else argument
