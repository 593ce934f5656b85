"""Snapshots of a run in flight, and how often one is written down.

A snapshot holds all chains between two chunks, so that the run goes on from it bit by bit. It is written when at least
30 s have passed since the last one, and when its cost c has become small beside them:

    seconds since the last one  >=  c / 0.02,        c = c_0 + c_1 (steps made),

c_0 the smallest so far, the first of them before the first step, c_1 from the last one: what grows are the draws. While
one is written the chains stand still, so that this is all that checkpoints cost. The end of a run is written once, with
its trace, unless it is time for one.
"""

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

    `last` is that of the end, once there is one, `written` their number; together they took `seconds`.
    """

    def __init__(self, write: Callable[[Snapshot], None]) -> None:
        self.write = write
        self.last: Snapshot | None = None
        self.written, self.seconds = 0, 0.0
        self._at_rest, self._per_step, self._last = math.inf, 0.0, time.perf_counter()
        self._asked: float | None = None
        self._steps = 0  # at the last one: there is nothing new to write before the next

    def due(self, steps: int) -> bool:
        """Say whether it is time for one after so many steps of all chains together."""
        cost = self._at_rest + self._per_step * steps
        waited = time.perf_counter() - self._last
        is_due = steps > self._steps and waited >= max(SECONDS_BETWEEN, cost / SHARE)
        if is_due and self._asked is None:
            self._asked = time.perf_counter()  # from here on chains wait for each other
        return is_due

    def keep(self, snapshot: Snapshot, steps: int) -> None:
        """Write one.

        Raises
        ------
        OSError
            When the very first cannot be written: nothing has been drawn yet. Later the draws are worth more.

        Warns
        -----
        CheckpointWarning
            When a later one cannot be written; the run goes on, and tries again when the next is due.
        """
        began = time.perf_counter() if self._asked is None else self._asked
        try:
            self.write(snapshot)
            if not self.written and time.perf_counter() - began > SECONDS_BETWEEN * SHARE:
                # The first pays for imports, up to 3 s, which would put off the next one: it is written again.
                began = time.perf_counter()
                self.write(snapshot)
        except OSError as error:
            if not self.written:
                raise
            warnings.warn(
                f"a checkpoint could not be written, and the run goes on without: {error}. Killed now, it would go on "
                "from the one before",
                CheckpointWarning,
                stacklevel=2,
            )
        self._last, self._asked, self._steps = time.perf_counter(), None, steps
        cost = self._last - began
        self._at_rest = min(self._at_rest, cost)
        self._per_step = (cost - self._at_rest) / max(steps, 1)
        self.seconds += cost
        self.written += 1
        detail("checkpoint %s took %.2f s", self.written, cost)
