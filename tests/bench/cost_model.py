"""A model of the seconds on large data: for each phase a line, fitted to runs of `tests.bench.scale`.

    python -m tests.bench.cost_model

    seconds = start-up + n / rate,

a line through the medians of the runs with 10^6 and with 10^7 rows on one thread; runs with more rows are predicted,
not fitted. Medians, because other work on a machine makes some runs slow and none fast. Reads docs/_static/scale.jsonl,
and writes the tables of docs/scale.md, as a build of the documentation does.
"""

import json
import statistics
from collections.abc import Sequence
from pathlib import Path

PHASES = ("lay out", "check", "mode", "influential rows", "bounds", "sample")
FITTED = 1_000_000, 10_000_000  # rows
ON_WORKERS = ("mode", "influential rows")
DOCS = Path(__file__).parents[2] / "docs"


def read_runs(path: Path) -> list[dict]:
    """Return the runs of a file."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def of(runs: Sequence[dict], rows: int, columns: int = 10, workers: int = 0) -> list[dict]:
    """Return the runs with these numbers of rows, columns and workers."""
    wanted = rows, columns, workers
    return [run for run in runs if (run["rows"], run["columns"], run["workers"]) == wanted]


def fit(runs: Sequence[dict], phase: str) -> tuple[float, float]:
    """Return the seconds of start-up, at least 0, and the seconds per row."""
    few, many = (statistics.median(run["seconds"][phase] for run in of(runs, rows)) for rows in FITTED)
    rate = (many - few) / (FITTED[1] - FITTED[0])
    start = few - rate * FITTED[0]
    return (start, rate) if start >= 0.0 else (0.0, many / FITTED[1])


def predicted(runs: Sequence[dict], phase: str, rows: int) -> float:
    """Return the seconds that the model predicts for a phase."""
    start, rate = fit(runs, phase)
    return start + rate * rows


def spread(values: Sequence[float]) -> str:
    """Return a median and the range of some values."""
    middle = statistics.median(values)
    return f"{middle:.3g}" if len(values) == 1 else f"{middle:.3g} [{min(values):.3g}, {max(values):.3g}]"


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a Markdown table."""
    lines = [head, ["---"] * len(head), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def phases_table(runs: Sequence[dict], sizes: Sequence[int]) -> str:
    """Return seconds and shares of each phase at some sizes, 10 columns, one thread."""
    rows = []
    for phase in (*PHASES, "total"):
        cells = [phase]
        for size in sizes:
            some = of(runs, size)
            took = [_seconds(run, phase) for run in some]
            share = statistics.median(_seconds(run, phase) / _seconds(run, "total") for run in some)
            cells.append(f"{spread(took)}, {share:.0%}")
        rows.append(cells)
    return table(["seconds, share", *(f"{size:.0e} rows" for size in sizes)], rows)


def model_table(runs: Sequence[dict], sizes: Sequence[int]) -> str:
    """Return the fitted lines, and predicted over measured seconds at some sizes."""
    rows = []
    for phase in PHASES:
        start, rate = fit(runs, phase)
        rows.append([phase, f"{start:.2f}", f"{1e-6 / rate:.3g}", *_ratios(runs, [phase], sizes)])
    rows.append(["total", "", "", *_ratios(runs, PHASES, sizes)])
    head = ["phase", "start-up, s", "million rows a second"]
    return table([*head, *(f"predicted / measured at {size:.0e}" for size in sizes)], rows)


def _ratios(runs: Sequence[dict], phases: Sequence[str], sizes: Sequence[int]) -> list[str]:
    found = []
    for size in sizes:
        told = sum(predicted(runs, phase, size) for phase in phases)
        found.append(spread([told / sum(run["seconds"][phase] for phase in phases) for run in of(runs, size)]))
    return found


def _seconds(run: dict, phase: str) -> float:
    return sum(run["seconds"].values()) if phase == "total" else run["seconds"][phase]


def facts_table(runs: Sequence[dict], sizes: Sequence[int]) -> str:
    """Return memory, and the posterior compared with the truth."""
    rows = []
    for size in sizes:
        some = of(runs, size)
        peak = [max(own for own, _ in run["peak_GB_own_and_all"].values()) for run in some]
        run = some[0]
        worst = max(abs(z) for z in run["z"])
        square = sum(z * z for z in run["z"])
        cells = f"{size:.0e}", f"{4e-9 * size * run['columns']:.3g}", spread(peak), f"{run['data_per_step']:.2g}"
        rows.append([*cells, f"{worst:.2f}", f"{square:.1f}"])
    head = [
        "rows",
        "predictors, GB",
        "peak memory, GB",
        "rows read in a step",
        "largest distance, sd",
        "squares summed",
    ]
    return table(head, rows)


def workers_table(runs: Sequence[dict], size: int, workers: int) -> str:
    """Return seconds of each phase with workers, and the ratio to those without, both at one size."""
    rows = []
    for phase in PHASES:
        alone = [run["seconds"][phase] for run in of(runs, size)]
        together = [run["seconds"][phase] for run in of(runs, size, workers=workers)]
        ratios = [one / other for one in alone for other in together]
        rows.append([phase, spread(alone), spread(together), spread(ratios)])
    return table(["phase", "one process, s", f"{workers} workers, s", "ratio"], rows)


def beyond_table(runs: Sequence[dict], rows: int, columns: int, workers: int) -> str:
    """Return the seconds that the model predicts for more rows, from the rates of a run with this number of columns.

    If a phase took less than twice its start-up, its rate cannot be measured; it is that of the runs with 10 columns,
    in proportion to the columns. Workers share the phases of `ON_WORKERS`, and each reads its parts once, at the rate
    of the phase "lay out"; one process on one thread does the rest.
    """
    (measured,) = {run["rows"] for run in runs if run["columns"] == columns}
    some, lines, total = of(runs, measured, columns), [], 0.0
    starts, rate = {}, {}
    for phase in PHASES:
        starts[phase], of_ten = fit(runs, phase)
        seen = statistics.median(run["seconds"][phase] for run in some)
        shows = seen >= 2.0 * starts[phase]
        rate[phase] = (seen - starts[phase]) / measured if shows else of_ten * columns / 10
    for phase in PHASES:
        shared = phase in ON_WORKERS
        seconds = starts[phase] + rate[phase] * rows / (workers if shared else 1)
        seconds += rate["lay out"] * rows / workers if phase == ON_WORKERS[0] else 0.0
        total += seconds
        lines.append(
            [phase, f"{workers} workers" if shared else "one process", f"{1e6 * rate[phase]:.3g}", _hours(seconds)]
        )
    return table(["phase", "made by", "seconds for a million rows", "time"], [*lines, ["total", "", "", _hours(total)]])


def _hours(seconds: float) -> str:
    return (
        f"{seconds / 3600:.2g} h"
        if seconds > 3600
        else f"{seconds / 60:.2g} min"
        if seconds > 90
        else f"{seconds:.2g} s"
    )


def tables(runs: Sequence[dict]) -> dict[str, str]:
    """Return all tables by the name of their file."""
    sizes = sorted({run["rows"] for run in runs if run["columns"] == 10 and not run["workers"]})
    return {
        "scale_phases.md": phases_table(runs, sizes),
        "scale_facts.md": facts_table(runs, sizes),
        "scale_model.md": model_table(runs, sizes),
        "scale_workers.md": workers_table(runs, FITTED[1], 2),
        "scale_beyond.md": beyond_table(runs, 10**9, 100, 32),
    }


def main(source: Path, folder: Path) -> None:
    """Write the tables of the runs in `source` into `folder`."""
    for name, text in tables(read_runs(source)).items():
        (folder / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main(DOCS / "_static" / "scale.jsonl", DOCS / "_generated")
