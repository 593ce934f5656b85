"""Worker processes on this machine, each at the end of a pipe that it shares with this process alone.

A pipe has no address, so no other user can reach a worker: nothing listens on a port. A worker computes one cell at a
time and writes it to the store; the next cell is sent when its answer has come, so cells start in the order of the
plan. This process knows which cell a worker has, so the death of a worker costs this cell alone: it is computed again
by a new process, and recorded as crashed after its second death.
"""

import collections
import contextlib
import multiprocessing
import os
import pickle
import signal
import threading
import traceback
from collections.abc import Iterator, Sequence
from multiprocessing.connection import Connection, wait
from typing import cast

from approxmcmc.engine.extras import THREAD_VARIABLES
from approxmcmc.errors import StudyError
from approxmcmc.study.engines import Finished, Job
from approxmcmc.study.plan import Cell, Plan

MOST_ATTEMPTS = 2  # the machine may be the cause of the first death
CRASHED = f"{MOST_ATTEMPTS} processes died while they ran this cell."
READY = "ready"
SECONDS_TO_END = 5.0


class Worker:
    """A process, this side of its pipe, and the cell that it computes (None if it waits for one)."""

    def __init__(self, job: bytes) -> None:
        context = multiprocessing.get_context("spawn")  # a fork would inherit threads and locks in any state
        self.connection, other_end = context.Pipe()
        self.process = context.Process(target=_work, args=(other_end,), daemon=True)
        with _settings_of_workers():
            self.process.start()
        other_end.close()  # the worker holds it alone, so its death ends the pipe
        # Not as an argument: `start` waits forever if the process dies before it has read a job larger than a pipe.
        with contextlib.suppress(OSError):
            self.connection.send_bytes(job)
        self.cell: Cell | None = None

    def begin(self, cell: Cell) -> None:
        """Send a cell to the worker; if the worker is dead, `answer` finds out."""
        self.cell = cell
        with contextlib.suppress(OSError):
            self.connection.send(cell.key)

    def answer(self) -> Finished | str | None:
        """Wait for the worker: the finished cell, the text of an error, or None if the worker has died.

        The first answer of a worker is READY, when it has imported what it needs.
        """
        try:
            return cast("Finished | str", self.connection.recv())
        except (EOFError, OSError):
            return None

    def end(self) -> None:
        """End the process: at once if it computes, else by closing its pipe."""
        if self.cell is not None:
            self.process.kill()
        self.connection.close()
        self.process.join(SECONDS_TO_END)
        self.process.kill()
        self.process.join()


def run_in_processes(job: Job, plan: Plan, cells: Sequence[Cell], *, jobs: int | None = None) -> Iterator[Finished]:
    """Yield the cells as they finish, computed by `jobs` processes; None for one per core.

    Raises
    ------
    StudyError
        If a process ends before it can compute: the file that called `run` is not importable.
    """
    import cloudpickle  # type: ignore[import-untyped]

    text = cloudpickle.dumps(job, protocol=pickle.HIGHEST_PROTOCOL)
    waiting = collections.deque(cells)
    deaths: collections.Counter[str] = collections.Counter()
    workers: list[Worker] = []
    try:
        for _ in range(min(jobs or os.cpu_count() or 1, len(cells))):
            workers.append(Worker(text))
            workers[-1].begin(waiting.popleft())
        ready = False  # of any worker: one that dies later was killed by its cell, not by an import
        while busy := {worker.connection: worker for worker in workers if worker.cell is not None}:
            for connection in wait(list(busy)):
                worker = busy[cast("Connection", connection)]
                cell = cast("Cell", worker.cell)
                answer = worker.answer()
                if answer == READY:
                    ready = True
                    continue
                if answer is None:
                    _check_that_it_began(ready, worker)
                    position = workers.index(worker)
                    worker = _replaced(worker, text)
                    workers[position] = worker
                    deaths[cell.key] += 1
                    if deaths[cell.key] < MOST_ATTEMPTS:
                        worker.begin(cell)
                        continue
                    answer = job.lost(plan, cell, "crashed", CRASHED)
                worker.cell = None
                if waiting:
                    worker.begin(waiting.popleft())
                yield job.lost(plan, cell, "failed", answer) if isinstance(answer, str) else answer
    finally:
        for worker in workers:
            worker.end()


def _replaced(worker: Worker, job: bytes) -> Worker:
    worker.end()
    return Worker(job)


def _check_that_it_began(ready: bool, worker: Worker) -> None:
    if not ready:
        worker.process.join()
        raise StudyError(
            f"A worker process ended with exit code {worker.process.exitcode} before its first cell; its own message "
            "is above. A new process imports the script that started the study: put the call of `run` under "
            '`if __name__ == "__main__":`, or use engine "serial".'
        )


@contextlib.contextmanager
def _settings_of_workers() -> Iterator[None]:
    """Let processes that are started inside use one thread for linear algebra: each has one core.

    Ctrl-C reaches every process of a terminal, also one that has just begun; it waits until the start is over.
    """
    before = {name: os.environ.get(name) for name in THREAD_VARIABLES}
    os.environ |= dict.fromkeys(THREAD_VARIABLES, "1")
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT}) if hasattr(signal, "pthread_sigmask") else None
    try:
        yield
    finally:
        if blocked is not None:
            signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def _work(connection: Connection) -> None:
    """Compute cells until the pipe ends; runs in a process of its own."""
    # Ctrl-C reaches every process of a terminal; the process that runs the study ends its workers.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    perform = pickle.loads(connection.recv_bytes()).perform
    connection.send(READY)
    while True:
        try:
            key = connection.recv()
        except (EOFError, OSError):
            return
        try:
            answer = perform(key)
        except Exception:  # the cell could not start: a study file that does not load, another version of the code
            answer = traceback.format_exc()
        with contextlib.suppress(BrokenPipeError):
            connection.send(answer)


def _end_with_parent() -> None:
    """End this process when its parent has ended, however that happened: its cell would be computed twice."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        wait([parent.sentinel])
        os._exit(1)
