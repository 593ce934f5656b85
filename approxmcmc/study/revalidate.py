"""Keep finished cells after a change of the code that left their draws as they were."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from approxmcmc.diagnostics.running import is_approximation
from approxmcmc.study.declare import Declaration
from approxmcmc.study.latest import latest
from approxmcmc.study.plan import make_plan
from approxmcmc.study.record import Record
from approxmcmc.study.store import Store
from approxmcmc.study.verify import repeat

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr

REPEATED = 200  # draws of each cell


def revalidate(
    study: Declaration,
    preset: str,
    base: Path,
    *,
    sample: Callable[..., Any],
    draws: int = REPEATED,
    listener: Callable[[dict[str, Any]], None] = lambda row: None,
) -> "pd.DataFrame":
    """Repeat the first draws of each cell of an earlier version of the code; where they are equal, keep the cell.

    A kept cell counts as one of the present version. Its record says which version drew it (`drawn_by`), and the page
    of the study says how many such cells it has. Their times are those of the earlier version.

    Parameters
    ----------
    study, preset, base
        The study, the preset, and the folder of its store.
    sample
        As in :func:`approxmcmc.study.cell.run_cell`.
    draws
        How many draws of each cell are repeated; all of them if a cell has fewer. A change that begins to matter later
        than that is not seen.
    listener
        Called with the row of each cell when it is decided.

    Returns
    -------
    pandas.DataFrame
        One row per stale cell: target, label, replicate, drawn_by, draws, `equal`.
    """
    import pandas as pd

    plan = make_plan(study, preset)
    store = Store.of(base, study.name, preset)
    records = latest(plan, store.records())
    rows = []
    for cell in plan.cells:
        record = records.get(cell.identity)
        if record is None or record["status"] != "done" or record["code_version"] == plan.code_version:
            continue
        trace = store.trace(record["key"])
        # Draws of a fitted approximation are shifted and scaled together, so that their moments are its moments: fewer
        # draws would be others.
        count = record["draws"] if is_approximation(trace) else min(draws, record["draws"])
        _, again = repeat(plan, cell, count, sample=sample)
        equal = again is not None and equal_draws(trace, again, count)
        drawn_by = record.get("drawn_by") or record["code_version"]
        if equal:
            renewed: Record = {"key": cell.key, "code_version": plan.code_version, "drawn_by": drawn_by}
            store.write_cell({**record, **renewed}, trace)
        row = {"target": cell.target, "label": cell.label, "replicate": cell.replicate}
        rows.append(row | {"drawn_by": drawn_by, "draws": count, "equal": equal})
        listener(rows[-1])
    return pd.DataFrame(rows)


def equal_draws(first: "xr.DataTree", second: "xr.DataTree", draws: int) -> bool:
    """Return whether the first draws of a trace are those of another one, bit for bit."""
    old, new = (trace["posterior"].to_dataset() for trace in (first, second))
    return set(old) == set(new) and all(np.array_equal(old[name].isel(draw=slice(draws)), new[name]) for name in old)
