"""What the documentation says of its numbers: a line for each page, and a table of all pieces."""

import datetime
from collections.abc import Sequence
from pathlib import Path

from studies.evidence.pieces import MIXED, Piece, pages, pieces
from studies.evidence.stamps import AND, Origin, origin_of, why_stale

LETTERS = 8  # of a version
FEW = 2  # versions that a line names
SEVERAL = "several versions of the code"
WHERE = "[how, and on which machine](/evidence.md)"
TITLE = ("piece", "shown on", "version", "date", "minutes: clock, processor", "state")


def line_of_page(shown: Sequence[Piece]) -> str:
    """Return a line that says which version of the code drew the tables of a page, and when."""
    origins = [origin_of(piece) for piece in shown]
    known = sorted({origin.version for origin in origins} - {""})
    parts = [f"version {_short(version)} of the code" for version in known] if len(known) <= FEW else [SEVERAL]
    if any(not origin.version for origin in origins):
        parts.append("a version that was not recorded")
    dates = sorted(origin.date for origin in origins)
    when = f", {_spelled(dates[-1])}" if dates[0] else ""
    return f"*The numbers of this page are of {' and '.join(parts)}{when}: {WHERE}.*"


def _short(version: str) -> str:
    """Return the first letters of a version, or of each of several."""
    return AND.join(f"`{each[:LETTERS]}`" for each in version.split(AND)) if version else "unknown"


def _spelled(date: str) -> str:
    return f"{datetime.date.fromisoformat(date):%-d %B %Y}"


def table(docs: Path) -> str:
    """Return a Markdown table of all pieces, those that are older than their code first, and a sentence that counts."""
    on_pages = pages(docs)
    rows = [_row(piece, [page for page, shown in on_pages.items() if piece in shown]) for piece in pieces().values()]
    stale = sum(is_stale for is_stale, _ in rows)
    return "\n".join(
        [
            f"{stale} of {len(rows)} pieces are older than the code that draws them, or may be.",
            "",
            f"| {' | '.join(TITLE)} |",
            f"|{'---|' * len(TITLE)}",
            *(line for is_stale, line in rows if is_stale),
            *(line for is_stale, line in rows if not is_stale),
            "",
        ]
    )


def _row(piece: Piece, shown_on: Sequence[str]) -> tuple[bool, str]:
    """Return whether a piece is stale, and its line of the table."""
    origin = origin_of(piece)
    stale = why_stale(piece, origin)
    alone = [page for page in shown_on if page not in MIXED] or shown_on
    links = ", ".join(f"[{page}](/{page}.md)" for page in alone)
    cells = (piece.name, links, _short(origin.version), origin.date, _minutes(origin), stale or "of the present code")
    return bool(stale), f"| {' | '.join(cells)} |"


def _minutes(origin: Origin) -> str:
    return f"{origin.wall_minutes:.0f}, {origin.cpu_minutes:.0f}" if origin.cpu_minutes else ""
