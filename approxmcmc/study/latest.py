"""The records of a plan in a store, and the arguments of the command line that name both."""

import shlex
from collections.abc import Mapping

from approxmcmc.study.plan import Plan
from approxmcmc.study.record import Record
from approxmcmc.study.store import Store


def command_arguments(source: str, preset: str, store: Store) -> str:
    """Return the arguments that name a study, preset and store on the command line."""
    base = store.folder.parent.as_posix()
    return shlex.join([source, "--preset", preset, *(["--store", base] if base != "results" else [])])


def latest(plan: Plan, records: Mapping[str, Record], prefer: str | None = None) -> dict[str, Record]:
    """Return the records of planned cells by the identity of the cell.

    If several versions of the code made a cell, take the preferred version, by default the current one.
    """
    preferred_version = plan.code_version if prefer is None else prefer
    planned = {cell.identity for cell in plan.cells}
    chosen: dict[str, Record] = {}
    for record in records.values():
        identity = record["identity"]
        if identity in planned and (identity not in chosen or record["code_version"] == preferred_version):
            chosen[identity] = record
    return chosen
