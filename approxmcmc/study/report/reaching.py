"""Seconds until the typical error is a tenth of a posterior standard deviation, read off the curves of the page.

An error of a tenth is that of 100 independent draws. A curve reaches it at the time from which on it stays below; the
ends of the interval are the times at which the ends of its band do. Beyond the end of a curve the variance is taken to
fall as one over the time of drawing, while the squared bias stays; such seconds, and such ends of an interval, are
called extrapolated. A curve that begins below the level bounds the seconds by its first point. A setting without
seconds has the reason in their place.
"""

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from approxmcmc.diagnostics.standard import MEANS, TENTH, extrapolated
from approxmcmc.study.report.intervals import NOTHING, Interval
from approxmcmc.study.report.scores import Ranking, Scores, unit_of
from approxmcmc.study.report.wording import estimate, number

if TYPE_CHECKING:
    import pandas as pd

MEASURED = "measured"
EXTRAPOLATED = "extrapolated"
TOO_BIASED = "not reached: its bias is larger"
LEVEL = "not reached: more time does not change it"
NEVER_MOVED = "it never moved"
NO_CURVE = "some chain has no draw"
STEEP = 1.5  # power of the time, between 1 of scatter and 2 of a start
LEAST_POINTS = 4  # of a curve whose slope is judged


def reaching(scores: Scores, order: Ranking) -> "pd.DataFrame":
    """Return a row per setting and estimand with a unit: the seconds with their ends, and how they are known.

    The estimands are the first one and the means. The last columns hold the times at which the curve begins and ends.
    Empty without curves, or if no estimand has a unit.
    """
    import pandas as pd

    curves = scores.over_time
    columns = ["setting", "estimand", "seconds", "seconds_lower", "seconds_upper", "how", "begins", "ends"]
    if curves is None or curves.empty:
        return pd.DataFrame(columns=columns)
    estimands = [name for name in dict.fromkeys([scores.estimands[0], MEANS]) if unit_of(name)]
    rows = []
    for estimand in estimands:
        for setting in scores.settings:
            curve = curves[(curves.estimand == estimand) & (curves.setting == setting) & curves.risk.notna()]
            moved = setting not in order.stuck
            seconds, how = time_to(TENTH, curve.sort_values("time")) if moved else (NOTHING, NEVER_MOVED)
            rows.append([setting, estimand, *seconds, how, curve.time.min(), curve.time.max()])
    return pd.DataFrame([row for row in rows if row[1] in set(curves.estimand)], columns=columns)


def limits_of(row: Any) -> str:
    """Return in words which of a row's seconds are only bounds: before the curve begins, or after it ends."""
    parts = []
    if row.seconds <= row.begins:
        parts.append(f"at most {number(row.begins)} s, where the curve begins")
    elif row.seconds_lower <= row.begins:
        parts.append(f"lower end at most {number(row.begins)} s, where the curve begins")
    if row.how == MEASURED and row.seconds_upper > row.ends:
        parts.append(f"upper end extrapolated, beyond {number(row.ends)} s, the end of the curve")
    return "; ".join(parts)


def seconds_text(row: Any) -> str:
    """Return a row's seconds with their interval: "≤" if the curve begins there, ">" its end where it ends before.

    Examples
    --------
    >>> from types import SimpleNamespace
    >>> row = SimpleNamespace(
    ...     seconds=1.42, seconds_lower=1.13, seconds_upper=3.11, begins=1.13, ends=2.0, how="measured"
    ... )
    >>> seconds_text(row)
    '1.42 [≤ 1.13, > 2]'
    """
    centre, bracket = estimate(row.seconds, row.seconds_lower, row.seconds_upper)
    if row.seconds <= row.begins:
        centre = f"≤ {centre}"
    if not bracket.startswith("[") or ", " not in bracket:
        return centre
    lower, upper = bracket.strip("[]").split(", ")
    if row.seconds_lower <= row.begins:
        lower = f"≤ {lower}"
    if row.how == MEASURED and row.seconds_upper > row.ends:
        upper = f"> {number(row.ends)}"
    return f"{centre} [{lower}, {upper}]"


def first_with_compilation(scores: Scores, table: "pd.DataFrame") -> "list[tuple[str, float]]":
    """Return the settings with their seconds to the first estimand's level, compilation included, the first one first.

    A setting that states no compilation counts as having none.
    """
    rows = table[(table.estimand == scores.estimands[0]) & table.seconds.notna()]
    total = rows.seconds + rows.setting.map(scores.waits).fillna(0.0)
    finite = np.isfinite(total)
    return sorted(zip(rows.setting[finite], map(float, total[finite]), strict=True), key=lambda pair: pair[1])


