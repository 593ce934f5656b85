"""Messages of the package, on the logger ``approxmcmc``: INFO for what a user should know, DEBUG for what takes time.

Where nobody has set up logging, INFO and above is written to standard error: the first message sees to it, nothing
happens at import. Silence it, or ask for more, with ``logging.getLogger("approxmcmc").setLevel(logging.WARNING)`` or
``logging.DEBUG``. What is wrong with a run or with a file is a warning of a category (`approxmcmc.errors`), and no
message.
"""

import logging
import re
import sys
from typing import TextIO

LOGGER = logging.getLogger("approxmcmc")


class _ToStandardError(logging.StreamHandler[TextIO]):
    """Write to what is standard error at that time: notebooks and tests put another one in its place."""

    def __init__(self) -> None:
        super().__init__(sys.stderr)
        self.setFormatter(logging.Formatter("%(name)s: %(message)s"))

    def emit(self, record: logging.LogRecord) -> None:
        """Write one message."""
        self.stream = sys.stderr
        super().emit(record)


def first_clause(text: str) -> str:
    """Return a message up to its first semicolon, colon or full stop: what is the matter, without what to do.

    >>> first_clause("the model has no observed variable; give one variable observed=")
    'the model has no observed variable'
    """
    return re.split(r"[;:.]\s", text, maxsplit=1)[0].rstrip(".")


def tell(message: str, *values: object) -> None:
    """Log at INFO what a user should know; `values` fill the message's ``%s``."""
    _log(logging.INFO, message, *values)


def detail(message: str, *values: object) -> None:
    """Log at DEBUG what takes time."""
    _log(logging.DEBUG, message, *values)


def _log(level: int, message: str, *values: object) -> None:
    if not LOGGER.hasHandlers():
        LOGGER.addHandler(_ToStandardError())
        if LOGGER.level == logging.NOTSET:
            LOGGER.setLevel(logging.INFO)
    LOGGER.log(level, message, *values)
