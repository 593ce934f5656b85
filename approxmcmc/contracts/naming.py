"""An error from inside, such as NumPy's about a value of the wrong kind, is told with whose value it was.

What a function or a component knows of its values it checks, in sentences of its own. A value of a kind that it cannot
even compare fails in the comparison: that error gets a note.
"""

import reprlib
from collections.abc import Mapping
from typing import Any

WRONG_KIND = (TypeError, ValueError, OverflowError)


def note_values(error: Exception, owner: str, values: Mapping[str, Any], what: str) -> None:
    """Add to an error the values that its owner was given, unless it says whose it is."""
    if not str(error).startswith(owner):
        shown = ", ".join(f"{name}={reprlib.repr(value)}" for name, value in values.items())
        error.add_note(f"{owner}({shown}): {what} of the wrong kind; help({owner}) says what each must be")
