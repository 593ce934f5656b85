"""Run chains in chunks on threads, with time limits and interrupts; the draws do not depend on any of these.

Each chain is a sequence of compiled chunks of about 50 ms on a pool of threads (kernels hold no interpreter lock). A
free thread takes the chain that is furthest behind, so that every chain has draws whenever the run stops. Everything
that a step depends on is stored in the chain, so the limits of chunks do not affect the draws.
"""

import concurrent.futures
import math
import time
from collections.abc import Collection, Mapping, Sequence

import numpy as np

from approxmcmc.contracts import COUNT_NAMES, VALUE_NAMES, Chain, Program, SamplingResult
from approxmcmc.contracts.records import SECONDS, THREAD_SECONDS
from approxmcmc.engine.limit_clock import limit_clock
from approxmcmc.errors import InvalidInputError, NotFiniteError, SamplingError
from approxmcmc.sampling.goals import FixedDraws, Goal, Goals
from approxmcmc.sampling.progress import Progress
from approxmcmc.sampling.recorder import DRAWING, TUNING, Checkpointer, Recorder, Snapshot


def run(
    program: Program,
    chains: Sequence[Chain],
    *,
    dim: int,
    draws: int | Goals,
    tune: int,
    thin: int,
    cores: int,
    time_limit: float | None,
    keep_warmup: bool,
    progress: Progress,
    begun: Snapshot | None = None,
    checkpoints: Checkpointer | None = None,
) -> SamplingResult:
    """Run chains to their end, the time limit, an interrupt, or a failure, and return the draws.

    `draws` is the number of draws per chain, or goals that decide from the draws whether they suffice. Draws dropped by
    thinning are not kept, and the attribute ``thin`` is the number of steps between kept draws. From the snapshot
    `begun` the chains resume, and their earlier seconds count. Checkpoints are written while no chain has failed, at
    the end only if one is due: the caller stores the finished run.

    Raises
    ------
    SamplingError
        When a chain failed before every chain had a kept draw: NotFiniteError if a log density was NaN.
    InvalidInputError
        When the chains were set up differently from those that were begun.
    OSError
        When the first checkpoint cannot be written.
    """
    recorders = [Recorder(chain, dim, tune, thin, keep_warmup) for chain in chains]
    goals = FixedDraws(draws) if isinstance(draws, int) else draws
    scheduler = Scheduler(recorders, goals, cores, progress, checkpoints, begun)
    stopped = scheduler.run(time_limit)
    seconds = scheduler.seconds

    kept = min(recorder.done[DRAWING] for recorder in recorders)
    failure = "; ".join(
        f"chain {k}: {recorder.failure}"
        for k, recorder in enumerate(recorders)
        # Another chain may have failed later, in a running chunk.
        if recorder.failure and recorder.done[DRAWING] == kept
    )
    if failure and not kept:
        error = next((recorder.error for recorder in recorders if recorder.error), None)
        kind = SamplingError if error else NotFiniteError
        raise kind(f"sampling stopped before any draw was kept. {failure}. Evaluate the model there") from error
    draws_kept, stats = _stack(recorders, DRAWING, kept, program)
    warmup_draws = None
    warmup_stats = None
    if keep_warmup:
        tuned = min(recorder.done[TUNING] for recorder in recorders)
        warmup_draws, warmup_stats = _stack(recorders, TUNING, tuned, program)
    if checkpoints is not None and scheduler.goal is None and not scheduler.failed:
        checkpoints.last = scheduler.snapshot(seconds)
    adapted = [chain.adapted() for chain in chains]
    attrs = {
        **program.attrs,
        **{f"adapted_{name}": [values[name] for values in adapted] for name in adapted[0]},
        "sampling_time": seconds - goals.seconds,
        "tuning_steps": tune,
        "thin": recorders[0].thin[DRAWING],
        "stopped": "failure" if failure else stopped,
        "failure": failure,
    }
    totals = _tuning_totals(recorders, program)
    return SamplingResult(draws_kept, stats, warmup_draws, warmup_stats, totals, attrs)


