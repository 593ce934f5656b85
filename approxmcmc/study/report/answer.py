"""The answer in three sentences, from the table: which setting has least risk, which it beats clearly, and why."""

import math
from typing import Any

from approxmcmc.study.report.evidence import Contest
from approxmcmc.study.report.families import in_words
from approxmcmc.study.report.wording import estimate_text, number


def sentences(contest: Contest, *, gold_wanted: bool = True, own_figures: bool = False, biases: str = "") -> list[str]:
    """Return three sentences on the first estimand at the largest common budget.

    Parameters
    ----------
    contest
        The settings of one target.
    gold_wanted
        Whether the study wants gold standards by NUTS.
    biases
        One sentence on the biases estimated from the draws; "" for none.
    own_figures
        Whether the study has its own figures; a study without NUTS checks its chains there.
    """
    if contest.reference is None or not contest.estimands:
        return [
            *([biases] if biases else []),
            _without_gold(contest.target, gold_wanted, own_figures),
            "Cost and diagnostics below are those of the chains alone.",
            "R-hat and effective sample size cannot say how far a biased sampler is off.",
        ]
    estimand = contest.estimands[0]
    table = contest.at_last_budget(estimand)
    known = {label: row for label, row in table.iterrows() if math.isfinite(row.risk)}
    unknown = [str(label) for label in table.index if label not in known]
    if not known:
        return [f"No setting has a draw by {number(float(contest.budgets[-1]))} s, so no risk can be stated."]
    best = min(known, key=lambda label: known[label].risk)
    return [
        _who(contest, estimand, best, known[best]),
        _against(best, contest.exact, known, unknown),
        _why(best, best == contest.exact, known[best]),
        *([biases] if biases else []),
    ]


def _without_gold(target: str, gold_wanted: bool, own_figures: bool) -> str:
    if gold_wanted:
        return f"There is no accepted gold standard for {target}, so no risk is stated here."
    if own_figures:
        return (
            "The study judges its chains by itself, without NUTS: its own figures say what they are held against and "
            "how far they are off."
        )
    return "The study asks for no gold standard, so no risk is stated here."


def _who(contest: Contest, estimand: str, best: str, row: Any) -> str:
    text = (
        f"After {number(float(contest.budgets[-1]))} s of sampling per chain on {contest.target}, the least risk in "
        f"{estimand} was measured for {best}: {estimate_text(row.risk, row.risk_lower, row.risk_upper)}"
    )
    if contest.exact is None:
        return f"{text}; no exact setting takes part, so there is no ratio."
    if best == contest.exact:
        return f"{text}; it is the exact sampler, so no approximation was seen to pay at this budget."
    ratio = row.ratio, row.ratio_lower, row.ratio_upper
    if not math.isfinite(ratio[0]):
        return f"{text}; its ratio to {contest.exact} is not defined."
    text += f", {estimate_text(*ratio)} times that of {contest.exact}"
    if not math.isfinite(ratio[1]):
        return f"{text}, and from these replicates we cannot tell whether that is a gain."
    if ratio[2] < 1.0:
        return f"{text}, a gain that the interval supports."
    return f"{text}; the interval contains 1, so we cannot tell it from the exact sampler."


def _against(best: str, exact: str | None, rows: dict[Any, Any], unknown: list[str]) -> str:
    """Compare the best setting with the approximate others; the first sentence compares it with the exact one."""
    others = [label for label in rows if label not in (best, exact)]
    if best == exact:
        far = [label for label in others if rows[label].ratio_lower > 1.0]
        how = "the ratio's interval lies above 1"
    else:
        far = [label for label in others if rows[label].risk_lower > rows[best].risk_upper]
        how = "the intervals do not overlap"
    near = [label for label in others if label not in far]
    parts = []
    if near:
        parts.append(f"Between it and {in_words(near)} we cannot tell.")
    if far:
        parts.append(f"It has less risk than {in_words(far)}: {how}.")
    if unknown:
        them = "it" if len(unknown) == 1 else "them"
        parts.append(f"By then {in_words(unknown)} had no draw in some chain, so nothing is said of {them}.")
    return " ".join(parts) or "No other setting has a measured risk."


def _why(best: str, exact: bool, row: Any) -> str:
    bias = estimate_text(row.bias_sq, row.bias_sq_lower, row.bias_sq_upper)
    variance = estimate_text(row.variance, row.variance_lower, row.variance_upper)
    text = f"Of the risk of {best}, bias² is {bias} and variance {variance}"
    if not math.isfinite(row.bias_sq_lower):
        return f"{text}."
    if row.bias_sq_lower > 0.0:
        if exact:
            return f"{text}: its bias can be told from zero; it is left over from the start and goes with more time."
        return f"{text}: its bias can be told from zero; only what is left over from the start will go with more time."
    return f"{text}: a bias cannot be told from zero at this budget."
