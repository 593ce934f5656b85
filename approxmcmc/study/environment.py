"""Check, when a run resumes, that a changed environment still makes the draws of the finished cells.

Another version of a library, of Python, or another processor may round differently, and then chains part after some
steps. Both draws are valid, but results of two environments do not repeat each other bit for bit. A run that adds cells
to those of another environment therefore repeats the first draws of one of them, and says what it found.
"""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from approxmcmc.study.latest import latest
from approxmcmc.study.machine import collect
from approxmcmc.study.plan import Plan
from approxmcmc.study.revalidate import REPEATED, equal_draws
from approxmcmc.study.store import Store
from approxmcmc.study.verify import repeat

if TYPE_CHECKING:
    import xarray as xr

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


def environment_line(plan: Plan, store: Store, *, sample: "Callable[..., xr.DataTree]") -> str | None:
    """Repeat the first draws of the shortest finished cell of another environment, and return a line about it.

    None if all finished cells come from this environment. Cells of an earlier version of the code are stale, and do not
    count.
    """
    cells = {cell.key: cell for cell in plan.cells}
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
    cell = cells[record["key"]]
    count = min(REPEATED, record["draws"])
    repeated, again = repeat(plan, cell, count, sample=sample)
    which = f"the first {count} draws of {cell.target} {cell.label}, replicate {cell.replicate},"
    if again is None:
        found = f"{which} could not be repeated: {repeated['error']}"
    elif equal_draws(store.trace(record["key"]), again, count):
        found = f"{which} are the same, bit for bit"
    else:
        found = (
            f"{which} are not the same. Name another --store for results of one environment; the page lists both under "
            "provenance"
        )
    return f"environment changed: {', '.join(changed)}. Of {len(others)} finished cells, {found}."
