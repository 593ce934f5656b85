"""Verdicts on published numbers, computed from the table that ships: agrees, differs or undecided.

A number agrees if our interval contains it and is narrow; a wide interval decides nothing.
"""

import math
from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from approxmcmc.study.report.markdown import plain_text
from approxmcmc.study.report.shipped import in_words, rows_of
from approxmcmc.study.report.wording import estimate_text, number

if TYPE_CHECKING:
    import pandas as pd

AGREES, DIFFERS, OPEN = "agrees", "differs", "undecided"
NUMBERS = "Published numbers"  # the table of a page
WIDEST = 0.25  # largest half-width of an interval, as a share of the printed number
COMPARABLE, INCOMPARABLE = "yes", "no: "  # beginning of a remark on a number that cannot be compared
HEADER = ["| printed in | number | paper | ours | verdict |", "|---|---|---|---|---|"]


def verdict(paper: float, ours: float, lower: float, upper: float, remark: str = COMPARABLE) -> tuple[str, str]:
    """Return the verdict on a printed number, given ours and its interval, and the reason ("" for none).

    Examples
    --------
    >>> verdict(0.60, 0.62, 0.55, 0.69), verdict(0.60, 0.72, 0.66, 0.78)
    (('agrees', ''), ('differs', '+20%'))
    >>> verdict(-2.52, -2.74, -8.11, 2.64)
    ('undecided', 'our interval is wide')
    """
    why = "" if remark == COMPARABLE else remark
    if math.isnan(lower) or math.isnan(upper):
        return OPEN, "too few chains for an interval"
    if not lower <= paper <= upper:
        by = f"{ours / paper - 1:+.0%}" if paper * ours > 0.0 else "another sign"
        return DIFFERS, f"{by}; {why}" if why else by
    if upper - lower > 2.0 * WIDEST * abs(paper):
        return OPEN, "our interval is wide"
    return AGREES, why


def verdicts_block(words: Mapping[str, Any], table: "pd.DataFrame") -> str:
    """Return the verdicts on the published numbers of a study as Markdown, without speeds of another machine."""
    pieces = [piece for section in words["sections"] for piece in section["pieces"]]
    [columns] = (piece["columns"] for piece in pieces if piece["title"] == NUMBERS)
    listed = rows_of(table, NUMBERS, columns).to_dict("records")
    rows = [row for row in listed if not row["comparable?"].startswith(INCOMPARABLE)]
    found = [
        verdict(row["paper"], row["ours"], row["ours_lower"], row["ours_upper"], row["comparable?"]) for row in rows
    ]
    counts = Counter(kind for kind, _ in found)
    worded = in_words(table)
    lines = [
        f"| {row['printed in']} | {worded(plain_text(str(row['what'])))} | {number(row['paper'])} | "
        f"{estimate_text(row['ours'], row['ours_lower'], row['ours_upper'])} | *{kind}*{': ' if why else ''}{why} |"
        for row, (kind, why) in zip(rows, found, strict=True)
    ]
    told = ", ".join(f"*{kind}* {counts[kind]}" for kind in (AGREES, DIFFERS, OPEN))
    return "\n".join([f"{len(rows)} printed numbers, preset {words['preset']}: {told}.", "", *HEADER, *lines, ""])
