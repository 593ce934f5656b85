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
from approxmcmc.contracts.records import SECONDS
from approxmcmc.errors import NotFiniteError, SamplingError
from approxmcmc.sampling.goals import FixedDraws, Goals
from approxmcmc.sampling.progress import Progress
from approxmcmc.sampling.recorder import Recorder


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
) -> SamplingResult:
    """Run chains to their end, the time limit, an interrupt, or a failure, and return what was drawn.

    `draws` is their number per chain, or what tells from the draws whether they are enough. Of the draws that its goals
    drop none is kept, and the attribute ``thin`` counts the steps between those that are.

    Raises
    ------
    SamplingError
        When a chain failed before every chain had a draw to keep: NotFiniteError when a log density was NaN.
    """
    recorders = [Recorder(chain, dim, tune, thin, keep_warmup) for chain in chains]
    goals = FixedDraws(draws) if isinstance(draws, int) else draws
    started = time.perf_counter()
    stopped = _reach(goals, recorders, cores, None if time_limit is None else started + time_limit, progress)
    sampling_time = time.perf_counter() - started - goals.seconds

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
        "thin": recorders[0].thin[1],
        "stopped": "failure" if failure else stopped,
        "failure": failure,
    }
    totals = _tuning_totals(recorders, program)
    return SamplingResult(draws_kept, stats, warmup_draws, warmup_stats, totals, attrs)


def _reach(goals: Goals, recorders: Sequence[Recorder], cores: int, deadline: float | None, progress: Progress) -> str:
    """Advance all chains from goal to goal; return why it ended, see :func:`_advance`."""
    goal = goals.first()
    while True:
        for recorder in recorders:
            recorder.aim(goal)
        stopped = _advance(recorders, cores, deadline, progress)
        if stopped or any(recorder.failure for recorder in recorders):
            return stopped
        try:
            following = goals.after(goal, lambda: np.stack([recorder.draws() for recorder in recorders]))
        except KeyboardInterrupt:
            return "interrupt"
        if following is None:
            return ""
        draws, note = goals.expected
        recorder = recorders[0]
        progress.expect(len(recorders) * (recorder.wanted[0] + draws * recorder.thin[1] / recorder.every), note)
        goal = following


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
