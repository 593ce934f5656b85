"""One chain with tables of its draws and records; every second row is dropped if a run grows longer than planned."""

import copy
import math
import time
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np

from approxmcmc.contracts import COUNT_NAMES, VALUE_NAMES, Chain
from approxmcmc.contracts.records import (
    ACCEPTANCE_RATE,
    ACCEPTED,
    BLANK_VALUES,
    BRIGHT,
    EXPECTED_READS,
    SECONDS,
    SKEWNESS_RATIO,
    THREAD_SECONDS,
)
from approxmcmc.engine.checks import show
from approxmcmc.engine.compiler.clock import TICKS_IN_KERNELS
from approxmcmc.sampling.goals import Goal
from approxmcmc.sampling.memory import restore

CHUNK_SECONDS = 0.05

Chunk = tuple[np.ndarray, np.ndarray, np.ndarray]
"""Draws, counts and values of consecutive draws."""

RECORDS = ("draws", "counts", "values")

# The phases of a chain, as indices of pairs such as `Recorder.done`.
TUNING = 0
DRAWING = 1


class Snapshot(NamedTuple):
    """The state of a run: its current goal and what the goals store, seconds spent, every chain.

    `goal` is None after the end of the run, and `stopped` then says why: "" (done) or "time_limit". Each chain is a
    result of `Recorder.snapshot`.
    """

    goal: Goal | None
    goals: Mapping[str, float]
    seconds: float
    stopped: str
    chains: Sequence[Mapping[str, Any]]


class Checkpointer(Protocol):
    """Stores snapshots of a run; see `approxmcmc.checkpoints.when`."""

    seconds: float
    last: Snapshot | None

    def begin(self, snapshot: Snapshot, steps: int) -> None:
        """Store the first snapshot, before anything is drawn."""

    def due(self, steps: int) -> bool:
        """Return whether a snapshot is due after `steps` steps of all chains together."""

    def keep(self, snapshot: Snapshot, steps: int) -> None:
        """Store a snapshot; the chains may continue at once."""

    def finish(self) -> None:
        """Wait until all snapshots are stored."""


class GrowingRows:
    """Rows of numbers that can grow but never change: a returned view of `rows` stays valid."""

    def __init__(self, rows: np.ndarray) -> None:
        self._room = rows
        self._filled = len(rows)

    @property
    def rows(self) -> np.ndarray:
        """All rows so far, a view."""
        return self._room[: self._filled]

    def add(self, rows: np.ndarray) -> None:
        """Add rows; double the capacity if it is too small."""
        first = self._filled
        last = self._filled + len(rows)
        if last > len(self._room):
            room = np.empty((max(last, 2 * first), rows.shape[1]), rows.dtype)
            room[:first] = self.rows
            self._room = room
        self._room[first:last] = rows
        self._filled = last


