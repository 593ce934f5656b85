"""The message to a worker: the source of the study, and the key of a cell. It never contains arrays."""

import dataclasses
import functools
import pickle
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from approxmcmc.errors import StudyError
from approxmcmc.study.cell import run_cell
from approxmcmc.study.load import load_study
from approxmcmc.study.plan import Cell, Plan, make_plan
from approxmcmc.study.provenance import collect
from approxmcmc.study.record import Record, lost_record
from approxmcmc.study.store import Store

if TYPE_CHECKING:
    import xarray as xr

MOST_ATTEMPTS = 2  # the machine may be the cause of the first death


@dataclasses.dataclass(frozen=True)
class Finished:
    """A finished cell.

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
        """Run a cell and store it, or send it back.

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
        if store is not None and (known := store.record(key)) is not None and known.get("run") == self.run_id:
            return Finished(known, stored=True)
        if store is not None and store.count_attempt(key, self.run_id) > MOST_ATTEMPTS:
            lost = self.lost(plan, cell, "crashed", f"{MOST_ATTEMPTS} processes died while they ran this cell.")
            store.write_cell(lost.record, None)
            return dataclasses.replace(lost, stored=True)
        provenance = _provenance()
        record, trace = run_cell(plan, cell, sample=self.sample, probe=self.probe)
        record |= {"command": self.command(key), "run": self.run_id}
        if store is None:
            return Finished(record, draws=trace, provenance=provenance)
        record["provenance"] = store.write_provenance(provenance)
        store.write_cell(record, trace)
        return Finished(record, stored=True)

    def lost(self, plan: Plan, cell: Cell, status: str, error: str) -> Finished:
        """Return the record of a cell that lost its processes, or that no process could start."""
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
    """Yield the cells as they finish, in the order given, in this process: for debuggers, and for quiet timing."""
    for cell in cells:
        yield job.perform(cell.key, plan)
