"""Chains in chunks: threads, time limits, interrupts, and draws that do not depend on any of them.

Each chain is a sequence of compiled chunks of about 50 ms on a pool of threads (kernels hold no interpreter lock). A
free thread takes the chain that is furthest behind, so that each has draws whenever the run stops. All that a step
depends on lives in the chain; where one chunk ends and the next begins leaves no trace in the draws.
"""

import concurrent.futures
import math
import time
from collections.abc import Collection, Mapping, Sequence

import numpy as np

from approxmcmc.contracts import COUNT_NAMES, VALUE_NAMES, Chain, Program, SamplingResult
from approxmcmc.engine.checks import show
from approxmcmc.engine.clock import TICKS_IN_KERNELS
from approxmcmc.errors import NotFiniteError, SamplingError
from approxmcmc.sampling.progress import Progress

CHUNK_SECONDS = 0.05
SECONDS = VALUE_NAMES.index("perf_counter_diff")


class Recorder:
    """One chain, and the records of its tuning steps and of its draws."""

    def __init__(self, chain: Chain, dim: int, tune: int, draws: int, thin: int, keep_warmup: bool) -> None:
        self.chain, self.dim, self.keep_warmup = chain, dim, keep_warmup
        # (rows wanted, steps per row) of the two phases; tuning is never thinned.
        self.phases = [(tune, 1), (draws, thin)]
        self.done = [0, 0]
        self.chunks: list[list[tuple[np.ndarray, ...]]] = [[], []]
        self.tuning_counts = np.zeros(len(COUNT_NAMES), dtype=np.int64)
        self.tuning_values = np.zeros(len(VALUE_NAMES))
        self.seconds_per_step = math.inf
        self.chunk_steps = 0
        self.failure = ""
        self.error: Exception | None = None

    @property
    def phase(self) -> int:
        """0 while tuning, 1 while drawing."""
        return 0 if self.done[0] < self.phases[0][0] else 1

    @property
    def finished(self) -> bool:
        """Whether all draws are made."""
        return bool(self.failure) or self.done == [rows for rows, _ in self.phases]

    @property
    def steps(self) -> int:
        """Steps made so far."""
        return sum(done * thin for done, (_, thin) in zip(self.done, self.phases, strict=True))

    def advance(self) -> None:
        """Make one chunk of steps: as many as take about 50 ms, judged by the last chunk, and at most twice as many.

        A few steps say little of the next ones: a proposal outside the support costs nothing, one inside reads all
        data. A chunk of many steps that was planned by one such step would hold up the time limit for minutes.
        """
        phase = self.phase
        rows_wanted, thin = self.phases[phase]
        affordable = min(CHUNK_SECONDS / self.seconds_per_step, 2 * self.chunk_steps) / thin
        rows = min(max(1, int(affordable)), rows_wanted - self.done[phase])
        self.chunk_steps = rows * thin
        draws = np.full((rows, self.dim), math.nan)
        counts = np.empty((rows, len(COUNT_NAMES)), dtype=np.int64)
        values = np.empty((rows, len(VALUE_NAMES)))
        started = time.perf_counter()
        try:
            made = self.chain.advance(rows, thin, draws, counts, values)
            self.failure = self.chain.explain_failure() if made < rows else ""
        except Exception as error:  # raised by a function of the user's; a step writes its draw last
            made = int(np.isfinite(draws).all(axis=1).sum())
            self.error, self.failure = error, _explain(error, self.chain)
        elapsed = time.perf_counter() - started
        self.seconds_per_step = max(elapsed / (rows * thin), 1e-9)
        if not TICKS_IN_KERNELS:
            values[:, SECONDS] = elapsed / rows
        self._record(phase, draws[:made], counts[:made], values[:made])

    def _record(self, phase: int, draws: np.ndarray, counts: np.ndarray, values: np.ndarray) -> None:
        self.done[phase] += len(draws)
        if phase == 0:
            self.tuning_counts += counts.sum(axis=0)
            self.tuning_values += np.nansum(values, axis=0)
        if phase == 1 or self.keep_warmup:
            self.chunks[phase].append((draws, counts, values))

    def arrays(self, phase: int, rows: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return the first `rows` draws, counts and values of a phase, and let go of the chunks."""
        empty = (
            np.empty((0, self.dim)),
            np.empty((0, len(COUNT_NAMES)), dtype=np.int64),
            np.empty((0, len(VALUE_NAMES))),
        )
        pieces = [empty, *self.chunks[phase]]
        self.chunks[phase] = []
        draws, counts, values = (np.concatenate(columns)[:rows] for columns in zip(*pieces, strict=True))
        return draws, counts, values


def run(
    program: Program,
    chains: Sequence[Chain],
    *,
    dim: int,
    draws: int,
    tune: int,
    thin: int,
    cores: int,
    time_limit: float | None,
    keep_warmup: bool,
    progress: Progress,
) -> SamplingResult:
    """Run chains to their end, the time limit, an interrupt, or a failure, and return what was drawn.

    Raises
    ------
    SamplingError
        When a chain failed before every chain had a draw to keep: NotFiniteError when a log density was NaN.
    """
    recorders = [Recorder(chain, dim, tune, draws, thin, keep_warmup) for chain in chains]
    started = time.perf_counter()
    stopped = _advance(recorders, cores, None if time_limit is None else started + time_limit, progress)
    sampling_time = time.perf_counter() - started

    kept = min(recorder.done[1] for recorder in recorders)
    failure = "; ".join(
        f"chain {k}: {recorder.failure}"
        for k, recorder in enumerate(recorders)
        if recorder.failure and recorder.done[1] == kept  # another may have failed later, in a chunk that ran on
    )
    if failure and not kept:
        error = next((recorder.error for recorder in recorders if recorder.error), None)
        kind = SamplingError if error else NotFiniteError
        raise kind(f"sampling stopped before any draw was kept. {failure}. Evaluate the model there") from error
    draws_kept, stats = _stack([recorder.arrays(1, kept) for recorder in recorders], program)
    warmup_draws, warmup_stats = None, None
    if keep_warmup:
        tuned = min(recorder.done[0] for recorder in recorders)
        warmup_draws, warmup_stats = _stack([recorder.arrays(0, tuned) for recorder in recorders], program)
    adapted = [chain.adapted() for chain in chains]
    attrs = {
        **program.attrs,
        **{f"adapted_{name}": [values[name] for values in adapted] for name in adapted[0]},
        "sampling_time": sampling_time,
        "tuning_steps": tune,
        "thin": thin,
        "stopped": "failure" if failure else stopped,
        "failure": failure,
    }
    totals = _tuning_totals(recorders, program)
    return SamplingResult(draws_kept, stats, warmup_draws, warmup_stats, totals, attrs)


def _advance(recorders: Sequence[Recorder], cores: int, deadline: float | None, progress: Progress) -> str:
    """Advance all chains; return why it ended: "" (done, or a failure), "time_limit" or "interrupt".

    No chain waits for another: with a barrier after each chunk two chains on two threads gained 1.6, without it 1.9.
    """
    in_flight: dict[concurrent.futures.Future[None], Recorder] = {}
    with concurrent.futures.ThreadPoolExecutor(max_workers=cores, thread_name_prefix="chain") as pool:
        try:
            while True:
                late = deadline is not None and time.perf_counter() >= deadline
                if not late:
                    next_in_line = _unfinished(recorders, in_flight.values())[: cores - len(in_flight)]
                    in_flight |= {pool.submit(recorder.advance): recorder for recorder in next_in_line}
                if not in_flight:
                    return "time_limit" if _unfinished(recorders) else ""
                done, _ = concurrent.futures.wait(in_flight, return_when=concurrent.futures.FIRST_COMPLETED)
                for future in done:
                    del in_flight[future]
                    future.result()
                progress.update(sum(recorder.steps for recorder in recorders))
        except KeyboardInterrupt:
            return "interrupt"  # leaving the pool waits for the chunks in flight, 50 ms each


def _unfinished(recorders: Sequence[Recorder], busy: Collection[Recorder] = ()) -> list[Recorder]:
    """Return the idle chains that need more steps, the one furthest behind first.

    A chain that failed ends the others where it ended itself: what is kept depends on no thread and no chunk.
    """
    enough = min((recorder.done[1] for recorder in recorders if recorder.failure), default=math.inf)
    idle = [recorder for recorder in recorders if not recorder.finished and recorder not in busy]
    return sorted((recorder for recorder in idle if recorder.done[1] < enough), key=lambda recorder: recorder.steps)


def _explain(error: Exception, chain: Chain) -> str:
    """Say what a function of the user's raised, and where the chain was about to go."""
    where = "" if chain.proposed is None else f" at theta = {show(chain.proposed)}"
    return f"the model raised {type(error).__name__}: {error}{where}"


def _stack(
    arrays: Sequence[tuple[np.ndarray, np.ndarray, np.ndarray]], program: Program
) -> tuple[np.ndarray, Mapping[str, np.ndarray]]:
    """Stack chains, and name the columns that this sampler fills."""
    draws, counts, values = (np.stack(columns) for columns in zip(*arrays, strict=True))
    stats = {name: counts[..., COUNT_NAMES.index(name)] for name in program.count_names}
    stats |= {name: values[..., VALUE_NAMES.index(name)] for name in program.value_names}
    return draws, stats


def _tuning_totals(recorders: Sequence[Recorder], program: Program) -> dict[str, np.ndarray]:
    """Return the sums over tuning steps, per chain; a total of log densities would mean nothing and is left out."""
    totals = {
        name: np.array([recorder.tuning_counts[COUNT_NAMES.index(name)] for recorder in recorders])
        for name in program.count_names
    }
    totals["perf_counter_diff"] = np.array([recorder.tuning_values[SECONDS] for recorder in recorders])
    return totals
