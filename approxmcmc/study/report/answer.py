"""Write the answer from the verdicts: a few paragraphs, each with a lead word, on which setting to use and why.

For each target: which setting to use at the last budget and at shorter ones; how wrong it is; the next one; which are
worse, and why; what is undecided, and what would decide it; what is not ranked. A typical error is the root of a risk.
There are no verdicts below five replicates. All sentences and tables read one family of verdicts,
:class:`~approxmcmc.study.report.scores.Verdicts`; lists of numbers are in the tables.
"""

import math
from collections.abc import Sequence
from typing import Any

from approxmcmc.diagnostics.standard import MEANS, TENTH
from approxmcmc.study.report.families import FEW, in_words
from approxmcmc.study.report.intervals import LEAST_REPLICATES, NOTHING
from approxmcmc.study.report.pieces import Table
from approxmcmc.study.report.reaching import (
    EXTRAPOLATED,
    first_with_compilation,
    limits_of,
    reaching,
    seconds_text,
    start_remains,
)
from approxmcmc.study.report.scores import (
    DEPARTURES,
    MANY_REPLICATES,
    POWER,
    ROUNDING,
    Ranking,
    Scores,
    Verdicts,
    gold_times,
    meaning_of,
    replicates_needed,
    typical,
    unit_of,
    widened,
    words_of,
)
from approxmcmc.study.report.wording import brief, counted, estimate_text, number

USE = "What to use at each budget"  # title of a table
TWICE = 2.0
NEAR = 1.2  # a smaller ratio has three digits
MOST_NAMED = 4  # settings whose numbers a sentence gives; the tables have the others
NEARLY_ALL = 0.8  # share of an error
LATE_START = 0.25  # share of a budget
LEADS = ("Use", "How wrong", "Next", "Worse and why", "Undecided", "Not ranked", "Caution")


def paragraph(lead: str, sentences: Sequence[str]) -> list[str]:
    """Return one paragraph that begins with a lead word; none without sentences."""
    assert lead in LEADS
    return [f"{lead}: {' '.join(sentences)}"] if sentences else []


def parted(text: str) -> tuple[str, str]:
    """Return the lead word of a paragraph, with its colon, and the rest; "" and the text if it has none.

    Examples
    --------
    >>> parted("Next: walk, 0.2."), parted("No risk: none.")
    (('Next:', ' walk, 0.2.'), ('', 'No risk: none.'))
    """
    lead, colon, rest = text.partition(":")
    return (f"{lead}:", rest) if colon and lead in LEADS else ("", text)


def answers(verdicts: Verdicts) -> list[str]:
    """Return the paragraphs on all targets that have a gold standard; of equal ones only the last is kept."""
    judged = verdicts.scores
    listed = [text for score in judged for text in paragraphs(score, verdicts)]
    if len(judged) > 1 and any(len(score.times) > 1 for score in judged):
        listed.append(f'The table "{USE}" answers for shorter times.')
    return list(dict.fromkeys(reversed(listed)))[::-1]


def explanations(verdicts: Verdicts) -> list[str]:
    """Return the sentences beside the tables: what an error is, how often verdicts err, and compilation."""
    meanings = dict.fromkeys(filter(None, (meaning_of(score.estimands[0]) for score in verdicts.scores)))
    waits = [sentence for score in verdicts.scores for sentence in _waits(score)]
    averaged = any(meaning_of(score.estimands[0]) and MEANS in score.estimands for score in verdicts.scores)
    means = ["Verdicts are on this error; the risk table has that of the means alone."] if averaged else []
    return [*meanings, *means, *_rates(verdicts), *dict.fromkeys(waits)]


def _rates(verdicts: Verdicts) -> list[str]:
    """Return the sentence on how often the statements of a page are due to chance."""
    if not any(order.known[1:] and not order.few for order in verdicts.orders.values()):
        return []
    compared = "One setting is compared" if verdicts.count == 1 else f"{verdicts.count} times a setting is compared"
    text = f"{compared} with the best one: about one page of twenty calls one worse that is not."
    if any(score.departures is not None and not score.departures.empty for score in verdicts.scores):
        text += (
            " Differences from the gold standard have a rate of their own, so that about one page of ten has an "
            "error of either kind."
        )
    return [f"{text} The intervals come from a bootstrap, which with few replicates is a little too sure."]


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


