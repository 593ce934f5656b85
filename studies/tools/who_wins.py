"""Who wins: for each data set and time, the setting with least risk, and those that cannot be told from it."""

from typing import TYPE_CHECKING, Any

from approxmcmc.study.report import Figure, Table
from approxmcmc.study.report.evidence import BUDGET_SHARES, Contest, gather
from approxmcmc.study.report.svg import COLOURS, subplots
from approxmcmc.study.report.wording import estimate_text

if TYPE_CHECKING:
    from collections.abc import Mapping

    from approxmcmc.study.results import StudyResults

NOBODY = "nobody yet"
FAINT = "#9aa1a9"


def who_wins(results: "StudyResults", families: "Mapping[str, str]", estimand: str) -> list[Figure | Table]:
    """Draw and tabulate the winners of every data set that has a gold standard.

    Parameters
    ----------
    results
        Of a study whose estimands are the same for all targets.
    families
        The family of each setting, in the order of the legend; settings of one family share a colour.
    estimand
        Whose risk decides.
    """
    import pandas as pd

    contests = [contest for contest in gather(results) if contest.reference is not None]
    longest = max((float(contest.budgets[-1]) for contest in contests), default=0.0)
    rows = [
        {"data": contest.target, "about": f"{float(f'{longest * share:.1g}'):g} s"} | _winner(contest, one, float(time))
        for contest in contests
        for one in contest.estimands
        for share, time in zip(BUDGET_SHARES, contest.budgets, strict=True)
    ]
    if not rows:
        return []
    data = pd.DataFrame(rows)
    caption = (
        "The setting with least risk after so many seconds of one chain on one core: warm-up, mode, expansion and "
        "trials of a choice count, compilation does not. Below its name the time, and the risk of the "
        f"{estimand}, averaged over coordinates, with its 95 % bootstrap interval over chains; then those that cannot "
        "be told from it: their intervals reach below the winner's upper end."
    )
    drawn = data[data.estimand == estimand]
    return [
        Figure("Who wins", caption, _grid(drawn, families), drawn),
        Table(
            "Who wins, all estimands",
            "The same for every estimand, with those that cannot be told apart.",
            data.drop(columns="about"),
        ),
    ]


def _winner(contest: Contest, estimand: str, time: float) -> dict[str, Any]:
    table = contest.at_budgets
    here = table[(table.estimand == estimand) & (table.time == time)].set_index("setting")
    known = here[here.risk.notna()]
    row = {"after": f"{time:.2g} s", "estimand": estimand}
    if known.empty:
        return row | {"winner": NOBODY, "risk": float("nan"), "risk_lower": float("nan"), "risk_upper": float("nan")}
    best = known.risk.idxmin()
    near = known[~(known.risk_lower > known.risk_upper[best]) & (known.index != best)]  # also without an interval
    return row | {
        "winner": best,
        "risk": known.risk[best],
        "risk_lower": known.risk_lower[best],
        "risk_upper": known.risk_upper[best],
        "no less": ", ".join(near.index),
        "no draw yet in some chain": ", ".join(label for label in here.index if label not in known.index),
    }


def _near(names: Any) -> str:
    """Return the settings that cannot be told from the winner, or how many they are."""
    listed = names.split(", ") if isinstance(names, str) and names else []
    return "" if not listed else f"or {names}" if len(listed) < 3 else f"or one of {len(listed)} others"


def _grid(data: Any, families: "Mapping[str, str]") -> Any:
    from matplotlib.patches import Patch, Rectangle

    names, times = (list(dict.fromkeys(data[column])) for column in ("data", "about"))
    kinds = list(dict.fromkeys(families.values()))
    paint = {kind: COLOURS[place % len(COLOURS)] for place, kind in enumerate(kinds)}
    figure, axes = subplots(figsize=(2.0 + 2.6 * len(times), 1.1 + 0.85 * len(names)))
    for row in data.rename(columns={"no less": "near"}).itertuples():
        x, y = times.index(row.about), names.index(row.data)
        colour = paint.get(families.get(row.winner, ""), FAINT)
        axes.add_patch(Rectangle((x - 0.48, y - 0.45), 0.96, 0.9, color=colour, alpha=0.45, linewidth=0))
        told = estimate_text(row.risk, row.risk_lower, row.risk_upper) if row.risk == row.risk else ""
        axes.text(x, y - 0.2, row.winner, ha="center", va="center", fontsize=10, fontweight="bold")
        axes.text(x, y + 0.05, f"at {row.after}: {told}" if told else "", ha="center", va="center", fontsize=8)
        axes.text(x, y + 0.28, _near(row.near), ha="center", va="center", fontsize=7)
    axes.set(xlim=(-0.5, len(times) - 0.5), ylim=(len(names) - 0.5, -0.5))
    axes.set_xticks(range(len(times)), [f"after about {time}" for time in times])
    axes.set_yticks(range(len(names)), names)
    axes.xaxis.tick_top()
    axes.grid(visible=False)
    axes.tick_params(length=0)
    for side in axes.spines.values():
        side.set_visible(False)
    shown = [kind for kind in kinds if kind in {families.get(winner) for winner in data.winner}]
    handles = [Patch(color=paint[kind], alpha=0.45, linewidth=0, label=kind) for kind in shown]
    figure.legend(handles=handles, loc="outside lower center", ncols=min(len(handles), 3))
    return figure
