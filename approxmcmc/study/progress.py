"""Progress output: plain lines, with a count of the cells every ten seconds; on a terminal a bar.

While a gold standard is made, a line every ten seconds says how far it is, and about how many seconds are left.
"""

import sys
import time
from collections import Counter
from typing import Any, TextIO

from approxmcmc.sampling.progress import Display, plain_lines
from approxmcmc.study.record import Record, cause

SECONDS_BETWEEN_LINES = 10.0


class Listener:
    """Receives the events of a run and ignores them. The base of listeners that show them."""

    def line(self, text: str) -> None:
        """Receive a line of text about the run."""

    def display(self, what: str) -> Display | None:
        """Return what shows the progress of work before the cells, such as a gold standard; None to show nothing."""
        return None

    def start(self, total: int) -> None:
        """Receive the number of cells to run."""

    def cell(self, record: Record) -> None:
        """Receive the record of a finished cell."""

    def stop(self) -> None:
        """Receive the end of the run."""


class Lines(Listener):
    """Plain lines to a stream.

    Parameters
    ----------
    stream
        Output stream; standard error by default.
    """

    def __init__(self, stream: TextIO | None = None) -> None:
        self.stream = stream
        self.total = 0
        self.counts: Counter[str] = Counter()
        self.started = self.last = time.monotonic()

    def line(self, text: str) -> None:
        """Write a line of text."""
        stream = self.stream or sys.stderr
        stream.write(text + "\n")
        stream.flush()

    def display(self, what: str) -> Display:
        """Return a display that writes a line every ten seconds, which begins with `what`."""
        return plain_lines(lambda text: self.line(f"{what}: {text}"))

    def start(self, total: int) -> None:
        """Start the clock."""
        self.total = total
        self.counts = Counter()
        self.started = self.last = time.monotonic()

    def cell(self, record: Record) -> None:
        """Count a cell; write a failure at once, and the count every ten seconds and at the end."""
        self.counts[record["status"]] += 1
        if record["status"] != "done":
            self.line(failure_line(record))
        now = time.monotonic()
        if now - self.last >= SECONDS_BETWEEN_LINES or self.counts.total() == self.total:
            self.last = now
            self.line(self.summary())

    def summary(self) -> str:
        """Return counts, elapsed seconds, and an estimate of the seconds left."""
        ended = self.counts.total()
        gone = time.monotonic() - self.started
        left = f"  left ~{clock(gone / ended * (self.total - ended))}" if 0 < ended < self.total else ""
        counts = ", ".join(f"{count} {status}" for status, count in sorted(self.counts.items()))
        return f"[{ended}/{self.total}] {clock(gone)}{left}  {counts}"


def failure_line(record: Record) -> str:
    """Return one line about a failed cell: its setting, the error, and how to see more."""
    where = f"{record['target']} {record['label']} replicate {record['replicate']}"
    what = cause(record.get("error"))
    return f"  {record['status'].upper()}  {where}: {what}  (why: approxmcmc why {record['key'][:8]})"


def clock(seconds: float) -> str:
    """Return seconds as minutes and seconds, with hours if there are any."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes:02d}:{rest:02d}"


class Bar(Lines):
    """A bar on a terminal, with the lines above it."""

    def __init__(self) -> None:
        from rich.console import Console

        super().__init__()
        self.console = Console()
        self.bar: Any = None

    def line(self, text: str) -> None:
        """Write a line above the bar."""
        self.console.print(text, markup=False, highlight=False, soft_wrap=True)

    def start(self, total: int) -> None:
        """Show the bar."""
        from rich.progress import (
            BarColumn,
            MofNCompleteColumn,
            Progress,
            TextColumn,
            TimeElapsedColumn,
            TimeRemainingColumn,
        )

        super().start(total)
        columns = (
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
            TextColumn("{task.description}"),
        )
        self.bar = Progress(*columns, console=self.console, transient=True)
        self.task = self.bar.add_task("", total=total)
        self.bar.start()

    def cell(self, record: Record) -> None:
        """Advance the bar; write a failure at once."""
        self.counts[record["status"]] += 1
        if record["status"] != "done":
            self.line(failure_line(record))
        counts = ", ".join(f"{count} {status}" for status, count in sorted(self.counts.items()))
        self.bar.update(self.task, advance=1, description=counts)

    def stop(self) -> None:
        """Remove the bar and leave the count."""
        self.bar.stop()
        self.line(self.summary())