def paragraphs(scores: Scores, verdicts: Verdicts) -> list[str]:
    """Return the paragraphs on a target."""
    estimand = scores.estimands[0]
    time = scores.times[-1]
    table = scores.at_last_budget(estimand)
    order = verdicts.orders[scores.target, time]
    not_ranked = paragraph(
        "Not ranked",
        [*_never_moved(table, order), *_late(scores, table, order, estimand), *_cut_short(scores)],
    )
    if order.best is None:
        nothing = f"on {scores.target}, no setting that moved has a draw in every chain by {brief(time)} s."
        return [*paragraph("Use", [nothing]), *not_ranked]
    following = paragraph("Next", _following(scores, table, order, estimand))
    if order.few:
        fewest = counted(int(table.replicates[list(order.known)].min()), "chain")
        undecided = [f"with {fewest} per setting nothing is ranked: {LEAST_REPLICATES} are needed."]
        return [
            *paragraph("Undecided", undecided),
            *paragraph("Use", [f"{_opening(scores)}no verdict; {order.best} had the least error."]),
            *paragraph("How wrong", [_how_wrong(table, order, estimand)]),
            *following,
            *not_ranked,
        ]
    how_wrong = [
        _how_wrong(table, order, estimand),
        *_parts(table.loc[order.best], order.best, estimand),
        *_departures_of_best(scores, order),
        *_to_tenth_sd(scores, order),
    ]
    undecided = [
        *_undecided(scores, table, order, verdicts.count),
        *_against_baseline(table, scores.exact, order, verdicts.count),
        *_other_estimands(scores, order),
    ]
    return [
        *paragraph("Use", [_use(scores, order), *_at_shorter(scores, verdicts), *_with_compilation(scores, order)]),
        *paragraph("How wrong", how_wrong),
        *following,
        *paragraph("Worse and why", [*_worse(scores, table, order, estimand), *_departures(scores, order)]),
        *paragraph("Undecided", undecided),
        *not_ranked,
    ]


def _opening(scores: Scores) -> str:
    return f"on {scores.target}, with {brief(scores.times[-1])} s of one chain (tuning included, compilation not), "


def _use(scores: Scores, order: Ranking) -> str:
    """Return which setting to use at the last budget."""
    only = ", the only one with draws in every chain" if order.late and order.following is None else ""
    return f"{_opening(scores)}{order.best}{only}."


def _at_shorter(scores: Scores, verdicts: Verdicts) -> list[str]:
    """Return a sentence for each shorter time, on the page of a single target; the table has them all."""
    listed = []
    estimand = scores.estimands[0]
    for time in scores.times[:-1][::-1] if len(verdicts.scores) == 1 else ():
        order = verdicts.orders[scores.target, time]
        if order.best is None:
            listed.append(f"With {brief(time)} s, none that moved has a draw in every chain.")
            continue
        only = ", the only one with draws in every chain" if order.late and order.following is None else ""
        table = scores.at(estimand, time)
        error = _error(table, order.best, estimand)
        if unit_of(estimand) and typical(table.loc[order.best]).value > 1.0:  # a single independent draw has less
            listed.append(f"Nothing is usable yet at {brief(time)} s ({order.best}, error {error}{only}).")
            continue
        listed.append(f"With {brief(time)} s, {order.best} (error {error}){only}.")
    return listed


def _with_compilation(scores: Scores, order: Ranking) -> list[str]:
    """Return a sentence on the setting that first has a small error if compilation counts."""
    first = first_with_compilation(scores, reaching(scores, order)) if scores.waits else []
    if not first:
        return []
    seconds = dict(first)
    level = f"{TENTH:g}{unit_of(scores.estimands[0])}"
    if first[0][0] == order.best:
        reached = f"{order.best} is still the first to reach {level}, after {number(first[0][1])} s"
        return [f"If compilation in a fresh process counts, {reached}."]
    best = f"; {order.best} after {number(seconds[order.best])} s" if order.best in seconds else ""
    reached = f"{first[0][0]} is the first to reach {level}, after {number(first[0][1])} s{best}"
    return [f"If compilation in a fresh process counts, {reached}."]


