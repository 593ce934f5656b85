"""Verdicts on published numbers, computed from the table that ships: agrees, differs or undecided.

Two numbers agree if they are equivalent: our whole interval lies within a margin of the printed number, which the study
states (Schuirmann 1987, two one-sided tests). They differ if our interval excludes the printed number. Otherwise
nothing is decided; so a wider interval never makes an agreement. The page of the papers has a verdict for each
comparable number of all studies, and each interval is widened until all of them hold together with probability 95 %
(Bonferroni), by the quantiles of Student's t for the fewest replicates that have an interval.
"""

import functools
import math
from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from scipy import special

from approxmcmc.study.published import published_studies, read_published
from approxmcmc.study.report.intervals import LEAST_REPLICATES
from approxmcmc.study.report.markdown import plain_text
from approxmcmc.study.report.published_files import in_words, rows_of
from approxmcmc.study.report.wording import estimate_text, number

if TYPE_CHECKING:
    import pandas as pd

AGREES = "agrees"
DIFFERS = "differs"
OPEN = "undecided"
NUMBERS = "Published numbers"  # the table of a page
# beginning of a remark on a number that cannot be compared
COMPARABLE = "yes"
INCOMPARABLE = "no: "
HEADER = ["| printed in | number | paper | margin | ours | verdict |", "|---|---|---|---|---|---|"]


def verdict(
    paper: float,
    ours: float,
    lower: float,
    upper: float,
    margin: float,
    remark: str = COMPARABLE,
    together: int = 1,
) -> tuple[str, str]:
    """Return the verdict on a printed number, given ours and its interval, and the reason ("" for none).

    Numbers whose difference is at most `margin` count as equal. `together` is the number of verdicts that all hold with
    probability 95 %.

    Examples
    --------
    >>> verdict(0.60, 0.62, 0.59, 0.65, margin=0.06), verdict(0.60, 0.72, 0.66, 0.78, margin=0.06)
    (('agrees', ''), ('differs', '+20%'))
    >>> verdict(0.60, 0.62, 0.59, 0.65, margin=0.06, together=100)
    ('undecided', 'our interval is wider than the margin')
    >>> verdict(0.60, 0.62, 0.61, 0.63, margin=0.06)
    ('agrees', '+3%, within the margin')
    """
    why = [] if remark == COMPARABLE else [remark]
    if math.isnan(lower) or math.isnan(upper):
        return OPEN, "too few chains for an interval"
    stretch = quantile(together) / quantile(1)
    lower = ours - stretch * (ours - lower)
    upper = ours + stretch * (upper - ours)
    by = f"{ours / paper - 1:+.0%}" if paper * ours > 0.0 else "another sign"
    excluded = not lower <= paper <= upper
    if max(paper - lower, upper - paper) <= margin:
        return AGREES, "; ".join([f"{by}, within the margin", *why] if excluded else why)
    if excluded:
        return DIFFERS, "; ".join([by, *why])
    return OPEN, "our interval is wider than the margin" if margin > 0.0 else "no margin is stated"


def quantile(verdicts: int) -> float:
    """Return the quantile of Student's t for one of so many verdicts that together err in 5 %."""
    return float(special.stdtrit(LEAST_REPLICATES - 1, 1.0 - 0.025 / verdicts))


def compared(words: Mapping[str, Any], table: "pd.DataFrame") -> list[dict[str, Any]]:
    """Return the rows of a study's published numbers, without speeds of another machine; empty if it has none."""
    pieces = [piece for section in words["sections"] for piece in section["pieces"]]
    columns = next((piece["columns"] for piece in pieces if piece["title"] == NUMBERS), None)
    listed = rows_of(table, NUMBERS, columns).to_dict("records")
    return [row for row in listed if not row["comparable?"].startswith(INCOMPARABLE)]


@functools.cache
def all_compared() -> int:
    """Return how many printed numbers of all studies that ship have a verdict."""
    return sum(len(compared(*read_published(name))) for name in published_studies())


def verdicts_block(words: Mapping[str, Any], table: "pd.DataFrame") -> str:
    """Return the verdicts on the published numbers of a study as Markdown, without speeds of another machine."""
    rows = compared(words, table)
    together = all_compared()
    verdicts = [
        verdict(
            row["paper"],
            row["ours"],
            row["ours_lower"],
            row["ours_upper"],
            row["margin"],
            row["comparable?"],
            together,
        )
        for row in rows
    ]
    counts = Counter(kind for kind, _ in verdicts)
    worded = in_words(words, table)
    lines = [
        f"| {plain_text(str(row['printed in']))} | {worded(plain_text(str(row['what'])))} | {number(row['paper'])} | "
        f"{number(row['margin'])} | "
        f"{estimate_text(row['ours'], row['ours_lower'], row['ours_upper'])} | *{kind}*{': ' if why else ''}{why} |"
        for row, (kind, why) in zip(rows, verdicts, strict=True)
    ]
    totals = ", ".join(f"*{kind}* {counts[kind]}" for kind in (AGREES, DIFFERS, OPEN))
    return "\n".join([f"{len(rows)} printed numbers, preset {words['preset']}: {totals}.", "", *HEADER, *lines, ""])
