"""Published numbers compared with ours: each that the study declares, with our interval and the difference."""

import math
from typing import TYPE_CHECKING, Any

from approxmcmc.study.measures import MEASURES, PaperValue
from approxmcmc.study.report.evidence import done_replicates
from approxmcmc.study.report.intervals import NOTHING, Interval, mean_interval, rate_interval
from approxmcmc.study.report.pieces import Section, Table
from approxmcmc.study.report.wording import counted

if TYPE_CHECKING:
    from approxmcmc.study.results import StudyResults

RULES = (
    "Each number that the paper printed, and the same measure of these chains. Ours: mean over replicates with its 95 "
    "% Student interval, geometric mean for ratios. The difference is ours minus the paper's; its interval covers only "
    "our error, because the paper states none. Numbers within the margin count as equal. Speeds are shown but not "
    "compared, because they depend on machine and code; the ratio of two speeds on one machine still depends on the "
    "code."
)


def published_section(results: "StudyResults") -> list[Section]:
    """Return the section that compares published numbers with ours; an empty list if the study declares none."""
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
        | {"margin": value.margin}
        | ours.columns("ours")
        | difference.columns("difference")
        | {"printed in": value.printed, "comparable?": _remark(value, ours)}
    )


def measured(results: "StudyResults", value: PaperValue) -> Interval:
    """Return our estimate of the measure that a published value names, with its interval over replicates."""
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
        words.append("no: it depends on machine and code")
    if value.differs:
        words.append(value.differs)
    return "; ".join(words) or "yes"


def _verdict(rows: list[dict[str, Any]]) -> str:
    judged = [row for row in rows if not math.isnan(row["difference_lower"])]
    if not judged:
        return "No number can be compared: each has no interval, or depends on machine and code."
    inside = sum(row["difference_lower"] <= 0.0 <= row["difference_upper"] for row in judged)
    return f"Our interval contains {inside} of {counted(len(judged), 'comparable number')}; a wide one decides nothing."
