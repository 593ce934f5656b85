"""The table of the street, from the cells in a folder."""

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from studies.race.answer import shift
from studies.street.goal import ENOUGH, SECONDS, TIMES
from studies.street.models import KIND, WRITTEN


def table(folder: Path) -> pd.DataFrame:
    """Return a row for each model: seconds, effective draws, shift of the means, problems, chosen sampler.

    Figures of cells that have not run are NaN or empty.
    """
    return pd.DataFrame([_row(name, _cells(folder, name)) for name in WRITTEN])


def _cells(folder: Path, name: str) -> dict[str, Any]:
    files = {state: folder / f"{name}-{state}.json" for state in ("new", "again", "nutpie", "long")}
    return {state: json.loads(file.read_text()) for state, file in files.items() if file.exists()}


def _row(name: str, cells: Mapping[str, Any]) -> dict[str, Any]:
    row: dict[str, Any] = {"model": name, "kind": KIND[name]}
    for state in ("new", "again", "nutpie"):
        cell = cells.get(state, {})
        row |= {f"{state}_cpu": cell.get("cpu", math.nan), f"{state}_wall": cell.get("wall", math.nan)}
        row |= {f"{state}_to_400": seconds_to_effective(cell)}
    new = cells.get("new", {})
    rival = cells.get("nutpie", {})
    row |= {f"ours_{key}": new.get(key, math.nan) for key in ("ess_bulk", "ess_tail", "rhat", "memory")}
    row |= {f"nutpie_{key}": rival.get(key, math.nan) for key in ("ess_bulk", "ess_tail", "rhat", "memory")}
    row["dim"] = new.get("dim", rival.get("dim", 0))
    theirs = max(row["nutpie_cpu"], row["nutpie_to_400"]) if _effective(rival) < ENOUGH else row["nutpie_cpu"]
    row["within"] = row["new_cpu"] <= TIMES * theirs + SECONDS
    row["within_to_400"] = row["new_to_400"] <= TIMES * row["nutpie_to_400"] + SECONDS
    row["chosen"] = new.get("sampler", new.get("error", ""))
    row["problems"] = " | ".join(new.get("problems", []))
    reference = cells.get("long", rival)
    if "names" in new and "names" in reference:
        row["shift"], row["shift_if_unbiased"] = shift(new, reference)
        row["reference"] = "long" if "long" in cells else "nutpie"
    return row


def seconds_to_effective(cell: Mapping[str, Any]) -> float:
    """Return CPU seconds to 400 effective draws, bulk and tail: only the time of kept draws is scaled."""
    if "cpu" not in cell:
        return math.nan
    return float(cell["cpu"] * (1.0 - cell["drawing"] + cell["drawing"] * ENOUGH / _effective(cell)))


def _effective(cell: Mapping[str, Any]) -> float:
    """Return the effective draws of the worst parameter, bulk or tail."""
    return min(cell.get("ess_bulk", math.inf), cell.get("ess_tail", math.inf))
