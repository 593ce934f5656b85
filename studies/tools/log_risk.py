"""Log risk against time on a linear axis, with the number of steps that every setting made.

The axes of figure 3 of the preprint of Korattikara, Chen and Welling (2013), for any study with a gold standard.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from approxmcmc.diagnostics.running import completion_clocks
from approxmcmc.study.report import Figure, Table
from approxmcmc.study.report.evidence import Contest, gather
from approxmcmc.study.report.figures import legend_below, style_of
from approxmcmc.study.report.intervals import mean_interval, rate_interval
from approxmcmc.study.report.scores import IN_SD
from approxmcmc.study.report.svg import subplots
from approxmcmc.study.report.wording import number

if TYPE_CHECKING:
    import pandas as pd

    from approxmcmc.study.results import StudyResults


def log_risk_against_time(results: "StudyResults", *, lead: str = "") -> "list[Figure | Table]":
    """Draw log risk of the first estimand against linear time, and tabulate the number of steps of each setting.

    Parameters
    ----------
    lead
        Opens the caption: the published figure that this one repeats.
    """
    import pandas as pd

    pieces: list[Figure | Table] = []
    for contest in gather(results):
        if contest.over_time is None or contest.over_time.empty:
            continue
        # Estimands in posterior standard deviations are left out: the paper has them in their own units.
        estimand = next(name for name in contest.estimands if not name.endswith(IN_SD))
        figure, axes = subplots(1, 1, figsize=(9.6, 5.0))
        styles = style_of(list(contest.traces), contest.exact)
        curves = contest.over_time[contest.over_time.estimand == estimand]
        for label in contest.traces:
            _log_risk(axes, curves[curves.setting == label], label, styles[label])
        axes.set_xlabel(f"{contest.clock.name} time per chain (s)")
        axes.set_ylabel("log risk (natural)")
        axes.set_title(estimand)
        legend_below(figure, [axes])
        seconds = number(float(contest.budgets[-1]))
        caption = f"{lead} Natural logarithm of the risk in {estimand} against time. Bands: 95 % intervals."
        steps = {label: _steps(contest, label) for label in contest.traces}
        exact_steps = [] if contest.exact is None else steps[contest.exact]
        rows: list[dict[str, Any]] = []
        for label, counts in steps.items():
            # Replicate by replicate; an interrupted study may have fewer replicates of one setting.
            pairs = zip(counts, exact_steps, strict=False)
            ratios = [count / exact_count for count, exact_count in pairs if exact_count]
            interval = mean_interval(counts).columns("steps")
            rows.append({"setting": label} | interval | rate_interval(ratios).columns("times exact"))
        what = f"In {seconds} s, mean and Student interval over replicates; also relative to {contest.exact}."
        pieces += [
            Figure(f"Log risk against time, {contest.target}", caption.lstrip(), figure, curves),
            Table(f"Steps of a chain, {contest.target}", what, pd.DataFrame(rows)),
        ]
    return pieces


def _log_risk(panel: Any, curve: "pd.DataFrame", label: str, style: Mapping[str, Any]) -> None:
    risks = curve[["risk", "risk_lower", "risk_upper"]]
    logs = np.log(risks.where(risks > 0.0))  # a corrected risk may be negative: a gap in the line
    panel.plot(curve.time, logs["risk"], markevery=4, markersize=4, label=label, **style)
    panel.fill_between(
        curve.time, logs["risk_lower"], logs["risk_upper"], color=style["color"], alpha=0.13, linewidth=0
    )


def _steps(contest: Contest, label: str) -> list[float]:
    """Return the number of steps of each chain within the longest budget, of which tuning takes a part."""
    counts = []
    for trace in contest.traces[label]:
        [clock] = completion_clocks([trace], contest.clock.axis, include_tuning=True)
        draws = int(np.searchsorted(clock.ends, contest.budgets[-1], side="right"))
        counts.append(float(draws * int(trace["sample_stats"].attrs.get("thin", 1))))
    return counts