def _how_wrong(table: Any, order: Ranking, estimand: str) -> str:
    """Return the typical error of the best setting, and that of the gold standard."""
    assert order.best is not None
    floor = math.sqrt(float(table.floor.max()))
    gold = f" (that of the gold standard is {brief(float(f'{floor:.2g}'))})" if floor > 0.0 else ""
    unit = ", where 1 is the error of one independent draw" if meaning_of(estimand) else ""
    error = f"{_error(table, order.best, estimand)}{unit}{gold}"
    return f"the typical error of {order.best} {words_of(estimand)} is {error}."


def _following(scores: Scores, table: Any, order: Ranking, estimand: str) -> list[str]:
    """Return sentences on the setting with the next larger error, and on a budget that is short for it."""
    if order.following is None or order.best is None:
        return []
    verdict = "worse beyond chance" if order.following in order.worse else "but it may be as good (undecided)"
    how_much = _times(table, order.following, typical(table.loc[order.best]).value)
    said = [f"{order.following}, {_error(table, order.following, estimand)}{how_much}, {verdict}."]
    begins = _late_start(scores, order.following, estimand)
    if begins:
        text = f"all chains of {order.following} have draws by {begins} of {brief(scores.times[-1])} s"
        said.append(f"This is on a short run: {text}.")
    return said


def _late_start(scores: Scores, name: str, estimand: str) -> str:
    """Return the seconds by which all chains of a setting have draws, if they are a large share of the budget."""
    curve = scores.curve(estimand, name)
    begins = math.nan if curve is None else float(curve.time.min())
    return brief(float(f"{begins:.2g}")) if begins > LATE_START * scores.times[-1] else ""


def _times(table: Any, name: str, best: float) -> str:
    """Return how many times as large as the best error that of a setting is; "" if the best one is not above 0."""
    if best <= 0.0:
        return ""
    times = typical(table.loc[name]).value / best
    return f", {brief(float(f'{times:.2g}')) if times > NEAR else format(times, '.3g')} times as much"


def _unit(estimand: str) -> str:
    """Return the unit of a typical error, with a space before it; "" for errors of one draw, which are named once."""
    return "" if meaning_of(estimand) else unit_of(estimand)


def _error(table: Any, name: str, estimand: str) -> str:
    """Return the typical error of a setting with its interval and unit."""
    error = typical(table.loc[name])
    if error.value == 0.0 and error.upper > 0.0:
        return f"below {number(error.upper)}{_unit(estimand)}"
    return f"{estimate_text(*error)}{_unit(estimand)}"


def _worse(scores: Scores, table: Any, order: Ranking, estimand: str) -> list[str]:
    """Return a sentence on the settings that are worse beyond chance, and on what most of their error is."""
    if not order.worse:
        return []
    best = typical(table.loc[order.best]).value
    named = [
        f"{name} {_error(table, name, estimand)}{_times(table, name, best)}, {_why(scores, table.loc[name], estimand)}"
        for name in order.worse[:MOST_NAMED]
    ]
    rest = order.worse[MOST_NAMED:]
    return [f"beyond chance, {'; '.join([*named, *([in_words(rest)] if rest else [])])}."]


def _why(scores: Scores, row: Any, estimand: str) -> str:
    """Return what the error of a setting is: its start, bias, or scatter, as far as intervals and curves say."""
    time = scores.times[-1]
    curve = scores.curve(estimand, str(row.name))
    if curve is not None and start_remains(curve, time):
        return "its start has probably not worn off"
    if row.bias_sq_lower > row.variance_upper:
        return "mostly bias"
    if row.bias_sq_lower > 0.0:
        return "partly bias"
    if 2.0 * row.bias_sq > row.risk:
        return "likely bias"
    begins = _late_start(scores, str(row.name), estimand)
    return f"scatter (all its chains have draws by {begins} s)" if begins else "scatter"


