"""Progress of a call, from its start to the trace: a bar on a terminal or in a notebook, plain lines elsewhere.

All parts of a call report to one object, a `Watch`: `stage` names what is done, `progress` counts steps. A thread asks
the watch a few times a second for a line of text, with the kernels that are being compiled
(`engine.compiler.compilations`), and shows it. A call inside another one, such as a run inside a choice, reports to the
outer one.
"""

import contextlib
import html
import math
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from typing import Any, Protocol

import numpy as np

from approxmcmc.engine.compiler.compilations import compiled_so_far
from approxmcmc.engine.compiler.forecast import expected, remember

SECONDS_BETWEEN_LINES = 10.0
SECONDS_UNTOLD = 1.0  # compilations of fewer seconds in all are not reported
SECONDS_BETWEEN_LOOKS = 0.25
SHARE_OF_QUALITY = 0.02  # largest share of the time for the ESS and R-hat that are shown
BEGINNING = "starting"

Quality = Callable[[np.ndarray], str]


class Progress(Protocol):
    """Receives how many steps all chains together have made."""

    def update(self, steps: int, draws: Callable[[], np.ndarray] | None = None) -> None:
        """Take notice of the steps made; ``draws()`` returns the draws so far, shape (chains, draws, dim)."""

    def expect(self, total: float, note: str) -> None:
        """Set the expected number of steps of the whole run, which may be infinite, and a note to show."""


class Display(Protocol):
    """Shows a line that changes, and the share of the work that is done, None if it is unknown."""

    def show(self, line: str, share: float | None) -> None:
        """Show the present line."""

    def end(self, line: str) -> None:
        """Replace it by the last line, which may be empty."""


class Watch:
    """What a call is doing: its stage, its steps, and what it compiles."""

    def __init__(self, display: Display | None, kind: str = "") -> None:
        self._display = display
        self._kind = kind
        self._lock = threading.Lock()
        self._began = self._entered = time.perf_counter()
        self._stage = BEGINNING
        self._seconds: dict[str, float] = {}
        self._before = compiled_so_far()
        self._forecast = expected(kind) if display else None
        self._steps = _Steps("", math.inf, None, 0, None)

    def enter(self, stage: str) -> None:
        """Begin a stage; what stands behind a colon is shown, and counts as the same stage in the last line."""
        now = time.perf_counter()
        name = self._stage.partition(":")[0]
        self._seconds[name] = self._seconds.get(name, 0.0) + now - self._entered
        self._stage = stage
        self._entered = now
        self._steps = _Steps("", math.inf, None, 0, None)

    def count(self, steps: "_Steps") -> None:
        """Begin a stage that consists of steps."""
        self.enter(steps.label)
        self._steps = steps

    def update(self, steps: int, draws: Callable[[], np.ndarray] | None = None) -> None:
        """Take notice of the steps made, see `Progress`."""
        if self._display is not None:
            self._steps.update(steps, draws)
            self.show()

    def expect(self, total: float, note: str) -> None:
        """Set the expected number of steps, see `Progress`."""
        self._steps.total = total
        self._steps.note = note

    def show(self) -> None:
        """Show the present line."""
        if self._display is not None:
            with self._lock, contextlib.suppress(OSError, ValueError):  # a closed output; the draws matter more
                self._display.show(*self._line())

    def end(self, *, failed: bool) -> None:
        """Show how long each stage took, nothing if the call `failed`; remember what was compiled."""
        if self._display is None:
            return
        self.enter("")
        compiled = compiled_so_far()
        kernels = compiled.kernels - self._before.kernels
        if kernels:
            remember(self._kind, kernels, compiled.seconds - self._before.seconds)
        with self._lock, contextlib.suppress(OSError, ValueError):
            self._display.end("" if failed else self._summary(kernels, compiled.seconds - self._before.seconds))

    def _line(self) -> tuple[str, float | None]:
        """Return the present line, and the share of its work that is done."""
        compiled = compiled_so_far()
        kernels = compiled.kernels - self._before.kernels
        seconds = compiled.seconds - self._before.seconds
        # Not while kernels are read from files.
        if compiled.current and seconds >= SECONDS_UNTOLD and (kernels or compiled.current >= SECONDS_UNTOLD):
            return self._compiling(kernels, seconds)
        if self._steps.label:
            return self._steps.line()
        return f"{self._stage}, {time.perf_counter() - self._entered:.0f} s", None

    def _compiling(self, kernels: int, seconds: float) -> tuple[str, float | None]:
        """Return the line on a compilation, after so many `kernels` and `seconds`."""
        number = f"{kernels + 1}"
        ending = f", once for this kind of model, {seconds:.0f} s"
        share = None
        usual, per_kernel = self._forecast or (0, 0.0)
        if kernels < usual:
            number += f" of about {usual}"
            left = usual * per_kernel - seconds
            ending += f", about {left:.0f} s left" if left > 0.0 else ""
            share = kernels / usual
        return f"compiling kernel {number}{ending}; {self._stage}", share

    def _summary(self, kernels: int, compiling: float) -> str:
        """Return the seconds of the call, and of its stages of at least .1 s."""
        stages = [f"{name} {took:.1f} s" for name, took in self._seconds.items() if took >= 0.1 and name != BEGINNING]
        if compiling >= 0.1:
            plural = "" if kernels == 1 else "s"
            compiled = f" {kernels} kernel{plural}" if kernels else ""
            stages.append(f"of these, compiling{compiled} {compiling:.1f} s")
        took = time.perf_counter() - self._began
        return f"{took:.1f} s" + (f": {', '.join(stages)}" if stages else "")