def start_remains(curve: "pd.DataFrame", time: float) -> bool:
    """Return whether a setting is still losing the bias of its start at a time.

    Scatter alone falls as one over the time of drawing, and a bias that stays falls not at all; what the start leaves
    in a running mean falls as its square in the risk. So the answer is yes if the risk fell faster than the power
    :data:`STEEP` of the time of drawing since a third of it.

    Examples
    --------
    >>> import pandas as pd
    >>> t = np.array([0.0, 1.0, 2.0, 3.0])
    >>> [start_remains(pd.DataFrame({"time": t, "risk": 1 / (0.1 + t) ** power}), 3.0) for power in (0, 1, 2)]
    [False, False, True]
    """
    known = curve[(curve.time <= time * (1.0 + 1e-9)) & (curve.risk > 0.0)].sort_values("time")
    if len(known) < LEAST_POINTS:
        return False
    drawing = known.time.to_numpy() - float(known.time.iloc[0])
    middle = float(np.interp(drawing[-1] / 3.0, drawing, np.log(known.risk.to_numpy())))
    return middle - math.log(known.risk.iloc[-1]) > STEEP * math.log(3.0)


def time_to(tolerance: float, curve: "pd.DataFrame") -> tuple[Interval, str]:
    """Return the time from which on the error on a curve stays below a tolerance, and how it is known.

    Parameters
    ----------
    tolerance
        In the unit of the error, the root of the risk.
    curve
        Rows in the order of ``time`` with risk, bias_sq and variance and their ends, none of them missing.

    Examples
    --------
    A risk of 1 / t is .01 after 100 s:

    >>> import pandas as pd
    >>> t = pd.Series([10.0, 40.0, 160.0])
    >>> risks = {f"{name}{end}": 1 / t for name in ("risk", "variance") for end in ("", "_lower", "_upper")}
    >>> curve = pd.DataFrame({"time": t, "bias_sq": 0.0, "bias_sq_lower": 0.0, "bias_sq_upper": 0.0} | risks)
    >>> seconds, how = time_to(0.1, curve)
    >>> round(seconds.value, 6), how
    (100.0, 'measured')
    """
    if curve.empty:
        return NOTHING, NO_CURVE
    times = curve["time"].to_numpy(dtype=np.float64)
    ends = [_stays_below(tolerance**2, times, curve[f"risk{end}"].to_numpy()) for end in ("", "_lower", "_upper")]
    last = curve.iloc[-1]
    if math.isfinite(ends[0]):
        how = MEASURED
    elif last.bias_sq_lower > tolerance**2:
        return NOTHING, TOO_BIASED
    elif len(curve) > 1 and last.risk == curve.risk.iloc[0]:  # a fitted distribution
        return NOTHING, LEVEL
    else:
        how = EXTRAPOLATED
    beyond = [_beyond(tolerance, times, last, end) for end in ("", "_lower", "_upper")]
    seconds = [later if math.isinf(end) else end for end, later in zip(ends, beyond, strict=True)]
    return Interval(*seconds), how


def _stays_below(level: float, times: np.ndarray, risks: np.ndarray) -> float:
    """Return when a curve falls below a level for good, on a line between its points in logarithms.

    Infinite if it ends above, NaN if it is unknown.
    """
    if np.isnan(risks).any():
        return math.nan
    above = np.flatnonzero(risks > level)
    if not len(above):
        return float(times[0])
    k = int(above[-1])
    if k == len(times) - 1:
        return math.inf
    next_risk = float(risks[k + 1])
    if next_risk <= 0.0:  # not on a log scale
        return float(times[k + 1])
    share = math.log(risks[k] / level) / math.log(risks[k] / next_risk)
    return float(times[k] * (times[k + 1] / times[k]) ** share)


def _beyond(tolerance: float, times: np.ndarray, last: Any, end: str) -> float:
    """Return when the error would be the tolerance after the end of a curve, from one end of bias and variance."""
    start = float(times[0]) if len(times) > 1 else 0.0
    length = float(times[-1]) - start
    bias_sq, variance = (np.array([float(getattr(last, f"{name}{end}"))]) for name in ("bias_sq", "variance"))
    return max(start + float(extrapolated(bias_sq, variance, tolerance, length)[0]), float(times[-1]))
