"""Snapshots of a run in flight, and how often one is written down.

A snapshot holds all chains between two chunks, so that the run goes on from it bit by bit. It is written when at least
30 s have passed since the last one, and when its cost c has become small beside them:

    seconds since the last one  >=  c / 0.02,        c = c_0 + c_1 (steps made),

c_0 the smallest so far, the first of them before the first step, c_1 from the last one: what grows are the draws. The
chains stand still while what they remember is copied, 2 ms for two chains with 5 MB each, and go on while a thread
writes: rows of records never change, so that the snapshot shares them. c is counted as if they stood still until the
file is on the disk: so 2 % is the most, where the thread finds no processor of its own. The first c with draws is a
guess, and where c_1 times the steps of a second is above 0.02 s there is none after it. The end of a run is written
once, with its trace, unless it is time for one.
"""

import concurrent.futures
import math
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from approxmcmc.engine.messages import detail
from approxmcmc.errors import CheckpointWarning
from approxmcmc.sampling.goals import Goal

SECONDS_BETWEEN = 30.0
SHARE = 0.02  # of the time of a run


class Snapshot(NamedTuple):
    """A run as it stands: the goal on the way and what its goals remember, seconds spent, every chain.

    `goal` is None where the run has ended, and `stopped` then says why: "" (done) or "time_limit". Each chain is what
    `Recorder.snapshot` returned.
    """

    goal: Goal | None
    goals: Mapping[str, float]
    seconds: float
    stopped: str
    chains: Sequence[Mapping[str, Any]]


class Checkpoints:
    """When to write a snapshot, and what that has cost; ``write(snapshot)`` does it.

    `last` is that of the end, once there is one, `written` their number; for them the chains stood still for `seconds`.
    """

    def __init__(self, write: Callable[[Snapshot], None]) -> None:
        self.write = write
        self.last: Snapshot | None = None
        self.written, self.seconds = 0, 0.0
        self._at_rest, self._per_step, self._last = math.inf, 0.0, time.perf_counter()
        self._asked: float | None = None
        self._began = self._last
        self._steps = 0  # at the last one: there is nothing new to write before the next
        self._writer = concurrent.futures.ThreadPoolExecutor(max_workers=1, thread_name_prefix="checkpoint")
        self._on_its_way: concurrent.futures.Future[float] | None = None

    def begin(self, snapshot: Snapshot, steps: int) -> None:
        """Write the very first, before anything is drawn.

        Raises
        ------
        OSError
            When it cannot be written.
        """
        started = began = time.perf_counter()
        ended = self._write(snapshot)
        if ended - began > SECONDS_BETWEEN * SHARE:
            # It pays for imports, up to 3 s, which would put off the next one: it is written again.
            began, ended = ended, self._write(snapshot)
        self.seconds += ended - started
        self._began, self._steps = began, steps
        self._note(ended)

    def due(self, steps: int) -> bool:
        """Say whether it is time for one after so many steps of all chains together."""
        if self._on_its_way is not None and not self._on_its_way.done():
            return False
        self._settle()
        cost = self._at_rest + self._per_step * steps
        waited = time.perf_counter() - self._last
        is_due = steps > self._steps and waited >= max(SECONDS_BETWEEN, cost / SHARE)
        if is_due and self._asked is None:
            self._asked = time.perf_counter()  # from here on chains wait for each other
        return is_due

    def keep(self, snapshot: Snapshot, steps: int) -> None:
        """Begin to write one, which `finish` or a later `due` ends; the chains may go on at once."""
        self.finish()
        now = time.perf_counter()
        self._began = now if self._asked is None else self._asked
        self._asked, self._steps = None, steps
        self._on_its_way = self._writer.submit(self._write, snapshot)
        self.seconds += now - self._began

    def finish(self) -> None:
        """Wait until all is on the disk.

        Warns
        -----
        CheckpointWarning
            When that failed: the draws are worth more, the run goes on, and tries again when the next is due.
        """
        began = time.perf_counter()
        self._settle()
        self.seconds += time.perf_counter() - began

    def _write(self, snapshot: Snapshot) -> float:
        """Write a snapshot, and return when it was on the disk."""
        self.write(snapshot)
        return time.perf_counter()

    def _settle(self) -> None:
        """Wait for the one that is on its way, and learn what it has cost."""
        if self._on_its_way is None:
            return
        writing, self._on_its_way = self._on_its_way, None
        try:
            self._note(writing.result())
        except OSError as error:
            self._last = time.perf_counter()
            warnings.warn(
                f"a checkpoint could not be written, and the run goes on without: {error}. Killed now, it would go on "
                "from the one before",
                CheckpointWarning,
                stacklevel=2,
            )

    def _note(self, ended: float) -> None:
        """Note one that was on the disk at `ended`."""
        cost = ended - self._began
        self._last = ended
        self._at_rest = min(self._at_rest, cost)
        self._per_step = (cost - self._at_rest) / max(self._steps, 1)
        self.written += 1
        detail("checkpoint %s took %.2f s", self.written, cost)
