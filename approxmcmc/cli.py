"""The command line: ``approxmcmc VERB``. Every verb is a thin layer over what a notebook can call.

Exit codes: 0 all is well, 1 some cells failed, 2 usage, 3 a gate failed, 130 interrupted with the work kept. Bars are
for terminals; elsewhere every event is one plain line.
"""

import argparse
import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from approxmcmc.errors import ApproxMCMCError, GoldStandardError, StudyError

if TYPE_CHECKING:
    from approxmcmc.study.declare import Study
    from approxmcmc.study.listen import Listener
    from approxmcmc.study.results import StudyResults
    from approxmcmc.study.store import Record

Arguments = argparse.Namespace
FAILED = ("failed", "invalid", "crashed", "timeout")


def main(argv: Sequence[str] | None = None) -> int:
    """Run one verb and return the exit code."""
    from approxmcmc.study.provenance import THREAD_VARIABLES

    for name in THREAD_VARIABLES:  # before NumPy loads its linear algebra
        os.environ.setdefault(name, "1")
    arguments = list(sys.argv[1:] if argv is None else argv)
    try:
        parsed = parse(arguments)
        return int(parsed.act(parsed))
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:  # the reader of our output has had enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return 0
    except ApproxMCMCError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2 if isinstance(error, StudyError) else 3 if isinstance(error, GoldStandardError) else 1


def parse(argv: list[str]) -> Arguments:
    """Return the arguments of a command; a mistake ends the process with exit code 2."""
    parser = argparse.ArgumentParser(prog="approxmcmc", description="Run studies of approximate and subsampling MCMC.")
    verbs = parser.add_subparsers(dest="verb", required=True, metavar="VERB")

    def verb(name: str, act: Callable[[Arguments], int], text: str, *, study: bool = True) -> argparse.ArgumentParser:
        own = verbs.add_parser(name, help=text, description=text, allow_abbrev=False)
        own.set_defaults(act=act)
        if study:
            own.add_argument("study", metavar="STUDY", help="a file in ./studies, or a path")
            own.add_argument("--preset", help="smoke, quick, paper (default: quick where there is one, else paper)")
        own.add_argument("--store", default="results", metavar="DIR", help="where results lie (default: results)")
        return own

    verb("list", list_studies, "studies in ./studies, with their presets and cells", study=False)
    verb("plan", show_plan, "the cells of a study; nothing is run").add_argument("--only", metavar="NAME=VALUE,...")
    _run_options(verb("run", run, "run what is missing, then write the report"))
    verb("status", status, "how many cells are done, failed, stale, missing")
    verb("why", why, "what became of one cell, and how to run it again", study=False).add_argument(
        "cell", metavar="CELL"
    )
    retry_parser = verb("retry", retry, "run finished or failed cells again, then write the report")
    _run_options(retry_parser)
    retry_parser.add_argument(
        "--cell", action="append", default=[], metavar="KEY", help="beginning of a key; may repeat"
    )
    for choice in ("failed", "noisy", "stale"):
        retry_parser.add_argument(f"--{choice}", action="store_true", help=f"all cells that are {choice}")
    verb("report", report, "write the report from whatever is done").add_argument(
        "--allow-stale", action="store_true", help="show one version of the code where cells come from several"
    )
    comparison = verb("compare", compare, "paired ratios of the cells that two result folders share", study=False)
    comparison.add_argument("first", metavar="A", type=Path)
    comparison.add_argument("second", metavar="B", type=Path)
    checking = verb("verify", verify, "draw random finished cells again and compare the draws bit by bit")
    checking.add_argument("-n", "--number", type=int, default=3, help="how many cells (default: 3)")
    verb("doctor", doctor, "threads, linear algebra, clock, cores, versions, caches", study=False)

    if argv and not argv[0].startswith("-") and argv[0] not in verbs.choices:
        from approxmcmc.study.names import nearest

        parser.error(f"there is no verb {nearest(argv[0], verbs.choices)}")
    return parser.parse_args(argv)


def _run_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--engine", default=None, metavar="serial|dask", help="default: serial, or dask with --jobs")
    parser.add_argument("--scheduler", metavar="ADDRESS", help="a running Dask scheduler")
    parser.add_argument("--jobs", type=int, metavar="N", help="worker processes on this machine")
    parser.add_argument("--only", metavar="NAME=VALUE,...", help="cells to run, such as sampler=austerity,epsilon=0.05")
    parser.add_argument("--fail-fast", action="store_true", help="stop at the first failure")
    parser.add_argument("--no-report", action="store_true", help="write no report at the end")


# --- verbs ---


def list_studies(args: Arguments) -> int:
    """Print every study of ./studies with its presets; targets are not made."""
    from approxmcmc.study.load import load_study, study_files

    files = study_files()
    if not files:
        print("There is no study in ./studies.")
    for path in files:
        try:
            study = load_study(path)
        except Exception as error:  # one broken file must not hide the others
            print(f"{path.stem}  cannot be read: {type(error).__name__}: {error}")
            continue
        print(f"{path.stem}  {study.reference}")
        for preset in study.preset_names:
            print(f"  {preset:8} {_size(study.with_preset(preset))}")
    return 0