class _Steps:
    """The steps of all chains: `label` names the run, the first `tune` of them tune, `quality` judges draws."""

    def __init__(self, label: str, total: float, time_limit: float | None, tune: int, quality: Quality | None) -> None:
        self.label = label
        self.total = total
        self.note = ""
        self._time_limit = time_limit
        self._tune = tune
        self._quality = quality
        self._made = 0
        self._judged = ""
        self._began = time.perf_counter()
        self._judge_again = self._began + SECONDS_BETWEEN_LOOKS

    def update(self, steps: int, draws: Callable[[], np.ndarray] | None) -> None:
        """Take notice of steps, and judge the draws, for a small share of the time."""
        self._made = steps
        began = time.perf_counter()
        if self._quality is None or draws is None or steps <= self._tune or began < self._judge_again:
            return
        self._judged = self._quality(draws())
        ended = time.perf_counter()
        self._judge_again = ended + max(SECONDS_BETWEEN_LOOKS, (ended - began) / SHARE_OF_QUALITY)

    def line(self) -> tuple[str, float | None]:
        """Return the line on the steps, and their share of the expected number."""
        seconds = time.perf_counter() - self._began
        finite = self.total < math.inf
        share = min(self._made / self.total, 1.0) if finite and self.total else None
        phase = ""
        if self._tune:
            phase = "tuning, " if self._made < self._tune else "drawing, "
        notes = [
            f"{phase}{self._made}{f' of {self.total:.0f}' if finite else ''} steps",
            *([self.note] if self.note else []),
            *([self._judged] if self._judged else []),
            f"{seconds:.0f} s" + (f" of {self._time_limit:.0f} s" if self._time_limit else ""),
        ]
        left = seconds * (1.0 / share - 1.0) if share else math.inf
        if self._time_limit is not None:
            left = min(left, self._time_limit - seconds)
        if left < math.inf and seconds >= SECONDS_UNTOLD:
            notes.append(f"about {max(left, 0.0):.0f} s left")
        return f"{self.label}: {', '.join(notes)}", share


_WATCH: ContextVar[Watch | None] = ContextVar("watch", default=None)


def stage(text: str) -> None:
    """Say what the call is doing now; nothing outside `watching`."""
    if (watch := _WATCH.get()) is not None:
        watch.enter(text)


