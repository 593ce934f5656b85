"""An error from inside, such as NumPy's about a value of the wrong kind, is told with whose value it was.

What a function or a component knows of its values it checks, in sentences of its own. A value of a kind that it cannot
even compare fails in the comparison: that error gets a note.
"""

import functools
import inspect
import reprlib
from collections.abc import Callable, Mapping
from typing import Any

from approxmcmc.errors import ApproxMCMCError

WRONG_KIND = (TypeError, ValueError, OverflowError)


def note_values(error: Exception, owner: str, values: Mapping[str, Any], what: str) -> None:
    """Add to an error the values that its owner was given, unless it says whose it is."""
    if not str(error).startswith(owner):
        shown = ", ".join(f"{name}={reprlib.repr(value)}" for name, value in values.items())
        error.add_note(f"{owner}({shown}): {what} of the wrong kind; help({owner}) says what each must be")


def naming_the_arguments[**P, R](function: Callable[P, R]) -> Callable[P, R]:
    """Return a function that notes its arguments on an error that the package does not raise itself."""
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
