"""Run the missing cells of a study. Every run resumes: a cell with a record is not computed again."""

import collections
import dataclasses
import os
import pickle
import uuid
from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from approxmcmc.engine.checks import nearest
from approxmcmc.errors import StudyError
from approxmcmc.sampling.progress import watching
from approxmcmc.study.bias_store import stored_bias
from approxmcmc.study.biases import bias_line, make_biases
from approxmcmc.study.declare import Declaration
from approxmcmc.study.engines import Finished, Job, check_dask, run_on_dask, run_serially
from approxmcmc.study.environment import environment_line
from approxmcmc.study.gold import make_gold, summary_line
from approxmcmc.study.latest import command_arguments, latest
from approxmcmc.study.machine import speed_probe
from approxmcmc.study.plan import Cell, Plan, make_plan, select
from approxmcmc.study.processes import run_in_processes
from approxmcmc.study.progress import Lines, Listener
from approxmcmc.study.record import GoldReport, Record
from approxmcmc.study.store import Store

if TYPE_CHECKING:
    import xarray as xr

ENGINES = ("serial", "processes", "dask")
EXIT_CODES = {"ok": 0, "some cells failed": 1, "usage": 2, "a gate failed": 3, "interrupted": 130}


@dataclasses.dataclass(frozen=True)
class Outcome:
    """The result of a run.

    Parameters
    ----------
    store
        The store.
    statuses
        Number of planned cells by status; those without a record are ``missing``.
    gold
        Reports of the gold standards of all targets that the run sampled.
    interrupted
        Whether the user stopped the run.
    """

    store: Store
    statuses: dict[str, int]
    gold: tuple[GoldReport, ...]
    interrupted: bool

    @property
    def exit_code(self) -> int:
        """130 after an interrupt, 3 if a gold standard was not accepted, 1 if a cell failed or is stale, else 0."""
        if self.interrupted:
            return EXIT_CODES["interrupted"]
        if any(report["status"] != "accepted" for report in self.gold):
            return EXIT_CODES["a gate failed"]
        unwell = self.statuses.keys() - {"done", "missing"}
        return EXIT_CODES["some cells failed"] if unwell else EXIT_CODES["ok"]


def run_study(
    study: Declaration,
    preset: str,
    base: str | os.PathLike[str],
    *,
    engine: str | None = None,
    scheduler: str | None = None,
    jobs: int | None = None,
    only: str | None = None,
    keys: Collection[str] | None = None,
    fail_fast: bool = False,
    path: Path | None = None,
    sample: "Callable[..., xr.DataTree] | None" = None,
    probe: Callable[[], float] | None = None,
    listener: Listener | None = None,
) -> Outcome:
    """Make the gold standards, then every planned cell without a record, then the biases that the study asks for.

    Parameters
    ----------
    study, preset, base
        What to run, and the folder that contains ``<study>-<preset>``.
    engine
        ``"serial"``: in this process, one cell at a time. ``"processes"``: in `jobs` processes of this machine, one per
        core if `jobs` is None; they are reached by pipes, and no port is opened. ``"dask"``: on the workers of the Dask
        cluster whose scheduler has the address `scheduler`, with one thread each. None is "dask" with a `scheduler`,
        "processes" with `jobs`, else "serial".
    scheduler, jobs
        See `engine`.
    only
        Filter of cells, such as ``"sampler=austerity,epsilon=0.05"``.
    keys
        Run exactly these cells, even if they have records.
    fail_fast
        Stop at the first cell that fails, and before the cells if a gold standard is not accepted.
    path
        The study's file, for workers to import; without it the study itself is sent to them.
    sample
        The function that draws a chain; None for :func:`approxmcmc.sample`.
    probe
        The function that measures the speed of the machine; None for :func:`approxmcmc.study.machine.speed_probe`.
    listener
        Receives the events of the run; by default plain lines go to standard error.

    Raises
    ------
    StudyError
        If an option has an unknown value, the store holds another plan, or another run is using it.
    MissingExtraError
        If the engine is "dask" and Dask is not installed.
    """
    engine = _engine(engine, scheduler, jobs)
    listener = listener or Lines()
    plan = make_plan(study, preset)
    chosen = _chosen(plan, only, keys)
    store = Store.of(base, study.name, preset)
    interrupted = False
    gold = []
    with store.lock():
        edited = store.edited_code(plan)
        extended = store.accept_plan(plan)
        store.clean()
        pending = _pending(chosen, store, rerun=keys is not None)
        for label, pieces in edited.items():
            listener.line(f"the code of {label} has changed ({pieces}): its cells are drawn again, the others are kept")
        listener.line(opening_line(plan, pending, engine, extended))
        try:
            gold = list(_make_gold_standards(plan, chosen, store, listener))
            refused = any(report["status"] != "accepted" for report in gold)
            if pending and not (fail_fast and refused):
                job = _job(plan, store, path, sample, probe or speed_probe, remote=scheduler is not None)
                if line := environment_line(plan, store, pending, sample=job.sample):
                    listener.line(line)
                cells = _cells(job, plan, pending, engine, scheduler, jobs)
                _collect(cells, store, listener, len(pending), fail_fast)
            for bias_report in make_biases(plan, store):
                listener.line(bias_line(bias_report, stored_bias(store, bias_report["target"], bias_report["label"])))
        except KeyboardInterrupt:
            interrupted = True
            listener.line("interrupted; finished cells are kept, and the same command resumes from here")
    return Outcome(store, census(plan, store), tuple(gold), interrupted)