class Scheduler:
    """The chains of a run, which are advanced from goal to goal; `begun` is a snapshot to resume from, or None."""

    def __init__(
        self,
        recorders: Sequence[Recorder],
        goals: Goals,
        cores: int,
        progress: Progress,
        checkpoints: Checkpointer | None,
        begun: Snapshot | None,
    ) -> None:
        self.recorders = recorders
        self.goals = goals
        self.cores = cores
        self.progress = progress
        self.checkpoints = checkpoints
        self.goal: Goal | None = goals.first()
        self.stopped = ""
        self.started = time.perf_counter()
        self.limit_began = limit_clock()
        if begun is not None:
            try:
                for recorder, kept in zip(recorders, begun.chains, strict=True):
                    recorder.restore(kept)
                goals.restore(begun.goals)
            except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
                raise InvalidInputError(f"the state of a chain cannot be restored: {error}") from error
            self.goal = begun.goal
            self.started = self.started - begun.seconds
            self.limit_began = self.limit_began - begun.seconds
            self.stopped = begun.stopped if begun.goal is None else ""

    @property
    def seconds(self) -> float:
        """Seconds spent, including those of earlier processes, without the time for checkpoints."""
        return time.perf_counter() - self.started - (self.checkpoints.seconds if self.checkpoints else 0.0)

    @property
    def steps(self) -> int:
        """Steps made by all chains together."""
        return sum(recorder.steps for recorder in self.recorders)

    @property
    def failed(self) -> bool:
        """Whether a chain has failed."""
        return any(recorder.failure for recorder in self.recorders)

    def run(self, time_limit: float | None) -> str:
        """Advance all chains from goal to goal; return why they stopped, see :meth:`_advance`."""
        deadline = None if time_limit is None else self.limit_began + time_limit
        if self.checkpoints is None or self.goal is None:
            return self._run_to_the_end(deadline)
        self.checkpoints.begin(self.snapshot(self.seconds), self.steps)
        try:
            return self._run_to_the_end(deadline)
        finally:
            self.checkpoints.finish()

    def _run_to_the_end(self, deadline: float | None) -> str:
        while self.goal is not None:
            stopped = self._advance_to(self.goal, deadline)
            if self.failed:  # the run cannot resume from here: keep the earlier checkpoint
                return stopped
            if stopped:
                self.stopped = stopped
                self.goal = self.goal if stopped == "interrupt" else None
            if stopped or self.goal is None:
                self._keep(ended=self.goal is None)
                break
        return self.stopped

    def snapshot(self, seconds: float) -> Snapshot:
        """Return the state of the run, with `seconds` as the time spent; call only while no chain is running."""
        chains = [recorder.snapshot() for recorder in self.recorders]
        return Snapshot(self.goal, self.goals.memory, seconds, self.stopped, chains)

    def _advance_to(self, goal: Goal, deadline: float | None) -> str:
        """Advance all chains to a goal, and find the next one; return why the run must stop, or an empty string."""
        for recorder in self.recorders:
            recorder.aim(goal)
        stopped = self._advance(deadline)
        if stopped or self.failed:
            return stopped
        try:
            self.goal = self.goals.after(goal, self._draws)
        except KeyboardInterrupt:
            return "interrupt"
        if self.goal is not None:
            draws, note = self.goals.expected
            recorder = self.recorders[0]
            steps = recorder.wanted[TUNING] + draws * recorder.thin[DRAWING] / recorder.every
            self.progress.expect(len(self.recorders) * steps, note)
        return ""

    def _draws(self) -> np.ndarray:
        """Return the draws so far, of shape (chains, draws, dim)."""
        return np.stack([_draws_of(recorder) for recorder in self.recorders])

    def _common_draws(self) -> np.ndarray:
        """Return the draws that all chains have made, shape (chains, draws, dim), also while chains are running."""
        draws = [_draws_of(recorder) for recorder in self.recorders]
        fewest = min(map(len, draws))
        return np.stack([of_chain[:fewest] for of_chain in draws])

    def _advance(self, deadline: float | None) -> str:
        """Advance all chains; return why they stopped: "" (done, or a failure), "time_limit" or "interrupt".

        Chains wait for each other only at checkpoints. With a barrier after each chunk two chains on two threads were
        1.6 times as fast as on one thread, without a barrier 1.9 times.
        """
        in_flight: dict[concurrent.futures.Future[None], Recorder] = {}
        with concurrent.futures.ThreadPoolExecutor(max_workers=self.cores, thread_name_prefix="chain") as pool:
            try:
                while True:
                    late = deadline is not None and limit_clock() >= deadline
                    pausing = self.checkpoints is not None and not self.failed and self.checkpoints.due(self.steps)
                    if not (late or pausing):
                        free = self.cores - len(in_flight)
                        next_in_line = _unfinished(self.recorders, in_flight.values())[:free]
                        in_flight |= {pool.submit(recorder.advance): recorder for recorder in next_in_line}
                    if not in_flight and pausing:
                        self._keep()
                        continue
                    if not in_flight:
                        return "time_limit" if _unfinished(self.recorders) else ""
                    done, _ = concurrent.futures.wait(in_flight, return_when=concurrent.futures.FIRST_COMPLETED)
                    for future in done:
                        del in_flight[future]
                        future.result()
                    self.progress.update(self.steps, self._common_draws)
            except KeyboardInterrupt:
                return "interrupt"  # leaving the pool waits for running chunks, 50 ms each

    def _keep(self, *, ended: bool = False) -> None:
        """Store a snapshot, while no chain is running; after the end only if one is due: the trace is stored next."""
        if self.checkpoints is not None and (not ended or self.checkpoints.due(self.steps)):
            self.checkpoints.keep(self.snapshot(self.seconds), self.steps)


