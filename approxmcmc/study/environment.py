"""Check, when a run resumes, that a changed environment still makes the draws of the finished cells.

Another version of a library, of Python, or another processor may round differently, and then chains part after some
steps. Both draws are valid, but results of two environments do not repeat each other bit for bit. A run that adds cells
to those of another environment therefore repeats the first draws of one of them, and says what it found.
"""

from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING, Any

from approxmcmc.diagnostics.running import is_approximation
from approxmcmc.errors import StudyError
from approxmcmc.study.latest import latest
from approxmcmc.study.machine import collect
from approxmcmc.study.plan import Cell, Plan
from approxmcmc.study.record import Record, cause
from approxmcmc.study.revalidate import REPEATED, equal_draws
from approxmcmc.study.store import Store
from approxmcmc.study.verify import repeat

if TYPE_CHECKING:
    import xarray as xr

MOST_SECONDS = 60.0  # of a cell that is repeated
FACTS = ("python", "machine", "processor", "jit")  # and the libraries


def differences(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """Return what differs between two environments, as far as draws may depend on it.

    Examples
    --------
    >>> differences({"libraries": {"numpy": "2.4.0"}}, {"libraries": {"numpy": "2.5.0"}})
    ['numpy 2.4.0 -> 2.5.0']
    """
    earlier, later = (
        {name: facts.get(name) for name in FACTS} | dict(facts.get("libraries", {})) for facts in (before, now)
    )
    names = [*earlier, *(name for name in later if name not in earlier)]
    return [
        f"{name} {earlier.get(name)} -> {later.get(name)}" for name in names if earlier.get(name) != later.get(name)
    ]


def environment_line(
    plan: Plan, store: Store, pending: Collection[Cell], *, sample: "Callable[..., xr.DataTree]"
) -> str | None:
    """Repeat the first draws of the shortest finished cell of another environment, and return a line about it.

    None if all finished cells come from this environment. Cells of an earlier version of the code are stale, and do not
    count; nor do those of `pending`, which are drawn again anyway. A cell that took more than a minute is not repeated:
    its tuning alone may take as long.
    """
    redrawn = {cell.key for cell in pending}
    cells = {cell.key: cell for cell in plan.cells if cell.key not in redrawn}
    environments = store.provenance()
    if not environments:
        return None
    now = collect()
    changes = {name: differences(facts, now) for name, facts in environments.items()}
    others = [
        (record, changed)
        for record in latest(plan, store.records()).values()
        if record["status"] == "done"
        and record["key"] in cells
        and (changed := changes.get(record["provenance"] or "", []))
    ]
    if not others:
        return None
    record, changed = min(others, key=lambda other: other[0]["wall_seconds"] or 0.0)
    found = _repeated(plan, store, record, sample)
    return f"environment changed: {', '.join(changed)}. Of {len(others)} finished cells, {found}."


def _repeated(plan: Plan, store: Store, record: Record, sample: "Callable[..., xr.DataTree]") -> str:
    """Return what a repetition of a cell's first draws found."""
    [cell] = [cell for cell in plan.cells if cell.key == record["key"]]
    name = f"{cell.target} {cell.label}, replicate {cell.replicate},"
    if (record["wall_seconds"] or 0.0) > MOST_SECONDS:
        return f"the shortest, {name} took {record['wall_seconds']:.0f} s, and was not repeated"
    try:
        stored = store.trace(record["key"])
    except StudyError as error:
        return f"the draws of {name} cannot be read: {error}"
    # The draws of a fit are matched to its moments, all together.
    count = record["draws"] if is_approximation(stored) else min(REPEATED, record["draws"])
    repeated, again = repeat(plan, cell, count, sample=sample)
    which = f"the first {count} draws of {name}"
    if again is None:
        return f"{which} could not be repeated: {cause(repeated['error'])}"
    if equal_draws(stored, again, count):
        return f"{which} are the same, bit for bit"
    remedy = "Name another --store for results of one environment; the page lists both under provenance"
    return f"{which} are not the same. {remedy}"
