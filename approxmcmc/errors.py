"""Exceptions and warnings of the package.

Every message says four things: which pieces are concerned, what they need, what was found, what to do.
"""


class ApproxMCMCError(Exception):
    """Base of every error that the package raises on purpose."""


class InvalidInputError(ApproxMCMCError, ValueError):
    """An argument or a data array cannot be used; raised before anything runs."""


class IncompatibleError(ApproxMCMCError, TypeError):
    """A target, proposal, test or sampler lacks what its partner needs; raised before anything runs."""


class CompilationError(ApproxMCMCError, TypeError):
    """A function supplied by the user does not compile, or returns the wrong type."""


class SamplingError(ApproxMCMCError, ArithmeticError):
    """A chain failed before there was a draw to keep."""


class NotFiniteError(SamplingError):
    """A log density was NaN where the sampler needed a number."""


class GoldStandardError(ApproxMCMCError):
    """A gold standard failed a quality gate, or does not fit what it is compared with."""


class StudyError(ApproxMCMCError):
    """A study is declared, stored or resumed in a way that cannot be carried out."""


class DatasetError(ApproxMCMCError, OSError):
    """A data set could not be found, downloaded or verified."""


class MissingExtraError(ApproxMCMCError, ImportError):
    """A task needs a library that a plain installation leaves out; the message names the extra that brings it."""


class ApproxMCMCWarning(UserWarning):
    """Base of every warning that the package gives, for filters: one line silences all, or turns them into errors."""


class CacheWarning(ApproxMCMCWarning):
    """What was stored to save time cannot be used, and is made anew; no result changes."""


class ClusterWarning(ApproxMCMCWarning):
    """A Dask cluster cannot be used for something, which this process does in its place; no result changes."""


class CheckpointWarning(ApproxMCMCWarning):
    """A checkpoint of a run could not be written; the run goes on, and no draw changes."""


class DatasetWarning(ApproxMCMCWarning):
    """A data set is not the one that was asked for, or not from where it should be."""


class SamplingWarning(ApproxMCMCWarning):
    """A run finished, and its draws deserve a second look (stuck chain, heavy tails, wrong decisions)."""
