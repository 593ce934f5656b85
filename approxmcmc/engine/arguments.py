"""Public functions that say what they were given when an error comes from inside."""

import functools
import inspect
from collections.abc import Callable

from approxmcmc.contracts.naming import WRONG_KIND, note_values
from approxmcmc.errors import ApproxMCMCError


def naming_the_arguments[**P, R](function: Callable[P, R]) -> Callable[P, R]:
    """Return a function that notes its arguments on an error that is none of the package's."""
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
