"""Messages of the package, on the logger ``approxmcmc``: INFO for what a user should know, DEBUG for slow tasks.

If logging is not configured, INFO and above goes to standard error: the first message sets this up, not the import.
Change the level with ``logging.getLogger("approxmcmc").setLevel(logging.WARNING)`` or ``logging.DEBUG``. Problems of a
run or a file are warnings with a category (`approxmcmc.errors`), not messages.
"""

import logging
import re
import sys
from typing import TextIO

LOGGER = logging.getLogger("approxmcmc")


class _ToStandardError(logging.StreamHandler[TextIO]):
    """Write to the current standard error, which notebooks and tests replace."""

    def __init__(self) -> None:
        super().__init__(sys.stderr)
        self.setFormatter(logging.Formatter("%(name)s: %(message)s"))

    def emit(self, record: logging.LogRecord) -> None:
        """Write one log record to standard error."""
        self.stream = sys.stderr
        super().emit(record)


def first_clause(text: str) -> str:
    """Return the part of a message before its first semicolon, colon or full stop with a space after it.

    This is the problem, without the advice.

    >>> first_clause("the model has no observed variable; give one variable observed=")
    'the model has no observed variable'
    """
    return re.split(r"[;:.]\s", text, maxsplit=1)[0].rstrip(".")


def tell(message: str, *values: object) -> None:
    """Log at INFO a message for the user; `values` fill the message's ``%s``."""
    _log(logging.INFO, message, *values)


def detail(message: str, *values: object) -> None:
    """Log a message about a slow task at DEBUG; `values` fill the message's ``%s``."""
    _log(logging.DEBUG, message, *values)


def _log(level: int, message: str, *values: object) -> None:
    if not LOGGER.hasHandlers():
        LOGGER.addHandler(_ToStandardError())
        if LOGGER.level == logging.NOTSET:
            LOGGER.setLevel(logging.INFO)
    LOGGER.log(level, message, *values)
