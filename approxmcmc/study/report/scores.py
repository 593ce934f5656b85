"""Risks of the settings of one target at each budget, and the verdicts that follow: which is best, worse, undecided.

A verdict needs five replicates, because fewer give no useful interval. A setting is called worse than the best one if
its interval lies above that of the best, or the interval of their ratio above 1; and only if its own risk is ten times
the squared error of the gold standard, which could otherwise decide the order. Every other setting is undecided, and
the page says how many replicates, or draws of the gold standard, would decide it, if this can be predicted. A page
makes many verdicts, so their intervals hold jointly: each of m verdicts has level 5 % / m (Bonferroni), and its 95 %
interval is widened on the log scale by the ratio of the normal quantiles. :func:`verdicts_of` makes the verdicts of a
page, all targets and times together, once; every sentence and table of the page reads them from there.
"""

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from scipy import special

from approxmcmc.diagnostics.standard import MEANS, TAILS, VARIANCES
from approxmcmc.study.names import spelled
from approxmcmc.study.report.intervals import LEAST_REPLICATES, Interval

if TYPE_CHECKING:
    import pandas as pd

CONFIDENCE = 0.95
POWER = 0.8  # share of studies that a predicted number of replicates would let decide
LARGEST_FLOOR = 0.1  # share of a risk; above it, the error of the gold standard may decide the order
IN_SD = ", in errors of one draw"  # each estimand in its own standard deviation from draw to draw
WITHOUT_TAILS = f"means and spreads{IN_SD}"  # the same, against a gold standard known by its moments
STANDARD = f"means, spreads and tails{IN_SD}"  # average over all coordinates of the standard estimands
ALL_ESTIMANDS = f"all estimands{IN_SD}"  # average over all coordinates of the study's own estimands
DEPARTURES = "How wrong at the last budget"  # title of a table, before the target's name
ROUNDING = 1e-20  # variance over squared bias; below it, the variance is that of rounding
MANY_REPLICATES = 1000  # a study that needs more to order two settings may take them as equal


