"""The command line: ``approxmcmc VERB``. Every verb is a thin layer over functions that a notebook can call.

Exit codes: 0 success; 1 some cells failed or are stale, `verify` found other draws, or another error of the library; 2
usage error; 3 a gold standard was not accepted; 130 interrupted (finished work is kept). Progress is a bar on
terminals, plain lines elsewhere.
"""

# ruff: noqa: T201 (the command line is the one place that prints)

import argparse
import importlib.metadata
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from approxmcmc.cli import verbs
from approxmcmc.engine.extras import THREAD_VARIABLES
from approxmcmc.errors import ApproxMCMCError, GoldStandardError, StudyError


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command with these arguments (None: those of the process), and return its exit code."""
    # Before any import of NumPy, whose linear algebra reads these variables when it is loaded.
    for name in THREAD_VARIABLES:
        os.environ.setdefault(name, "1")
    arguments = list(sys.argv[1:] if argv is None else argv)
    try:
        parsed = parse(arguments)
        return int(parsed.act(parsed))
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:  # the program that reads the output, such as `head`, has ended
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return 0
    except ApproxMCMCError as error:
        print(f"error: {error}", file=sys.stderr)
        if isinstance(error, StudyError):
            return 2
        return 3 if isinstance(error, GoldStandardError) else 1


def parse(argv: list[str]) -> argparse.Namespace:
    """Return the arguments of a command; invalid arguments end the process with exit code 2."""
    from approxmcmc.cli.warm import warm

    parser = argparse.ArgumentParser(prog="approxmcmc", description="Run studies of approximate and subsampling MCMC.")
    parser.add_argument("--version", action="version", version=f"approxmcmc {importlib.metadata.version('approxmcmc')}")
    choices = parser.add_subparsers(dest="verb", required=True, metavar="VERB")

    def verb(
        name: str, act: Callable[[argparse.Namespace], int], text: str, *, study: bool = True
    ) -> argparse.ArgumentParser:
        arguments = choices.add_parser(name, help=text, description=text, allow_abbrev=False)
        arguments.set_defaults(act=act)
        if study:
            arguments.add_argument("study", metavar="STUDY", help="a file in ./studies, or a path")
            arguments.add_argument(
                "--preset", help="smoke, quick, published, paper (default: quick if it exists, else paper)"
            )
        arguments.add_argument("--store", default="results", metavar="DIR", help="results folder (default: results)")
        return arguments

    verb("list", verbs.list_studies, "list the studies in ./studies, with their presets and cells", study=False)
    verb("plan", verbs.show_plan, "list the cells of a study without running them").add_argument(
        "--only", metavar="NAME=VALUE,..."
    )
    _run_options(verb("run", verbs.run, "run missing cells, then write the report"))
    verb("status", verbs.status, "count the cells that are done, failed, stale or missing")
    verb("why", verbs.why, "show the record of one cell, and how to run it again", study=False).add_argument(
        "cell", metavar="CELL"
    )
    retry_parser = verb("retry", verbs.retry, "run finished or failed cells again, then write the report")
    _run_options(retry_parser)
    retry_parser.add_argument(
        "--cell", action="append", default=[], metavar="KEY", help="beginning of a key; repeatable"
    )
    for choice in ("failed", "noisy", "stale"):
        retry_parser.add_argument(f"--{choice}", action="store_true", help=f"all cells that are {choice}")
    verb("report", verbs.report, "write the report from the finished cells").add_argument(
        "--allow-stale", action="store_true", help="report cells of one code version if there are several"
    )
    publishing = verb("publish", verbs.publish, "write the published numbers of the finished cells, and a stub page")
    publishing.add_argument("--pages", default="docs/results", metavar="DIR", help="default: docs/results")
    publishing.add_argument(
        "--data", default="approxmcmc/study/published_results", metavar="DIR", help="the package's folder by default"
    )
    comparison = verb("compare", verbs.compare, "print ratios of the cells that both folders hold", study=False)
    comparison.add_argument("first", metavar="A", type=Path)
    comparison.add_argument("second", metavar="B", type=Path)
    checking = verb("verify", verbs.verify, "run random finished cells again and compare the draws bit by bit")
    checking.add_argument("-n", "--number", type=int, default=3, help="how many cells (default: 3)")
    revalidating = "repeat the first draws of stale cells, and keep the cells where they are equal bit by bit"
    verb("revalidate", verbs.revalidate, revalidating).add_argument(
        "--draws", type=int, default=200, help="draws of each cell that are repeated (default: 200)"
    )
    warming = "compile what built-in targets and PyMC hierarchies need by default, once for this machine"
    choices.add_parser("warm", help=warming, description=warming, allow_abbrev=False).set_defaults(act=warm)
    verb("doctor", verbs.doctor, "print threads, linear algebra, clock, cores, versions, caches", study=False)

    if argv and not argv[0].startswith("-") and argv[0] not in choices.choices:
        from approxmcmc.engine.checks import nearest

        parser.error(f"there is no verb {nearest(argv[0], choices.choices)}")
    return parser.parse_args(argv)


def _run_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--engine",
        metavar="serial|processes|dask",
        help="default: serial, or processes with --jobs, or dask with --scheduler",
    )
    parser.add_argument("--scheduler", metavar="ADDRESS", help="a running Dask scheduler")
    parser.add_argument("--jobs", type=int, metavar="N", help="worker processes on this machine")
    parser.add_argument("--only", metavar="NAME=VALUE,...", help="cells to run, such as sampler=austerity,epsilon=0.05")
    parser.add_argument("--fail-fast", action="store_true", help="stop at the first failure")
    parser.add_argument("--no-report", action="store_true", help="write no report at the end")
