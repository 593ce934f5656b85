"""The command line: ``python -m studies.race --help``."""

import argparse
import sys
from pathlib import Path

import studies.race
from studies.race.track import PRESETS, run


def main() -> None:
    """Read the command line and race."""
    parser = argparse.ArgumentParser(
        description=studies.race.__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--preset", choices=PRESETS, default="quick")
    parser.add_argument("--problem", action="append", default=[], help="only this problem, such as mnist; repeatable")
    parser.add_argument("--peers", action="store_true", help="add the samplers of other libraries")
    parser.add_argument("--out", type=Path, default=Path("results/race"))
    arguments = parser.parse_args()
    run(arguments.preset, arguments.out, with_peers=arguments.peers, only=arguments.problem)
    sys.stdout.write((arguments.out / "race.md").read_text())


if __name__ == "__main__":
    main()