@dataclasses.dataclass(frozen=True, eq=False)
class Scores:
    """The risks of the settings of one target.

    Parameters
    ----------
    target
        Name of the target.
    exact
        The setting that the others are compared with, exact unless the study names a biased one; None without any.
    at_budgets
        A row per setting, estimand and time, with risk, bias_sq, variance and ratio to the exact setting, their ends
        ``_lower`` and ``_upper``, the squared error ``floor`` of the gold standard, and the numbers of replicates that
        delivered and that were planned; if known, also the numbers of chains that have a draw by then (``drawn``) and
        that never moved (``stuck``). Empty without a gold standard.
    departures
        A row per setting at the last budget: errors of means and spreads of all coordinates in posterior standard
        deviations, and which differences chance does not explain; None if unknown.
    gold_draws
        Number of draws of the gold standard; 0 if unknown.
    over_time, over_data
        Risk curves: a row per setting, estimand and point of the axis (``time`` or ``datapoints_touched``; settings
        that count no data have none), with risk, bias_sq and variance, their ends ``_lower`` and ``_upper``, and the
        squared error ``floor`` of the gold standard; None if unknown.
    clock_name
        What the seconds are: those of the "wall" clock or of the "processor".
    waits
        Seconds of compilation before the first step on the clock `clock_name`, by setting; a setting that states none
        is absent. Empty if no setting is of another library.
    """

    target: str
    exact: str | None
    at_budgets: "pd.DataFrame"
    departures: "pd.DataFrame | None" = dataclasses.field(default=None, kw_only=True)
    gold_draws: int = dataclasses.field(default=0, kw_only=True)
    over_time: "pd.DataFrame | None" = dataclasses.field(default=None, kw_only=True)
    over_data: "pd.DataFrame | None" = dataclasses.field(default=None, kw_only=True)
    clock_name: str = dataclasses.field(default="wall", kw_only=True)
    waits: Mapping[str, float] = dataclasses.field(default_factory=dict, kw_only=True)

    def named(self, names: Mapping[str, str]) -> "Scores":
        """Return the scores with the names that a study gives its settings, estimands and targets."""

        def named(table: "pd.DataFrame | None") -> "pd.DataFrame | None":
            if table is None or table.empty:
                return table
            columns = [name for name in ("setting", "estimand") if name in table]
            return table.assign(**{name: table[name].map(lambda label: spelled(label, names)) for name in columns})

        return Scores(
            spelled(self.target, names),
            None if self.exact is None else spelled(self.exact, names),
            named(self.at_budgets),
            departures=named(self.departures),
            gold_draws=self.gold_draws,
            over_time=named(self.over_time),
            over_data=named(self.over_data),
            clock_name=self.clock_name,
            waits={spelled(label, names): seconds for label, seconds in self.waits.items()},
        )

    @property
    def settings(self) -> list[str]:
        """Labels of the settings, in the order of the study."""
        return list(dict.fromkeys(self.at_budgets["setting"])) if len(self.at_budgets) else []

    @property
    def stuck(self) -> list[str]:
        """Labels of the settings whose chains never moved."""
        table = self.at_budgets
        return list(dict.fromkeys(table.setting[never_moved(table)])) if len(table) else []

    def of_moving(self, table: "pd.DataFrame") -> "pd.DataFrame":
        """Return the rows of the settings that moved: draws of the others say nothing."""
        return table[~table.setting.isin(self.stuck)]

    @property
    def estimands(self) -> list[str]:
        """Labels of the estimands; the first one is judged."""
        return list(dict.fromkeys(self.at_budgets["estimand"])) if len(self.at_budgets) else []

    @property
    def times(self) -> list[float]:
        """The times in seconds of a chain, the longest last."""
        return sorted(map(float, set(self.at_budgets["time"]))) if len(self.at_budgets) else []

    def at(self, estimand: str, time: float) -> "pd.DataFrame":
        """Return one row per setting at a time, indexed by setting."""
        table = self.at_budgets
        return table[(table.estimand == estimand) & (table.time == time)].set_index("setting")

    def at_own_end(self, estimand: str, setting: str) -> "pd.DataFrame | None":
        """Return the last known point of a setting's curve over time, indexed by setting; None without any."""
        known = self.curve(estimand, setting)
        return None if known is None else known.tail(1).set_index("setting")

    def curve(self, estimand: str, setting: str) -> "pd.DataFrame | None":
        """Return the known points of a setting's curve over time, in the order of time; None without any."""
        if self.over_time is None or self.over_time.empty:
            return None
        curves = self.over_time
        known = curves[(curves.estimand == estimand) & (curves.setting == setting) & curves.risk.notna()]
        return None if known.empty else known.sort_values("time")

    def at_last_budget(self, estimand: str) -> "pd.DataFrame":
        """Return one row per setting at the longest common time, indexed by setting."""
        return self.at(estimand, self.times[-1])

    @property
    def replicates(self) -> dict[str, int]:
        """The number of finished chains of each setting, the smallest over estimands and times."""
        return {name: int(self.at_budgets.replicates[self.at_budgets.setting == name].min()) for name in self.settings}


def never_moved(table: "pd.DataFrame") -> "pd.Series[bool]":
    """Return for each row whether none of the chains moved; False where it is unknown."""
    return table["replicates"] <= table["stuck"] if "stuck" in table else table["replicates"] < 0


def unit_of(estimand: str) -> str:
    """Return the unit of a typical error, with a space before it; "" for the unit of the estimand itself."""
    if meaning_of(estimand):
        return " of the error of one draw"
    return " posterior sd" if estimand == MEANS else ""


def words_of(estimand: str) -> str:
    """Return what an error is averaged over, for a sentence."""
    phrases = {
        STANDARD: "over the means, spreads and tails of all coordinates",
        WITHOUT_TAILS: "over the means and spreads of all coordinates",
        ALL_ESTIMANDS: "over all coordinates of all estimands",
        MEANS: "over the means of all coordinates",
        VARIANCES: "over the variances of all coordinates",
        TAILS: "over the tail probabilities of all coordinates",
    }
    return phrases.get(estimand, f"in {estimand}")


def meaning_of(estimand: str) -> str:
    """Return what an error of 1 is, in a sentence, for an average over several estimands; "" for others.

    With `f` an estimand of one coordinate, s its standard deviation under the posterior and K their number, the squared
    typical error is the mean over the K of (error of f / s)^2. It is 1/n for n independent draws.
    """
    parts = {
        STANDARD: "a mean, a squared deviation from it, the share beyond 2 sd",
        WITHOUT_TAILS: "a mean, a squared deviation from it",
        ALL_ESTIMANDS: "the estimands of the study",
    }
    if estimand not in parts:
        return ""
    return (
        f"Typical error: root mean square over all coordinates of the errors of {parts[estimand]}, each in units of "
        "its own standard deviation from draw to draw. An error of 1 is that of one independent draw, of "
        "0.1 that of 100."
    )


