"""Results on disk: a folder per cell, with a record that is written last.

    <store>/<study>-<preset>/
        plan.json                       the plan; a run resumes only with this plan or an extension of it
        cells/<k[:2]>/<key>/draws.nc    the trace of one chain
                            record.json its result; written last, by atomic rename
        gold/<target>.json, .nc         gate report and gold standard of a target
        bias/<hash>.json, .nc           biases of a setting, from its draws
        provenance/<hash>.json          code, machine and software of some records
        pieces/<name>.json              cached output of the study's analyses
        report/                         the page

Each file of JSON or netCDF ends with a checksum; a damaged one raises an error that names it.

A cell folder without a record does not count: the next run removes it and starts the cell again. So a kill at any
moment loses at most the running cells.
"""

import contextlib
import dataclasses
import errno
import os
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict, cast

from approxmcmc.contracts import content_hash
from approxmcmc.diagnostics.moments import has_only_moments
from approxmcmc.engine.files.whole_files import remove_leftovers
from approxmcmc.errors import InvalidInputError, StudyError
from approxmcmc.study.json_files import LOST, not_whole, plain, read_json, write_json
from approxmcmc.study.plan import Plan, digest, edited_code, what_changed
from approxmcmc.study.record import GoldReport, Record

if TYPE_CHECKING:
    import xarray as xr

FORMAT = 2


class StoredPlan(TypedDict):
    """What ``plan.json`` holds; `cells` are by their identity."""

    format: int
    preset: str
    design: dict[str, Any]
    cells: dict[str, Any]


# Errors of the system when it refuses to write: no space, no permission, no folder.
REFUSALS = ("ENOSPC", "EDQUOT", "EFBIG", "EIO", "EROFS", "EACCES", "EPERM", "ENOTDIR", "EEXIST")