def _draws_of(recorder: Recorder) -> np.ndarray:
    """Return the kept draws of a chain, shape (draws, dim)."""
    draws, _, _ = recorder.records(DRAWING)
    return draws


def _unfinished(recorders: Sequence[Recorder], busy: Collection[Recorder] = ()) -> list[Recorder]:
    """Return the idle chains that need more steps, the one furthest behind first.

    If a chain fails, the others stop at the same step, so that the kept draws do not depend on threads or chunks.
    """
    enough = min((recorder.done[DRAWING] for recorder in recorders if recorder.failure), default=math.inf)
    idle = [recorder for recorder in recorders if not recorder.finished and recorder not in busy]
    unfinished = [recorder for recorder in idle if recorder.done[DRAWING] < enough]
    return sorted(unfinished, key=lambda recorder: recorder.steps)


def _stack(
    recorders: Sequence[Recorder], phase: int, rows: int, program: Program
) -> tuple[np.ndarray, Mapping[str, np.ndarray]]:
    """Return the first `rows` draws of all chains, (chains, rows, dim), and the records that the sampler fills.

    `phase` is 0 for tuning, 1 for draws. A recorder with exactly these rows then shares the stacked arrays.
    """
    own = [recorder.arrays(phase, rows) for recorder in recorders]
    draws, counts, values = (np.stack(tables) for tables in zip(*own, strict=True))
    for k, recorder in enumerate(recorders):
        if len(recorder.records(phase)[0]) == rows:  # frees memory for writing a file with the trace
            recorder.hold(phase, (draws[k], counts[k], values[k]))
    stats = {name: counts[..., COUNT_NAMES.index(name)] for name in program.count_names}
    named = dict.fromkeys((*program.value_names, VALUE_NAMES[THREAD_SECONDS]))
    stats |= {name: values[..., VALUE_NAMES.index(name)] for name in named}
    return draws, stats


def _tuning_totals(recorders: Sequence[Recorder], program: Program) -> dict[str, np.ndarray]:
    """Return the sums over tuning steps, per chain, of counts and seconds; sums of other values have no meaning."""
    totals = {
        name: np.array([recorder.tuning_counts[COUNT_NAMES.index(name)] for recorder in recorders])
        for name in program.count_names
    }
    for name, column in (("perf_counter_diff", SECONDS), ("thread_time_diff", THREAD_SECONDS)):
        totals[name] = np.array([recorder.tuning_values[column] for recorder in recorders])
    return totals