def typical(row: Any, name: str = "risk") -> Interval:
    """Return the typical error of a row, the root of its risk, with its interval; a negative estimate counts as 0."""
    squares = (float(getattr(row, f"{name}{end}")) for end in ("", "_lower", "_upper"))
    return Interval(*(math.sqrt(max(square, 0.0)) if not math.isnan(square) else math.nan for square in squares))


# --- verdicts ---


@dataclasses.dataclass(frozen=True)
class Ranking:
    """What is known about the order of settings at one time.

    Parameters
    ----------
    known
        Settings with a risk, in the order of risk: the best one first.
    worse
        Those with more risk than the best one, beyond chance.
    late
        Settings without a risk, because some chain has no draw by then.
    stuck
        Settings whose chains never moved: their draws say nothing, so they are not ranked.
    few
        Whether some known setting has too few replicates for verdicts; then all are undecided.
    """

    known: tuple[str, ...] = ()
    worse: tuple[str, ...] = ()
    late: tuple[str, ...] = ()
    stuck: tuple[str, ...] = ()
    few: bool = False

    @property
    def best(self) -> str | None:
        """The setting with least risk; None if no risk is known."""
        return self.known[0] if self.known else None

    @property
    def following(self) -> str | None:
        """The setting with the next larger risk; None if only one risk is known."""
        return self.known[1] if len(self.known) > 1 else None

    @property
    def undecided(self) -> tuple[str, ...]:
        """Settings that may be as good as the best one, in the order of risk."""
        return tuple(name for name in self.known[1:] if name not in self.worse)


def ranking(table: "pd.DataFrame", exact: str | None, verdicts: int) -> Ranking:
    """Return which setting of a table is best, which are worse, and which are undecided.

    Parameters
    ----------
    table
        One row per setting at one time, indexed by setting.
    exact
        The setting that ratios are formed with.
    verdicts
        Number of verdicts that share one error rate.
    """
    is_stuck = never_moved(table)
    moving = table[~is_stuck]
    judged = moving[moving.risk.notna()].sort_values("risk", kind="stable")
    known = tuple(map(str, judged.index))
    few = bool((judged.replicates < LEAST_REPLICATES).any())
    return Ranking(
        known,
        worse=() if few else tuple(name for name in known[1:] if is_worse(judged, name, known[0], exact, verdicts)),
        late=tuple(str(label) for label in moving.index if label not in known),
        stuck=tuple(map(str, table.index[is_stuck])),
        few=few,
    )


@dataclasses.dataclass(frozen=True, eq=False)
class Verdicts:
    """The order of the settings of each target at each time: all that a page decides about one estimand.

    Parameters
    ----------
    scores
        The targets.
    orders
        The ranking by target and time.
    count
        Number of comparisons with a best setting that the rankings make; at least 1.
    """

    scores: tuple[Scores, ...]
    orders: Mapping[tuple[str, float], Ranking]
    count: int


def verdicts_of(scores: "Sequence[Scores]", estimand: str = "") -> Verdicts:
    """Return the verdicts on an estimand, by default the first one, of all targets at all times.

    Together they err in at most 5 % of pages.
    """
    judged = tuple(score for score in scores if score.estimands)
    tables = {
        (score.target, time): (score.at(estimand or score.estimands[0], time), score.exact)
        for score in judged
        for time in score.times
    }
    compared = [ranking(*arguments, 1) for arguments in tables.values()]
    count = max(sum(len(order.known) - 1 for order in compared if order.known and not order.few), 1)
    return Verdicts(judged, {key: ranking(*arguments, count) for key, arguments in tables.items()}, count)


def is_worse(table: "pd.DataFrame", name: str, best: str, exact: str | None, verdicts: int) -> bool:
    """Return whether a setting has more risk than the best one beyond chance, and beyond the gold standard's error."""
    row = table.loc[name]
    top = table.loc[best]
    least_risk = float(table.floor.max()) / LARGEST_FLOOR
    if float(row.risk) <= least_risk:
        return False
    lower, _ = widened(row, "risk", verdicts)
    _, upper_of_best = widened(top, "risk", verdicts)
    if lower > upper_of_best:
        return True
    if exact == best:
        return widened(row, "ratio", verdicts)[0] > 1.0
    return exact == name and widened(top, "ratio", verdicts)[1] < 1.0


