"""Add the name of the owner of a value to an error from inside, such as NumPy's about a wrong type.

Functions and components check their values with messages of their own. If a value has a type that even the comparison
does not support, the comparison raises; that error gets a note.
"""

import functools
import inspect
import reprlib
from collections.abc import Callable, Mapping
from typing import Any

from approxmcmc.errors import ApproxMCMCError

WRONG_KIND = (TypeError, ValueError, OverflowError)


def note_values(error: Exception, owner: str, values: Mapping[str, Any], what: str) -> None:
    """Add a note with the owner's values to an error, unless its message already names the owner."""
    if not str(error).startswith(owner):
        shown = ", ".join(f"{name}={reprlib.repr(value)}" for name, value in values.items())
        error.add_note(f"{owner}({shown}): {what} of the wrong kind; help({owner}) says what each must be")


def naming_the_arguments[**P, R](function: Callable[P, R]) -> Callable[P, R]:
    """Wrap a function so that errors from outside the package get a note with its arguments."""
    names = tuple(inspect.signature(function).parameters)

    @functools.wraps(function)
    def named(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return function(*args, **kwargs)
        except WRONG_KIND as error:
            if not isinstance(error, ApproxMCMCError):
                given = dict(zip(names, args, strict=False)) | kwargs
                note_values(error, function.__name__, given, "an argument")
            raise

    return named
