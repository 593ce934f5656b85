"""Write the answer from the tables: which setting to use at the budget, how wrong it is, and what is undecided.

For each target, in this order: the setting with least risk and its typical error, which others are worse, which may be
as good and what would decide that, what ends the comparison, the exact sampler, means, spreads and tails that differ
from the gold standard, and the seconds to a tenth of a posterior standard deviation. A typical error is the root of a
risk. There are no verdicts below five replicates. All verdicts of a page together err with probability at most 5 %, see
:mod:`approxmcmc.study.report.scores`.
"""

import math
from collections.abc import Sequence
from typing import Any

from approxmcmc.study.report.families import FEW, in_words
from approxmcmc.study.report.intervals import LEAST_REPLICATES, NOTHING
from approxmcmc.study.report.pieces import Table
from approxmcmc.study.report.scores import (
    MANY_REPLICATES,
    Ranking,
    Scores,
    gold_times,
    ranking,
    replicates_needed,
    typical,
    unit_of,
    widened,
    words_of,
)
from approxmcmc.study.report.wording import counted, estimate_text, number

TWICE = 2.0
MOST_NAMED = 4  # settings whose numbers a sentence gives; the tables have the others


def answers(scores: Sequence[Scores]) -> list[str]:
    """Return the sentences on all targets that have a gold standard; of equal sentences only the last is kept."""
    judged = [score for score in scores if score.estimands]
    verdicts = verdicts_of(judged)
    listed = [sentence for score in judged for sentence in sentences(score, verdicts)]
    if verdicts > 1 and any(max(score.replicates.values()) >= LEAST_REPLICATES for score in judged):
        listed.append(f"These are {verdicts} verdicts; together they err in at most one page of twenty.")
    return list(dict.fromkeys(reversed(listed)))[::-1]


def verdicts_of(scores: Sequence[Scores]) -> int:
    """Return how many comparisons with the best setting a page makes at the last budget, at least 1."""
    return max(sum(len(score.settings) - 1 for score in scores), 1)


def without_gold(target: str, *, gold_wanted: bool, own_figures: bool) -> list[str]:
    """Return the sentences on a target without risks.

    Parameters
    ----------
    target
        Its name.
    gold_wanted
        Whether the study asks for gold standards.
    own_figures
        Whether the study has its own figures; a study without a gold standard checks its chains there.
    """
    return [
        _why_no_risk(target, gold_wanted, own_figures),
        "The cost and the diagnostics below describe only the chains themselves.",
        "R-hat and effective sample size cannot measure the error of a biased sampler.",
    ]


def _why_no_risk(target: str, gold_wanted: bool, own_figures: bool) -> str:
    if gold_wanted:
        return f"No gold standard of {target} was accepted, so this page states no risk."
    if own_figures:
        return (
            "The study asks for no gold standard: its own figures say what the chains are compared with, and how far "
            "they are from it."
        )
    return "The study asks for no gold standard, so this page states no risk."


def sentences(scores: Scores, verdicts: int) -> list[str]:
    """Return sentences on the first estimand at the last budget; `verdicts` on the page share one error rate."""
    estimand = scores.estimands[0]
    seconds = number(scores.times[-1])
    table = scores.at_last_budget(estimand)
    order = ranking(table, scores.exact, verdicts)
    if order.best is None:
        return [f"No setting has a draw by {seconds} s, so no risk can be stated."]
    error = _error(table, order.best, estimand)
    opening = f"On {scores.target}, with {seconds} s of one chain, "
    if order.few:
        fewest = counted(int(table.replicates[table.risk.notna()].min()), "chain")
        few = f"{fewest} per setting are too few for a verdict: {LEAST_REPLICATES} are needed."
        return [
            f"{opening}the least typical error {words_of(estimand)} was measured for {order.best}: {error}. {few}",
            *_cut_short(scores),
            *_without_a_draw(scores, order, estimand),
            *_departures(scores, order),
        ]
    is_alone = len(order.unknown) == len(table) - 1 > 0
    best = f"only {order.best} has draws in every chain" if is_alone else f"use {order.best}"
    exact = ". It is the exact sampler: no approximation had less error" if order.best == scores.exact else ""
    return [
        f"{opening}{best}: its typical error {words_of(estimand)} is {error}{exact}.",
        *_others(table, order, estimand),
        *_undecided(scores, table, order, verdicts),
        *_waits(scores),
        *_cut_short(scores),
        *_without_a_draw(scores, order, estimand),
        *_against_exact(table, scores.exact, order, verdicts),
        *_parts(table.loc[order.best], order.best, scores.exact),
        *_other_estimands(scores, order.best),
        *_departures(scores, order),
        *_to_tenth_sd(scores, order),
    ]