def _size(study: "Study") -> str:
    from approxmcmc.study.listen import clock

    cells = len(study.targets) * len(study.settings()) * study.replicates
    seconds = study.budget.seconds
    return f"{cells} cells" + (
        f", {clock(cells * seconds)} of sampling" if seconds else f", {study.budget.draws} draws each"
    )


def show_plan(args: Arguments) -> int:
    """Print the cells of a study in running order."""
    from approxmcmc.study.plan import make_plan, select

    study, preset, _ = _open(args)
    plan = make_plan(study, preset)
    chosen = select(plan.cells, args.only)
    rows = [[cell.key[:8], cell.replicate, cell.order_in_block, cell.target, cell.label, cell.seed] for cell in chosen]
    _print_table(["cell", "block", "place", "target", "setting", "seed"], rows)
    print(
        f"{study.name}/{preset}: {len(chosen)} of {len(plan.cells)} cells; {_size(plan.study)}; code "
        f"{plan.code_version}"
    )
    return 0


def run(args: Arguments, keys: Sequence[str] | None = None) -> int:
    """Run what is missing, or exactly the cells with `keys`, and write the report."""
    from approxmcmc.api import sample
    from approxmcmc.study.run import run_study

    study, preset, path = _open(args)
    outcome = run_study(
        study,
        preset,
        args.store,
        engine=args.engine or ("dask" if args.jobs or args.scheduler else "serial"),
        scheduler=args.scheduler,
        jobs=args.jobs,
        only=args.only,
        keys=keys,
        fail_fast=args.fail_fast,
        path=path,
        sample=sample,
        listener=_listener(),
    )
    print(f"{study.name}/{preset}: {_counts(outcome.statuses)}")
    if outcome.statuses.get("done") and not args.no_report and not outcome.interrupted:
        report(args)
    return outcome.exit_code


def status(args: Arguments) -> int:
    """Print the census of a store, setting by setting, and every failure."""
    from approxmcmc.study.listen import failure_line
    from approxmcmc.study.plan import make_plan
    from approxmcmc.study.results import latest
    from approxmcmc.study.run import census, status_of
    from approxmcmc.study.store import Store

    study, preset, _ = _open(args)
    plan, store = make_plan(study, preset), Store.of(args.store, study.name, preset)
    records = latest(plan, store.records())
    by_setting: dict[tuple[str, str], list[str]] = {
        (target, setting.label): [] for target in plan.study.targets for setting in plan.study.settings()
    }
    for cell in plan.cells:
        by_setting[cell.target, cell.label].append(status_of(plan, records.get(cell.identity)))
    names = sorted({name for found in by_setting.values() for name in found})
    _print_table(
        ["target", "setting", "cells", *names],
        [[*key, len(found), *(found.count(name) for name in names)] for key, found in by_setting.items()],
    )
    for record in records.values():
        if record["status"] in FAILED:
            print(failure_line(record))
    noisy = sum(bool(record.get("noisy")) for record in records.values())
    print(
        f"{study.name}/{preset} in {store.folder}: {_counts(census(plan, store))}{f'; {noisy} noisy' if noisy else ''}"
    )
    return 0


def why(args: Arguments) -> int:
    """Print the record of one cell, its traceback and the command that runs it again."""
    from approxmcmc.study.store import Store

    found: list[Record] = []
    for plan in sorted(Path(args.store).glob("*/plan.json")):
        found += [record for key, record in Store(plan.parent).records().items() if key.startswith(args.cell)]
    if len(found) != 1:
        keys = ", ".join(f"{record['key'][:12]} ({record['study']}/{record['preset']})" for record in found)
        raise StudyError(
            f"{len(found)} cells below {args.store} have a key that begins with "
            f"{args.cell!r}{f': {keys}' if keys else ''}. "
            "`approxmcmc plan` and `status` show keys; a cell that has not ended has no record."
        )
    record = found[0]
    for name, value in record.items():
        if value is not None and name not in ("error", "command"):
            print(f"{name:20} {value}")
    if record.get("error"):
        print(f"\n{str(record['error']).rstrip()}")
    print(f"\nrun it again: {record.get('command')}")
    return 0


def retry(args: Arguments) -> int:
    """Run chosen cells again."""
    from approxmcmc.study.plan import make_plan
    from approxmcmc.study.results import latest
    from approxmcmc.study.run import status_of
    from approxmcmc.study.store import Store

    if not (args.cell or args.failed or args.noisy or args.stale):
        raise StudyError("retry needs to know which cells: --cell KEY, --failed, --noisy or --stale.")
    study, preset, _ = _open(args)
    plan = make_plan(study, preset)
    records = latest(plan, Store.of(args.store, study.name, preset).records())
    keys = {_one_key(beginning, [cell.key for cell in plan.cells]) for beginning in args.cell}
    for cell in plan.cells:
        record = records.get(cell.identity)
        state = status_of(plan, record)
        wanted = (args.failed and state in FAILED) or (args.stale and state == "stale")
        if wanted or (args.noisy and record is not None and record.get("noisy")):
            keys.add(cell.key)
    if not keys:
        print("No cell is of that kind.")
        return 0
    return run(args, sorted(keys))


