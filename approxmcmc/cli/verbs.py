"""The verbs of the command line: each prints its result and returns the exit code."""
# ruff: noqa: T201 (the command line is the one place that prints)

import argparse
import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from approxmcmc.cli import shared
from approxmcmc.cli.shared import counts_text, open_results, open_study, print_table
from approxmcmc.errors import StudyError

if TYPE_CHECKING:
    from approxmcmc.study.declare import Declaration
    from approxmcmc.study.record import Record

Arguments = argparse.Namespace

FIRST_STUDY = """\
import approxmcmc as amc
from approxmcmc.study import Budget, Study


def regression():
    X, y = amc.datasets.synthetic_logistic(n=5_000, d=5, seed=1)
    return amc.LogisticRegression(X, y)


study = Study(
    name="first",
    targets={"logistic": regression},
    samplers={
        "exact": amc.MetropolisHastings(amc.RandomWalk(0.02), amc.ExactTest()),
        "t-test": amc.MetropolisHastings(amc.RandomWalk(0.02), amc.SequentialTTest(epsilon=0.05)),
    },
    budget=Budget(seconds=10),
    replicates=5,
)
"""
"""What `list` shows where no study is."""

NO_STUDY = """\
There is no study in ./studies. A study compares samplers, with replicates, and writes a report; it is a Python file
with a global `study`. For example, studies/first.py:

{first}
Next: `approxmcmc list` shows it, `approxmcmc run first` runs it and writes its report; a report needs
pip install "approxmcmc[studies]". `approxmcmc warm` compiles the most common samplers, once for this machine.
To sample one model no study is needed: python -c "import approxmcmc; help(approxmcmc.sample)"
"""


def list_studies(args: Arguments) -> int:
    """Print every study of ./studies with its presets, without making targets."""
    from approxmcmc.study.load import load_study, study_files

    files = study_files()
    if not files:
        print(NO_STUDY.format(first=textwrap.indent(FIRST_STUDY, "    ")), end="")
    for path in files:
        try:
            study = load_study(path)
            sizes = {preset: _size(study.with_preset(preset)) for preset in study.preset_names}
        except Exception as error:  # one broken file must not hide the others
            print(f"{path.stem}  cannot be read: {type(error).__name__}: {error}")
            continue
        print(f"{path.stem}  {study.reference}")
        for preset, size in sizes.items():
            print(f"  {preset:8} {size}")
    return 0


def _size(study: "Declaration") -> str:
    from approxmcmc.study.progress import clock

    chains = len(study.settings()) * study.replicates
    budgets = [study.budget_of(target) for target in study.targets]
    limits = [budget.seconds or 0.0 for budget in budgets]
    draws = sorted({budget.most_draws for budget in budgets})
    return f"{chains * len(budgets)} cells" + (
        f", {clock(chains * sum(limits))} of sampling"
        if all(limits)
        else f", {' or '.join(map(str, draws))} draws each"
    )


def show_plan(args: Arguments) -> int:
    """Print the cells of a study in running order."""
    from approxmcmc.study.plan import make_plan, select

    study, preset, _ = open_study(args)
    plan = make_plan(study, preset)
    chosen = select(plan.cells, args.only)
    rows = [[cell.key[:8], cell.replicate, cell.order_in_block, cell.target, cell.label, cell.seed] for cell in chosen]
    print_table(["cell", "block", "place", "target", "setting", "seed"], rows)
    print(
        f"{study.name}/{preset}: {len(chosen)} of {len(plan.cells)} cells; {_size(plan.study)}; code "
        f"{plan.code_version}"
    )
    return 0


def run(args: Arguments, keys: Sequence[str] | None = None) -> int:
    """Run missing cells, or exactly the cells with `keys`, and write the report if any cell is done.

    No report is written after an interrupt, or with ``--no-report``.
    """
    from approxmcmc.api import sample
    from approxmcmc.study.run import run_study

    study, preset, path = open_study(args)
    outcome = run_study(
        study,
        preset,
        args.store,
        engine=args.engine,
        scheduler=args.scheduler,
        jobs=args.jobs,
        only=args.only,
        keys=keys,
        fail_fast=args.fail_fast,
        path=path,
        sample=sample,
        listener=shared.listener(),
    )
    print(f"{study.name}/{preset}: {counts_text(outcome.statuses)}")
    if outcome.statuses.get("done") and not args.no_report and not outcome.interrupted:
        report(args)
    return outcome.exit_code


