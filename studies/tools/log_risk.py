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
        estimand = next(name for name in contest.estimands if not name.endswith(IN_SD))  # in the units of the paper
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
        base = steps.get(contest.exact or "", [])
        rows: list[dict[str, Any]] = [
            {"setting": label}
            | mean_interval(counts).columns("steps")
            | rate_interval([a / b for a, b in zip(counts, base, strict=False) if b]).columns("times exact")
            for label, counts in steps.items()
        ]
        what = f"In {seconds} s, mean and Student interval over replicates; also relative to {contest.exact}."
        pieces += [
            Figure(f"Log risk against time, {contest.target}", caption.lstrip(), figure, curves),
            Table(f"Steps of a chain, {contest.target}", what, pd.DataFrame(rows)),
        ]
    return pieces


def _log_risk(panel: Any, curve: "pd.DataFrame", label: str, style: Mapping[str, Any]) -> None:
    y, lower, upper = (np.log(curve[f"risk{end}"].where(curve[f"risk{end}"] > 0.0)) for end in ("", "_lower", "_upper"))
    panel.plot(curve.time, y, markevery=4, markersize=4, label=label, **style)
    panel.fill_between(curve.time, lower, upper, color=style["color"], alpha=0.13, linewidth=0)


def _steps(contest: Contest, label: str) -> list[float]:
    counts = []
    for trace in contest.traces[label]:
        [clock] = completion_clocks([trace], contest.clock.axis, True)
        draws = int(np.searchsorted(clock.ends, contest.budgets[-1], side="right"))
        counts.append(float(draws * int(trace["sample_stats"].attrs.get("thin", 1))))
    return counts
