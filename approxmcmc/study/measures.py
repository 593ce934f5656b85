"""What a study measures: estimands of a posterior, measures of a chain, and published numbers to compare with.

A measure maps a one-chain trace to one number. A study has the measures below and those that it declares; the report
computes their intervals over replicates. The standard estimands are scaled by the standard deviations of the gold
standard, so that posteriors of different scales can be compared.
"""

import dataclasses
import math
from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING, Any, Final

from approxmcmc.contracts.arguments import check_settings
from approxmcmc.diagnostics.standard import MEANS, TAILS, VARIANCES
from approxmcmc.errors import StudyError

if TYPE_CHECKING:
    import xarray as xr


Measure = Callable[["xr.DataTree"], float]


def ratio_of_sums(trace: "xr.DataTree", above: str, below: str) -> float:
    """Return the sum of the record `above` over that of `below`, or over the number of draws if `below` is "draw".

    NaN if a record is missing or the divisor is 0.
    """
    stats = trace["sample_stats"]
    if above not in stats or (below != "draw" and below not in stats):
        return math.nan
    bottom = float(stats.sizes["draw"] if below == "draw" else stats[below].sum())
    return float(stats[above].sum()) / bottom if bottom else math.nan


def seconds_of_draws(stats: Any) -> "xr.DataArray":
    """Return the seconds of each draw from ``sample_stats``: the processor's, or the wall's if a trace has no others.

    Other programs on the machine do not change processor seconds.

    Examples
    --------
    >>> import xarray as xr
    >>> stats = xr.Dataset({"perf_counter_diff": ("draw", [2.0]), "thread_time_diff": ("draw", [1.5])})
    >>> float(seconds_of_draws(stats)[0])
    1.5
    """
    seconds: xr.DataArray = stats["thread_time_diff" if "thread_time_diff" in stats else "perf_counter_diff"]
    return seconds


def steps_per_second(trace: "xr.DataTree") -> float:
    """Return steps per second of sampling, audits and tuning excluded."""
    stats = trace["sample_stats"]
    seconds = float(seconds_of_draws(stats).sum()) if "perf_counter_diff" in stats else math.nan
    return stats.sizes["draw"] * int(stats.attrs.get("thin", 1)) / seconds if seconds else math.nan


def acceptance(trace: "xr.DataTree") -> float:
    """Return the mean acceptance rate."""
    stats = trace["sample_stats"]
    return float(stats["acceptance_rate"].mean()) if "acceptance_rate" in stats else math.nan


def data_per_decision(trace: "xr.DataTree") -> float:
    """Return the share of the data that one decision reads."""
    n_obs = float(trace["sample_stats"].attrs.get("n_obs", math.nan))
    return ratio_of_sums(trace, "datapoints_touched", "decisions_made") / n_obs


def wrong_decisions(trace: "xr.DataTree") -> float:
    """Return the share of audited decisions that differ from the decision on all data."""
    return ratio_of_sums(trace, "wrong_decisions", "decisions_audited")


MEASURES: Final[Mapping[str, Measure]] = {
    "steps per second": steps_per_second,
    "acceptance": acceptance,
    "data per decision": data_per_decision,
    "wrong decisions": wrong_decisions,
}


ALL_STANDARD = (MEANS, VARIANCES, TAILS)


@dataclasses.dataclass(frozen=True)
class PaperValue:
    """A published number, and our measure that is compared with it.

    Parameters
    ----------
    value
        The number, in `unit`.
    unit
        Unit of both numbers: ``"steps per second"``, ``"1"`` for a share or a parameter.
    printed
        Place in the paper: ``"table 1"``, ``"figure 3, legend"``.
    measure
        Name of the measure: one of the study's, or ``"steps per second"``, ``"acceptance"``, ``"data per decision"``,
        ``"wrong decisions"``.
    setting
        Label of the setting that it was measured for.
    target
        Name of the target; optional if the study has only one.
    relative_to
        Label of another setting: the value is the ratio of the two settings' measures.
    machine
        Whether the value depends on the machine and its code, as speeds do: then it is shown but not compared.
    differs
        What else differs between the two experiments, in words; shown with the difference.
    margin
        Largest difference, in `unit`, at which the two numbers count as equal. The page says that they agree if the
        interval of ours lies within the margin of the value; 0: they never agree.

    Raises
    ------
    StudyError
        If the value is not finite, the margin is negative or not finite, or `unit`, `printed`, `measure` or `setting`
        is empty.

    Examples
    --------
    >>> value = PaperValue(75484 / 400, "steps per second", "figure 3", measure="steps per second", setting="exact")
    >>> value.value
    188.71
    """

    value: float
    unit: str
    printed: str
    measure: str = dataclasses.field(kw_only=True)
    setting: str = dataclasses.field(kw_only=True)
    target: str = dataclasses.field(default="", kw_only=True)
    relative_to: str = dataclasses.field(default="", kw_only=True)
    machine: bool = dataclasses.field(default=False, kw_only=True)
    differs: str = dataclasses.field(default="", kw_only=True)
    margin: float = dataclasses.field(default=0.0, kw_only=True)

    def __post_init__(self) -> None:
        """Check the value and the texts."""
        check_settings(self)
        if not math.isfinite(self.value):
            raise StudyError(f"A published value needs a finite `value`; found {self.value!r}.")
        if not 0.0 <= self.margin < math.inf:
            raise StudyError(f"The published value {self.value} needs a finite `margin` >= 0; found {self.margin!r}.")
        for field in ("unit", "printed", "measure", "setting"):
            if not getattr(self, field):
                raise StudyError(f"The published value {self.value} needs `{field}`; found an empty text.")

    def check(
        self, study: str, name: str, *, measures: Collection[str], settings: Collection[str], targets: Collection[str]
    ) -> None:
        """Raise StudyError if a value names something that the study lacks; the message lists the valid names."""
        allowed_names = {"measure": measures, "setting": settings}
        if self.relative_to:
            allowed_names["relative_to"] = settings
        if self.target or len(targets) > 1:
            allowed_names["target"] = targets
        for field, names in allowed_names.items():
            if getattr(self, field) not in names:
                raise StudyError(
                    f"Study {study!r}: the published value {name!r} needs `{field}`, one of {list(names)}; found "
                    f"{getattr(self, field)!r}."
                )