def _error(table: Any, name: str, estimand: str) -> str:
    """Return the typical error of a setting with its interval and unit."""
    error = typical(table.loc[name])
    if error.value == 0.0 and error.upper > 0.0:
        return f"below {number(error.upper)}{unit_of(estimand)}"
    return f"{estimate_text(*error)}{unit_of(estimand)}"


def _others(table: Any, order: Ranking, estimand: str) -> list[str]:
    """Return sentences on the settings that are worse beyond chance."""
    parts = []
    if order.worse:
        best = typical(table.loc[order.best]).value
        named = [f"{name} {_error(table, name, estimand)}" for name in order.worse[:MOST_NAMED]]
        rest = in_words(order.worse[MOST_NAMED:]) if len(order.worse) > MOST_NAMED else ""
        times = f", {typical(table.loc[order.worse[0]]).value / best:.2g} times as much" if best > 0.0 else ""
        more = f"; and {rest}" if rest else ""
        parts.append(f"Worse beyond chance: {named[0]}{times}{''.join(f'; {part}' for part in named[1:])}{more}.")
    return parts


def _without_a_draw(scores: Scores, order: Ranking, estimand: str) -> list[str]:
    """Return sentences on the settings without a draw by then, and on their errors at the end of their own chains.

    Chains of a budget in draws end at different times, and a warm-up may be longer than a budget of seconds.
    """
    if not order.unknown:
        return []
    error = "its error is" if len(order.unknown) == 1 else "their errors are"
    parts = [f"Some chain of {in_words(order.unknown)} had no draw by then, so {error} unknown."]
    ends = []
    for name in [*order.unknown[:MOST_NAMED], *order.known[:1]]:
        end = scores.at_own_end(estimand, name)
        if end is not None:
            ends.append(f"{name} {_error(end, name, estimand)} after {number(float(end.time.iloc[0]))} s")
    if len(ends) > 1:  # besides that of the best one
        parts.append(f"At the end of their own chains: {'; '.join(ends)}.")
    return parts


def _waits(scores: Scores) -> list[str]:
    """Return a sentence on compilation, which the seconds of a chain leave out, where it takes longer than a chain."""
    longer = {name: seconds for name, seconds in scores.waits.items() if seconds > scores.times[-1]}
    if not longer:
        return []
    named = sorted(longer, key=longer.__getitem__)
    times = [f"{name} {number(longer[name])} s" for name in named[:FEW]]
    more = f"; and {len(named) - FEW} more" if len(named) > FEW else ""
    return [f"Compilation before the first step is not counted: {'; '.join(times)}{more}."]


def _cut_short(scores: Scores) -> list[str]:
    """Return a sentence on the chains that end the comparison, if others are at least twice as long."""
    if scores.over_time is None or scores.over_time.empty:
        return []
    curves = scores.over_time
    ends = curves[curves.risk.notna()].groupby("setting", sort=False).time.max()
    if ends.empty or ends.max() < TWICE * scores.times[-1]:
        return []
    end = f"The comparison ends at {number(scores.times[-1])} s, because the chains of {ends.idxmin()} end there"
    longest = f"those of {ends.idxmax()} are {number(float(ends.max()))} s long"
    return [f"{end}; {longest}."]


def _against_exact(table: Any, exact: str | None, order: Ranking, verdicts: int) -> list[str]:
    """Return a sentence that compares the best setting with the exact one, by the ratio within blocks."""
    if exact == order.best:
        return []
    if exact is None:
        return ["No exact setting takes part, so there is no ratio to one."]
    if exact in order.unknown:
        return []
    row = table.loc[order.best]
    ratio = typical(row, "ratio")
    if not math.isfinite(ratio.value):
        return [f"The ratio of the errors of {order.best} and {exact} is not defined."]
    text = f"The error of {order.best} is {estimate_text(*ratio)} times that of {exact}"
    if exact in order.worse:
        return [f"{text}, a gain that chance does not explain."]
    if row.ratio_upper >= 1.0:
        return [f"{text}; the interval contains 1, so the difference is not established."]
    if widened(row, "ratio", verdicts)[1] >= 1.0:
        return [f"{text}; widened for all verdicts of this page, the interval contains 1."]
    return [f"{text}, but the error of the gold standard could explain the difference."]


