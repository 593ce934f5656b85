"""What large data cost: a line for each phase, fitted to runs of `tests.bench.scale`.

    python -m tests.bench.cost_model docs/_static/scale.jsonl

    seconds = start-up + n / rate,

by least squares of relative errors on the runs with up to 10^7 rows on one thread; runs with more rows are predicted,
not fitted. Prints the tables of docs/scale.md.
"""

import argparse
import json
import statistics
from collections.abc import Sequence
from pathlib import Path

import numpy as np

PHASES = ("lay out", "check", "mode", "core rows", "bounds", "sample")
FITTED = 10_000_000


def read_runs(path: Path) -> list[dict]:
    """Return the runs of a file."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def of(runs: Sequence[dict], rows: int, columns: int = 10, workers: int = 0) -> list[dict]:
    """Return the runs of one size."""
    wanted = rows, columns, workers
    return [run for run in runs if (run["rows"], run["columns"], run["workers"]) == wanted]


def fit(runs: Sequence[dict], phase: str) -> tuple[float, float]:
    """Return seconds of start-up, at least 0, and seconds for a row."""
    used = [run for run in runs if run["rows"] <= FITTED and run["columns"] == 10 and not run["workers"]]
    n = np.array([run["rows"] for run in used], dtype=float)
    seconds = np.array([run["seconds"][phase] for run in used])
    A = np.column_stack([1.0 / seconds, n / seconds])
    start, rate = np.linalg.lstsq(A, np.ones(len(n)), rcond=None)[0]
    if start < 0.0:
        column = A[:, 1]
        start, rate = 0.0, column.sum() / (column @ column)
    return float(start), float(rate)


def predicted(runs: Sequence[dict], phase: str, rows: int) -> float:
    """Return the seconds that the model tells."""
    start, rate = fit(runs, phase)
    return start + rate * rows


def spread(values: Sequence[float]) -> str:
    """Return a median and the range of some values."""
    middle = statistics.median(values)
    return f"{middle:.3g}" if len(values) == 1 else f"{middle:.3g} [{min(values):.3g}, {max(values):.3g}]"


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a table of Markdown."""
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


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", type=Path)
    runs = read_runs(parser.parse_args().runs)
    sizes = sorted({run["rows"] for run in runs if run["columns"] == 10 and not run["workers"]})
    print(phases_table(runs, sizes))
    print(model_table(runs, sizes))


if __name__ == "__main__":
    main()
