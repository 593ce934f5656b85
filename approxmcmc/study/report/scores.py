"""Risks of the settings of one target at each budget, from which verdicts follow.

A verdict needs five replicates, because fewer give no useful interval. Settings are ranked only if the squared error of
the gold standard is at most a tenth of the least risk; otherwise only those are called worse whose own risk is ten
times this error. A page makes many verdicts, so their intervals hold jointly:
each of m verdicts has level 5 % / m (Bonferroni), and its 95 % interval is widened on the log scale by the ratio of the
normal quantiles.
"""

import dataclasses
import math
from typing import TYPE_CHECKING, Any

from scipy import special

if TYPE_CHECKING:
    import pandas as pd

CONFIDENCE = 0.95
# Share of the least risk; above it, the error of the gold standard affects the order of the settings.
LARGEST_FLOOR = 0.1
TINY = 1e-3  # of the least risk: a smaller error of the gold standard is not told to its digits


@dataclasses.dataclass(frozen=True, eq=False)
class Scores:
    """The risks of the settings of one target.

    Parameters
    ----------
    target
        Name of the target.
    exact
        The setting without bias that the others are compared with; None if every setting is biased.
    at_budgets
        A row per setting, estimand and time, with risk, bias_sq, variance and ratio to the exact setting, their ends
        ``_lower`` and ``_upper``, the squared error ``floor`` of the gold standard, and the numbers of replicates that
        delivered and that were planned. Empty without a gold standard.
    """

    target: str
    exact: str | None
    at_budgets: "pd.DataFrame"

    @property
    def settings(self) -> list[str]:
        """Labels of the settings, in the order of the study."""
        return list(dict.fromkeys(self.at_budgets["setting"])) if len(self.at_budgets) else []

    @property
    def estimands(self) -> list[str]:
        """Labels of the estimands, in the order of the study."""
        return list(dict.fromkeys(self.at_budgets["estimand"])) if len(self.at_budgets) else []

    @property
    def times(self) -> list[float]:
        """The times in seconds of a chain, the longest last."""
        return sorted(map(float, set(self.at_budgets["time"]))) if len(self.at_budgets) else []

    def at(self, estimand: str, time: float) -> "pd.DataFrame":
        """Return one row per setting at a time, indexed by setting."""
        table = self.at_budgets
        return table[(table.estimand == estimand) & (table.time == time)].set_index("setting")

    def at_last_budget(self, estimand: str) -> "pd.DataFrame":
        """Return one row per setting at the longest common time, indexed by setting."""
        return self.at(estimand, self.times[-1])

    @property
    def replicates(self) -> dict[str, int]:
        """The number of finished chains of each setting, the smallest over estimands and times."""
        return {name: int(self.at_budgets.replicates[self.at_budgets.setting == name].min()) for name in self.settings}


def floor_share(table: "pd.DataFrame") -> float:
    """Return the gold standard's squared error over the least risk of a table.

    Infinite if the least risk is 0 or less; 0 if no risk is known or the gold standard has no error.
    """
    least = float(table.risk.min())
    floor = float(table.floor.max())
    if math.isnan(least) or floor == 0.0:
        return 0.0
    return floor / least if least > 0.0 else math.inf


def can_rank(table: "pd.DataFrame") -> bool:
    """Return whether the gold standard is precise enough to rank the settings of a table."""
    return floor_share(table) <= LARGEST_FLOOR


def beside_least_risk(table: "pd.DataFrame") -> str:
    """Return a phrase that compares the gold standard's squared error with the least risk."""
    share = floor_share(table)
    if share < TINY:
        return f"less than {TINY:.1%} of the least risk"
    return f"{float(f'{100.0 * share:.2g}'):g}% of the least risk" if share <= 1.0 else "above the least risk"


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
