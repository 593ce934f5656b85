"""For each data set and time, show the setting with least risk, and those that may be as good."""

from collections.abc import Mapping, Sequence
from typing import Any

from approxmcmc.study.report.intervals import LEAST_REPLICATES
from approxmcmc.study.report.pieces import Figure, Section, Table
from approxmcmc.study.report.scores import Scores, Verdicts, verdicts_of
from approxmcmc.study.report.svg import COLOURS, literal, subplots
from approxmcmc.study.report.wording import estimate_text

NO_DRAW = "no draw yet"
UNRANKED = "not ranked"
FAINT = "#9aa1a9"


def who_wins(scores: Sequence[Scores], kinds: Mapping[str, str]) -> list[Section]:
    """Draw and tabulate the winners of every data set that has a gold standard; nothing if no order is established.

    Parameters
    ----------
    scores
        Of a study whose estimands are the same for all targets.
    kinds
        The kind of each setting, in the order of the legend; settings of one kind share a colour.
    """
    import pandas as pd

    if not kinds or not scores:
        return []
    longest = max(score.times[-1] for score in scores)
    by_estimand = {estimand: verdicts_of(scores, estimand) for score in scores for estimand in score.estimands}
    rows = [
        {"data": score.target, "about": f"{float(f'{longest * share / scores[0].times[-1]:.2g}'):g} s"}
        | _winner(score, estimand, time, by_estimand[estimand])
        for score in scores
        for estimand in score.estimands
        for share, time in zip(scores[0].times, score.times, strict=True)
    ]
    data = pd.DataFrame(rows)
    if data.risk.isna().all():
        return []
    estimand = scores[0].estimands[0]
    caption = (
        "The setting with least risk after the given seconds of one chain on one core; the seconds include warm-up, "
        "the search for the mode, the expansion and trials of a choice, but not compilation. Below its name: the time, "
        f"the risk of the {estimand}, averaged over coordinates, with its 95 % bootstrap interval over chains, and the "
        f"settings that may be as good. At most one picture of twenty has a wrong one among its "
        f'{by_estimand[estimand].count} comparisons. "{UNRANKED}": a setting has fewer than {LEAST_REPLICATES} chains.'
    )
    drawn = data[data.estimand == estimand]
    table = data.drop(columns="about")
    return [
        Section(
            "Who wins",
            pieces=(
                Figure("Who wins", caption, _grid(drawn, kinds), drawn),
                Table("Who wins, all estimands", "The same for every estimand, with an error rate each.", table),
            ),
        )
    ]


def _winner(scores: Scores, estimand: str, time: float, verdicts: Verdicts) -> dict[str, Any]:
    rows = scores.at(estimand, time)
    order = verdicts.orders[scores.target, time]
    row = {"after": f"{time:.2g} s", "estimand": estimand, "no less": ""}
    nothing = {"risk": float("nan"), "risk_lower": float("nan"), "risk_upper": float("nan")}
    best = order.best
    if best is None:
        return row | {"winner": NO_DRAW} | nothing
    if order.few:
        return row | {"winner": UNRANKED} | nothing
    return row | {
        "winner": best,
        "risk": rows.risk[best],
        "risk_lower": rows.risk_lower[best],
        "risk_upper": rows.risk_upper[best],
        "no less": ", ".join(order.undecided),
        "no draw yet in some chain": ", ".join(order.late),
    }


def _near(names: Any) -> str:
    """Return words for the settings that may be as good as the winner: their names, or their number."""
    listed = names.split(", ") if isinstance(names, str) and names else []
    if not listed:
        return ""
    return f"or {names}" if len(listed) < 3 else f"or one of {len(listed)} others"


def _grid(data: Any, kinds: Mapping[str, str]) -> Any:
    from matplotlib.patches import Patch, Rectangle

    names, times = (list(dict.fromkeys(data[column])) for column in ("data", "about"))
    distinct_kinds = list(dict.fromkeys(kinds.values()))
    paint = {kind: COLOURS[index % len(COLOURS)] for index, kind in enumerate(distinct_kinds)}
    figure, axes = subplots(figsize=(2.0 + 2.6 * len(times), 1.1 + 0.85 * len(names)))
    for row in data.rename(columns={"no less": "near"}).itertuples():
        x = times.index(row.about)
        y = names.index(row.data)
        colour = paint.get(kinds.get(row.winner, ""), FAINT)
        axes.add_patch(Rectangle((x - 0.48, y - 0.45), 0.96, 0.9, color=colour, alpha=0.45, linewidth=0))
        risk_text = estimate_text(row.risk, row.risk_lower, row.risk_upper) if row.risk == row.risk else ""
        axes.text(x, y - 0.2, literal(row.winner), ha="center", va="center", fontsize=10, fontweight="bold")
        axes.text(
            x, y + 0.05, f"at {row.after}: {risk_text}" if risk_text else "", ha="center", va="center", fontsize=8
        )
        axes.text(x, y + 0.28, literal(_near(row.near)), ha="center", va="center", fontsize=7)
    axes.set(xlim=(-0.5, len(times) - 0.5), ylim=(len(names) - 0.5, -0.5))
    axes.set_xticks(range(len(times)), [f"after about {time}" for time in times])
    axes.set_yticks(range(len(names)), [literal(name) for name in names])
    axes.xaxis.tick_top()
    axes.grid(visible=False)
    axes.tick_params(length=0)
    for side in axes.spines.values():
        side.set_visible(False)
    shown = [kind for kind in distinct_kinds if kind in {kinds.get(winner) for winner in data.winner}]
    handles = [Patch(color=paint[kind], alpha=0.45, linewidth=0, label=literal(kind)) for kind in shown]
    figure.legend(handles=handles, loc="outside lower center", ncols=min(len(handles), 3))
    return figure
