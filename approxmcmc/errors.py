"""Exceptions and warnings of the package.

Every message names the parts concerned, what they need, what was found, and what to do. If an argument has a type that
its check cannot handle, the error comes from NumPy or Python; a note then adds the name of the function or component
and its arguments (`note_values`).
"""

import os
import reprlib
import warnings
from collections.abc import Mapping
from typing import Any

PACKAGE = os.path.join(os.path.dirname(__file__), "")


class ApproxMCMCError(Exception):
    """Base of the errors that this package defines."""


class InvalidInputError(ApproxMCMCError, ValueError):
    """An argument or a data array is invalid, or does not fit the others; `sample` raises it before any chain runs."""


class IncompatibleError(ApproxMCMCError, TypeError):
    """A target, proposal, test or sampler lacks something that another part needs; raised before the chains run."""


class CompilationError(ApproxMCMCError, TypeError):
    """A function supplied by the user fails, does not compile, or returns the wrong type."""


class SamplingError(ApproxMCMCError, ArithmeticError):
    """No chain could start, or a chain failed before its first kept draw."""


class NotFiniteError(SamplingError):
    """A log density, a term or a weight was NaN or infinite where a number was needed."""


class GoldStandardError(ApproxMCMCError):
    """A gold standard failed a quality gate, or does not fit what it is compared with."""


class StudyError(ApproxMCMCError):
    """A study cannot be run as it is declared, stored or resumed."""


class DatasetError(ApproxMCMCError, OSError):
    """A data set could not be found, downloaded or verified."""


class MissingExtraError(ApproxMCMCError, ImportError):
    """A task needs a library that a plain installation leaves out; the message names the extra that installs it."""


class ApproxMCMCWarning(UserWarning):
    """Base of every warning of the package: one filter silences all of them, or turns them into errors."""


class CacheWarning(ApproxMCMCWarning):
    """A stored file that saves time cannot be used and is rebuilt; no result changes."""


class ClusterWarning(ApproxMCMCWarning):
    """A Dask cluster cannot do a task, so this process does it; no result changes."""


class CheckpointWarning(ApproxMCMCWarning):
    """A checkpoint of a run could not be written; the run continues, and no draw changes."""


class DatasetWarning(ApproxMCMCWarning):
    """A data set is not the requested one, may lack parts, or comes from an unexpected source."""


class LeftOutWarning(ApproxMCMCWarning):
    """A trace lacks a variable of the model that is too large or cannot be computed; all other draws are complete."""


class SamplingWarning(ApproxMCMCWarning):
    """A run finished, but its draws may be wrong or too few (stuck chain, heavy tails, wrong decisions)."""


def warn(message: str, category: type[Warning]) -> None:
    """Issue a warning at the line of the caller's code that led to it: the nearest line outside this package."""
    warnings.warn(message, category, skip_file_prefixes=(PACKAGE,))


WRONG_KIND = (TypeError, ValueError, OverflowError)  # what NumPy and Python raise for a value of an unsupported type


def note_values(error: Exception, owner: str, values: Mapping[str, Any], what: str) -> None:
    """Add the note ``owner(name=value, ...): {what} of the wrong kind``.

    `owner` is the name of a function or class, `values` holds its arguments, `what` is "an argument" or "a setting".
    """
    error.add_note(f"{_call(owner, values)}: {what} of the wrong kind; help({owner}) says what each must be")


def note_memory(error: MemoryError, owner: str, values: Mapping[str, Any]) -> None:
    """Add a note with the arguments of a function that asked for more memory than there is."""
    error.add_note(f"{_call(owner, values)}: needs more memory than there is; an argument may be too large")


def _call(owner: str, values: Mapping[str, Any]) -> str:
    shown = ", ".join(f"{name}={reprlib.repr(value)}" for name, value in values.items())
    return f"{owner}({shown})"
