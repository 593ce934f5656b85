"""Write the answer from the verdicts: which setting to use at each budget, how wrong it is, and what is undecided.

For each target, in this order: the setting with least risk, its typical error and the next setting, at the last budget
and at shorter ones; what failed or is late; which others are worse, which may be as good and what would decide that;
the baseline; bias; means, spreads and tails that differ from the gold standard; the seconds to a tenth of a posterior
standard deviation; what ends the comparison. A typical error is the root of a risk. There are no verdicts below five
replicates. All sentences and tables read one family of verdicts, :class:`~approxmcmc.study.report.scores.Verdicts`.
"""

import math
from collections.abc import Sequence
from typing import Any

from approxmcmc.diagnostics.standard import TENTH
from approxmcmc.study.report.families import FEW, in_words
from approxmcmc.study.report.intervals import LEAST_REPLICATES, NOTHING
from approxmcmc.study.report.pieces import Table
from approxmcmc.study.report.reaching import EXTRAPOLATED, LEVEL, MEASURED, NO_CURVE, TOO_BIASED, reaching
from approxmcmc.study.report.scores import (
    MANY_REPLICATES,
    ROUNDING,
    Ranking,
    Scores,
    Verdicts,
    gold_times,
    replicates_needed,
    typical,
    unit_of,
    widened,
    words_of,
)
from approxmcmc.study.report.wording import brief, counted, estimate_text, number

USE = "What to use at each budget"  # title of a table
TWICE = 2.0
MOST_NAMED = 4  # settings whose numbers a sentence gives; the tables have the others


def answers(verdicts: Verdicts) -> list[str]:
    """Return the sentences on all targets that have a gold standard; of equal sentences only the last is kept."""
    judged = verdicts.scores
    listed = [sentence for score in judged for sentence in sentences(score, verdicts)]
    if len(judged) > 1 and any(len(score.times) > 1 for score in judged):
        listed.append(f'The table "{USE}" answers for shorter times.')
    return list(dict.fromkeys(reversed([*listed, *_rates(verdicts)])))[::-1]


def _rates(verdicts: Verdicts) -> list[str]:
    """Return the sentence on how often the statements of a page are due to chance."""
    if not any(order.known[1:] and not order.few for order in verdicts.orders.values()):
        return []
    compared = "One setting is compared" if verdicts.count == 1 else f"{verdicts.count} times a setting is compared"
    text = f"{compared} with the best one: at most one page of twenty calls one worse that is not."
    if any(score.departures is not None and not score.departures.empty for score in verdicts.scores):
        text += " Apart from that, at most one page of twenty has a wrong difference from the gold standard."
    return [text]


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


def sentences(scores: Scores, verdicts: Verdicts) -> list[str]:
    """Return the sentences on a target: the answer at the last budget, then at shorter ones, then the reasons."""
    estimand = scores.estimands[0]
    time = scores.times[-1]
    table = scores.at_last_budget(estimand)
    order = verdicts.orders[scores.target, time]
    if order.best is None:
        return [
            f"On {scores.target}, no setting that moved has a draw in every chain by {brief(time)} s.",
            *_never_moved(table, order),
            *_late(scores, table, order, estimand),
        ]
    shorter = () if len(verdicts.scores) > 1 else scores.times[:-1][::-1]
    opening = f"On {scores.target}, with {brief(time)} s of one chain (tuning included, compilation not), "
    answer = [opening + _use(table, order, estimand, f" {words_of(estimand)} is")]
    for short in shorter:
        then = verdicts.orders[scores.target, short]
        late = f" Late: {counted(len(then.late), 'setting')}." if then.late else ""
        answer.append(f"With {brief(short)} s, {_use(scores.at(estimand, short), then, estimand, '')}{late}")
    if order.few:
        fewest = counted(int(table.replicates[list(order.known)].min()), "chain")
        answer.append(f"With {fewest} per setting nothing is ranked: {LEAST_REPLICATES} are needed.")
        reasons = _departures(scores, order)
    else:
        reasons = [
            *_worse(table, order, estimand),
            *_undecided(scores, table, order, verdicts.count),
            *_against_baseline(table, scores.exact, order, verdicts.count),
            *_parts(table.loc[order.best], order.best, estimand),
            *_departures(scores, order),
            *_other_estimands(scores, order),
            *_to_tenth_sd(scores, order),
        ]
    return [
        *answer,
        *_cut_short(scores),
        *_never_moved(table, order),
        *_late(scores, table, order, estimand),
        *reasons,
        *_waits(scores),
    ]


