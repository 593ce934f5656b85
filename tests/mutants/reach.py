"""What each test of the table calls: a mutant of a function runs on the tests that call it first, then on the others.

The tests of a file run once on the unchanged tree, where they must pass. Python's monitoring notes the functions of the
package that a test calls. A test that finds a result in a cache does not call the function that made it, so the other
tests of the file run too, after those that call the function. A function that an import calls counts as called by all
tests. The record is kept until the test file or the package changes.

Tests that find mutants are quick: one that takes longer than `SLOW` is left out, and a mutant that the quickest tests
have not killed within `LONG` seconds survives.
"""

import ast
import functools
import hashlib
import importlib
import itertools
import json
import multiprocessing
import signal
import sys
import time
from operator import itemgetter
from pathlib import Path

import pytest

from tests.mutants.forks import run_pytest
from tests.mutants.tables import PACKAGE, ROOT, STORE, files_of, modules, name_of

SLOW, LONG = 6.0, 8.0  # seconds of a processor, without compilation
MONITOR = sys.monitoring.PROFILER_ID


class Recorder:
    """Plugin of pytest that notes for each test its seconds and the functions of the package that it calls."""

    def __init__(self):
        self.called, self.always, self.tests, self.failed, self.slow = set(), [], {}, [], set()
        sys.monitoring.use_tool_id(MONITOR, "mutants")
        sys.monitoring.register_callback(MONITOR, sys.monitoring.events.PY_START, self.note)
        sys.monitoring.set_events(MONITOR, sys.monitoring.events.PY_START)
        signal.signal(signal.SIGPROF, self.stop)

    def note(self, code, _offset):
        """Note the first call of a function during a test."""
        file = Path(code.co_filename)
        if file.is_relative_to(PACKAGE):
            self.called.add(f"{file.relative_to(PACKAGE)}:{code.co_qualname}")
        return sys.monitoring.DISABLE

    def stop(self, *_):
        """End a test that takes too long."""
        self.slow.add(self.running)
        raise TimeoutError(f"slower than {SLOW} s")

    def pytest_collection_finish(self):
        """Store the functions that imports have called."""
        self.always = sorted(self.called)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item):
        """Run one test for at most `SLOW` seconds; store its seconds and the functions that it called."""
        self.called, self.running = set(), item.nodeid
        sys.monitoring.restart_events()
        signal.setitimer(signal.ITIMER_PROF, SLOW)
        started = time.process_time()
        result = yield
        signal.setitimer(signal.ITIMER_PROF, 0.0)
        self.tests[item.nodeid] = time.process_time() - started, sorted(self.called)
        return result

    def pytest_runtest_logreport(self, report):
        """Note a failure."""
        if report.failed and report.nodeid not in self.slow:
            self.failed.append(report.nodeid)


def record(store, tests, marks):
    """Run the tests in a fork of this process, and write what they call."""
    recorder = Recorder()
    for module in modules():
        importlib.import_module(name_of(module))
    run_pytest(tests, recorder, marks)
    kept = {name: seen for name, seen in recorder.tests.items() if name not in recorder.slow}
    seen = {"always": recorder.always, "tests": kept, "failed": recorder.failed, "slow": sorted(recorder.slow)}
    store.write_text(json.dumps(seen, indent=1), encoding="utf-8")


@functools.cache
def state_of_the_package():
    """Return a hash of the package's files."""
    files = sorted(PACKAGE.rglob("*.py"))
    return hashlib.blake2b(b"\0".join(file.read_bytes() for file in files), digest_size=6).hexdigest()


def recorded(file, tests, marks):
    """Return the record of those of these tests of a file that have these marks, made if it is missing."""
    content = (ROOT / file).read_bytes() + repr((tests, marks, state_of_the_package())).encode()
    store = STORE / "reach" / f"{Path(file).stem}.{hashlib.blake2b(content, digest_size=6).hexdigest()}.json"
    if not store.exists():
        store.parent.mkdir(parents=True, exist_ok=True)
        process = multiprocessing.get_context("fork").Process(target=record, args=(store, tests, marks))
        process.start()
        process.join()
    found = json.loads(store.read_text(encoding="utf-8"))
    if found["failed"]:
        raise SystemExit(f"tests fail on the unchanged tree: {' '.join(found['failed'])}")
    return found


def function_at(node, line, outer="", inside=None):
    """Return the qualified name of the innermost function with this line in its body, as Python names its code."""
    for child in ast.iter_child_nodes(node):
        if not getattr(child, "lineno", 0) <= line <= getattr(child, "end_lineno", 0):
            continue
        if isinstance(child, ast.ClassDef):
            return function_at(child, line, f"{outer}{child.name}.", inside)
        if isinstance(child, ast.FunctionDef) and line >= child.body[0].lineno:
            return function_at(child, line, f"{outer}{child.name}.<locals>.", f"{outer}{child.name}")
        return function_at(child, line, outer, inside)
    return inside


def reaching(tests, marks):
    """Return a function that maps a function's name to its tests: a dict of test and seconds, in running order.

    ``None``, for code outside functions, is mapped to all tests.
    """
    records = [
        recorded(file, [test for test in tests if test.split("::")[0] == file], marks) for file in files_of(tests)
    ]

    def of(function):
        first, then = {}, {}
        for one in records:
            calls = {name: function in (None, *called, *one["always"]) for name, (_, called) in one["tests"].items()}
            if any(calls.values()):
                for name, (seconds, _) in one["tests"].items():
                    (first if calls[name] else then)[name] = seconds
        quickest = [*sorted(first.items(), key=itemgetter(1)), *sorted(then.items(), key=itemgetter(1))]
        spent = itertools.accumulate(seconds for _, seconds in quickest)
        return dict(test for test, until in zip(quickest, spent, strict=True) if until <= LONG)

    return of
