"""Texts that identify numba's types."""

from collections.abc import Iterable
from typing import Any

from numba import types


def spelled(numba_type: Any) -> str:
    """Return a text that identifies a type, with the fields of named tuples in their order, which kernels rely on."""
    if isinstance(numba_type, types.BaseTuple):
        fields = getattr(numba_type, "fields", None) or [""] * len(numba_type)
        items = (f"{field}: {spelled(item)}" for field, item in zip(fields, numba_type, strict=True))
        return f"({', '.join(items)})"
    if isinstance(numba_type, types.FunctionType):
        return f"{numba_type} {sorted(_modules_of(numba_type.signature.args))}"
    return str(numba_type)


def _modules_of(numba_types: Iterable[Any]) -> set[str]:
    """Return the modules of the named tuples among some types, nested ones included.

    A kernel that reads a function pointer stores the types of its arguments as a pickle, which names their classes by
    module: it cannot run once a class has moved.
    """
    modules: set[str] = set()
    for numba_type in numba_types:
        if isinstance(numba_type, types.BaseTuple):
            modules |= _modules_of(numba_type)
        if isinstance(numba_type, types.BaseNamedTuple):
            modules.add(numba_type.instance_class.__module__)
    return modules