@dataclasses.dataclass(frozen=True)
class Store:
    """The folder of one study at one preset."""

    folder: Path

    @staticmethod
    def of(base: str | os.PathLike[str], study_name: str, preset: str) -> "Store":
        """Return the store of a study and preset below `base`; creates nothing on disk."""
        return Store(Path(base) / f"{study_name}-{preset}")

    def cell_folder(self, key: str) -> Path:
        """Return the folder of a cell, whether or not it exists."""
        return self.folder / "cells" / key[:2] / key

    # --- the plan ---

    def plan(self) -> dict[str, Any] | None:
        """Return the stored plan; None if the store has none yet."""
        return read_json(self.folder / "plan.json", "format", "design", "cells", fields=StoredPlan)

    def accept_plan(self, plan: Plan) -> str:
        """Store a plan that is new or contains the stored one; return "new", "same", "extended" or "edited".

        A plan is edited if it lacks stored cells, but only those of samplers whose code the user has changed. Their
        records stay in the folder, and count again if the edit is undone.

        Raises
        ------
        StudyError
            If the stored plan has other cells that the new one lacks; the message shows the difference.
        """
        cells = {
            cell.identity: {"target": cell.target, "label": cell.label, "replicate": cell.replicate}
            for cell in plan.cells
        }
        stored = self.plan()
        lost: set[str] = set() if stored is None else stored["cells"].keys() - cells.keys()
        if stored is not None:
            edited = self.edited_code(plan)
            present = {tuple(sorted(cell.items())) for cell in cells.values()}
            redrawn = {
                key
                for key in lost
                if stored["cells"][key]["label"] in edited and tuple(sorted(stored["cells"][key].items())) in present
            }
            if lost - redrawn or stored["format"] != FORMAT:
                differences = "\n".join(f"  {line}" for line in what_changed(stored["design"], plain(plan.design)))
                raise StudyError(
                    f"{self.folder} holds results of another plan: {len(lost)} of its {len(stored['cells'])} cells are "
                    f"not in the present plan, and results of two plans do not mix. What changed:\n{differences}\n"
                    "Name another folder with --store, or remove this one. A plan may grow by targets, samplers, "
                    "values of knobs and replicates, and the code of your own samplers may change."
                )
        if stored is None:
            outcome = "new"
        elif lost:
            outcome = "edited"
        elif stored["cells"].keys() == cells.keys():
            outcome = "same"
        else:
            outcome = "extended"
        write_json(
            self.folder / "plan.json", {"format": FORMAT, "preset": plan.preset, "design": plan.design, "cells": cells}
        )
        return outcome

    def edited_code(self, plan: Plan) -> dict[str, str]:
        """Return the samplers whose code the user has changed since the stored plan, with the functions that differ."""
        stored = self.plan()
        return {} if stored is None else edited_code(stored["design"], plain(plan.design))

    # --- cells ---

    def records(self) -> dict[str, Record]:
        """Return all records in the store by key, also those of other plans or versions of the code."""
        paths = sorted((self.folder / "cells").glob("??/*/record.json"))
        return {path.parent.name: record for path in paths if (record := self.record(path.parent.name)) is not None}

    def record(self, key: str) -> Record | None:
        """Return the record of one cell; None before the cell has ended."""
        path = self.cell_folder(key) / "record.json"
        needed = ("key", "identity", "code_version", "status", "target", "label", "replicate")
        record = cast("Record | None", read_json(path, *needed, fields=Record))
        if record is not None and record["key"] != key:
            raise not_whole(path, f"it holds the record of cell {record['key']}")
        return record

    def write_cell(self, record: Record, draws: "xr.DataTree | None") -> None:
        """Write a finished cell: its draws, if it has any, then its record.

        The old result is removed only after the new draws are on disk, so a disk too full for them does not lose it.
        """
        from approxmcmc.output.files import save

        folder = self.cell_folder(record["key"])
        folder.mkdir(parents=True, exist_ok=True)
        fresh = folder / "draws.tmp"
        draws_path = folder / "draws.nc"
        if draws is not None:
            save(draws, fresh)
        (folder / "record.json").unlink(missing_ok=True)  # without a record the cell does not count
        draws_path.unlink(missing_ok=True) if draws is None else os.replace(fresh, draws_path)
        write_json(folder / "record.json", record)
        for path in folder.glob("*.tmp"):  # partial files of dead workers
            path.unlink(missing_ok=True)

    def trace(self, key: str) -> "xr.DataTree":
        """Read the draws of a finished cell.

        Raises
        ------
        StudyError
            If there are none, they are unreadable, or their hash differs from that in the cell's record.
        """
        from approxmcmc.output.files import load

        record = self.record(key) or {}
        path = self.cell_folder(key) / "draws.nc"
        try:
            trace = load(path)
            if record.get("draws_hash") not in (None, hash_of_draws(trace)):
                raise InvalidInputError(f"{path} does not hold the draws of its record.")
        except (FileNotFoundError, InvalidInputError) as error:
            raise StudyError(
                f"The draws of a finished cell cannot be used: {error} Make them again: {record.get('command')}"
            ) from error
        return trace

    def clean(self) -> int:
        """Remove temporary files and cells without a record, and return their number; call only under the lock."""
        remove_leftovers(self.folder / "report" / "index.html")
        leftovers = [path for path in self.folder.rglob("*.tmp") if path.is_file()]
        for path in leftovers:
            path.unlink(missing_ok=True)
        unfinished = [path for path in (self.folder / "cells").glob("??/*") if not (path / "record.json").is_file()]
        for path in unfinished:
            shutil.rmtree(path)
        return len(leftovers) + len(unfinished)

    @contextlib.contextmanager
    def writing(self) -> Iterator[None]:
        """Add advice to the error when the system refuses to write here.

        Raises
        ------
        StudyError
            If the disk is full, or the folder is missing or read-only.
        """
        try:
            yield
        except OSError as error:
            if errno.errorcode.get(error.errno or 0) not in REFUSALS:
                raise
            raise StudyError(
                f"{self.folder} cannot be written: {error}. What is finished is kept; make room, or name another "
                "folder with --store, and run the same command again."
            ) from error

    @contextlib.contextmanager
    def lock(self) -> Iterator[None]:
        """Lock the store against a second run, if its file system has locks; the lock ends with this process.

        Raises
        ------
        StudyError
            If another run holds it, or the store is not writable.
        """
        with self.writing():
            self.folder.mkdir(parents=True, exist_ok=True)
            with (self.folder / "run.lock").open("a+b") as stream:
                if not _lock(stream.fileno()):
                    raise StudyError(
                        f"Another run is working in {self.folder}. Wait for it, or name another folder with --store."
                    )
                yield

    # --- gold standards and provenance ---

    def gold_report(self, target: str) -> GoldReport | None:
        """Return the gate report of a target's gold standard; None if none was made."""
        path = self.folder / "gold" / f"{target}.json"
        needed = ("target", "request", "status", "gates", "seconds")
        report = cast("GoldReport | None", read_json(path, *needed, fields=GoldReport))
        if report is not None and report["target"] != target:
            raise not_whole(path, f"it holds the report of target {report['target']}")
        return report

    def write_gold(self, target: str, report: GoldReport, reference: "xr.DataTree | None") -> None:
        """Write a gold standard, if it was accepted, then its gate report."""
        from approxmcmc.output.files import save

        path = self.folder / "gold" / f"{target}.nc"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.with_suffix(".json").unlink(missing_ok=True)
        path.unlink(missing_ok=True)
        if reference is not None:
            save(reference, path)
        write_json(path.with_suffix(".json"), report)

    def gold(self, target: str) -> "xr.DataTree | None":
        """Return the accepted gold standard of a target; None if there is none.

        Raises
        ------
        StudyError
            If its file is damaged or lost, or holds other draws than its report says.
        """
        from approxmcmc.output.files import load

        report = self.gold_report(target)
        path = self.folder / "gold" / f"{target}.nc"
        if report is None or report["status"] != "accepted":
            return None
        if not path.is_file():
            raise not_whole(path, LOST)
        try:
            reference = load(path)
        except InvalidInputError as error:
            raise not_whole(path, str(error)) from error
        if report.get("draws_hash") not in (None, hash_of_draws(reference)):
            raise not_whole(path, "it does not hold the draws of its report")
        return reference

    def write_provenance(self, provenance: Mapping[str, Any]) -> str:
        """Write the provenance of records, once per content, and return its name."""
        name = digest("provenance", plain(provenance))[:16]
        path = self.folder / "provenance" / f"{name}.json"
        if not path.is_file():
            write_json(path, provenance)
        return name

    def provenance(self) -> dict[str, dict[str, Any]]:
        """Return all provenance by name."""
        contents = {}
        for path in sorted((self.folder / "provenance").glob("*.json")):
            content = read_json(path)
            if content is None:  # removed since the folder was listed
                continue
            if digest("provenance", content)[:16] != path.stem:
                raise not_whole(path, "it holds other facts than its name says")
            contents[path.stem] = content
        return contents


def hash_of_draws(trace: "xr.DataTree") -> str:
    """Return a hash of every array of the posterior, or of the moments of a reference without one."""
    posterior = trace["reference_moments" if has_only_moments(trace) else "posterior"]
    names = sorted(str(name) for name in posterior.data_vars)
    return content_hash(*(part for name in names for part in (name, posterior[name].to_numpy())))


def _lock(descriptor: int) -> bool:
    try:
        import fcntl
    except ImportError:  # Windows
        import msvcrt

        try:
            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)  # type: ignore[attr-defined, unused-ignore]
        except OSError:
            return False
        return True
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # a file system without locks: continue without
        return True
    return True