def _never_moved(table: Any, order: Ranking) -> list[str]:
    """Return sentences on the settings with chains that never moved."""
    stuck = in_words(order.stuck) if order.stuck else ""
    all_stuck = [f"stuck, since none of the chains moved: {stuck}."] if stuck else []
    if "stuck" not in table:
        return all_stuck
    others = table[(table.stuck > 0) & ~table.index.isin(order.stuck)]
    counts = [f"{row.stuck:.0f} of {row.replicates:.0f} chains of {name}" for name, row in others.iterrows()]
    return [*all_stuck, *(f"{count} never moved." for count in counts)]


def _late(scores: Scores, table: Any, order: Ranking, estimand: str) -> list[str]:
    """Return a sentence on the settings without a draw by then, and on their errors at the end of their own chains.

    Chains of a budget in draws end at different times, and a warm-up may be longer than a budget of seconds.
    """
    if not order.late:
        return []
    time = brief(scores.times[-1])
    parts = [f"Late at {time} s: {in_words(order.late)}. {_without_a_draw(table, order.late)}"]
    ends = []
    for name in [*order.late[:MOST_NAMED], *order.known[:1]]:
        end = scores.at_own_end(estimand, name)
        if end is not None:
            ends.append(f"{name} {_error(end, name, estimand)} after {brief(float(end.time.iloc[0]))} s")
    if len(ends) > 1:  # besides that of the best one
        listed = "; ".join(ends)
        parts.append(f"At the end of their own chains, which is no verdict because the times differ: {listed}.")
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
    clock = f"in {scores.clock_name} seconds of a fresh process"
    return [f"Compilation comes before the seconds of a chain, {clock}: {'; '.join(times)}{more}."]


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
    why = ""
    if scores.clock_name == "processor":
        why = " A limit of seconds is read off the sampler's own clock: if that is the wall clock, chains are shorter."
    return [f"{end}; {longest}.{why}"]


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
    unit = _unit(estimand)
    if row.variance_upper < ROUNDING * abs(row.bias_sq):  # a fitted distribution is the same in every chain
        return [f"All of the error of {best} is bias, which more time does not change: its chains have no scatter."]
    if row.bias_sq_lower <= 0.0:
        nearly_all = bias.upper >= NEARLY_ALL * typical(row).value
        share = ", as large as nearly all of this error" if nearly_all else ""
        unseen = f"it may be up to {brief(float(f'{bias.upper:.2g}'))}{unit}{share}"
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


def _departures_of_best(scores: Scores, order: Ranking) -> list[str]:
    """Return a sentence on how far means and spreads of the best setting are from the gold standard."""
    if scores.departures is None or scores.departures.empty:
        return []
    rows = scores.departures.set_index("setting")
    if order.best not in rows.index or not math.isfinite(rows.mean_error[order.best]):
        return []
    best = rows.loc[order.best]
    if best.differs:
        return [f"It differs from the gold standard beyond chance: {best.differs}."]
    mean = f"{number(best.mean_error, '+.2g')} posterior sd ({best.mean_at})"
    spread = f"{best.sd_ratio:.3g} times the gold standard's ({best.sd_at})"
    text = "No mean, spread or tail differs from the gold standard beyond chance: averaged over the chains, the largest"
    return [f"{text} error of a mean is {mean}, and the sd that is farthest off is {spread}."]


def _departures(scores: Scores, order: Ranking) -> list[str]:
    """Return a sentence that names the other settings that differ from the gold standard by more than chance."""
    if scores.departures is None or scores.departures.empty:
        return []
    rows = scores.departures.set_index("setting")
    wrong = [name for name in order.known[1:] if name in rows.index and rows.differs[name]]
    table = f'see the table "{DEPARTURES}"'
    return [f"Averages that differ from the gold standard beyond chance ({table}): {in_words(wrong)}."] if wrong else []


def _to_tenth_sd(scores: Scores, order: Ranking) -> list[str]:
    """Return a sentence on the seconds until the best setting's error is a tenth."""
    table = reaching(scores, order)
    if table.empty:
        return []
    rows = table[(table.estimand == scores.estimands[0]) & (table.setting == order.best) & table.seconds.notna()]
    return [_reached(row) for row in rows.itertuples()]


