"""Set-up of the tests of random models: functions of PyTensor that are made in a tenth of the time."""

from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType

import pymc.initial_point  # noqa: F401  # reads FAST_COMPILE by its module
import pytest
from pytensor import config
from pytensor.compile import mode
from pytensor.compile.mode import Mode
from pytensor.graph.rewriting.db import RewriteDatabaseQuery

from approxmcmc.expansion import posterior
from approxmcmc.interop import kernels, returned, walk

# Equal parts are merged, because some functions are called thousands of times; no other rewriting, which takes nine
# tenths of the time. What the library rewrites itself (`graphs.simplify`) is rewritten here, too.
MERGED = Mode(linker="py", optimizer=RewriteDatabaseQuery(include=["merge"]))
READERS = kernels, returned, walk
USUAL = {module: module.PYTHON for module in READERS}
FAST_COMPILE = mode.FAST_COMPILE


@contextmanager
def usual_rewriting() -> Iterator[None]:
    """Make functions as runs of users make them: where p = 1 - exp(-exp(eta)) is 1, only rewriting avoids 0 / 0."""
    with pytest.MonkeyPatch.context() as patch:
        _set_modes(patch, FAST_COMPILE, USUAL)
        yield


def _set_modes(patch: pytest.MonkeyPatch, fast_compile: Mode, of_readers: dict[ModuleType, Mode]) -> None:
    patch.setitem(mode.predefined_modes, "FAST_COMPILE", fast_compile)
    patch.setattr(mode, "FAST_COMPILE", fast_compile)
    for module, mode_of_reader in of_readers.items():
        patch.setattr(module, "PYTHON", mode_of_reader)


@pytest.fixture(autouse=True)
def gradients_of_priors_by_pytensor(monkeypatch):
    """Take gradients of priors from PyTensor: differences need 2 dim values, each of which takes .3 ms uncompiled."""
    monkeypatch.setattr(posterior, "FEW_PARAMETERS", 0)


@pytest.fixture(autouse=True)
def functions_without_rewriting(monkeypatch):
    """Make functions of PyTensor without rewriting their graphs, and variables without stack traces."""
    _set_modes(monkeypatch, MERGED, dict.fromkeys(READERS, MERGED))
    with config.change_flags(traceback__limit=0):
        yield
