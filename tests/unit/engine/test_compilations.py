"""Every compilation is counted once, and reported to a user who waits for it."""

import io
import re
import sys
import threading
import time
import types

import numpy as np
import pytest

from approxmcmc.engine.compiler import compile as engine, forecast
from approxmcmc.engine.compiler.compilations import compiled_so_far, compiling, count_kernel
from approxmcmc.sampling import progress
from approxmcmc.sampling.progress import stage, watching


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
def shown(monkeypatch, tmp_path, capsys):
    """Return a function that returns what was shown, with a memory of its own."""
    monkeypatch.setenv("APPROXMCMC_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(progress, "SECONDS_UNTOLD", 0.05)
    monkeypatch.setattr(progress, "SECONDS_BETWEEN_LOOKS", 0.01)
    return lambda: capsys.readouterr().err


def compile_for(seconds):
    with compiling():
        time.sleep(seconds)
    count_kernel()


@pytest.mark.thorough
def test_a_long_compilation_is_told_once_and_summed_up(shown):
    with watching(show=True, kind="Model"):
        stage("choosing a sampler: trying one")
        count_kernel()
        compile_for(0.3)
    first, last = shown().splitlines()
    assert first == "approxmcmc: compiling kernel 2, once for this kind of model, 0 s; choosing a sampler: trying one"
    assert re.fullmatch(r"approxmcmc: 0\.\d s: choosing a sampler 0\.\d s, of these, compiling 2 kernels 0\.3 s", last)


@pytest.mark.thorough
@pytest.mark.parametrize(("show", "seconds"), [(False, 0.3), (True, 0.0)])
def test_nothing_is_told_of_what_is_short_or_unwanted(shown, show, seconds):
    with watching(show=show):
        compile_for(seconds)
        time.sleep(0.3)  # which is no compiling
    assert shown() == "" and all(thread.name != "reports progress" for thread in threading.enumerate())


def test_the_number_of_kernels_is_that_of_earlier_calls_on_the_same_kind_of_model(shown, tmp_path):
    assert forecast.expected("Model") is None
    for kind, kernels, seconds in (("Model", 4, 8.0), ("Other", 9, 18.0), ("Model", 3, 6.0), ("Model", 4, 4.0)):
        forecast.remember(kind, kernels, seconds)
    with (tmp_path / "compilations" / "calls.txt").open("a") as file:
        file.write("Model 5\nModel x 3\nModel 0 1.0\n\x00 half a li")
    assert forecast.expected("Model") == (4, 2.0)
    assert forecast.expected("Other") == (9, 2.0)
    assert forecast.expected("New")[0] == 4
    with watching(show=True, kind="Model"):
        compile_for(0.2)
    assert "compiling kernel 1 of about 4, once for this kind of model, 0 s, about 8 s left" in shown()
    assert (tmp_path / "compilations" / "calls.txt").read_text().splitlines()[-1] == "Model 1 0.20"


def test_a_call_that_fails_has_no_summary(shown):
    def fail():
        with watching(show=True):
            compile_for(0.2)
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert len(shown().splitlines()) == 1


def test_parts_of_a_call_report_to_it(shown, monkeypatch):
    monkeypatch.setattr(progress, "SECONDS_BETWEEN_LINES", 0.0)
    monkeypatch.setattr(progress, "SECONDS_BETWEEN_LOOKS", 0.0)
    settings = {"label": "sampling", "time_limit": None, "tune": 4, "quality": lambda draws: f"{draws.size} numbers"}
    with watching(show=True) as outer:
        stage("reading the model")
        outer.show()
        with progress.progress(10, show=False, **settings) as steps:
            assert steps is outer
            steps.update(3, lambda: np.ones(2))
            steps.update(8, lambda: np.ones(5))
            steps.expect(20, "ESS 7 of 9")
            steps.update(10, lambda: np.ones(6))
    text = shown()
    assert "reading the model, 0 s" in text
    assert "sampling: tuning, 3 of 10 steps, 0 s" in text
    assert "sampling: drawing, 8 of 10 steps, 5 numbers, 0 s" in text
    assert "sampling: drawing, 10 of 20 steps, ESS 7 of 9, " in text
    assert progress._WATCH.get() is None


def test_a_terminal_has_a_bar_and_a_notebook_a_page(monkeypatch, shown):
    """Neither display has text or markup taken from a name, such as beta[x0]."""
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    monkeypatch.setenv("TERM", "dumb")
    with watching(show=True):
        stage("choosing a sampler: trying [x0] < 1")
        time.sleep(0.15)
    assert re.search(r"approxmcmc: 0\.\d s: choosing a sampler 0\.\d s", sys.stderr.getvalue())

    class Handle:
        def update(self, page):
            pages.append(page)

    pages = []
    shell = types.SimpleNamespace(kernel=1)
    page = types.SimpleNamespace(HTML=str, display=lambda first, display_id: Handle())
    monkeypatch.setitem(sys.modules, "IPython", types.SimpleNamespace(get_ipython=lambda: shell))
    monkeypatch.setitem(sys.modules, "IPython.display", page)
    with watching(show=True) as watch:
        stage("choosing a sampler: trying [x0] < 1")
        watch.show()
    assert pages[0].endswith("</progress> choosing a sampler: trying [x0] &lt; 1, 0 s") and "progress" not in pages[-1]


@pytest.mark.needs_jit
@pytest.mark.parametrize(("kept", "unkept"), [(True, []), (False, ["cube"])])
def test_a_kernel_that_no_file_holds_is_listed(kept, unkept, tmp_path, monkeypatch):
    """What a later run would compile again fails a test of the session `tests`, see tests/conftest.py."""
    from numba import types as nb

    from approxmcmc.engine.compiler.compile import kernel
    from tests.compilations import COMPILATIONS

    monkeypatch.setenv("APPROXMCMC_CACHE_DIR", str(tmp_path))

    def cube(x):
        return x * x * x

    COMPILATIONS.take_unkept()
    kernel(cube, nb.float64(nb.float64), cache=kept)
    assert [name.rpartition(".")[2] for name in COMPILATIONS.take_unkept()] == unkept


@pytest.mark.needs_jit
def test_a_kernel_of_any_result_is_read_back_with_its_result(tmp_path, monkeypatch):
    """A user's function, compiled for the types of its arguments alone, is kept if it returns a number."""
    from numba import types as nb

    from approxmcmc.engine.compiler.compile import _compile, kernel

    monkeypatch.setenv("APPROXMCMC_CACHE_DIR", str(tmp_path))

    def third(x):
        return x[3]

    for hits in (0, 1):
        _compile.cache_clear()
        compiled = kernel(third, (nb.int64[::1],), checks_bounds=True)
        assert sum(compiled.stats.cache_hits.values()) == hits
        assert compiled.nopython_signatures == [nb.int64(nb.int64[::1])]
        assert compiled(np.arange(4)) == 3
        with pytest.raises(IndexError):
            compiled(np.arange(3))