def _use(table: Any, order: Ranking, estimand: str, what: str) -> str:
    """Return which setting to use at a time, how wrong it is, and which one is next, by how much.

    `what` follows the words "its typical error".
    """
    if order.best is None:
        return "no setting that moved has a draw in every chain."
    error = f"its typical error{what} {_error(table, order.best, estimand)}"
    if order.few:
        return f"{order.best} had the least error, but there are too few chains for a verdict: {error}."
    if order.following is None:
        only = f"only {order.best} has draws in every chain" if order.late else f"use {order.best}"
        return f"{only}: {error}."
    verdict = "worse beyond chance" if order.following in order.worse else "but it may be as good (undecided)"
    best = typical(table.loc[order.best]).value
    how_much = f"{_error(table, order.following, estimand)}{_times(table, order.following, best)}"
    return f"use {order.best}: {error}. Next is {order.following}: {how_much}, {verdict}."


def _times(table: Any, name: str, best: float) -> str:
    """Return how many times as large as the best error that of a setting is; "" if the best one is not above 0."""
    if best <= 0.0:
        return ""
    times = typical(table.loc[name]).value / best
    return f", {brief(float(f'{times:.2g}')) if times > TWICE else format(times, '.3g')} times as much"


def _error(table: Any, name: str, estimand: str) -> str:
    """Return the typical error of a setting with its interval and unit."""
    error = typical(table.loc[name])
    if error.value == 0.0 and error.upper > 0.0:
        return f"below {number(error.upper)}{unit_of(estimand)}"
    return f"{estimate_text(*error)}{unit_of(estimand)}"


def _worse(table: Any, order: Ranking, estimand: str) -> list[str]:
    """Return a sentence on the settings that are worse beyond chance, and on what most of their error is."""
    if not order.worse:
        return []
    best = typical(table.loc[order.best]).value
    named = [
        f"{name} {_error(table, name, estimand)}{_times(table, name, best)}{_mostly(table.loc[name])}"
        for name in order.worse[:MOST_NAMED]
    ]
    rest = order.worse[MOST_NAMED:]
    return [f"Worse beyond chance: {'; '.join([*named, *([in_words(rest)] if rest else [])])}."]


def _mostly(row: Any) -> str:
    """Return how much of a risk is bias, as far as its intervals say; "" if they are unknown."""
    if math.isnan(row.bias_sq_lower):
        return ""
    if row.bias_sq_lower <= 0.0:
        return ", no bias shown"
    return ", mostly bias" if row.bias_sq_lower > row.variance_upper else ", partly bias"


def _never_moved(table: Any, order: Ranking) -> list[str]:
    """Return sentences on the settings with chains that never moved."""
    stuck = in_words(order.stuck) if order.stuck else ""
    failed = [f"Failed, so not ranked: {stuck}, because the chains never moved (stuck)."] if stuck else []
    if "stuck" not in table:
        return failed
    others = table[(table.stuck > 0) & ~table.index.isin(order.stuck)]
    counts = [f"{row.stuck:.0f} of {row.replicates:.0f} chains of {name}" for name, row in others.iterrows()]
    return [*failed, *(f"{count} never moved." for count in counts)]


def _late(scores: Scores, table: Any, order: Ranking, estimand: str) -> list[str]:
    """Return a sentence on the settings without a draw by then, and on their errors at the end of their own chains.

    Chains of a budget in draws end at different times, and a warm-up may be longer than a budget of seconds.
    """
    if not order.late:
        return []
    time = brief(scores.times[-1])
    parts = [f"Late, so not ranked at {time} s: {in_words(order.late)}. {_without_a_draw(table, order.late)}"]
    ends = []
    for name in [*order.late[:MOST_NAMED], *order.known[:1]]:
        end = scores.at_own_end(estimand, name)
        if end is not None:
            ends.append(f"{name} {_error(end, name, estimand)} after {brief(float(end.time.iloc[0]))} s")
    if len(ends) > 1:  # besides that of the best one
        parts.append(f"At the end of their own chains: {'; '.join(ends)}.")
    return [" ".join(parts)]


def _without_a_draw(table: Any, late: Sequence[str]) -> str:
    """Return how many chains of the late settings have no draw by then."""
    if "drawn" not in table:
        return "Not every chain has a draw by then."
    rows = table.loc[list(late)]
    without = rows.replicates - rows.drawn
    if (rows.drawn == 0).all():
        return "None of the chains has a draw by then."
    if (without == 0).any():  # an estimand of its draws is not finite
        unknown = list(rows.index[without == 0])
        return f"The error of {in_words(unknown)} is not finite."
    counts = [f"{count:.0f} of {rows.replicates[name]:.0f} chains of {name}" for name, count in without.items()]
    return f"No draw by then: {'; '.join(counts[:MOST_NAMED])}{'; ...' if len(counts) > MOST_NAMED else ''}."