def _reached(row: Any) -> str:
    """Return the sentence on a row of the table of seconds; they are infinite if the bias is measured above a tenth.

    Examples
    --------
    >>> from types import SimpleNamespace
    >>> biased = SimpleNamespace(estimand=MEANS, seconds=math.inf, seconds_lower=2.19, how=EXTRAPOLATED)
    >>> _reached(biased)
    'Its curve ends above 0.1 posterior sd; by extrapolation its error is below that not before 2.19 s.'
    """
    level = f"{TENTH:g}{unit_of(row.estimand)}"
    if math.isinf(row.seconds):
        earliest = f"not before {number(row.seconds_lower)} s" if math.isfinite(row.seconds_lower) else "at no time"
        return f"Its curve ends above {level}; by extrapolation its error is below that {earliest}."
    extrapolated = " (extrapolated)" if row.how == EXTRAPOLATED else ""
    return f"Its error stays below {level} from {seconds_text(row)} s on{extrapolated}."


def _undecided(scores: Scores, table: Any, order: Ranking, verdicts: int) -> list[str]:
    """Return what is not decided, and how many replicates and draws of the gold standard would decide it."""
    if not order.undecided:
        return []
    listed = in_words(order.undecided)
    if len(order.undecided) <= MOST_NAMED:
        listed = in_words([f"{name} ({_error(table, name, scores.estimands[0])})" for name in order.undecided])
    text = f"whether {listed} {'is' if len(order.undecided) == 1 else 'are'} as good."
    return [" ".join([text, *_deciding(scores, table, order, verdicts), *decided_by(scores, table, order, verdicts)])]


def _deciding(scores: Scores, table: Any, order: Ranking, verdicts: int) -> list[str]:
    """Return a sentence with the intervals that decide: ratios to the best setting, widened for all comparisons."""
    if scores.exact != order.best or len(order.undecided) > MOST_NAMED:
        return []
    ratios = []
    for name in order.undecided:
        row = table.loc[name]
        ends = [math.sqrt(max(end, 0.0)) for end in widened(row, "ratio", verdicts)]
        ratio = typical(row, "ratio").value
        if all(map(math.isfinite, [ratio, *ends])):
            lower, upper = (f"{end:.2g}" for end in ends)
            ratios.append(f"{ratio:.2g} [{lower}, {upper}]{f' ({name})' if len(order.undecided) > 1 else ''}")
    if not ratios:
        return []
    compared = f", widened for {verdicts} comparisons" if verdicts > 1 else ""
    return [f"Ratio of the errors, with the interval that decides{compared}: {'; '.join(ratios)}."]


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
            f"About {count:.0f} replicates in place of {present} would decide with probability {POWER:g}, if the "
            f"errors stay as they are{who}."
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
    unit = "; 1 is the error of one independent draw" if any(map(meaning_of, what)) else ""
    return Table(
        USE,
        f'Typical error: root of the risk, {"; ".join(map(words_of, what))}, with its 95 % interval{unit}. "next": the '
        "setting with the next larger risk. Undecided: settings that may be as good. Late: some chain has no draw by "
        "then. Stuck: the chains never moved. Seconds include tuning, not compilation. The table compares "
        f"{verdicts.count} times a setting with the best one; about one such table of twenty calls one worse that is "
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
    """Tabulate the seconds until the typical error is a tenth; None without curves."""
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
    limits = [limits_of(row) for row in data.itertuples()]
    data = data.assign(how=[f"{how}; {limit}" if limit else how for how, limit in zip(data.how, limits, strict=True)])
    data = data.drop(columns=["begins", "ends"])
    return Table(
        "Seconds to an error of a tenth",
        f"Seconds of a chain from which on the typical error stays below {TENTH:g}, the error of 100 independent "
        "draws: of means in posterior sd, of an average over several estimands in errors of one draw. Measured: where "
        "the curve of the figure below falls under that level, with the times at which the ends of its 95 % band do. "
        "Extrapolated: beyond the end of the curve, if the variance falls as one over the time and the bias stays as "
        "it is.",
        data.drop(columns="target") if len(frames) == 1 else data,
    )
