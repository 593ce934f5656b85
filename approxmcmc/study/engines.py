"""Engines compute the cells: in this process, or on the workers of a Dask cluster; `processes.py` has the third one.

They yield finished cells and take no decisions. The message to a worker is a `Job`, with the source of the study, and
the key of a cell. It contains no data: a worker makes the targets itself.

A worker has one thread and gets its next cell when it has finished one, so cells start in the order of the plan, block
by block. When a worker of Dask dies, Dask gives its cell to others, and reports at last that it is lost; the report may
also name a cell that was waiting on the worker.
"""

import collections
import contextlib
import dataclasses
import functools
import pickle
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from approxmcmc.engine.extras import extra
from approxmcmc.engine.terms.dask_client import LOSSES, result_of
from approxmcmc.errors import StudyError
from approxmcmc.study.cell import run_cell
from approxmcmc.study.load import load_study
from approxmcmc.study.machine import collect
from approxmcmc.study.plan import Cell, Plan, make_plan
from approxmcmc.study.record import Record, lost_record
from approxmcmc.study.store import Store

if TYPE_CHECKING:
    import xarray as xr
    from distributed import Client, Future


@dataclasses.dataclass(frozen=True)
class Finished:
    """The result of a finished cell, from a worker.

    Parameters
    ----------
    record
        The record of its result.
    stored
        Whether the worker has written it to the store.
    draws, provenance
        Draws and provenance that are still to be written, if the worker has not written them.
    """

    record: Record
    stored: bool = False
    draws: "xr.DataTree | None" = None
    provenance: dict[str, Any] | None = None


@dataclasses.dataclass(frozen=True)
class Job:
    """How to compute any cell of a plan, in any process.

    Parameters
    ----------
    source
        Path of the study's file; or the pickled study, if it was declared elsewhere.
    preset
        Name of the preset.
    folder
        The store as the worker sees it; None to send the draws back.
    sample, probe
        As in :func:`approxmcmc.study.cell.run_cell`; importable by name where workers are other processes.
    arguments
        Command-line arguments that name study, preset and store.
    run_id
        Identifies this run. If a worker gets a cell twice because its first answer was lost, it finds the result in the
        store and does not compute it again.
    """

    source: str | bytes
    preset: str
    folder: str | None
    sample: Callable[..., Any]
    probe: Callable[[], float]
    arguments: str
    run_id: str

    def perform(self, key: str, plan: Plan | None = None) -> Finished:
        """Run the cell with this key, and store its result, or return the draws if there is no store.

        Raises
        ------
        StudyError
            If study, data or code on the worker differ from those of the plan.
        """
        plan = plan or _plan(self.source, self.preset)
        cell = next((cell for cell in plan.cells if cell.key == key), None)
        if cell is None:
            raise StudyError(
                f"This worker's plan of {plan.study.name!r} has no cell {key}: its study file, data or version of the "
                f"code ({plan.code_version}) differ from those of the process that asked. Make them equal and run "
                "again."
            )
        store = None if self.folder is None else Store(Path(self.folder))
        if store is not None and (stored := store.record(key)) is not None and stored.get("run") == self.run_id:
            return Finished(stored, stored=True)
        provenance = _provenance()
        record, trace = run_cell(plan, cell, sample=self.sample, probe=self.probe)
        record |= {"command": self.command(key), "run": self.run_id}
        if store is None:
            return Finished(record, draws=trace, provenance=provenance)
        record["provenance"] = store.write_provenance(provenance)
        store.write_cell(record, trace)
        return Finished(record, stored=True)

    def lost(self, plan: Plan, cell: Cell, status: str, error: str) -> Finished:
        """Return the result of a cell that could not be computed, with this status and error."""
        record = lost_record(cell, plan, status, error)
        return Finished({**record, "command": self.command(cell.key), "run": self.run_id})

    def command(self, key: str) -> str:
        """Return the command that runs only this cell again."""
        return f"approxmcmc retry {self.arguments} --cell {key}"


@functools.lru_cache(maxsize=4)
def _plan(source: str | bytes, preset: str) -> Plan:
    study = pickle.loads(source) if isinstance(source, bytes) else load_study(Path(source))
    return make_plan(study, preset)


@functools.cache
def _provenance() -> dict[str, Any]:
    return collect()


def run_serially(job: Job, plan: Plan, cells: Sequence[Cell]) -> Iterator[Finished]:
    """Compute the cells in this process, and yield their results in the given order: for debuggers and quiet timing."""
    for cell in cells:
        yield job.perform(cell.key, plan)


POLL_SECONDS = 10.0
LONGEST_WITHOUT_WORKERS = 300.0
CONNECTION_LOST = "the connection was lost"


def check_dask() -> None:
    """Raise `MissingExtraError` if Dask is not installed."""
    with extra("studies", "The engine 'dask'"):
        import distributed  # noqa: F401 (asked whether it is there)


def run_on_dask(job: Job, plan: Plan, cells: Sequence[Cell], *, scheduler: str) -> Iterator[Finished]:
    """Yield the cells as they finish.

    Parameters
    ----------
    job, plan, cells
        What to run. Only the job and a key are sent to a worker.
    scheduler
        Address of a running scheduler, such as ``tcp://host:8786``; its workers need one thread each, the package, the
        study's file at the same path, and the data. Draws travel back over the network.

    Raises
    ------
    StudyError
        If the scheduler cannot be reached, or is lost, or there has been no worker for five minutes, or a worker has
        several threads.
    """
    check_dask()
    from distributed import Client

    waiting = collections.deque(cells)
    flying: dict[Future[Finished], Cell] = {}
    with _reachable(scheduler), ExitStack() as stack:
        client = stack.enter_context(Client(scheduler, set_as_default=False))
        stack.callback(_cancel, client, flying)  # cancel the rest if the caller stops early
        seen = time.monotonic()
        while waiting or flying:
            if client.status != "running":
                raise ConnectionError(CONNECTION_LOST)
            threads = client.nthreads()
            _check_threads(threads)
            capacity = len(threads)
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


def _check_threads(threads: Mapping[str, int]) -> None:
    """Raise if a worker has several threads: chains on threads of one process share its processor clock and its cores.

    With two threads a budget of seconds of the processor ended after half of the draws.
    """
    several = {worker: n for worker, n in threads.items() if n > 1}
    if several:
        worker, n = next(iter(several.items()))
        raise StudyError(
            f"The Dask worker {worker} has {n} threads, and a cell needs a process of its own: chains on threads of "
            "one process would use up each other's budget of seconds. Finished cells are kept: start the workers with "
            f"`dask worker ADDRESS --nworkers {n} --nthreads 1`, and run the same command again."
        )


@contextlib.contextmanager
def _reachable(scheduler: str) -> Iterator[None]:
    """Raise a StudyError with advice if the scheduler cannot be reached."""
    try:
        yield
    except LOSSES as error:
        # The text of a CancelledError would list all cancelled tasks.
        why = error if isinstance(error, OSError) else CONNECTION_LOST
        raise StudyError(
            f"The Dask scheduler at {scheduler} cannot be reached ({why}). Finished cells are kept: start a scheduler, "
            "and run the same command again with its address."
        ) from error


def _cancel(client: "Client", flying: "dict[Future[Finished], Cell]") -> None:
    if client.status == "running":
        client.cancel(list(flying), force=True)


def _ended(client: "Client", futures: "list[Future[Finished]]") -> "list[Future[Finished]]":
    from distributed import wait

    try:
        with client.as_current():  # inside this context only, so that the caller's own code does not use this client
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
