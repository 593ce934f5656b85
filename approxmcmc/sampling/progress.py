"""What a waiting user sees: a bar on a terminal, a plain line now and then elsewhere, nothing when switched off."""

import contextlib
import sys
import time
from collections.abc import Iterator
from typing import Any, Protocol

SECONDS_BETWEEN_LINES = 10.0


class Progress(Protocol):
    """Told after every round of chunks how many steps have been made."""

    def update(self, steps: int) -> None:
        """Show that so many steps are done."""


@contextlib.contextmanager
def progress(total: int, *, show: bool, label: str, time_limit: float | None) -> Iterator[Progress]:
    """Yield the progress display that fits where standard error goes; `total` counts steps over all chains."""
    if not show or sys.stderr is None:  # a program without a console has none
        yield _Silent()
    elif sys.stderr.isatty():
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
        from rich.progress import Progress as Bar

        columns = (TextColumn(label), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TimeRemainingColumn())
        with Bar(*columns, console=Console(stderr=True), transient=True) as bar:
            yield _Bar(bar, bar.add_task(label, total=total))
    else:
        yield _Lines(total, label, time_limit)


class _Silent:
    def update(self, steps: int) -> None:
        pass


class _Bar:
    def __init__(self, bar: Any, task: Any) -> None:
        self.bar, self.task = bar, task

    def update(self, steps: int) -> None:
        self.bar.update(self.task, completed=steps)


class _Lines:
    def __init__(self, total: int, label: str, time_limit: float | None) -> None:
        self.total, self.label, self.time_limit = total, label, time_limit
        self.started = self.last = time.perf_counter()

    def update(self, steps: int) -> None:
        now = time.perf_counter()
        if now - self.last >= SECONDS_BETWEEN_LINES:
            self.last = now
            limit = f" of {self.time_limit:.0f} s" if self.time_limit else ""
            with contextlib.suppress(OSError, ValueError):  # whoever read this may be gone; the draws are worth more
                sys.stderr.write(f"{self.label}: {steps} of {self.total} steps, {now - self.started:.0f} s{limit}\n")
