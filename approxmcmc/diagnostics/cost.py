"""What a run cost, per chain and in total: data, likelihood evaluations, decisions, seconds; tuning apart."""

from typing import TYPE_CHECKING, Any

import numpy as np
import xarray as xr

from approxmcmc.contracts.arguments import naming_the_arguments
from approxmcmc.diagnostics.clock import RECORD, UNKNOWN, with_clock
from approxmcmc.diagnostics.decisions import clopper_pearson
from approxmcmc.diagnostics.records import group, lengths, stat_attribute, sums, tuning_totals
from approxmcmc.diagnostics.traces import one_trace

if TYPE_CHECKING:
    import pandas as pd

_COUNTS = (
    "datapoints_touched",
    "likelihood_evaluations",
    "gradient_evaluations",
    "bound_evaluations",
    "auxiliary_updates",
    "decisions_made",
    "decision_rounds",
    "decisions_audited",
    "wrong_decisions",
    "wrong_accepts",
)
_OPTIONAL = ("gradient_evaluations", "bound_evaluations", "auxiliary_updates")
_TUNING = ("datapoints_touched", "likelihood_evaluations", "decisions_made")


@naming_the_arguments
def cost_summary(
    trace: xr.DataTree, *, confidence: float = 0.95, clock: Any = None, warmup_seconds: Any = None
) -> "pd.DataFrame":
    """Summarise what a run cost and how often it decided wrongly.

    Parameters
    ----------
    trace
        A trace in any form that :func:`approxmcmc.as_trace` takes. What its sampler does not record is NaN.
    confidence
        Level of the Clopper-Pearson intervals of the wrong-decision rate.
    clock, warmup_seconds
        Seconds of the draws, and before them, if the trace does not record them; as for :func:`approxmcmc.risk`.

    Returns
    -------
    pandas.DataFrame
        One row per chain (index ``chain``) and a last row ``"all"``, in which counts and seconds are added up over
        chains and rates are ratios of sums. Columns:

        - ``draws``: kept draws.
        - ``datapoints_touched``, ``likelihood_evaluations`` (and gradients, bounds, auxiliary updates where counted).
        - ``data_fraction``: data touched per decision over N; per step for samplers without decisions (AlwaysAccept).
        - ``decisions_made``, ``rounds_per_decision``: accept/reject answers, looks at the data that each took.
        - ``decisions_audited``, ``wrong_decisions``; ``wrong_decision_rate`` with its limits ``wrong_decision_lower``
          and ``wrong_decision_upper``, ``wrong_accept_rate``, ``wrong_reject_rate``: per audited decision, NaN without.
        - ``acceptance_rate``: mean acceptance probability, as each step estimated it; ``accepted``: share of the kept
          draws whose last step accepted its proposal.
        - ``seconds``, ``seconds_per_draw``: wall-clock of the draws, audits and set-up excluded.
        - ``tuning_seconds``, ``tuning_datapoints_touched``, ...: the tuning steps, in no other column.
        - ``clock``, for a trace of another library: how its draws were timed, or that this is unknown.

    Examples
    --------
    >>> summary = amc.cost_summary(trace)  # doctest: +SKIP
    >>> summary.loc["all", ["data_fraction", "wrong_decision_rate", "seconds"]]  # doctest: +SKIP
    """
    import pandas as pd

    trace = with_clock(one_trace(trace), clock, warmup_seconds)
    table = pd.DataFrame({**_totals(trace), "full_data_reads": full_data_reads(trace)})
    together = table.sum(skipna=False).to_frame().T
    table = pd.concat([table, together], ignore_index=True)
    stats = group(trace, "sample_stats")
    audited = table["decisions_audited"].where(table["decisions_audited"] > 0)
    lower, upper = clopper_pearson(table["wrong_decisions"], audited.fillna(0), confidence)
    out = pd.DataFrame({"draws": table["draws"], "datapoints_touched": table["datapoints_touched"]})
    out["data_fraction"] = table["datapoints_touched"] / _positive(table["full_data_reads"])
    for name in ("likelihood_evaluations", *(name for name in _OPTIONAL if name in stats), "decisions_made"):
        out[name] = table[name]
    out["rounds_per_decision"] = table["decision_rounds"] / _positive(table["decisions_made"])
    for name in ("decisions_audited", "wrong_decisions"):
        out[name] = table[name]
    out["wrong_decision_rate"] = table["wrong_decisions"] / audited
    out["wrong_decision_lower"] = lower
    out["wrong_decision_upper"] = upper
    out["wrong_accept_rate"] = table["wrong_accepts"] / audited
    out["wrong_reject_rate"] = (table["wrong_decisions"] - table["wrong_accepts"]) / audited
    for name in ("acceptance_rate", "accepted"):
        out[name] = table[name] / _positive(table["draws"])
    out["seconds"] = table["perf_counter_diff"]
    out["seconds_per_draw"] = table["perf_counter_diff"] / _positive(table["draws"])
    for name in table.columns[table.columns.str.startswith("tuning_")]:
        out[name] = table[name]
    whole = ["draws", *(name for name in out if name in _COUNTS or name.removeprefix("tuning_") in _TUNING)]
    out = out.astype({name: np.int64 for name in whole if out[name].notna().all()})
    if "clock" in stats.attrs or RECORD not in stats:
        out["clock"] = stats.attrs["clock"] if RECORD in stats and "clock" in stats.attrs else UNKNOWN
    out.index = pd.Index([*np.asarray(stats["chain"]).tolist(), "all"], name="chain", dtype=object)
    return out


def full_data_reads(trace: xr.DataTree) -> np.ndarray:
    """Return the data that each chain would have touched if every decision had read all N: decisions times N.

    For samplers without decisions, such as AlwaysAccept, steps count instead. NaN if N is unknown.
    """
    stats = group(trace, "sample_stats")
    steps = lengths(trace) * stat_attribute(trace, "thin", 1)
    decisions = sums(trace, "decisions_made")
    decisions = np.zeros(stats.sizes["chain"]) if decisions is None else decisions
    return np.where(decisions > 0, decisions, steps) * stat_attribute(trace, "n_obs", np.nan)


def _totals(trace: xr.DataTree) -> dict[str, Any]:
    """Return the sum of every record over each chain's draws, by name; NaN for records that the trace lacks."""
    stats = group(trace, "sample_stats")
    unknown = np.full(stats.sizes["chain"], np.nan)
    totals: dict[str, Any] = {"draws": lengths(trace)}
    for name in (*_COUNTS, "acceptance_rate", "accepted", "perf_counter_diff"):
        sums_of_stats = sums(trace, name)
        totals[name] = unknown if sums_of_stats is None else sums_of_stats
    for name, column in (("perf_counter_diff", "seconds"), *((name, name) for name in _TUNING)):
        sums_of_stats = tuning_totals(trace, name)
        totals[f"tuning_{column}"] = unknown if sums_of_stats is None else sums_of_stats
    return totals


def _positive(values: Any) -> Any:
    """Return the values with NaN in place of those that are not positive: denominators."""
    return values.where(values > 0)
