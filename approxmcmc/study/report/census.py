"""Tables of the run: gates of the gold standards, census of cells, failures, warnings, speed of the machine."""

import math
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from approxmcmc.study.record import FAILED
from approxmcmc.study.report.intervals import median_range
from approxmcmc.study.report.pieces import Table

if TYPE_CHECKING:
    import pandas as pd

    from approxmcmc.study.declare import Declaration
    from approxmcmc.study.results import StudyResults


GATES = {
    "bfmi": "energy (BFMI)",
    "bulk_ess": "bulk ESS",
    "r_hat": "R-hat",
    "relative_mcse": "relative MCSE",
    "second_bulk_ess": "bulk ESS, second kernel",
    "second_kernel": "difference of two kernels",
    "second_r_hat": "R-hat, second kernel",
    "stein_gradient": "Stein's identity, first",
    "stein_identity": "Stein's identity, second",
    "tail_ess": "tail ESS",
}


def gates_table(reports: Mapping[str, Mapping[str, Any] | None]) -> Table | None:
    """Tabulate the limit of each gate of the gold standards, the value found, and whether it passed."""
    import pandas as pd

    rows = [
        {
            "target": target,
            "gate": GATES.get(gate["gate"], gate["gate"]),
            "demanded": gate["limit"],
            "found": math.nan if gate["value"] is None else gate["value"],
            "worst at": gate["where"],
            "verdict": "passed" if gate["passed"] else "FAILED",
        }
        for target, report in reports.items()
        for gate in (report or {}).get("gates", [])
    ]
    if not rows:
        return None
    return Table(
        "Gates of the gold standard",
        "Gates check the exact chains on all data; each row shows the worst value over estimands and parameters. If a "
        "gate failed, the errors shown as risk may be errors of the gold standard.",
        pd.DataFrame(rows),
        formats={"found": ".4g"},
    )


def census_table(results: "StudyResults") -> Table:
    """Count the planned cells by status."""
    import pandas as pd

    rows = []
    for target, label, cells in by_setting(results.study, results.records):
        status = cells.status.fillna("missing").astype(str)
        row: dict[str, Any] = {"target": target, "setting": label, "planned": len(cells)}
        row |= {
            "done": int((status == "done").sum()),
            "failed": int(status.isin(("failed", "crashed")).sum()),
        }
        row |= {"invalid": int((status == "invalid").sum()), "stale": row["done"] if results.stale else 0}
        row["missing"] = int((~status.isin(("done", *FAILED))).sum())
        row["noisy"] = int(_flag(cells, "noisy").sum())
        rows.append(row)
    return Table(
        "Census of cells",
        "One cell is one chain of one setting. Failed: an exception or a dead process; invalid: no draw, or one "
        "that is not finite; stale: made by an earlier version of the code; noisy: the speed probe drifted. Noisy "
        "cells stay in every figure.",
        pd.DataFrame(rows),
    )


def failures_table(results: "StudyResults") -> Table | None:
    """List every failed cell, with its error and the command that runs it again."""
    import pandas as pd

    records = results.records
    bad = records[records.status.isin(FAILED)]
    if bad.empty:
        return None
    rows = [
        {
            "cell": cell.key[:12],
            "target": cell.target,
            "setting": cell.label,
            "replicate": f"{cell.replicate}",
            "seed": f"{cell.seed}",
            "status": cell.status,
            "error": cell.error or "",
            "run again": results.rerun_command(cell.key),
        }
        for cell in bad.itertuples()
    ]
    return Table(
        "Cells that failed",
        "Open an error to see where it came from.",
        pd.DataFrame(rows),
        formats={"run again": "code"},
    )


def warnings_table(results: "StudyResults") -> Table | None:
    """Tabulate the number of cells of each setting that warned, with one of the warnings; None without warnings."""
    import pandas as pd

    if "warnings" not in results.records:
        return None
    rows = []
    for target, label, cells in by_setting(results.study, results.records):
        first_warnings = [text for listed in cells.warnings if isinstance(listed, (list, tuple)) for text in listed[:1]]
        if first_warnings:
            rows.append(
                {
                    "target": target,
                    "setting": label,
                    "cells": f"{len(first_warnings)} of {len(cells)}",
                    "such as": first_warnings[0],
                }
            )
    if not rows:
        return None
    return Table(
        "Warnings of the samplers", "Cells that finished with a warning, and one of the warnings.", pd.DataFrame(rows)
    )


def machine_table(results: "StudyResults") -> Table:
    """Tabulate speed probes, and the share of a core that each setting's cells got."""
    import pandas as pd

    rows = []
    done = results.records[results.records.status == "done"]
    for target, label, cells in by_setting(results.study, done):
        cpu = numbers(cells.cpu_seconds)
        wall = numbers(cells.wall_seconds)
        rows.append(
            {"target": target, "setting": label}
            | median_range(numbers(cells.probe_before)).columns("probe before (s)")
            | median_range(numbers(cells.probe_after)).columns("probe after (s)")
            | median_range([c / w if w else math.nan for c, w in zip(cpu, wall, strict=True)]).columns("CPU / wall")
            | {"noisy": f"{int(_flag(cells, 'noisy').sum())} of {len(cells)}"}
        )
    return Table("Machine, by setting", "Median [smallest, largest] over cells.", pd.DataFrame(rows))


def by_setting(study: "Declaration", records: "pd.DataFrame") -> Iterator[tuple[str, str, "pd.DataFrame"]]:
    """Yield target, label and rows of `records` for every setting, in the order of declaration."""
    declared = {setting.label: index for index, setting in enumerate(study.settings())}
    groups = dict(list(records.groupby(["target", "label"], sort=False)))
    for target in study.targets:
        for key in sorted((k for k in groups if k[0] == target), key=lambda k: declared.get(k[1], len(declared))):
            yield str(key[0]), str(key[1]), groups[key]


def numbers(column: "pd.Series") -> list[float]:
    """Return a column as floats, NaN for empty entries."""
    import pandas as pd

    return [float(value) for value in pd.to_numeric(column, errors="coerce")]


def _flag(cells: "pd.DataFrame", name: str) -> "pd.Series":
    import pandas as pd

    if name in cells:
        return cells[name].fillna(False).astype(bool)
    return pd.Series(False, index=cells.index)
