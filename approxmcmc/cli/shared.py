"""Functions shared by the verbs: open a study or its results, and print tables."""
# ruff: noqa: T201 (the command line is the one place that prints)

import argparse
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from approxmcmc.study.declare import Declaration
    from approxmcmc.study.progress import Listener
    from approxmcmc.study.results import StudyResults


def open_study(args: argparse.Namespace) -> "tuple[Declaration, str, Path]":
    """Return the study that the arguments name, the name of the preset, and the study's file."""
    from approxmcmc.study.load import find_study, load_study

    path = find_study(args.study)
    study = load_study(path)
    preset = args.preset or study.default_preset
    study.with_preset(preset)  # raises an error if the preset is unknown
    return study, preset, path


def open_results(args: argparse.Namespace, *, allow_stale: bool = False) -> "StudyResults":
    """Return the results of the study that the arguments name, see `StudyResults.open`."""
    from approxmcmc.study.results import StudyResults

    study, preset, path = open_study(args)
    return StudyResults.open(study, preset, Path(args.store), allow_stale=allow_stale, source=str(path))


def counts_text(statuses: Mapping[str, int]) -> str:
    """Return counts as one text, such as "7 done, 1 failed"."""
    return ", ".join(f"{count} {name}" for name, count in sorted(statuses.items()))


def print_table(headings: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    """Print rows under headings, in columns as wide as their entries."""
    lines = [[str(entry) for entry in row] for row in (headings, *rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(headings))]
    for line in lines:
        print("  ".join(entry.ljust(width) for entry, width in zip(line, widths, strict=True)).rstrip())


def listener() -> "Listener":
    """Return the progress listener: a bar on a terminal, else plain lines."""
    from approxmcmc.study.progress import Bar, Lines

    return Bar() if sys.stdout.isatty() else Lines(sys.stdout)
