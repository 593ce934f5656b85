"""The command line: ``approxmcmc VERB``. Every verb is a thin layer over functions that a notebook can call.

Exit codes: 0 success, 1 some cells failed, 2 usage error, 3 a gate failed, 130 interrupted (finished work is kept).
Progress bars are shown on terminals; elsewhere every event is one plain line.
"""
# ruff: noqa: T201 (the command line is the one place that prints)

import os
import sys
from collections.abc import Sequence

from approxmcmc.cli.arguments import parse
from approxmcmc.errors import ApproxMCMCError, GoldStandardError, StudyError


def main(argv: Sequence[str] | None = None) -> int:
    """Run one verb and return the exit code."""
    from approxmcmc.study.machine import THREAD_VARIABLES

    for name in THREAD_VARIABLES:  # before NumPy loads its linear algebra
        os.environ.setdefault(name, "1")
    arguments = list(sys.argv[1:] if argv is None else argv)
    try:
        parsed = parse(arguments)
        return int(parsed.act(parsed))
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:  # the reader of the output closed it
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return 0
    except ApproxMCMCError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2 if isinstance(error, StudyError) else 3 if isinstance(error, GoldStandardError) else 1
