"""Save and restore a compiled state: the arrays and numbers of nested named tuples, by name.

Everything that changes from step to step is in arrays, which a chain owns; numbers are fixed at set-up. A chain that is
started again in the same way has the same names, and arrays of the same shapes: it continues from saved values once
they are written into its arrays. Numbers are compared, so that a different set-up raises.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from approxmcmc.errors import InvalidInputError


def leaves(value: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    """Yield every array and number of nested tuples with its name, such as ``evidence.order.cursor``; no functions.

    Examples
    --------
    >>> from collections import namedtuple
    >>> list(leaves(namedtuple("Clock", ["steps", "parts"])(3, (1.0, len))))
    [('steps', 3), ('parts.0', 1.0)]
    """
    if isinstance(value, tuple):
        for key, item in zip(getattr(value, "_fields", range(len(value))), value, strict=True):
            yield from leaves(item, f"{name}.{key}" if name else str(key))
    elif isinstance(value, (np.ndarray, np.generic, bool, int, float)):
        yield name, value


def restore(memory: Mapping[str, Any], remembered: Mapping[str, Any]) -> None:
    """Overwrite the arrays in `memory` with the saved ones in `remembered`, both by the names of `leaves`.

    Raises
    ------
    InvalidInputError
        When names, sizes or numbers differ, because the sampler was set up differently.
    """
    if other := memory.keys() ^ remembered.keys():
        raise _does_not_fit(f"{sorted(other)} occur in only one of the two")
    for name, own in memory.items():
        there = remembered[name]
        if not isinstance(own, np.ndarray):
            if not np.array_equal(own, there, equal_nan=True):
                raise _does_not_fit(f"{name} was {there!r} and is {own!r}")
        elif np.size(there) != own.size:
            raise _does_not_fit(f"{name} had {np.size(there)} entries and has {own.size}")
    for name, own in memory.items():
        if isinstance(own, np.ndarray):
            own[...] = np.reshape(remembered[name], own.shape)


def _does_not_fit(reason: str) -> InvalidInputError:
    return InvalidInputError(
        f"the state of a chain does not fit the sampler as it is set up now: {reason}; target, sampler and library "
        "must be those that wrote it"
    )
