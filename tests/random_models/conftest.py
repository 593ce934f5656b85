"""Set-up of the tests of random models: functions of PyTensor that are made in a tenth of the time."""

import pymc.initial_point  # noqa: F401  # reads FAST_COMPILE by its module
import pytest
from pytensor import config
from pytensor.compile import mode
from pytensor.compile.mode import Mode
from pytensor.graph.rewriting.db import RewriteDatabaseQuery

from approxmcmc.expansion import posterior
from approxmcmc.interop import kernels, returned
from approxmcmc.interop.groups import check, coordinates, effects, values
from approxmcmc.interop.summed import draws, model as summed_model

# Equal parts are merged, because some functions are called thousands of times; no other rewriting, which takes nine
# tenths of the time. What the library rewrites itself (`graphs.simplify`) is rewritten here, too.
MERGED = Mode(linker="py", optimizer=RewriteDatabaseQuery(include=["merge"]))
READERS = kernels, returned, check, coordinates, effects, values, draws, summed_model


@pytest.fixture(autouse=True)
def gradients_of_priors_by_pytensor(monkeypatch):
    """Take gradients of priors from PyTensor: differences need 2 dim values, each of which takes .3 ms uncompiled."""
    monkeypatch.setattr(posterior, "FEW_PARAMETERS", 0)


@pytest.fixture(autouse=True)
def functions_without_rewriting(monkeypatch):
    """Make functions of PyTensor without rewriting their graphs, and variables without stack traces."""
    monkeypatch.setitem(mode.predefined_modes, "FAST_COMPILE", MERGED)
    monkeypatch.setattr(mode, "FAST_COMPILE", MERGED)
    for module in READERS:
        monkeypatch.setattr(module, "PYTHON", MERGED)
    with config.change_flags(traceback__limit=0):
        yield
