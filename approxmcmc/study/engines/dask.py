"""Cells on workers of Dask: processes of this machine, or any cluster with a scheduler address.

A worker has one thread and gets its next cell when it has finished one, so cells start in the order of the plan, block
by block. When a worker dies its cell is given to another one, once; after a second death the cell is recorded as
crashed, and the other cells continue. Local workers write to the store which cell they begin, so the crashed cell is
known exactly. For a remote cluster only Dask's own guess is known, which may also name a cell that waited on the
worker.
"""

import collections
import contextlib
import os
import time
import traceback
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING, cast

from approxmcmc.engine.extras import extra
from approxmcmc.engine.terms.dask_client import LOSSES, result_of
from approxmcmc.errors import StudyError
from approxmcmc.study.engines.job import Finished, Job
from approxmcmc.study.plan import Cell, Plan
from approxmcmc.study.provenance import THREAD_VARIABLES

if TYPE_CHECKING:
    from distributed import Client, Future

POLL_SECONDS = 10.0
LONGEST_WITHOUT_WORKERS = 300.0
CONNECTION_LOST = "the connection was lost"
SETTINGS_OF_LOCAL_CLUSTER = {
    **{f"distributed.nanny.pre-spawn-environ.{name}": 1 for name in THREAD_VARIABLES},
    "distributed.scheduler.allowed-failures": 1_000_000,  # this module counts deaths itself
    "distributed.scheduler.worker-ttl": None,  # a computing worker that does not answer is not dead
    # Ctrl-C reaches every process of a terminal; the process that runs the study stops the workers.
    "distributed.worker.preload": ["import signal; signal.signal(signal.SIGINT, signal.SIG_IGN)"],
    "distributed.deploy.lost-worker-timeout": "1 hour",  # restarting one may take longer than the usual 15 s
}


def check_installed() -> None:
    """Raise `MissingExtraError` if Dask is not installed."""
    with extra("studies", "The engine 'dask'"):
        import distributed  # noqa: F401 (asked whether it is there)


def run(
    job: Job, plan: Plan, cells: Sequence[Cell], *, scheduler: str | None = None, jobs: int | None = None
) -> Iterator[Finished]:
    """Yield the cells as they finish.

    Parameters
    ----------
    job, plan, cells
        What to run. Only the job and a key are sent to a worker.
    scheduler
        Address of a running scheduler, such as ``tcp://host:8786``; its workers need the package, the study's file at
        the same path, and the data. Draws travel back over the network. None starts worker processes on this machine,
        which write to the store themselves.
    jobs
        Worker processes to start; None for one per core.

    Raises
    ------
    StudyError
        If the scheduler cannot be reached, or is lost, or there has been no worker for five minutes.
    """
    waiting = collections.deque(cells)
    flying: dict[Future[Finished], Cell] = {}
    with _reachable(scheduler), ExitStack() as stack:
        client = _client(stack, scheduler, jobs)
        stack.callback(_cancel, client, flying)  # cancel the rest if the caller stops early
        seen = time.monotonic()
        while waiting or flying:
            if client.status != "running":
                raise ConnectionError(CONNECTION_LOST)
            capacity = sum(client.nthreads().values())
            seen = time.monotonic() if capacity else seen
            if time.monotonic() - seen > LONGEST_WITHOUT_WORKERS:
                raise StudyError(
                    f"Dask has had no worker for {LONGEST_WITHOUT_WORKERS:.0f} s; finished cells are kept."
                )
            while waiting and len(flying) < max(capacity, 1):
                cell = waiting.popleft()
                flying[client.submit(job.perform, cell.key, key=f"cell-{cell.key}-{job.run_id}", pure=False)] = cell
            for future in _ended(client, list(flying)):
                yield _result(future, flying.pop(future), job, plan)


@contextlib.contextmanager
def _reachable(scheduler: str | None) -> Iterator[None]:
    """Raise advice if a remote scheduler cannot be reached; a local one is part of this process."""
    try:
        yield
    except LOSSES as error:
        if scheduler is None:
            raise
        why = error if isinstance(error, OSError) else CONNECTION_LOST  # else a list of all cancelled tasks
        raise StudyError(
            f"The Dask scheduler at {scheduler} cannot be reached ({why}). Finished cells are kept: start one, and "
            "run the same command again with its address."
        ) from error


def _cancel(client: "Client", flying: "dict[Future[Finished], Cell]") -> None:
    if client.status == "running":
        client.cancel(list(flying), force=True)


def _ended(client: "Client", futures: "list[Future[Finished]]") -> "list[Future[Finished]]":
    from distributed import wait

    try:
        with client.as_current():  # only here: the caller must not need a scheduler
            return list(wait(futures, timeout=POLL_SECONDS, return_when="FIRST_COMPLETED").done)
    except TimeoutError:
        return []


def _result(future: "Future[Finished]", cell: Cell, job: Job, plan: Plan) -> Finished:
    from distributed import KilledWorker

    lost = ConnectionError(CONNECTION_LOST)
    try:
        return cast("Finished", result_of(future, lost))
    except KilledWorker as death:
        return job.lost(plan, cell, "crashed", f"Every process that ran this cell died. {death}")
    except Exception as error:  # the cell could not start: a study file that does not load, another version of the code
        if error is lost:
            raise
        return job.lost(plan, cell, "failed", traceback.format_exc())


def _client(stack: ExitStack, scheduler: str | None, jobs: int | None) -> "Client":
    check_installed()
    import dask
    from distributed import Client, LocalCluster

    if scheduler is None:
        stack.enter_context(dask.config.set(SETTINGS_OF_LOCAL_CLUSTER))
        cluster = LocalCluster(
            n_workers=jobs or os.cpu_count() or 1,
            threads_per_worker=1,
            processes=True,
            memory_limit=0,  # never pause or kill a cell for its memory
            dashboard_address="127.0.0.1:0",  # any free port, so that two runs do not conflict
            silence_logs="CRITICAL",
        )
        stack.enter_context(cluster)
        client = Client(cluster, set_as_default=False)
    else:
        client = Client(scheduler, set_as_default=False)
    stack.enter_context(client)
    return client
