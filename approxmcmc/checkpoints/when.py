"""Snapshots of a running run, and how often one is written.

A snapshot holds all chains between two chunks, so that the run resumes from it bit by bit. It is written when at least
30 s have passed since the last one, and its cost c is small compared with this time:

    seconds since the last one  >=  c / 0.02,        c = c_0 + c_1 (steps made),

c_0 is the smallest cost so far (the first snapshot is written before the first step). c_1 comes from the last snapshot,
because the cost grows with the number of draws; before the first snapshot with draws c_1 is 0. The chains wait while
their state is copied, 2 ms for two chains with 5 MB each, and continue while a thread writes: rows of records never
change, so the snapshot shares them. c counts the whole time until the file is on disk. So the chains lose at most 2 %
of their time, and less if a processor is free for the thread. If c_1 times the steps per second exceeds 0.02, no more
snapshots are written. When a run ends, its last state is written once, together with its trace.
"""

import concurrent.futures
import math
import time
from collections.abc import Callable

from approxmcmc.engine.messages import detail
from approxmcmc.errors import CheckpointWarning, warn
from approxmcmc.sampling.recorder import Snapshot

SECONDS_BETWEEN = 30.0
SHARE = 0.02  # largest share of a run's time that snapshots may take


class Checkpoints:
    """Decides when to write a snapshot, and measures what it costs; ``write(snapshot)`` writes the file.

    `last`: final snapshot, set by the caller. `written`: number of snapshots written. `seconds`: time that the chains
    waited for them.
    """

    def __init__(self, write: Callable[[Snapshot], None]) -> None:
        self.write = write
        self.last: Snapshot | None = None
        self.written = 0
        self.seconds = 0.0
        self._at_rest = math.inf
        self._per_step = 0.0
        self._last = time.perf_counter()
        self._asked: float | None = None
        self._began = self._last
        self._steps = 0  # steps at the last snapshot: without new steps there is nothing to write
        self._writer = concurrent.futures.ThreadPoolExecutor(max_workers=1, thread_name_prefix="checkpoint")
        self._on_its_way: concurrent.futures.Future[float] | None = None

    def begin(self, snapshot: Snapshot, steps: int) -> None:
        """Write the first snapshot, before the first draw.

        Raises
        ------
        OSError
            When it cannot be written.
        """
        started = began = time.perf_counter()
        ended = self._write(snapshot)
        if ended - began > SECONDS_BETWEEN * SHARE:
            # The first write includes imports, up to 3 s. It is repeated, so that they do not count as its cost.
            began = ended
            ended = self._write(snapshot)
        self.seconds += ended - started
        self._began = began
        self._steps = steps
        self._note(ended)

    def due(self, steps: int) -> bool:
        """Return whether a snapshot is due; `steps` counts the steps made so far by all chains together."""
        if self._on_its_way is not None and not self._on_its_way.done():
            return False
        self._settle()
        cost = self._at_rest + self._per_step * steps
        waited = time.perf_counter() - self._last
        is_due = steps > self._steps and waited >= max(SECONDS_BETWEEN, cost / SHARE)
        if is_due and self._asked is None:
            self._asked = time.perf_counter()  # the chains that come here first wait for the others
        return is_due

    def keep(self, snapshot: Snapshot, steps: int) -> None:
        """Start to write a snapshot in a thread; the chains may continue at once.

        `steps` counts the steps made so far by all chains. `finish`, or a later `due`, waits for the thread.
        """
        self.finish()
        now = time.perf_counter()
        self._began = now if self._asked is None else self._asked
        self._asked = None
        self._steps = steps
        self._on_its_way = self._writer.submit(self._write, snapshot)
        self.seconds += now - self._began

    def finish(self) -> None:
        """Wait until everything is on disk.

        Warns
        -----
        CheckpointWarning
            When writing failed: the run continues, and tries again when the next snapshot is due.
        """
        began = time.perf_counter()
        self._settle()
        self.seconds += time.perf_counter() - began

    def _write(self, snapshot: Snapshot) -> float:
        """Write a snapshot, and return the time at which it was on disk."""
        self.write(snapshot)
        return time.perf_counter()

    def _settle(self) -> None:
        """Wait for the snapshot being written, and record its cost."""
        if self._on_its_way is None:
            return
        writing = self._on_its_way
        self._on_its_way = None
        try:
            self._note(writing.result())
        except OSError as error:
            self._last = time.perf_counter()
            warn(
                f"a checkpoint could not be written, and the run continues without it: {error}. If killed now, it "
                "would resume from the previous one",
                CheckpointWarning,
            )

    def _note(self, ended: float) -> None:
        """Record a snapshot that was on disk at time `ended`."""
        cost = ended - self._began
        self._last = ended
        self._at_rest = min(self._at_rest, cost)
        self._per_step = (cost - self._at_rest) / max(self._steps, 1)
        self.written += 1
        detail("checkpoint %s took %.2f s", self.written, cost)
