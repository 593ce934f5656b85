"""The command line: ``python -m studies.evidence --help``."""

import argparse
import subprocess
import sys
from typing import TextIO

import studies.evidence
from studies.evidence.draw import CodeChangedError, alone, draw
from studies.evidence.pieces import Piece, pieces
from studies.evidence.stamps import origin_of, why_stale


def tell(line: str, where: TextIO = sys.stdout) -> None:
    """Print a line now: a run takes hours, and its output may be a file."""
    where.write(f"{line}\n")
    where.flush()


def line_of(piece: Piece) -> str:
    """Return a line with the name of a piece, its minutes, its version, its date and its state."""
    origin = origin_of(piece)
    minutes = origin.cpu_minutes or piece.expected_minutes()
    state = why_stale(piece, origin) or "of the present code"
    return f"{piece.name:20} {minutes:7.0f} min  {origin.version or 'unknown':16.16}  {origin.date or '-':10}  {state}"


def main() -> int:
    """Read the command line, list pieces or draw them; return 1 if one failed."""
    parser = argparse.ArgumentParser(
        description=studies.evidence.__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", metavar="PIECE", help="only these; all by default")
    parser.add_argument("--list", action="store_true", help="show minutes of one core, version, date and state")
    parser.add_argument("--stale", action="store_true", help="only those that are older than the code that draws them")
    arguments = parser.parse_args()
    known = pieces()
    if unknown := [name for name in arguments.names if name not in known]:
        parser.error(f"no piece is called {unknown[0]}; --list names all")
    chosen = [known[name] for name in arguments.names or known]
    if arguments.stale:
        chosen = [piece for piece in chosen if why_stale(piece, origin_of(piece))]
    if arguments.list:
        for piece in chosen:
            tell(line_of(piece))
        tell(f"{len(chosen)} pieces, {sum(piece.expected_minutes() for piece in chosen) / 60:.0f} hours of one core")
        return 0
    failed = []
    with alone():
        for piece in chosen:
            tell(f"{piece.name}: some {piece.expected_minutes():.0f} minutes")
            try:
                draw(piece)
            except (subprocess.CalledProcessError, CodeChangedError) as error:  # the others are drawn all the same
                failed.append(piece.name)
                tell(f"{piece.name}: failed, {error}", sys.stderr)
    if failed:
        tell(f"failed, with their old files: {', '.join(failed)}; the next call goes on with them", sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