def _parts(row: Any, best: str, exact: str | None) -> list[str]:
    """Return a sentence on the bias of the best setting, and on the scatter of its chains."""
    if not math.isfinite(row.bias_sq_lower):
        return []
    bias = typical(row, "bias_sq")
    scatter = typical(row, "variance")
    if row.bias_sq_lower <= 0.0:
        return [
            f"No bias of {best} is detected; it is at most {number(bias.upper)}, and the rest is scatter of its chains."
        ]
    parts = f"{estimate_text(*bias)} is bias, and {estimate_text(*scatter)} the scatter of its chains"
    text = f"Of the error of {best}, {parts}"
    if best == exact:
        return [f"{text}; the bias differs from zero: it comes from the starting points and vanishes with more time."]
    return [f"{text}; the bias differs from zero: only the part due to the starting points vanishes with more time."]


def _other_estimands(scores: Scores, best: str) -> list[str]:
    """Return a sentence on the estimands by which another setting has less risk than the best one by the first."""
    parts = []
    for estimand in scores.estimands[1:]:
        table = scores.at_last_budget(estimand)
        judged = table[table.risk.notna()]
        if best in judged.index and (least := str(judged.risk.idxmin())) != best:
            errors = [f"{name} {_error(table, name, estimand)}" for name in (least, best)]
            parts.append(f"{words_of(estimand)} {errors[0]} ({errors[1]})")
    if not parts:
        return []
    more = f"; and {len(parts) - MOST_NAMED} more estimands, see the tables" if len(parts) > MOST_NAMED else ""
    return [f"Other settings have less error by single estimands: {'; '.join(parts[:MOST_NAMED])}{more}."]


def _departures(scores: Scores, order: Ranking) -> list[str]:
    """Return sentences on the means, spreads and tails that differ from the gold standard by more than chance."""
    if scores.departures is None or scores.departures.empty:
        return []
    rows = scores.departures.set_index("setting")
    judged = [name for name in order.known if name in rows.index]
    wrong = [name for name in judged if rows.differs[name]]
    parts = []
    if order.best in judged and order.best not in wrong and math.isfinite(rows.mean_error[order.best]):
        best = rows.loc[order.best]
        mean = f"{number(best.mean_error, '+.2g')} posterior sd ({best.mean_at})"
        parts.append(
            f"No mean, spread or tail of {order.best} differs from the gold standard by more than chance explains; "
            f"averaged over its chains, the largest error of a mean is {mean}, and the sd farthest from the gold "
            f"standard's is {best.sd_ratio:.3g} times it ({best.sd_at})."
        )
    if wrong:
        how = ". ".join(f"{name}: {rows.differs[name]}" for name in wrong[:MOST_NAMED])
        parts.append(f"Wrong beyond chance on {scores.target}: {how}.")
    if len(wrong) > MOST_NAMED:
        parts.append(f"So are {in_words(wrong[MOST_NAMED:])}.")
    return parts


def _to_tenth_sd(scores: Scores, order: Ranking) -> list[str]:
    """Return a sentence on the seconds until the typical error of a mean is a tenth of a posterior sd."""
    if scores.departures is None or scores.departures.empty:
        return []
    rows = scores.departures.set_index("setting")
    names = [name for name in order.known if name in rows.index]
    timed = [name for name in names if math.isfinite(rows.to_tenth_sd[name])]
    never = [name for name in names if math.isinf(rows.to_tenth_sd_lower[name])]
    parts = []
    if timed:
        seconds = rows.loc[timed].sort_values("to_tenth_sd", kind="stable").head(FEW)
        times = "; ".join(
            f"{name} {estimate_text(row.to_tenth_sd, row.to_tenth_sd_lower, row.to_tenth_sd_upper)}"
            for name, row in seconds.iterrows()
        )
        parts.append(f"Estimated seconds until means are within 0.1 posterior sd, typically: {times}.")
    if never:
        parts.append(
            f"Bias keeps the means of {in_words(never)} from that so far: more time helps only where it comes "
            "from the starting points."
        )
    return parts


