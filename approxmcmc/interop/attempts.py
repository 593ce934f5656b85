"""Attempts to read a model: each ends in a result, or in a reason; unexpected exceptions are faults, and recorded.

A reader that does not support a model raises `NotPossibleError`, often from deep in a recursion over a graph, or an
error of this library: both have a sentence for users. `attempt` is the only place that catches them. Any other
exception is a fault of this library or of PyTensor. The model then runs by a slower plan: a warning and `explain` name
the fault, and so does the trace, in the attribute ``reading_faults``. If the environment variable `RAISE_VARIABLE` is
set, as in the tests of this library, the exception is raised instead.

PyTensor and PyMC raise common exceptions, such as `TypeError`, at graphs that they do not support. `refusals` takes
those for reasons only if a line outside of this package raised them: the same exception from a line of this package
stays a fault.
"""

import contextlib
import os
import pathlib
import traceback
from collections.abc import Callable, Iterator
from typing import NamedTuple

from approxmcmc.errors import ApproxMCMCError, SamplingWarning, warn

RAISE_VARIABLE = "APPROXMCMC_RAISE_FAULTS"
PACKAGE = pathlib.Path(__file__).parents[1]


class NotPossibleError(Exception):
    """Raised by a reader with the reason why it cannot read a model; `attempt` catches it."""


class Reason(NamedTuple):
    """Why an attempt had no result: a sentence for users, and the exception that ended the attempt."""

    sentence: str
    error: Exception

    @property
    def is_fault(self) -> bool:
        """Whether the attempt ended in an unexpected exception."""
        return not isinstance(self.error, NotPossibleError | ApproxMCMCError)

    def again(self) -> Exception:
        """Return the exception that ends another attempt for the same reason; a fault is recorded only once."""
        return NotPossibleError(self.sentence) if self.is_fault else self.error


def attempt[Result](read: Callable[[], Result], faults: list[str]) -> Result | Reason:
    """Return ``read()``, or the reason why that is impossible; the sentence on a fault is added to `faults`.

    Every exception is a reason, except one that the process cannot go on with, such as `MemoryError`.
    """
    try:
        return read()
    except (NotPossibleError, ApproxMCMCError) as error:
        return Reason(str(error).removeprefix("from_pymc: "), error)
    except MemoryError:
        raise
    except Exception as error:
        faults.append(fault_of(error))
        return Reason(faults[-1], error)


@contextlib.contextmanager
def refusals(*kinds: type[Exception], reason: Callable[[Exception], Exception]) -> Iterator[None]:
    """Raise ``reason(error)`` for an exception of these `kinds` that a library or the user's code raised in the block.

    One that a line of this package raised is a fault, and passes unchanged.
    """
    try:
        yield
    except kinds as error:
        if is_own(error):
            raise
        raise reason(error) from error


def is_own(error: Exception) -> bool:
    """Return whether a line of this package raised an exception, not one of a library or of the user."""
    *_, (frame, _) = traceback.walk_tb(error.__traceback__)
    return pathlib.Path(frame.f_code.co_filename).is_relative_to(PACKAGE)


def fault_of(
    error: Exception,
    failed: str = "reading its graph failed",
    consequence: str = "a model may run by a slower plan",
) -> str:
    """Return the sentence on an unexpected exception, what `failed` with it, and warn of it and of the `consequence`.

    It names the exception and the last line of this package that was reached. With `RAISE_VARIABLE` set, the exception
    is raised again.
    """
    if os.environ.get(RAISE_VARIABLE):
        raise error
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if pathlib.Path(frame.filename).is_relative_to(PACKAGE)]
    line = f", {pathlib.Path(own[-1].filename).name}:{own[-1].lineno}" if own else ""
    sentence = (
        f"{failed} ({type(error).__name__}{line}: {first_line(error)}), which is a fault of approxmcmc; please report "
        "the model"
    )
    warn(f"{consequence}: {sentence}", SamplingWarning)
    return sentence


def first_line(error: Exception) -> str:
    """Return the first line of an error's message, at most 200 characters."""
    return str(error).strip().split("\n", 1)[0][:200]