def _engine(engine: str | None, scheduler: str | None, jobs: int | None) -> str:
    """Return the name of the engine; raise if options do not fit, before hours of gold standards."""
    if engine is None and scheduler is not None:
        engine = "dask"
    elif engine is None:
        engine = "serial" if jobs is None else "processes"
    if engine not in ENGINES:
        raise StudyError(f"There is no engine {nearest(engine, ENGINES)}")
    if jobs is not None and (isinstance(jobs, bool) or not isinstance(jobs, int) or jobs < 1):
        raise StudyError(f"`jobs` is a number of worker processes, at least 1; found {jobs!r}.")
    if jobs is not None and engine != "processes":
        raise StudyError(f"`jobs` is for engine 'processes', not for {engine!r}.")
    if scheduler is not None and engine != "dask":
        raise StudyError(f"`scheduler` is for engine 'dask', not for {engine!r}.")
    if engine == "dask":
        if scheduler is None:
            raise StudyError(
                "Engine 'dask' needs `scheduler`, the address of a running Dask scheduler such as tcp://host:8786; "
                "worker processes on this machine are engine 'processes'."
            )
        check_dask()
    return engine


def census(plan: Plan, store: Store) -> dict[str, int]:
    """Return the number of planned cells by status; ``stale`` cells come from an earlier version of the code."""
    records = latest(plan, store.records())
    return dict(collections.Counter(status_of(plan, records.get(cell.identity)) for cell in plan.cells))


def status_of(plan: Plan, record: Record | None) -> str:
    """Return the status of a cell from its stored record."""
    if record is None:
        return "missing"
    return str(record["status"]) if record["code_version"] == plan.code_version else "stale"


def opening_line(plan: Plan, pending: Sequence[Cell], engine: str, extended: str) -> str:
    """Return the first line that a run prints: the size of the plan, the cells to run, engine, seed, code version."""
    study = plan.study
    sizes = {"target": len(study.targets), "setting": len(study.settings()), "replicate": study.replicates}
    shape = " x ".join(f"{size} {name}{'s' if size > 1 else ''}" for name, size in sizes.items())
    return (
        f"{study.name}/{plan.preset}  {len(plan.cells)} cells = {shape}; {len(pending)} to run"
        f"{' (plan extended)' if extended == 'extended' else ''}  {engine} engine  seed {study.seed}  code "
        f"{plan.code_version}"
    )


def _chosen(plan: Plan, only: str | None, keys: Collection[str] | None) -> list[Cell]:
    cells = select(plan.cells, only)
    if keys is None:
        return cells
    unknown = set(keys) - {cell.key for cell in plan.cells}
    if unknown:
        raise StudyError(
            f"The plan has no cells {sorted(unknown)}; `approxmcmc plan` shows them, `status` the stale ones."
        )
    return [cell for cell in cells if cell.key in keys]


def _pending(chosen: Sequence[Cell], store: Store, *, rerun: bool) -> list[Cell]:
    recorded = store.records()
    return [cell for cell in chosen if rerun or cell.key not in recorded]


def _make_gold_standards(plan: Plan, chosen: Sequence[Cell], store: Store, listener: Listener) -> Iterator[GoldReport]:
    """Make the gold standards of the targets of the chosen cells, and yield their reports."""
    target_names = {cell.target for cell in chosen}
    for name in (name for name in plan.study.targets if name in target_names):
        display = listener.display(f"gold {name}")
        with watching(display is not None, display=display):
            report = make_gold(plan.study, plan.preset, name, store)
        if report is not None:
            listener.line(summary_line(report))
            yield report


def _job(
    plan: Plan,
    store: Store,
    path: Path | None,
    sample: "Callable[..., xr.DataTree] | None",
    probe: Callable[[], float],
    *,
    remote: bool,
) -> Job:
    if sample is None:
        from approxmcmc.api import sample as draw
    else:
        draw = sample
    source = "" if path is None else str(Path(path).resolve())
    folder = None if remote else str(store.folder.resolve())
    arguments = command_arguments(plan.study.name if path is None else str(path), plan.preset, store)
    return Job(source, plan.preset, folder, draw, probe, arguments, uuid.uuid4().hex[:8])


def _cells(
    job: Job, plan: Plan, pending: Sequence[Cell], engine: str, scheduler: str | None, jobs: int | None
) -> Iterator[Finished]:
    if engine == "serial":
        return run_serially(job, plan, pending)
    if not job.source:
        import cloudpickle  # type: ignore[import-untyped]

        job = dataclasses.replace(job, source=cloudpickle.dumps(plan.study, protocol=pickle.HIGHEST_PROTOCOL))
    if scheduler is None:
        return run_in_processes(job, plan, pending, jobs=jobs)
    return run_on_dask(job, plan, pending, scheduler=scheduler)


def _collect(cells: Any, store: Store, listener: Listener, total: int, fail_fast: bool) -> None:
    listener.start(total)
    try:
        for finished in cells:
            record = finished.record
            if not finished.stored:
                if finished.provenance is not None:
                    record["provenance"] = store.write_provenance(finished.provenance)
                store.write_cell(record, finished.draws)
            listener.cell(record)
            if fail_fast and record["status"] != "done":
                listener.line("stopped at the first failure because of --fail-fast")
                return
    finally:
        cells.close()
        listener.stop()
