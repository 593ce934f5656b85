"""Record unexpected exceptions while a model is read, or raise them in tests.

A reader that does not support a model raises `NotGroupsError` or `NoLinearPredictorError` with the reason. Any other
exception is a fault of this library or of PyTensor. The model then runs by a slower plan: a warning and `explain` name
the fault, and so does the trace, in the attribute ``reading_faults``. If the environment variable `RAISE_VARIABLE` is
set, as in the tests of this library, the exception is raised instead.
"""

import os
import pathlib
import traceback

from numba.core.errors import NumbaError

from approxmcmc.errors import ApproxMCMCError, SamplingWarning, warn
from approxmcmc.interop.rows import first_line

# What PyTensor and numba raise at graphs that cannot be rebuilt, differentiated, compiled, or read on a subset of rows.
FAULTS = AssertionError, AttributeError, IndexError, NotImplementedError, NumbaError, TypeError, ValueError
RAISE_VARIABLE = "APPROXMCMC_RAISE_FAULTS"
PACKAGE = pathlib.Path(__file__).parents[1]


def fault_of(error: Exception) -> str:
    """Return the sentence on an exception in `FAULTS` that stopped the reading of a model.

    It names the exception and the last line of this package that was reached, and is also a warning. An error of this
    library, such as of a model without observed variable, is not a fault and is raised again; with `RAISE_VARIABLE` set
    every exception is.
    """
    if isinstance(error, ApproxMCMCError) or os.environ.get(RAISE_VARIABLE):
        raise error
    frames = traceback.extract_tb(error.__traceback__)
    places = [frame for frame in frames if pathlib.Path(frame.filename).is_relative_to(PACKAGE)]
    place = f", {pathlib.Path(places[-1].filename).name}:{places[-1].lineno}" if places else ""
    sentence = (
        f"reading its graph failed ({type(error).__name__}{place}: {first_line(error)}), which is a fault of "
        "approxmcmc; please report the model"
    )
    warn(f"a model may run by a slower plan: {sentence}", SamplingWarning)
    return sentence