def _undecided(scores: Scores, table: Any, order: Ranking, verdicts: int) -> list[str]:
    """Return what is not decided, and how many replicates and draws of the gold standard would decide it."""
    if not order.undecided:
        return []
    listed = in_words(order.undecided)
    if len(order.undecided) <= MOST_NAMED:
        listed = in_words([f"{name} ({_error(table, name, scores.estimands[0])})" for name in order.undecided])
    text = f"Undecided: whether {listed} {'is' if len(order.undecided) == 1 else 'are'} as good."
    return [" ".join([text, *decided_by(scores, table, order, verdicts)])]


def decided_by(scores: Scores, table: Any, order: Ranking, verdicts: int) -> list[str]:
    """Return sentences on the draws of the gold standard and the replicates that would decide what is undecided."""
    parts = []
    times = gold_times(table, order.undecided)
    if times > 1.0:
        parts.append(f"A gold standard with {_draws(times, scores.gold_draws)} would be precise enough.")
    needed = {
        name: replicates_needed(table, name, order.best or "", scores.exact, verdicts) for name in order.undecided
    }
    present = int(table.replicates.min())  # if they would suffice, the gold standard is what leaves the order open
    finite = {name: count for name, count in needed.items() if present < count <= MANY_REPLICATES}
    if finite:
        most = max(finite, key=finite.__getitem__)
        who = f" (the most are needed for {most})" if len(finite) > 1 else ""
        count = max(float(f"{finite[most]:.2g}"), present + 1.0)
        parts.append(
            f"About {count:.0f} replicates in place of {present} would decide, if the errors stay as they are{who}."
        )
    alike = [name for name, count in needed.items() if count > MANY_REPLICATES]
    if alike:
        parts.append(
            f"The errors of {in_words(alike)} and {order.best} are so alike that {MANY_REPLICATES:,} replicates would "
            "not order them: take either."
        )
    unpredicted = [name for name, count in needed.items() if not count > present]
    if unpredicted and times == 1.0 and not order.few:
        parts.append(
            f"More replicates would decide about {in_words(unpredicted)}; how many cannot be predicted from these."
        )
    return parts


def _draws(times: float, draws: int) -> str:
    """Return how long a gold standard would do, in draws if their number is known."""
    if not math.isfinite(times):
        return "many more draws"
    factor = f"{float(f'{math.ceil(10.0 * times) / 10.0:.2g}'):g} times as many draws"
    total = float(f"{math.ceil(times * draws):.2g}")
    return f"{factor}, {total:,.0f} in all," if draws else factor


# --- at every budget ---


def use_table(scores: Sequence[Scores]) -> Table | None:
    """Tabulate at each budget which setting to use, how wrong it is, the next one, and what is undecided."""
    import pandas as pd

    judged = [score for score in scores if score.estimands and len(score.settings) > 1]
    verdicts = sum((len(score.settings) - 1) * len(score.times) for score in judged)
    rows = [{"target": score.target} | _use(score, time, verdicts) for score in judged for time in score.times]
    rows = [row for row in rows if row["use"]]
    if not rows:
        return None
    data = pd.DataFrame(rows)
    what = {score.estimands[0]: None for score in judged}
    return Table(
        "What to use at each budget",
        f'Typical error: root of the risk, {"; ".join(map(words_of, what))}, with its 95 % interval. "next": the '
        "setting with the next larger risk. Undecided: settings "
        f"that may be as good; the {verdicts} verdicts of the table together err in at most one page of twenty.",
        data.drop(columns="target") if len(judged) == 1 else data,
        headings={"time": "seconds of a chain", "error": "typical error", "next_error": "its error"},
    )


def _use(scores: Scores, time: float, verdicts: int) -> dict[str, Any]:
    table = scores.at(scores.estimands[0], time)
    order = ranking(table, scores.exact, verdicts)
    row: dict[str, Any] = {"time": float(f"{time:.3g}"), "use": order.best or ""}
    if order.best is None:
        return row
    row |= typical(table.loc[order.best]).columns("error")
    following = table[table.risk.notna()].sort_values("risk", kind="stable").index[1:2]
    undecided = ""
    if order.few:
        undecided = f"all: fewer than {LEAST_REPLICATES} replicates"
    elif order.undecided:
        undecided = in_words(order.undecided)
    row["next"] = str(following[0]) if len(following) else ""
    row |= (typical(table.loc[following[0]]) if len(following) else NOTHING).columns("next_error")
    return row | {
        "undecided": undecided,
        "no draw yet": in_words(order.unknown) if order.unknown else "",
    }
