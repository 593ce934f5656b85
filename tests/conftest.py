"""Set-up of all tests: one thread, one seed that can be repeated, and the run without compilation.

This file is read before any test imports numpy, so the thread counts hold.
"""

import gc
import hashlib
import os
import pathlib

os.environ.setdefault("MPLBACKEND", "Agg")
# Kernels and gold standards of tests stay out of the user's cache, and are kept from one run to the next.
os.environ.setdefault("APPROXMCMC_CACHE_DIR", str(pathlib.Path(__file__).parents[1] / ".cache"))
# An unexpected exception while a model is read would otherwise only lead to a slower plan.
os.environ.setdefault("APPROXMCMC_RAISE_FAULTS", "1")
for _variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "VECLIB_MAXIMUM_THREADS"):
    os.environ.setdefault(_variable, "1")
JIT_DISABLED = os.environ.get("NUMBA_DISABLE_JIT", "0") not in ("", "0")
if JIT_DISABLED:  # PyMC's default backend is numba, and cannot do without its compiler; a C compiler takes seconds
    os.environ.setdefault("PYTENSOR_FLAGS", "mode=FAST_COMPILE,cxx=")

import hypothesis
import numpy as np
import pytest

COMPILATIONS = None
if not JIT_DISABLED:
    from tests.compilations import COMPILATIONS

# The compiler's objects live long: garbage collection at Python's usual rate took 15 % of the time to compile.
gc.set_threshold(50_000, 50, 1000)

# The unit layer runs without compilation, except two of its folders: tests/oracle and tests/equivalence compile each
# sampler, proposal and test, and compare its chains with NumPy.
UNIT = pathlib.Path(__file__).parent / "unit"
COMPILED_ROOMS = (UNIT / "engine", UNIT / "targets")

FIXED_SEED = 20140621  # the first day of ICML 2014; every run without --seed uses it


def pytest_addoption(parser):
    """Add ``--seed``."""
    parser.addoption(
        "--seed", type=int, default=None, help=f"root of all seeds of the run (default: {FIXED_SEED}, fixed)"
    )


def pytest_configure(config):
    """Fix the examples of property tests together with the seed: the same command always runs the same tests."""
    hypothesis.settings.register_profile("project", deadline=None, derandomize=config.option.seed is None)
    hypothesis.settings.load_profile("project")
    if config.option.seed is not None and config.getoption("hypothesis_seed", None) is None:
        config.option.hypothesis_seed = str(config.option.seed)


def pytest_report_header(config):
    """Print the seed, so that the run can be repeated."""
    return f"seed: {_root_seed(config)} (repeat with --seed={_root_seed(config)})"


@pytest.hookimpl(tryfirst=True)  # before marks are selected
def pytest_collection_modifyitems(config, items):
    """Leave out tests that need compilation, or need to do without; mark unit tests that need none as `recompiles`."""
    unfit = [item for item in items if item.get_closest_marker("needs_jit" if JIT_DISABLED else "uncompiled")]
    config.hook.pytest_deselected(items=unfit)
    items[:] = [item for item in items if item not in unfit]
    if JIT_DISABLED:
        return
    for item in items:
        needs_jit = item.get_closest_marker("needs_jit")
        if item.path.is_relative_to(UNIT) and item.path.parent not in COMPILED_ROOMS and not needs_jit:
            item.add_marker("recompiles")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item):
    """Fail a test of the session `tests` that compiles what its next run compiles again."""
    result = yield
    if COMPILATIONS is not None:
        unkept = COMPILATIONS.take_unkept()
        if unkept and item.get_closest_marker("core") and not item.get_closest_marker("compiles_anew"):
            pytest.fail(
                f"compiles {', '.join(unkept)} in each run. Compile by `kernel`, which keeps the code on disk, call a "
                "function of a kernel by `as_python`, or mark a test of the compiler `compiles_anew`"
            )
    return result


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item):
    """Add to the report of every failure the command that repeats the test."""
    report = yield
    if report.failed:
        environment = "NUMBA_DISABLE_JIT=1 " if JIT_DISABLED else ""
        command = f"{environment}python -m pytest '{item.nodeid}' -m '' --seed={_root_seed(item.config)}"
        report.sections.append(("repeat with", command))
    return report


@pytest.fixture
def seed(request) -> int:
    """Return the seed of one test, a hash of the run's seed and the test's name: no other test affects it."""
    text = f"{_root_seed(request.config)} {request.node.nodeid}"
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=4).digest())


@pytest.fixture
def rng(seed) -> np.random.Generator:
    """Return a generator on the test's seed."""
    return np.random.default_rng(seed)


def _root_seed(config) -> int:
    return FIXED_SEED if config.option.seed is None else config.option.seed
