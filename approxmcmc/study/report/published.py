"""Published numbers compared with ours: each that the study declares, with our interval and the difference."""

import math
from typing import TYPE_CHECKING, Any

from approxmcmc.study.measures import MEASURES
from approxmcmc.study.paper_values import PaperValue
from approxmcmc.study.report.evidence import done_replicates
from approxmcmc.study.report.intervals import NOTHING, Interval, mean_interval, rate_interval
from approxmcmc.study.report.pieces import Section, Table

if TYPE_CHECKING:
    from approxmcmc.study.results import StudyResults

RULES = (
    "What the paper printed, beside the same measure of these chains. Ours: mean over replicates with its 95 % Student "
    "interval, geometric mean for ratios; the difference is ours minus the paper's, and its interval holds our error "
    "alone, since the paper states none. Numbers of another machine and other code are shown and not compared; a ratio "
    "of two settings on one machine is free of the machine, but not of the code."
)


def published_section(results: "StudyResults") -> list[Section]:
    """Return the published numbers compared with ours; empty if the study declares none."""
    if not results.study.paper_values:
        return []
    import pandas as pd

    rows = [_row(results, name, value) for name, value in results.study.paper_values.items()]
    table = Table(
        "Published numbers", "One line for each published number.", pd.DataFrame(rows), formats={"paper": ".6g"}
    )
    return [Section("Published numbers beside ours", (RULES, _verdict(rows)), pieces=(table,))]


def _row(results: "StudyResults", name: str, value: PaperValue) -> dict[str, Any]:
    ours = measured(results, value)
    difference = NOTHING
    if not value.machine:
        difference = Interval(*(end - value.value for end in ours))
    row: dict[str, Any] = {"what": name, "setting": value.setting, "unit": value.unit, "paper": value.value}
    return (
        row
        | ours.columns("ours")
        | difference.columns("difference")
        | {"printed in": value.printed, "comparable?": _remark(value, ours)}
    )


def measured(results: "StudyResults", value: PaperValue) -> Interval:
    """Return our estimate of the measure of a published value, with its interval over replicates."""
    target = value.target or next(iter(results.study.targets))
    ours = _by_replicate(results, value, target, value.setting)
    if not value.relative_to:
        return mean_interval(ours.values())
    base = _by_replicate(results, value, target, value.relative_to)
    both = sorted(set(ours) & set(base))
    return rate_interval([ours[block] / base[block] for block in both if base[block]])


def _by_replicate(results: "StudyResults", value: PaperValue, target: str, setting: str) -> dict[int, float]:
    measure = {**MEASURES, **results.study.measures}[value.measure]
    traces = results.traces().get((target, setting), [])
    return dict(
        zip(done_replicates(results, target, setting, len(traces)), [float(measure(t)) for t in traces], strict=True)
    )


def _remark(value: PaperValue, ours: Interval) -> str:
    words = []
    if math.isnan(ours.value):
        words.append("no finished cell")
    if value.machine:
        words.append("no: another machine and other code")
    if value.differs:
        words.append(value.differs)
    return "; ".join(words) or "yes"


def _verdict(rows: list[dict[str, Any]]) -> str:
    judged = [row for row in rows if not math.isnan(row["difference_lower"])]
    if not judged:
        return "No number can be compared: there is no interval, or another machine made them all."
    inside = sum(row["difference_lower"] <= 0.0 <= row["difference_upper"] for row in judged)
    return (
        f"Of {len(judged)} numbers that can be compared, {inside} lie within our interval; few replicates make it wide."
    )