class Recorder:
    """One chain, and the records of its tuning steps and of its draws."""

    def __init__(self, chain: Chain, dim: int, tune: int, thin: int, keep_warmup: bool) -> None:
        self.chain = chain
        self.dim = dim
        self.keep_warmup = keep_warmup
        # Rows wanted, steps per row, rows done and tables, of the phases TUNING and DRAWING; tuning is never thinned.
        self.wanted = [tune, 0]
        self.thin = [1, thin]
        self.every = 1
        self.done = [0, 0]
        none = np.empty((0, dim)), np.empty((0, len(COUNT_NAMES)), np.int64), np.empty((0, len(VALUE_NAMES)))
        self.tables = [[GrowingRows(rows) for rows in none] for _ in self.done]
        self.tuning_counts = np.zeros(len(COUNT_NAMES), dtype=np.int64)
        self.tuning_values = np.zeros(len(VALUE_NAMES))
        self.begun = 0  # steps made of the next draw
        # seconds of the chunks since the last draw
        self.elapsed = 0.0
        self.on_processor = 0.0
        self.seconds_per_step = math.inf
        self.chunk_steps = 0
        self.failure = ""
        self.error: Exception | None = None

    def aim(self, goal: Goal) -> None:
        """Set the next goal; while it is thinned more than the kept draws are, drop every second kept draw."""
        while self.every < goal.every:
            self.hold(DRAWING, every_second(self.records(DRAWING)))
            self.done[DRAWING] //= 2
            self.every = 2 * self.every
            self.thin[DRAWING] = 2 * self.thin[DRAWING]
        self.wanted[DRAWING] = goal.draws // goal.every

    @property
    def phase(self) -> int:
        """The current phase: TUNING or DRAWING."""
        return TUNING if self.done[TUNING] < self.wanted[TUNING] else DRAWING

    @property
    def finished(self) -> bool:
        """Whether all wanted draws are made, or the chain has failed."""
        is_done = all(done >= wanted for done, wanted in zip(self.done, self.wanted, strict=True))
        return bool(self.failure) or is_done

    @property
    def steps(self) -> int:
        """Steps made so far."""
        return self.begun + sum(done * thin for done, thin in zip(self.done, self.thin, strict=True))

    def advance(self) -> None:
        """Make one chunk of steps: about 50 ms, and at most twice as many steps as in the last chunk.

        A few steps predict the time of the next steps badly: a proposal outside the support costs nothing, a proposal
        inside reads all data. A chunk of many steps planned from a cheap step would delay the time limit for minutes.
        """
        phase = self.phase
        thin = self.thin[phase]
        steps = self.chunk_steps = self._plan_steps()
        rows = (self.begun + steps) // thin
        draws = np.full((rows, self.dim), math.nan)
        counts = np.empty((rows, len(COUNT_NAMES)), dtype=np.int64)
        values = np.empty((rows, len(VALUE_NAMES)))
        started = time.perf_counter()
        own = time.thread_time()
        try:
            n_made = self.chain.advance(steps, thin, draws, counts, values)
            rows = (self.begun + n_made) // thin
            self.failure = self.chain.explain_failure() if n_made < steps else ""
        except Exception as error:  # from the user's function; the draw is intact: a step writes it last
            rows = int(np.isfinite(draws).all(axis=1).sum())
            self.error = error
            self.failure = _explain(error, self.chain)
        elapsed = time.perf_counter() - started
        own = time.thread_time() - own
        self.seconds_per_step = max(elapsed / steps, 1e-9)
        self.begun = (self.begun + steps) % thin
        self.elapsed += elapsed
        self.on_processor += own
        if rows:
            self._record(phase, draws[:rows], counts[:rows], values[:rows])

    def _plan_steps(self) -> int:
        """Return the number of steps of the next chunk: whole draws, or a part of one draw that takes longer."""
        phase = self.phase
        thin = self.thin[phase]
        affordable = max(1, int(min(CHUNK_SECONDS / self.seconds_per_step, 2 * self.chunk_steps)))
        to_the_next_draw = thin - self.begun
        if affordable < to_the_next_draw:
            return affordable
        more_draws = min((affordable - to_the_next_draw) // thin, self.wanted[phase] - self.done[phase] - 1)
        return to_the_next_draw + more_draws * thin

    def _record(self, phase: int, draws: np.ndarray, counts: np.ndarray, values: np.ndarray) -> None:
        if not TICKS_IN_KERNELS:
            values[:, SECONDS] = self.elapsed / len(draws)
        share_of_core = self.on_processor / max(self.elapsed, 1e-9)  # below 1 if other programs used the core too
        values[:, THREAD_SECONDS] = values[:, SECONDS] * share_of_core
        self.elapsed = 0.0
        self.on_processor = 0.0
        self.done[phase] += len(draws)
        if phase == TUNING:
            self.tuning_counts += counts.sum(axis=0)
            self.tuning_values += np.nansum(values, axis=0)
        if phase == DRAWING or self.keep_warmup:
            for table, rows in zip(self.tables[phase], (draws, counts, values), strict=True):
                table.add(rows)

    def records(self, phase: int) -> Chunk:
        """Return the draws, counts and values kept of a phase, TUNING or DRAWING."""
        draws, counts, values = (table.rows for table in self.tables[phase])
        return draws, counts, values

    def hold(self, phase: int, records: Chunk) -> None:
        """Replace the records of a phase by these."""
        self.tables[phase] = [GrowingRows(rows) for rows in records]

    def arrays(self, phase: int, rows: int) -> Chunk:
        """Return the first `rows` draws, counts and values of a phase."""
        draws, counts, values = self.records(phase)
        return draws[:rows], counts[:rows], values[:rows]

    def snapshot(self) -> dict[str, Any]:
        """Return everything that the chain needs to resume: its state, its random streams, and its records so far.

        Call only while the chain is not running.
        """
        return {
            "memory": copy.deepcopy(self.chain.memory),  # the chain continues, and audits change it after its end
            "streams": {name: rng.bit_generator.state for name, rng in self.chain.streams._asdict().items()},
            "done": list(self.done),
            "thin": list(self.thin),
            "every": self.every,
            "begun": self.begun,
            "seconds": (self.elapsed, self.on_processor),
            "tuning_counts": self.tuning_counts.copy(),
            "tuning_values": self.tuning_values.copy(),
            **{f"warmup_{name}": table for name, table in zip(RECORDS, self.records(TUNING), strict=True)},
            **dict(zip(RECORDS, self.records(DRAWING), strict=True)),
        }

    def restore(self, kept: Mapping[str, Any]) -> None:
        """Resume from a snapshot of a chain that was started in the same way.

        Raises
        ------
        InvalidInputError
            When the chain was set up differently.
        """
        restore(self.chain.memory, kept["memory"])
        for name, rng in self.chain.streams._asdict().items():
            rng.bit_generator.state = kept["streams"][name]
        self.done = list(kept["done"])
        self.thin = list(kept["thin"])
        self.every = int(kept["every"])
        self.begun = int(kept["begun"])
        self.elapsed, self.on_processor = kept["seconds"]
        self.tuning_counts = kept["tuning_counts"]
        self.tuning_values = kept["tuning_values"]
        for phase, prefix in enumerate(("warmup_", "")):
            draws, counts, values = (kept[f"{prefix}{name}"] for name in RECORDS)
            self.hold(phase, (draws, counts, values))


def every_second(chunk: Chunk) -> Chunk:
    """Return the records of an even number of draws with every second draw dropped.

    Counts, seconds and expected reads of two draws are added, acceptance rates averaged, and the larger skewness ratio
    is kept. Of `accepted`, the bright count and all other values the later one is kept, or the earlier one if the later
    step wrote none.
    """
    draws, counts, values = chunk
    thinned_counts = counts[::2] + counts[1::2]
    for column in (ACCEPTED, BRIGHT):
        thinned_counts[:, column] = counts[1::2, column]
    first = values[::2]
    second = values[1::2]
    unwritten = (second == BLANK_VALUES) | np.isnan(second)
    thinned_values = np.where(unwritten, first, second)
    for column in (SECONDS, THREAD_SECONDS, EXPECTED_READS):
        thinned_values[:, column] = first[:, column] + second[:, column]
    thinned_values[:, ACCEPTANCE_RATE] = 0.5 * (first[:, ACCEPTANCE_RATE] + second[:, ACCEPTANCE_RATE])
    thinned_values[:, SKEWNESS_RATIO] = np.maximum(first[:, SKEWNESS_RATIO], second[:, SKEWNESS_RATIO])
    return draws[1::2].copy(), thinned_counts, thinned_values


def _explain(error: Exception, chain: Chain) -> str:
    """Return a clause with the error that a function of the model raised, and the chain's last proposal."""
    where = "" if chain.proposed is None else f" at theta = {show(chain.proposed)}"
    return f"the model raised {type(error).__name__}: {error}{where}"
