"""The tests of one module, run in a fork of this process on another text of the module.

The libraries are imported once, here, and the package in each fork; so a mutant costs little more than its tests. It
lives in the fork's memory: no file of the tree is touched, nothing has to be put back after a kill, and several forks
run at a time.
"""

import gc
import importlib.abc
import importlib.machinery
import importlib.util
import multiprocessing
import os
import resource
import signal
import sys
import time
from multiprocessing.connection import wait
from pathlib import Path

import arviz  # noqa: F401 (imported by the package: a fork finds it loaded)
import hypothesis  # noqa: F401 (by the tests)
import numba.np.arrayobj  # noqa: F401 (by numba, when the first kernel is declared)
import pandas  # noqa: F401 (by the package)
import pytest
import scipy.integrate
import scipy.optimize
import scipy.stats  # noqa: F401 (by package and tests)
from numba import config

from tests.mutants.tables import ROOT, files_of

PATIENCE = 600.0  # seconds of a mutant that waits, and uses no processor
MEMORY = 8 * 2**30  # a mutant that never stops may also never stop to collect
UNMARKED = "not statistical and not bench and not faults and not slow and not needs_jit"
SHORT = f"{UNMARKED} and not thorough"  # of the session `tests`
UNHARMED = (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED)
PASSED, FAILED, TIMEOUT = "passed", "failed", "timeout"


class Mutated(importlib.abc.MetaPathFinder, importlib.machinery.SourceFileLoader):
    """Imports one module from a text instead of its file."""

    def __init__(self, path, source):
        super().__init__(".".join(Path(path).with_suffix("").parts), str(ROOT / path))
        self.source = source

    def find_spec(self, fullname, path=None, target=None):
        return importlib.util.spec_from_loader(fullname, self) if fullname == self.name else None

    def get_code(self, fullname):
        return compile(self.source, self.path, "exec", dont_inherit=True)


class Chosen:
    """Plugin of pytest that runs only the tests in `seconds`, in its order, and ends one that takes far longer.

    A signal then ends the process. The limit is in CPU seconds, so a busy machine does not kill a mutant.
    """

    def __init__(self, seconds):
        self.seconds = seconds

    def pytest_collection_modifyitems(self, items):
        """Keep the chosen tests. Names hold values of parameters, so that a mutant may have none of them."""
        order = {name: place for place, name in enumerate(self.seconds)}
        items[:] = sorted((item for item in items if item.nodeid in order), key=lambda item: order[item.nodeid])

    def pytest_runtest_logstart(self, nodeid):
        """Set the clock."""
        signal.setitimer(signal.ITIMER_PROF, 2.0 + 4.0 * self.seconds[nodeid])


def run_pytest(tests, plugin, marks, *options):
    """Run tests with these marks, silently; plugins of other libraries are off, they take longer than most tests."""
    silence = os.open(os.devnull, os.O_WRONLY)
    for stream in (1, 2):
        os.dup2(silence, stream)
    quiet = ["-q", "--tb=no", "--disable-plugin-autoload", "-p", "no:cacheprovider", "-m", marks]
    return int(pytest.main([*quiet, *options, *tests], plugins=[plugin]))


def run_mutant(path, source, seconds, marks):
    """Run the tests on this text, up to the first failure, and leave with pytest's exit code."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    sys.meta_path.insert(0, Mutated(path, source))
    os._exit(run_pytest(files_of(seconds), Chosen(seconds), marks, "-x") if seconds else 0)


def outcomes(jobs, workers, marks):
    """Yield (name, outcome) of jobs (name, path, source, tests with their seconds), by the tests with these marks."""
    assert config.DISABLE_JIT, "set NUMBA_DISABLE_JIT=1: mutants run without compilation"
    gc.collect()
    gc.freeze()  # what is here stays; to collect it took pytest a third of the time of short tests
    fork, waiting, running = multiprocessing.get_context("fork"), list(jobs)[::-1], {}
    try:
        while waiting or running:
            while waiting and len(running) < workers:
                name, *job = waiting.pop()
                process = fork.Process(target=run_mutant, args=(*job, marks))
                process.start()
                running[process] = name, time.monotonic() + PATIENCE
            wait([process.sentinel for process in running], timeout=1.0)
            for process, (name, deadline) in list(running.items()):
                late = process.is_alive() and time.monotonic() > deadline
                if late:
                    process.kill()
                    process.join()
                if not process.is_alive():
                    del running[process]
                    late |= process.exitcode == -signal.SIGPROF
                    yield name, TIMEOUT if late else PASSED if process.exitcode in UNHARMED else FAILED
    finally:
        for process in running:
            process.kill()