def status(args: Arguments) -> int:
    """Print how many cells of each setting have which status, and one line for each failed cell."""
    from approxmcmc.study.latest import latest
    from approxmcmc.study.plan import make_plan
    from approxmcmc.study.progress import failure_line
    from approxmcmc.study.record import FAILED
    from approxmcmc.study.run import census, status_of
    from approxmcmc.study.store import Store

    study, preset, _ = open_study(args)
    plan = make_plan(study, preset)
    store = Store.of(args.store, study.name, preset)
    records = latest(plan, store.records())
    by_setting: dict[tuple[str, str], list[str]] = {
        (target, setting.label): [] for target in plan.study.targets for setting in plan.study.settings()
    }
    for cell in plan.cells:
        by_setting[cell.target, cell.label].append(status_of(plan, records.get(cell.identity)))
    names = sorted({name for statuses in by_setting.values() for name in statuses})
    print_table(
        ["target", "setting", "cells", *names],
        [[*key, len(statuses), *map(statuses.count, names)] for key, statuses in by_setting.items()],
    )
    for record in records.values():
        if record["status"] in FAILED:
            print(failure_line(record))
    noisy = sum(bool(record.get("noisy")) for record in records.values())
    counts = counts_text(census(plan, store)) + (f"; {noisy} noisy" if noisy else "")
    print(f"{study.name}/{preset} in {store.folder}: {counts}")
    return 0


def why(args: Arguments) -> int:
    """Print the record of one cell, its traceback, and the command that runs it again."""
    from approxmcmc.study.store import Store

    matches: list[Record] = []
    for plan in sorted(Path(args.store).glob("*/plan.json")):
        matches += [record for key, record in Store(plan.parent).records().items() if key.startswith(args.cell)]
    if len(matches) != 1:
        keys = ", ".join(f"{record['key'][:12]} ({record['study']}/{record['preset']})" for record in matches)
        listed = f": {keys}" if keys else ""
        raise StudyError(
            f"{len(matches)} cells below {args.store} have a key that begins with {args.cell!r}{listed}. `approxmcmc "
            "plan` and `status` show keys; a cell that has not ended has no record."
        )
    record = matches[0]
    for name, value in record.items():
        if value is not None and name not in ("error", "command"):
            print(f"{name:20} {value}")
    if record.get("error"):
        print(f"\n{str(record['error']).rstrip()}")
    print(f"\nrun it again: {record.get('command')}")
    return 0


def retry(args: Arguments) -> int:
    """Run the chosen cells again: those with a key, or all that are failed, noisy or stale."""
    from approxmcmc.study.latest import latest
    from approxmcmc.study.plan import make_plan
    from approxmcmc.study.record import FAILED
    from approxmcmc.study.run import status_of
    from approxmcmc.study.store import Store

    if not (args.cell or args.failed or args.noisy or args.stale):
        raise StudyError("retry needs a choice of cells: --cell KEY, --failed, --noisy or --stale.")
    study, preset, _ = open_study(args)
    plan = make_plan(study, preset)
    records = latest(plan, Store.of(args.store, study.name, preset).records())
    keys = {_one_key(beginning, [cell.key for cell in plan.cells]) for beginning in args.cell}
    for cell in plan.cells:
        record = records.get(cell.identity)
        state = status_of(plan, record)
        is_chosen = (args.failed and state in FAILED) or (args.stale and state == "stale")
        if is_chosen or (args.noisy and record is not None and record.get("noisy")):
            keys.add(cell.key)
    if not keys:
        print("No cell has that status.")
        return 0
    return run(args, sorted(keys))


def _one_key(beginning: str, keys: Sequence[str]) -> str:
    matches = [key for key in keys if key.startswith(beginning)]
    if len(matches) != 1:
        raise StudyError(
            f"{len(matches)} cells of the plan have a key that begins with {beginning!r}; `approxmcmc plan` shows keys."
        )
    return matches[0]


def report(args: Arguments) -> int:
    """Write the report of the finished cells, and print its path."""
    from approxmcmc.study.report.content import write_report

    results = open_results(args, allow_stale=getattr(args, "allow_stale", False))
    if not (results.records["status"] == "done").any():
        raise StudyError(f"No cell is done in {results.store.folder}, so there is no report. Run the study first.")
    if results.stale:
        print(f"Code {results.code_version} drew these cells; the current code is {results.plan.code_version}.")
    with results.store.writing():
        page = write_report(results, results.store.folder / "report")
    print(f"report: {page}")
    return 0


