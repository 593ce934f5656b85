"""Show progress: a bar on a terminal, plain lines elsewhere, nothing if switched off."""

import contextlib
import math
import sys
import threading
import time
from collections.abc import Iterator
from typing import Any, Protocol

from approxmcmc.engine.compiler.work import Compiled, compiled_so_far
from approxmcmc.engine.messages import tell

SECONDS_BETWEEN_LINES = 10.0
SECONDS_UNTOLD = 1.0  # compilations of fewer seconds in all are not reported
SECONDS_BETWEEN_LOOKS = 0.25


class Progress(Protocol):
    """A display of how many steps all chains together have made."""

    def update(self, steps: int) -> None:
        """Show that `steps` steps are done."""

    def expect(self, total: float, note: str) -> None:
        """Set the expected number of steps of the whole run, which may be infinite, and a note to show."""


@contextlib.contextmanager
def progress(total: float, *, show: bool, label: str, time_limit: float | None) -> Iterator[Progress]:
    """Yield a progress display on standard error: a bar on a terminal, lines elsewhere, nothing without `show`.

    `total` counts the steps of all chains; `label` begins each line; `time_limit` is in seconds.
    """
    if not show or sys.stderr is None:  # None in a program without a console
        yield _Silent()
    elif sys.stderr.isatty():
        from rich.console import Console
        from rich.progress import (
            BarColumn,
            MofNCompleteColumn,
            Progress as Bar,
            TextColumn,
            TimeElapsedColumn,
            TimeRemainingColumn,
        )

        says = TextColumn("{task.description}")
        columns = (says, BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TimeRemainingColumn())
        with Bar(*columns, console=Console(stderr=True), transient=True) as bar:
            yield _Bar(bar, bar.add_task(label, total=_finite(total)), label)
    else:
        yield _Lines(total, label, time_limit)


def _finite(total: float) -> int | None:
    return math.ceil(total) if total < math.inf else None


class _Silent:
    def update(self, steps: int) -> None:
        pass

    def expect(self, total: float, note: str) -> None:
        pass


class _Bar:
    def __init__(self, bar: Any, task: Any, label: str) -> None:
        self.bar = bar
        self.task = task
        self.label = label

    def update(self, steps: int) -> None:
        self.bar.update(self.task, completed=steps)

    def expect(self, total: float, note: str) -> None:
        self.bar.update(self.task, total=_finite(total), description=f"{self.label}, {note}")


class _Lines:
    def __init__(self, total: float, label: str, time_limit: float | None) -> None:
        self.total = total
        self.label = label
        self.time_limit = time_limit
        self.note = ""
        self.started = self.last = time.perf_counter()

    def expect(self, total: float, note: str) -> None:
        self.total = total
        self.note = f", {note}"

    def update(self, steps: int) -> None:
        now = time.perf_counter()
        if now - self.last >= SECONDS_BETWEEN_LINES:
            self.last = now
            with contextlib.suppress(OSError, ValueError):  # the output may be closed; the draws matter more
                sys.stderr.write(f"{self.label}: {self._line(steps, now - self.started)}\n")

    def _line(self, steps: int, seconds: float) -> str:
        total = f" of {self.total:.0f}" if self.total < math.inf else ""
        limit = f" of {self.time_limit:.0f} s" if self.time_limit else ""
        left = f", about {seconds * (self.total / steps - 1.0):.0f} s left" if self.note and total and steps else ""
        return f"{steps}{total} steps{self.note}, {seconds:.0f} s{limit}{left}"


@contextlib.contextmanager
def reporting_compilations(show: bool) -> Iterator[None]:
    """Report compilations inside this context, how many and for how long, once they have taken a second.

    The total number of kernels is unknown in advance: each is compiled when it is needed.
    """
    if not show or sys.stderr is None:
        yield
        return
    over = threading.Event()
    before = compiled_so_far()
    reporter = threading.Thread(
        target=_report_compilations, args=(before, over), name="reports compilations", daemon=True
    )
    reporter.start()
    try:
        yield
    finally:
        over.set()
        reporter.join()


def _report_compilations(before: Compiled, over: threading.Event) -> None:
    """Write a line after a second of compiling, and more lines while it continues."""
    due = SECONDS_UNTOLD
    while not over.wait(SECONDS_BETWEEN_LOOKS):
        now = compiled_so_far()
        kernels = now.kernels - before.kernels
        seconds = now.seconds - before.seconds
        # Not while kernels are read from files.
        if now.current and seconds >= due and (kernels or now.current >= SECONDS_UNTOLD):
            kept = "" if due > SECONDS_UNTOLD else ", once for this machine and kind of model"
            with contextlib.suppress(OSError, ValueError):
                tell("compiling%s: kernel %d, %.0f s", kept, kernels + 1, seconds)
            due = seconds + SECONDS_BETWEEN_LINES
