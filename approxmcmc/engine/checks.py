"""Looking at settings, and showing numbers in messages."""

from typing import Any

import numpy as np

from approxmcmc.errors import InvalidInputError


def is_integer(value: Any, *, whole_floats: bool = False) -> bool:
    """Return whether a value is an int or NumPy's, and no bool; with `whole_floats` 5.0 is one, too."""
    if isinstance(value, (float, np.floating)):
        return whole_floats and value % 1 == 0
    return isinstance(value, (int, np.integer)) and not isinstance(value, bool)


def checked_integer(
    value: Any, name: str, least: int = 1, *, who: str = "", needed: str = "", whole_floats: bool = False
) -> int:
    """Return an integer of at least `least` as an int.

    Raises
    ------
    InvalidInputError
        For anything else; the message names the setting, `needed` says what it must be.
    """
    if not (is_integer(value, whole_floats=whole_floats) and value >= least):
        owner = f"{who}: " if who else ""
        raise InvalidInputError(f"{owner}{name} must be {needed or f'an integer >= {least}'}, found {value!r}")
    return int(value)


def show(theta: np.ndarray) -> str:
    """Return a parameter vector as messages show it."""
    return np.array2string(theta, precision=6, threshold=20)