def publish(args: Arguments) -> int:
    """Write the files of the study that ship with the package, and its page unless one exists; print their paths."""
    from approxmcmc.study.report.publish import publish as write

    for path in write(open_results(args), args.data, args.pages):
        print(f"published: {path}")
    return 0


def compare(args: Arguments) -> int:
    """Print the ratios of seconds per step and data per step, B over A, of the cells that both folders hold."""
    from approxmcmc.study.report.wording import estimate_text
    from approxmcmc.study.verify import compare_stores

    def entry(row: "Mapping[str, Any]", name: str) -> str:
        return estimate_text(row[name], row[f"{name}_lower"], row[f"{name}_upper"], ".3g")

    rows = [
        [r["target"], r["label"], r["cells"], r["equal_draws"], entry(r, "seconds_ratio"), entry(r, "data_ratio")]
        for r in compare_stores(args.first, args.second).to_dict("records")
    ]
    print_table(["target", "setting", "cells", "equal draws", "seconds per step B/A", "data per step B/A"], rows)
    print("ratios: geometric mean over replicates [95 % interval]")
    return 0


def verify(args: Arguments) -> int:
    """Run some finished cells again, and print whether their draws are equal; return 1 if any differ, else 0."""
    from approxmcmc.api import sample
    from approxmcmc.study.verify import verify as draw_again

    if args.number < 1:
        raise StudyError(f"verify needs -n of at least 1; found {args.number}.")
    table = draw_again(open_results(args), args.number, sample=sample)
    rows = [
        [r["key"][:8], r["target"], r["label"], r["replicate"], int(r["draws"]), "equal" if r["equal"] else "DIFFERENT"]
        for r in table.to_dict("records")
    ]
    print_table(["cell", "target", "setting", "replicate", "draws", "verdict"], rows)
    return 0 if table["equal"].all() else 1


def revalidate(args: Arguments) -> int:
    """Keep the stale cells whose first draws the present code repeats; return 1 if a cell is not kept, else 0."""
    from approxmcmc.api import sample
    from approxmcmc.study.revalidate import revalidate as revalidate_cells

    study, preset, _ = open_study(args)
    if args.draws < 1:
        raise StudyError(f"revalidate needs --draws of at least 1; found {args.draws}.")
    store = Path(args.store)
    table = revalidate_cells(study, preset, store, sample=sample, draws=args.draws, listener=_print_revalidated)
    print(f"{len(table)} stale cells, {int(table['equal'].sum()) if len(table) else 0} kept")
    return 0 if len(table) == 0 or table["equal"].all() else 1


def _print_revalidated(row: "Mapping[str, Any]") -> None:
    verdict = "kept" if row["equal"] else "DIFFERENT: it stays stale"
    print(f"{row['target']}  {row['label']}  replicate {row['replicate']}: first {row['draws']} draws, {verdict}")


CACHES = {  # folders whose files outlive a run, and what they hold
    "kernels": "compiled kernels",
    "compilations": "times of compilations",
    "reference": "gold standards",
    "datasets": "data sets",
    "shuffled_data": "rows in a random order",
    "laid_out_rows": "rows of sources",
}


def doctor(args: Arguments) -> int:
    """Print what affects speed and the last bits of draws: this machine, its threads and its software."""
    import time

    from approxmcmc.engine.files.paths import size_of, user_cache
    from approxmcmc.study.machine import collect, speed_probe

    facts = collect()
    probes = [speed_probe() for _ in range(5)]
    spread = max(probes) / min(probes) - 1
    facts["clock_resolution"] = f"{time.get_clock_info('perf_counter').resolution:.0e} s"
    facts["speed_probe"] = (
        f"{1e3 * sorted(probes)[2]:.1f} ms, spread {spread:.1%} {'(noisy)' if spread > 0.1 else '(quiet)'}"
    )
    for folder, content in CACHES.items():
        path = user_cache(folder)
        facts[f"cache of {content}"] = f"{path}  {size_of(path) / 1e6:.1f} MB"
    for name, value in facts.items():
        entries = value if isinstance(value, list) else [value]
        for entry in entries or ["none"]:
            text = ", ".join(f"{k} {v}" for k, v in entry.items()) if isinstance(entry, dict) else entry
            print(f"{name.replace('_', ' '):22} {text}")
    return 0
