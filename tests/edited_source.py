"""Bugs in the middle of a long loop: a function with one piece of its source replaced."""

import inspect
import sys
import textwrap


def edited(function, right, wrong):
    """Return the function with `wrong` in the place of `right`, as plain Python and without its decorators."""
    function = getattr(function, "__wrapped__", getattr(function, "py_func", function))
    source = textwrap.dedent(inspect.getsource(function))
    assert right in source, f"{function.__name__} no longer holds {right!r}: update the planted bug"
    scope = dict(vars(sys.modules[function.__module__]))
    exec(source[source.index("def ") :].replace(right, wrong), scope)
    return scope[function.__name__]
