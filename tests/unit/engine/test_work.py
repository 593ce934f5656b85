"""Every compilation is counted once, and reported to a user who waits for it."""

import logging
import threading
import time

import pytest

from approxmcmc.engine.compiler import compile as engine
from approxmcmc.engine.compiler.work import compiled_so_far, compiling, count_kernel
from approxmcmc.sampling import progress
from approxmcmc.sampling.progress import reporting_compilations


def test_seconds_of_a_kernel_inside_a_kernel_count_once():
    before, began = compiled_so_far(), time.perf_counter()
    assert before.current == 0.0
    with compiling(), compiling():
        time.sleep(0.02)
        assert compiled_so_far().current >= 0.02
    after = compiled_so_far()
    assert after.current == 0.0 and 0.02 <= after.seconds - before.seconds <= time.perf_counter() - began
    with pytest.raises(KeyboardInterrupt), compiling():
        raise KeyboardInterrupt
    assert compiled_so_far().current == 0.0


@pytest.mark.needs_jit
def test_kernels_are_counted_when_compiled_and_not_when_read(tmp_path, monkeypatch):
    monkeypatch.setenv("APPROXMCMC_CACHE_DIR", str(tmp_path))

    def one_more_than_pi(x):
        return x + 4.14159

    counts = []
    for _ in range(2):
        before = compiled_so_far()
        engine.kernel.__globals__["_compile"].cache_clear()
        engine.kernel(one_more_than_pi, engine.nb.float64(engine.nb.float64))
        after = compiled_so_far()
        assert after.seconds > before.seconds
        counts.append(after.kernels - before.kernels)
    assert counts == [1, 0]


@pytest.fixture
def lines(monkeypatch, caplog):
    monkeypatch.setattr(progress, "SECONDS_UNTOLD", 0.05)
    monkeypatch.setattr(progress, "SECONDS_BETWEEN_LOOKS", 0.01)
    caplog.set_level(logging.INFO, "approxmcmc")
    return caplog


def test_a_long_compilation_is_told_once(lines):
    with reporting_compilations(show=True):
        count_kernel()
        with compiling():
            time.sleep(0.3)
    assert lines.messages == ["compiling, once for this machine and kind of model: kernel 2, 0 s"]


@pytest.mark.parametrize(("show", "seconds"), [(False, 0.3), (True, 0.0)])
def test_nothing_is_told_of_what_is_short_or_unwanted(lines, show, seconds):
    with reporting_compilations(show=show):
        with compiling():
            time.sleep(seconds)
        time.sleep(0.3)  # which is no compiling
    assert lines.messages == [] and all(thread.name != "reports compilations" for thread in threading.enumerate())