def _one_key(beginning: str, keys: Sequence[str]) -> str:
    found = [key for key in keys if key.startswith(beginning)]
    if len(found) != 1:
        raise StudyError(
            f"{len(found)} cells of the plan have a key that begins with {beginning!r}; `approxmcmc plan` shows keys."
        )
    return found[0]


def report(args: Arguments) -> int:
    """Write the report of whatever is done, and print its path."""
    from approxmcmc.study.report.page import write_report

    results = _results(args, allow_stale=getattr(args, "allow_stale", False))
    if not (results.records["status"] == "done").any():
        raise StudyError(
            f"No cell is done in {results.store.folder}, so there is nothing to report. Run the study first."
        )
    if results.stale:
        print(f"These cells were drawn by code {results.code_version}, the code of now is {results.plan.code_version}.")
    print(f"report: {write_report(results, results.store.folder / 'report')}")
    return 0


def compare(args: Arguments) -> int:
    """Print paired ratios of two result folders."""
    from approxmcmc.study.verify import compare_stores

    def entry(row: "Mapping[str, Any]", name: str) -> str:
        return f"{row[name]:.3g} [{row[f'{name}_lower']:.3g}, {row[f'{name}_upper']:.3g}]"

    rows = [
        [r["target"], r["label"], r["cells"], r["equal_draws"], entry(r, "seconds_ratio"), entry(r, "data_ratio")]
        for r in compare_stores(args.first, args.second).to_dict("records")
    ]
    _print_table(["target", "setting", "cells", "equal draws", "seconds per step B/A", "data per step B/A"], rows)
    print("ratios: geometric mean over replicates [95 % interval]")
    return 0


def verify(args: Arguments) -> int:
    """Draw some cells again; exit code 1 if any draws differ."""
    from approxmcmc.api import sample
    from approxmcmc.study.verify import verify as draw_again

    if args.number < 1:
        raise StudyError(f"verify needs -n of at least 1; found {args.number}.")
    table = draw_again(_results(args), args.number, sample=sample)
    rows = [
        [r["key"][:8], r["target"], r["label"], r["replicate"], int(r["draws"]), "equal" if r["equal"] else "DIFFERENT"]
        for r in table.to_dict("records")
    ]
    _print_table(["cell", "target", "setting", "replicate", "draws", "verdict"], rows)
    return 0 if table["equal"].all() else 1


def doctor(args: Arguments) -> int:
    """Print what decides about speed and about equal draws on this machine."""
    import time

    from approxmcmc.study.doctor import caches
    from approxmcmc.study.provenance import collect
    from approxmcmc.study.timing import speed_probe

    facts = collect()
    probes = [speed_probe() for _ in range(5)]
    spread = max(probes) / min(probes) - 1
    facts["clock_resolution"] = f"{time.get_clock_info('perf_counter').resolution:.0e} s"
    facts["speed_probe"] = (
        f"{1e3 * sorted(probes)[2]:.1f} ms, spread {spread:.1%} {'(noisy)' if spread > 0.1 else '(quiet)'}"
    )
    facts |= {f"cache of {name}": f"{path}  {size / 1e6:.1f} MB" for name, (path, size) in caches().items()}
    for name, value in facts.items():
        entries = value if isinstance(value, list) else [value]
        for entry in entries or ["none"]:
            shown = ", ".join(f"{k} {v}" for k, v in entry.items()) if isinstance(entry, dict) else entry
            print(f"{name.replace('_', ' '):22} {shown}")
    return 0


# --- helpers ---


def _open(args: Arguments) -> "tuple[Study, str, Path]":
    from approxmcmc.study.load import find_study, load_study

    path = find_study(args.study)
    study = load_study(path)
    preset = args.preset or study.default_preset
    study.with_preset(preset)  # an unknown name ends here
    return study, preset, path


def _results(args: Arguments, *, allow_stale: bool = False) -> "StudyResults":
    from approxmcmc.study.results import StudyResults

    study, preset, path = _open(args)
    return StudyResults.open(study, preset, Path(args.store), allow_stale=allow_stale, source=str(path))


def _counts(statuses: Mapping[str, int]) -> str:
    return ", ".join(f"{count} {name}" for name, count in sorted(statuses.items()))


def _print_table(headings: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    lines = [[str(entry) for entry in row] for row in (headings, *rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(headings))]
    for line in lines:
        print("  ".join(entry.ljust(width) for entry, width in zip(line, widths, strict=True)).rstrip())


def _listener() -> "Listener":
    from approxmcmc.study.listen import Bar, Lines

    return Bar() if sys.stdout.isatty() else Lines(sys.stdout)