def gold_times(table: "pd.DataFrame", names: "tuple[str, ...]") -> float:
    """Return how many times as many draws of the gold standard would suffice to order some settings.

    Its squared error falls as one over the number of its draws. It must be at most a tenth of the risk of each setting
    in `names`: 1.0 if it is, inf if a risk and the upper end of its interval are 0 or less. A risk of 0 or less counts
    as its upper end, and not at all if there is no interval.

    Examples
    --------
    >>> import pandas as pd
    >>> table = pd.DataFrame({"risk": [0.1, 0.2], "risk_upper": [0.2, 0.3], "floor": 0.06}, index=["best", "next"])
    >>> round(gold_times(table, ("next",)), 3)
    3.0
    """
    scales = [float(row.risk if row.risk > 0.0 else row.risk_upper) for row in (table.loc[name] for name in names)]
    floor = float(table.floor.max())
    least = min((scale for scale in scales if not math.isnan(scale)), default=math.inf)
    if floor == 0.0:
        return 1.0
    return max(1.0, floor / (LARGEST_FLOOR * least)) if least > 0.0 else math.inf


def replicates_needed(table: "pd.DataFrame", name: str, best: str, exact: str | None, verdicts: int) -> float:
    """Return about how many replicates would order a setting and the best one, if their risks are as estimated.

    The interval of a log risk is about as wide as one over the root of the number of replicates. If the interval just
    excluded 1, half of such studies would decide; with the number returned :data:`POWER` of them do. NaN if a risk is
    not above 0, or without intervals; inf if the risks are equal.

    Examples
    --------
    A gap of log 2 and intervals that reach log 2 from each side need four times as many to decide in half of the
    studies, and ((1.96 + 0.84) / 1.96)^2 times these to decide in 80 %:

    >>> import pandas as pd
    >>> rows = {"risk": [1.0, 2.0], "risk_lower": [0.5, 1.0], "risk_upper": [2.0, 4.0], "replicates": 8, "floor": 0.0}
    >>> round(replicates_needed(pd.DataFrame(rows, index=["best", "next"]), "next", "best", None, 1))
    65
    """
    row = table.loc[name]
    top = table.loc[best]
    if not min(row.risk, top.risk) > 0.0:
        return math.nan
    gap = math.log(row.risk / top.risk)
    widths = [_below(row, "risk", verdicts) + _above(top, "risk", verdicts)]
    if exact == best:
        widths.append(_below(row, "ratio", verdicts))
    if exact == name:
        widths.append(_above(top, "ratio", verdicts))
    width = min((width for width in widths if math.isfinite(width)), default=math.nan)
    count = int(min(row.replicates, top.replicates))
    quantile = -float(special.ndtri((1.0 - CONFIDENCE) / (2.0 * max(verdicts, 1))))
    for_power = (quantile + float(special.ndtri(POWER))) / quantile
    return math.inf if gap == 0.0 else count * (for_power * width / gap) ** 2


def _below(row: Any, name: str, verdicts: int) -> float:
    """Return how far the lower end is below the value on the log scale; if it is not above 0, how far the upper is."""
    value = float(getattr(row, name))
    lower = widened(row, name, verdicts)[0]
    return math.log(value / lower) if min(value, lower) > 0.0 else _above(row, name, verdicts)


def _above(row: Any, name: str, verdicts: int) -> float:
    value = float(getattr(row, name))
    upper = widened(row, name, verdicts)[1]
    return math.log(upper / value) if value > 0.0 and upper > 0.0 else math.nan


def widened(row: Any, name: str, verdicts: int) -> tuple[float, float]:
    """Return a row's interval of the quantity `name`, widened so that all `verdicts` together err in at most 5 %.

    The ends are NaN if there is no interval; an end that is 0 or less is unchanged.

    Examples
    --------
    >>> from types import SimpleNamespace
    >>> row = SimpleNamespace(risk=1.0, risk_lower=0.5, risk_upper=2.0)
    >>> [round(end, 3) for end in widened(row, "risk", 1)]
    [0.5, 2.0]
    >>> [round(end, 3) for end in widened(row, "risk", 10)]
    [0.371, 2.699]
    """
    value, lower, upper = (float(getattr(row, f"{name}{end}")) for end in ("", "_lower", "_upper"))
    tail = (1.0 - CONFIDENCE) / 2.0
    stretch = float(special.ndtri(tail / max(verdicts, 1)) / special.ndtri(tail))
    low = value * (lower / value) ** stretch if min(value, lower) > 0.0 else lower
    high = value * (upper / value) ** stretch if min(value, upper) > 0.0 and math.isfinite(upper) else upper
    return low, high
