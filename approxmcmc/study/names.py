"""Names: which are valid, and the nearest valid name to a mistyped one."""

import difflib
import re
from collections.abc import Iterable

from approxmcmc.errors import StudyError


def nearest(name: str, names: Iterable[str]) -> str:
    """Return the end of a sentence about an unknown name: the name, the nearest valid one, and all of them."""
    known = list(names)
    close = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
    guess = f"; did you mean {close[0]!r}?" if close else "."
    return f"{name!r}{guess} (There {'is' if len(known) == 1 else 'are'}: {', '.join(known) or 'none'}.)"


def check_name(role: str, name: str) -> None:
    """Raise StudyError unless a name is a valid file name."""
    pattern = r"[a-z0-9][a-z0-9_-]*" if role in ("study", "preset") else r"[A-Za-z0-9][A-Za-z0-9_.-]*"
    if not isinstance(name, str) or not re.fullmatch(pattern, name):
        case = " in lower case" if role in ("study", "preset") else ""
        raise StudyError(
            f"The name of a {role} is used for files, so it must start with a letter or digit and contain letters, "
            f"digits, '_' and '-'{case}; found {name!r}."
        )