def _waits(scores: Scores) -> list[str]:
    """Return a sentence on compilation, which the seconds of a chain leave out, where it takes longer than a chain."""
    longer = {name: seconds for name, seconds in scores.waits.items() if seconds > scores.times[-1]}
    if not longer:
        return []
    named = sorted(longer, key=longer.__getitem__)
    times = [f"{name} {number(longer[name])} s" for name in named[:FEW]]
    more = f"; and {len(named) - FEW} more" if len(named) > FEW else ""
    return [f"Compilation comes before these seconds, in a fresh process: {'; '.join(times)}{more}."]


def _cut_short(scores: Scores) -> list[str]:
    """Return a sentence on the chains that end the comparison, if others are at least twice as long."""
    if scores.over_time is None or scores.over_time.empty:
        return []
    curves = scores.over_time
    ends = curves[curves.risk.notna()].groupby("setting", sort=False).time.max()
    if ends.empty or ends.max() < TWICE * scores.times[-1]:
        return []
    end = f"The comparison ends at {brief(scores.times[-1])} s, because the chains of {ends.idxmin()} end there"
    longest = f"those of {ends.idxmax()} are {brief(float(ends.max()))} s long"
    return [f"{end}; {longest}."]


def _against_baseline(table: Any, baseline: str | None, order: Ranking, verdicts: int) -> list[str]:
    """Return a sentence that compares the best setting with the baseline, by the ratio within blocks."""
    if baseline == order.best:
        return []
    if baseline is None:
        return ["There is no baseline: no setting that moved is exact."]
    if baseline not in order.known:
        return []
    row = table.loc[order.best]
    ratio = typical(row, "ratio")
    if not math.isfinite(ratio.value):
        return [f"The ratio of the errors of {order.best} and {baseline}, the baseline, is not defined."]
    text = f"The error of {order.best} is {estimate_text(*ratio)} times that of {baseline}, the baseline"
    if baseline in order.worse:
        return [f"{text}, a gain that chance does not explain."]
    if row.ratio_upper >= 1.0:
        return [f"{text}; the interval contains 1, so the difference is not established."]
    if widened(row, "ratio", verdicts)[1] >= 1.0:
        return [f"{text}; widened for all verdicts of this page, the interval contains 1."]
    return [f"{text}, but the error of the gold standard could explain the difference."]


def _parts(row: Any, best: str, estimand: str) -> list[str]:
    """Return a sentence on the bias of the best setting, and on the scatter of its chains."""
    if not math.isfinite(row.bias_sq_lower):
        return []
    bias = typical(row, "bias_sq")
    scatter = typical(row, "variance")
    unit = unit_of(estimand)
    if row.variance_upper < ROUNDING * abs(row.bias_sq):  # a fitted distribution is the same in every chain
        return [f"All of the error of {best} is bias, which more time does not change: its chains have no scatter."]
    if row.bias_sq_lower <= 0.0:
        unseen = f"it may be as large as {number(bias.upper)}{unit}"
        return [f"No bias of {best} is shown, but {unseen}: these chains cannot tell a smaller one from their scatter."]
    parts = f"{estimate_text(*bias)}{unit} is bias, and {estimate_text(*scatter)}{unit} the scatter of its chains"
    more_time = "only its part due to the starting points vanishes with more time"
    return [f"Of the error of {best}, {parts}. The bias differs from zero: {more_time}."]


def _other_estimands(scores: Scores, order: Ranking) -> list[str]:
    """Return a sentence on the estimands by which another setting has less risk than the best one by the first."""
    best = order.best
    parts = []
    for estimand in scores.estimands[1:]:
        table = scores.at_last_budget(estimand)
        judged = table[table.risk.notna() & table.index.isin(order.known)]
        if best is not None and best in judged.index and (least := str(judged.risk.idxmin())) != best:
            errors = [f"{name} {_error(table, name, estimand)}" for name in (least, best)]
            parts.append(f"{words_of(estimand)} {errors[0]} ({errors[1]})")
    if not parts:
        return []
    more = f"; and {len(parts) - MOST_NAMED} more estimands, see the tables" if len(parts) > MOST_NAMED else ""
    listed = "; ".join(parts[:MOST_NAMED])
    return [f"By single estimands other settings have less error, which is no verdict: {listed}{more}."]


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
        parts.append(f"Averages over all chains that differ from the gold standard beyond chance: {how}.")
    if len(wrong) > MOST_NAMED:
        parts.append(f"So do those of {in_words(wrong[MOST_NAMED:])}.")
    return parts


