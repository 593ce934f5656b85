"""Checks of finished results: repeat draws, and compare two stores."""

import dataclasses
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from approxmcmc.engine.compiler.code_version import code_version
from approxmcmc.errors import StudyError
from approxmcmc.study.budget import Budget
from approxmcmc.study.cell import run_cell
from approxmcmc.study.plan import Cell, Plan
from approxmcmc.study.record import Record
from approxmcmc.study.results import StudyResults
from approxmcmc.study.store import Store

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr

CONFIDENCE = 0.95


def verify(
    results: StudyResults, number: int, *, sample: Callable[..., Any], random_seed: int | None = None
) -> "pd.DataFrame":
    """Repeat some finished cells with the same number of draws, and compare the draws bit by bit.

    Parameters
    ----------
    results
        The results to check.
    number
        Number of cells to repeat, chosen at random; all of them if there are fewer.
    sample
        As in :func:`approxmcmc.study.cell.run_cell`.
    random_seed
        Seed of the choice.

    Returns
    -------
    pandas.DataFrame
        One row per cell: key, target, label, replicate, draws, `equal`.

    Raises
    ------
    StudyError
        If no cell is finished, or the finished ones come from an earlier version of the code.
    """
    import pandas as pd

    done = results.records[results.records["status"] == "done"]
    if done.empty:
        raise StudyError(f"There is no finished cell in {results.store.folder} to verify.")
    if results.stale:
        raise StudyError(
            "An earlier version of the code made these cells, so different draws would prove nothing. Run again."
        )
    chosen = np.random.default_rng(random_seed).permutation(len(done))[:number]
    cells = {cell.key: cell for cell in results.plan.cells}
    rows = []
    for row in done.iloc[np.sort(chosen)].to_dict("records"):
        record, _ = repeat(results.plan, cells[row["key"]], int(row["draws"]), sample=sample)
        equal = record.get("draws_hash") == row["draws_hash"]
        rows.append({**{name: row[name] for name in ("key", "target", "label", "replicate", "draws")}, "equal": equal})
    return pd.DataFrame(rows)


def repeat(plan: Plan, cell: Cell, draws: int, *, sample: Callable[..., Any]) -> "tuple[Record, xr.DataTree | None]":
    """Run a cell again with a budget of draws, because a budget of seconds would stop at another draw."""
    study = dataclasses.replace(plan.study, budget=Budget(draws=draws), budgets={})
    return run_cell(dataclasses.replace(plan, study=study), cell, sample=sample, probe=lambda: 0.0)


def compare_stores(first: Path, second: Path) -> "pd.DataFrame":
    """Compare the finished cells that two stores have in common, from two machines or two versions of the code.

    Returns
    -------
    pandas.DataFrame
        One row per target and setting: `cells` in common, `equal_draws` among them, and the ratios second / first of
        seconds per step and of data per step: geometric means of the ratios within cells of one replicate, with 95 %
        t-intervals (``_lower``, ``_upper``; NaN for a single cell).

    Raises
    ------
    StudyError
        If a folder is not a store, or holds cells of several versions of the code but none of the current one, or if
        the two have no finished cell in common.
    """
    import pandas as pd

    tables = [_done(first), _done(second)]
    groups: dict[tuple[str, str], list[tuple[Record, Record]]] = {}
    for identity, record in tables[0].items():
        if identity in tables[1]:
            groups.setdefault(identity[:2], []).append((record, tables[1][identity]))
    if not groups:
        raise StudyError(f"{first} and {second} have no finished cell (target, setting, replicate) in common.")
    rows = []
    for (target, label), pairs in groups.items():
        row: dict[str, Any] = {"target": target, "label": label, "cells": len(pairs)}
        row["equal_draws"] = sum(a["draws_hash"] == b["draws_hash"] for a, b in pairs)
        for name, per_step in (("seconds", _seconds_per_step), ("data", _data_per_step)):
            ratios = [_ratio(per_step(b), per_step(a)) for a, b in pairs]
            row |= dict(
                zip(
                    (f"{name}_ratio", f"{name}_ratio_lower", f"{name}_ratio_upper"), geometric_mean(ratios), strict=True
                )
            )
        rows.append(row)
    return pd.DataFrame(rows)


def geometric_mean(ratios: Sequence[float]) -> tuple[float, float, float]:
    """Return the geometric mean of the positive finite ratios and its 95 % t-interval; NaN where undefined."""
    from scipy.special import stdtrit

    logs = np.log([ratio for ratio in ratios if ratio > 0 and math.isfinite(ratio)])
    if logs.size == 0:
        return math.nan, math.nan, math.nan
    if logs.size == 1:
        return float(np.exp(logs[0])), math.nan, math.nan
    half = stdtrit(logs.size - 1, (1 + CONFIDENCE) / 2) * logs.std(ddof=1) / math.sqrt(logs.size)
    low, middle, high = np.exp(logs.mean() + np.array([-half, 0.0, half]))
    return float(middle), float(low), float(high)


def _done(folder: Path) -> dict[tuple[str, str, int], Record]:
    store = Store(Path(folder))
    if store.plan() is None:
        raise StudyError(
            f"{folder} is not the folder of a study: it has no plan.json. Name one such as results/NAME-PRESET."
        )
    records = [record for record in store.records().values() if record["status"] == "done"]
    versions = {record["code_version"] for record in records}
    if len(versions) > 1:
        records = [record for record in records if record["code_version"] == code_version()]
        if not records:
            raise StudyError(
                f"The finished cells in {folder} come from different versions of the code ({', '.join(versions)}), "
                "none of them the current one, so it is unclear which to compare. Run the study there again."
            )
    return {(record["target"], record["label"], record["replicate"]): record for record in records}


def _ratio(above: float, below: float) -> float:
    return above / below if below else math.nan


def _seconds_per_step(record: Record) -> float:
    return _per_step(record, record.get("sampling_seconds"))


def _data_per_step(record: Record) -> float:
    return _per_step(record, record.get("datapoints_touched"))


def _per_step(record: Record, total: float | None) -> float:
    return math.nan if total is None or not record["steps"] else total / record["steps"]