@contextlib.contextmanager
def watching(show: bool, kind: str = "", display: Display | None = None) -> Iterator[Watch]:
    """Show what happens inside this context; nothing without `show`.

    `kind` is the kind of model, whose compilations are remembered. `display` shows the lines; by default they go to
    standard error.
    """
    outer = _WATCH.get()
    if outer is not None:
        yield outer
        return
    display = (display or _display()) if show else None
    watch = Watch(display, kind)
    if display is None:
        yield watch
        return
    over = threading.Event()

    def report() -> None:
        while not over.wait(SECONDS_BETWEEN_LOOKS):
            watch.show()

    reporter = threading.Thread(target=report, name="reports progress", daemon=True)
    token = _WATCH.set(watch)
    reporter.start()
    failed = True
    try:
        yield watch
        failed = False
    finally:
        _WATCH.reset(token)
        over.set()
        reporter.join()
        watch.end(failed=failed)


@contextlib.contextmanager
def progress(
    total: float,
    *,
    show: bool,
    label: str,
    time_limit: float | None,
    tune: int = 0,
    quality: Quality | None = None,
) -> Iterator[Progress]:
    """Show the steps of a run inside this context, see `watching`.

    `total` counts the steps of all chains, `tune` those of them that tune; `label` begins each line; `time_limit` is in
    seconds. ``quality(draws)`` returns a note on the draws so far.
    """
    with watching(show) as watch:
        watch.count(_Steps(label, total, time_limit, tune, quality))
        yield watch
        watch.show()


def plain_lines(write: Callable[[str], None]) -> Display:
    """Return a display that passes plain lines to a function, one every ten seconds."""
    return _Lines(write)


def _display() -> Display | None:
    """Return the display of the place where this runs; None in a program without a console."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    if getattr(shell, "kernel", None) is not None:
        return _Page()
    if sys.stderr is None:
        return None
    return _Bar() if sys.stderr.isatty() else _Lines()


class _Bar:
    """A bar on a terminal. Messages and warnings are written above it."""

    def __init__(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, Progress as RichProgress, TextColumn, TimeElapsedColumn
        from rich.table import Column

        text = TextColumn("{task.description}", markup=False, table_column=Column(no_wrap=True, overflow="ellipsis"))
        columns = (BarColumn(bar_width=20), TimeElapsedColumn(table_column=Column(min_width=7)), text)
        self._console = Console(stderr=True)
        self._rich = RichProgress(*columns, console=self._console, transient=True)
        self._task = self._rich.add_task(BEGINNING, total=None)
        self._rich.start()

    def show(self, line: str, share: float | None) -> None:
        self._rich.update(self._task, description=line, completed=share or 0.0, total=None if share is None else 1.0)

    def end(self, line: str) -> None:
        self._rich.stop()
        if line:
            self._console.print(f"approxmcmc: {line}", markup=False, highlight=False)


class _Lines:
    """Plain lines: when a compilation takes long, and every ten seconds; a last one only after others."""

    def __init__(self, write: Callable[[str], None] | None = None) -> None:
        self._write = write or _to_standard_error
        self._last = time.perf_counter()
        self._told_of_compiling = False
        self._told = False

    def show(self, line: str, share: float | None) -> None:
        now = time.perf_counter()
        first_of_compiling = not self._told_of_compiling and "compiling" in line
        if first_of_compiling or now - self._last >= SECONDS_BETWEEN_LINES:
            self._last = now
            self._told_of_compiling |= first_of_compiling
            self._told = True
            self._write(line)

    def end(self, line: str) -> None:
        if self._told and line:
            self._write(line)


def _to_standard_error(line: str) -> None:
    sys.stderr.write(f"approxmcmc: {line}\n")


class _Page:
    """A bar in the output of a notebook's cell, which ends as one line of text."""

    def __init__(self) -> None:
        from IPython.display import HTML, display

        self._html = HTML
        self._handle: Any = display(HTML(""), display_id=True)
        self._shown = ""

    def show(self, line: str, share: float | None) -> None:
        value = "" if share is None else f' value="{share:.3f}"'
        self._update(f"<progress max='1'{value}></progress> {html.escape(line)}")

    def end(self, line: str) -> None:
        self._update(html.escape(line))

    def _update(self, text: str) -> None:
        if text != self._shown:
            self._shown = text
            self._handle.update(self._html(text))