def _to_tenth_sd(scores: Scores, order: Ranking) -> list[str]:
    """Return sentences on the seconds until the typical error is a tenth of a posterior sd, and on who has none."""
    estimand = scores.estimands[0]
    table = reaching(scores, order)
    if table.empty or estimand not in set(table.estimand):
        return []
    parts = []
    for how, opening in OPENINGS.items():
        rows = table[(table.estimand == estimand) & (table.how == how)].sort_values("seconds", kind="stable")
        if rows.empty:
            continue
        if how in (MEASURED, EXTRAPOLATED):
            seconds = rows[["seconds", "seconds_lower", "seconds_upper"]].to_numpy()
            times = [f"{name} {estimate_text(*row)}" for name, row in zip(rows.setting, seconds, strict=True)]
            parts.append(f"{opening}{'; '.join(times[:FEW])}{'; ...' if len(times) > FEW else ''}")
        else:
            parts.append(f"{opening}{in_words(list(rows.setting))}")
    return [f"Seconds until the typical error stays below {TENTH:g} posterior sd: {'. '.join(parts)}."] if parts else []


OPENINGS = {
    MEASURED: "read off the curves, ",
    EXTRAPOLATED: "Extrapolated beyond the end of the chains, ",
    TOO_BIASED: "Not reached, because the bias is larger, and more time shrinks only what comes from the start: ",
    LEVEL: "Not reached, because more time does not change a fit: ",
    NO_CURVE: "Unknown, because some chain has no draw: ",
}


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


def use_table(verdicts: Verdicts) -> Table | None:
    """Tabulate at each budget which setting to use, how wrong it is, the next one, and what is undecided."""
    import pandas as pd

    judged = [score for score in verdicts.scores if len(score.settings) > 1]
    rows = [{"target": score.target} | _row(score, time, verdicts) for score in judged for time in score.times]
    rows = [row for row in rows if row["use"]]
    if not rows:
        return None
    data = pd.DataFrame(rows)
    what = {score.estimands[0]: None for score in judged}
    return Table(
        USE,
        f'Typical error: root of the risk, {"; ".join(map(words_of, what))}, with its 95 % interval. "next": the '
        "setting with the next larger risk. Undecided: settings that may be as good. Late: some chain has no draw by "
        "then. Stuck: the chains never moved. Seconds include tuning, not compilation. The table compares "
        f"{verdicts.count} times a setting with the best one; at most one such table of twenty calls one worse that is "
        "not.",
        data.drop(columns="target") if len(judged) == 1 else data,
        headings={"time": "seconds of a chain", "error": "typical error", "next_error": "its error"},
    )


def _row(scores: Scores, time: float, verdicts: Verdicts) -> dict[str, Any]:
    table = scores.at(scores.estimands[0], time)
    order = verdicts.orders[scores.target, time]
    row: dict[str, Any] = {"time": float(f"{time:.3g}"), "use": order.best or ""}
    if order.best is None:
        return row
    row |= typical(table.loc[order.best]).columns("error")
    row["next"] = order.following or ""
    row |= (NOTHING if order.following is None else typical(table.loc[order.following])).columns("next_error")
    few = f"all: fewer than {LEAST_REPLICATES} replicates"
    return row | {
        "undecided": few if order.few else _listed(order.undecided),
        "worse": _listed(order.worse),
        "late": _listed(order.late),
        "stuck": _listed(order.stuck),
    }


def _listed(names: Sequence[str]) -> str:
    return in_words(names) if names else ""


def reaching_table(verdicts: Verdicts) -> Table | None:
    """Tabulate the seconds until the typical error is a tenth of a posterior sd; None without curves."""
    import pandas as pd

    frames = [
        reaching(score, verdicts.orders[score.target, score.times[-1]]).assign(target=score.target)
        for score in verdicts.scores
    ]
    frames = [frame for frame in frames if len(frame)]
    if not frames:
        return None
    data = pd.concat(frames, ignore_index=True)
    data = data[["target", *(name for name in data if name != "target")]]
    return Table(
        "Seconds to a tenth of a posterior sd",
        f"Seconds of a chain from which on the typical error stays below {TENTH:g} posterior sd, the error of 100 "
        "independent draws. Measured: where the curve of the figure below falls under that level, with the times at "
        "which the ends of its 95 % band do; if it begins below, its first point. Extrapolated: beyond the end of the "
        "curve, if the variance falls as one over the time and the bias stays as it is; so are ends of intervals that "
        "are beyond it.",
        data.drop(columns="target") if len(frames) == 1 else data,
    )
