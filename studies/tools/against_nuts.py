"""Draw one picture of all posteriors: who has less risk after 1 to 1000 seconds, NUTS or steps on influential rows."""

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from approxmcmc.study.names import spelled
from approxmcmc.study.report import Figure, Table
from approxmcmc.study.report.evidence import Contest, gather
from approxmcmc.study.report.intervals import NOTHING, Interval
from approxmcmc.study.report.scores import widened
from approxmcmc.study.report.svg import COLOURS, INK, subplots
from approxmcmc.study.report.wording import estimate_text, number

if TYPE_CHECKING:
    import pandas as pd

    from approxmcmc.study.results import StudyResults

NUTS = "nutpie"
LAPLACE = "laplace"
INFLUENTIAL = ("core_exact_10", "core_exact")  # they differ in thinning; a posterior has the first that was run
STEPS = "influential rows"
BY_NUTS = "NUTS"
OPEN = "not established"
NOBODY = "no draw yet"
PAINT = {STEPS: COLOURS[0], BY_NUTS: COLOURS[1], OPEN: "#9aa1a9", NOBODY: "#ffffff"}


def against_nuts(results: "StudyResults") -> "list[Figure | Table]":
    """Draw and tabulate the risk of NUTS over that of steps on influential rows, by posterior and time."""
    import pandas as pd

    contests = [contest for contest in gather(results) if contest.estimands and _influential(contest)]
    if not contests:
        return []
    verdicts = sum(len(contest.times) for contest in contests)
    data = pd.DataFrame([row for contest in contests for row in _rows(results, contest, verdicts)])
    drawn = data[data.estimand == data.estimand.iloc[0]]
    caption = (
        f"Who has less risk in the {data.estimand.iloc[0]} after so many seconds of one chain, tuning and search for "
        "the mode included; below it the risk of NUTS over that of steps on influential rows, with its 95 % interval, "
        "which includes the error of the gold standard. Verdicts hold together at 95 %. NUTS is nutpie's, with 400 "
        "steps of warm-up, during which it has no draw. The last line names the Laplace approximation where its "
        "risk is below that of both."
    )
    meaning = (
        "The same for every estimand: the risks of NUTS and of the Laplace approximation, over that of steps on "
        "influential rows."
    )
    title = "Who has less risk, NUTS or influential rows?"
    return [
        Figure(title, caption, _grid(drawn), drawn),
        Table("NUTS over influential rows", meaning, data.drop(columns="about")),
    ]


def _rows(results: "StudyResults", contest: Contest, verdicts: int) -> Iterator[dict[str, Any]]:
    budget = results.study.budget_of(contest.target)
    longest = budget.seconds or contest.times[-1]
    size = f"{spelled(contest.target, results.study.names)}, {results.target(contest.target).n_obs:,} rows"
    ours = _influential(contest)
    for estimand in contest.estimands:
        for time in contest.times:
            risks = contest.at(estimand, time)
            missing = [name for name in (NUTS, ours) if name not in risks.index or math.isnan(risks.risk[name])]
            ratio = NOTHING if missing else _ratio(risks, NUTS)
            fitted = NOTHING if ours in missing else _ratio(risks, LAPLACE)
            if ours in missing:
                less = BY_NUTS if NUTS not in missing else NOBODY
            else:
                less = STEPS if missing else _verdict(risks.loc[NUTS], verdicts)
            column = f"{float(f'{longest * time / contest.times[-1]:.1g}'):g} s"
            about = {"data": size, "about": column, "estimand": estimand, "seconds": time, "less risk": less}
            most = math.nan if math.isnan(fitted.value) else widened(risks.loc[LAPLACE], "ratio", verdicts)[1]
            below = most < 1.0 and (NUTS in missing or most < widened(risks.loc[NUTS], "ratio", verdicts)[0])
            columns = ratio.columns("ratio") | fitted.columns("Laplace over influential rows")
            yield about | columns | {"Laplace below both": below, "no draw yet": ", ".join(missing)}


def _influential(contest: Contest) -> str:
    return next((name for name in INFLUENTIAL if name in contest.settings), "")


def _ratio(risks: "pd.DataFrame", name: str) -> Interval:
    return (
        Interval(*(risks[f"ratio{end}"][name] for end in ("", "_lower", "_upper"))) if name in risks.index else NOTHING
    )


def _verdict(row: Any, verdicts: int) -> str:
    lower, upper = widened(row, "ratio", verdicts)
    if lower > 1.0:
        return STEPS
    return BY_NUTS if upper < 1.0 else OPEN


def _told(row: Any) -> str:
    """Return the ratio in words, or the sampler that has no draw."""
    if row.missing:
        if row.less == NOBODY:
            return ""
        return "influential rows: no draw yet" if row.less == BY_NUTS else "NUTS: no draw yet"
    if math.isinf(row.ratio_upper):
        return f"more than {number(row.ratio_lower)} times"
    return f"{estimate_text(row.ratio, row.ratio_lower, row.ratio_upper)} times"


def _grid(data: "pd.DataFrame") -> Any:
    from matplotlib.patches import Rectangle

    names, times = (list(dict.fromkeys(data[column])) for column in ("data", "about"))
    times.sort(key=lambda time: float(time.split()[0]))
    figure, axes = subplots(figsize=(9.6, 1.0 + 0.75 * len(names)))
    short = {"less risk": "less", "no draw yet": "missing", "Laplace below both": "fitted"}
    for row in data.rename(columns=short).itertuples():
        x = times.index(row.about)
        y = names.index(row.data)
        axes.add_patch(Rectangle((x - 0.48, y - 0.45), 0.96, 0.9, color=PAINT[row.less], alpha=0.45, linewidth=0))
        axes.text(x, y - 0.24, row.less, ha="center", va="center", fontsize=10, fontweight="bold", color=INK)
        axes.text(x, y + 0.04, _told(row), ha="center", va="center", fontsize=8, color=INK)
        if row.fitted:
            axes.text(x, y + 0.28, "Laplace approximation less", ha="center", va="center", fontsize=8, color=INK)
    axes.set(xlim=(-0.5, len(times) - 0.5), ylim=(len(names) - 0.5, -0.5))
    axes.set_xticks(range(len(times)), [f"after about {time}" for time in times])
    axes.set_yticks(range(len(names)), names)
    axes.xaxis.tick_top()
    axes.grid(visible=False)
    axes.tick_params(length=0)
    for side in axes.spines.values():
        side.set_visible(False)
    return figure
