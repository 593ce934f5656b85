"""Write the answer in three sentences from the table: the setting with least risk, which others are worse, and why.

Settings are not ranked if the gold standard is too coarse, except that those far above its error are named; there are
no verdicts below five replicates. All
verdicts of a page together err with probability at most 5 %, see :mod:`approxmcmc.study.report.scores`.
"""

import math
from collections.abc import Sequence
from typing import Any

from approxmcmc.study.report.families import in_words
from approxmcmc.study.report.intervals import LEAST_REPLICATES
from approxmcmc.study.report.scores import (
    LARGEST_FLOOR,
    Scores,
    beside_least_risk,
    can_rank,
    floor_share,
    widened,
)
from approxmcmc.study.report.wording import counted, estimate_text, number


def answers(scores: Sequence[Scores]) -> list[str]:
    """Return the sentences on all targets that have a gold standard; of equal sentences only the last is kept."""
    judged = [one for one in scores if one.estimands]
    verdicts = sum(len(one.settings) - 1 for one in judged)
    told = [sentence for one in judged for sentence in [*sentences(one, max(verdicts, 1)), *_gold(one)]]
    if verdicts > 1 and any(map(_decided, judged)):
        told.append(f"These are {verdicts} verdicts; together they err in at most one page of twenty.")
    return list(dict.fromkeys(reversed(told)))[::-1]


def _gold(scores: Scores) -> list[str]:
    """Return a sentence on the error of the gold standard; empty if the sentences on the settings have it."""
    table = scores.at_last_budget(scores.estimands[0])
    beside = f"The squared error of the gold standard of {scores.target} is {beside_least_risk(table)}."
    return [beside] if _decided(scores) and table.risk.notna().any() else []


def _decided(scores: Scores) -> bool:
    enough = max(scores.replicates.values()) >= LEAST_REPLICATES
    return enough and can_rank(scores.at_last_budget(scores.estimands[0]))


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
    known = {str(label): row for label, row in table.iterrows() if math.isfinite(row.risk)}
    unknown = [str(label) for label in table.index if label not in known]
    if not known:
        return [f"No setting has a draw by {seconds} s, so no risk can be stated."]
    if not can_rank(table):
        return [_not_ranked(scores, estimand, table), *_far_above(scores, table, known, verdicts)]
    best = min(known, key=lambda label: known[label].risk)
    who = f"After {seconds} s of sampling per chain on {scores.target}, the least risk in {estimand} was measured for "
    if scores.replicates[best] < LEAST_REPLICATES:
        chains = counted(scores.replicates[best], "chain")
        return [f"{who}{best}: {number(known[best].risk)}. {chains} per setting are too few for a verdict."]
    return [
        who + _who(scores, best, known[best], verdicts),
        _against(best, scores.exact, known, unknown, verdicts),
        _why(best, best == scores.exact, known[best]),
    ]


def _not_ranked(scores: Scores, estimand: str, table: Any) -> str:
    floor = number(float(table.floor.max()))
    return (
        f"The settings are not ranked on {scores.target}: the squared error of the gold standard in {estimand}, "
        f"{floor}, is {beside_least_risk(table)}; a ranking needs at most {LARGEST_FLOOR:.0%}{_enough_draws(table)}."
    )


def _enough_draws(table: Any) -> str:
    """Return how long a gold standard would do: its squared error falls as one over the number of its draws."""
    times = floor_share(table) / LARGEST_FLOOR
    if not math.isfinite(times):
        return ""
    return f", for which the gold standard needs {float(f'{math.ceil(10.0 * times) / 10.0:.2g}'):g} times as many draws"


def _far_above(scores: Scores, table: Any, known: dict[str, Any], verdicts: int) -> list[str]:
    """Return a sentence on the settings that are worse than the best one whatever the gold standard's error is.

    The lower limit of their risk is above the upper limit of the least risk, and is so large that the error of the gold
    standard is at most a tenth of it.
    """
    best = min(known, key=lambda label: known[label].risk)
    if min(scores.replicates[label] for label in known) < LEAST_REPLICATES:
        return []
    reach = max(widened(known[best], "risk", verdicts)[1], float(table.floor.max()) / LARGEST_FLOOR)
    far = [label for label in known if label != best and widened(known[label], "risk", verdicts)[0] > reach]
    if not far:
        return []
    risks = "; ".join(
        f"{label} {estimate_text(known[label].risk, known[label].risk_lower, known[label].risk_upper)}" for label in far
    )
    return [f"Even so, {best} has less risk than settings far above this error: {risks}."]


def _who(scores: Scores, best: str, row: Any, verdicts: int) -> str:
    text = f"{best}: {estimate_text(row.risk, row.risk_lower, row.risk_upper)}"
    if scores.exact is None:
        return f"{text}; no exact setting takes part, so there is no ratio."
    if best == scores.exact:
        return f"{text}. This is the exact sampler: at this budget no approximation had less risk."
    ratio = row.ratio, row.ratio_lower, row.ratio_upper
    if not math.isfinite(ratio[0]):
        return f"{text}; its ratio to {scores.exact} is not defined."
    text += f", {estimate_text(*ratio)} times that of {scores.exact}"
    if widened(row, "ratio", verdicts)[1] < 1.0:
        return f"{text}, a gain that the interval supports."
    where = "widened for all verdicts of this page, the interval" if ratio[2] < 1.0 else "the interval"
    return f"{text}; {where} contains 1, so the difference from the exact sampler is not established."


def _against(best: str, exact: str | None, rows: dict[str, Any], unknown: list[str], verdicts: int) -> str:
    """Return a sentence that compares the best setting with the others, except the exact one."""
    others = [label for label in rows if label not in (best, exact)]
    if best == exact:
        far = [label for label in others if widened(rows[label], "ratio", verdicts)[0] > 1.0]
        how = "the ratio's interval lies above 1"
    else:
        end = widened(rows[best], "risk", verdicts)[1]
        far = [label for label in others if widened(rows[label], "risk", verdicts)[0] > end]
        how = "the intervals do not overlap"
    near = [label for label in others if label not in far]
    parts = []
    if near:
        parts.append(f"The order of {best} and {in_words(near)} is not established.")
    if far:
        parts.append(f"{best} has less risk than {in_words(far)}: {how}.")
    if unknown:
        risk = "its risk is" if len(unknown) == 1 else "their risks are"
        parts.append(f"Some chain of {in_words(unknown)} had no draw by then, so {risk} unknown.")
    return " ".join(parts) or "No other setting has a measured risk."


def _why(best: str, exact: bool, row: Any) -> str:
    bias = estimate_text(row.bias_sq, row.bias_sq_lower, row.bias_sq_upper)
    variance = estimate_text(row.variance, row.variance_lower, row.variance_upper)
    text = f"Of the risk of {best}, bias² is {bias} and variance {variance}"
    if not math.isfinite(row.bias_sq_lower):
        return f"{text}."
    if row.bias_sq_lower > 0.0:
        if exact:
            return f"{text}. The bias differs from zero; it comes from the starting points and vanishes with more time."
        return f"{text}. The bias differs from zero; only the part due to the starting points vanishes with more time."
    return f"{text}. At this budget the bias does not differ from zero within its interval."
