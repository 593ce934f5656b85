"""Effective samples for each datum read and each second, and errors of the acceptance probability by audits."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from approxmcmc.study.report import Table
from approxmcmc.study.report.clocks import clock_of

if TYPE_CHECKING:
    import xarray as xr

    from approxmcmc.study.results import StudyResults


def effective_samples(results: "StudyResults") -> list[Table]:
    """Tabulate effective samples, their cost, data read by a decision and acceptance rate of each target and sampler.

    The effective sample size is ArviZ's bulk size of each replicate's worst coordinate, added over replicates.
    """
    import pandas as pd

    record = clock_of(results).record
    rows = [
        {"target": target, "sampler": label, **_costs(traces, record)}
        for (target, label), traces in results.traces().items()
    ]
    caption = (
        "Bulk effective sample size of the worst coordinate, added over replicates, by data points touched and by "
        "seconds of sampling (audits excluded); data read and probability of acceptance per decision."
    )
    return [Table("Effective samples and their cost", caption, pd.DataFrame(rows))] if rows else []


def acceptance_error(results: "StudyResults") -> list[Table]:
    """Tabulate errors of the acceptance probability, by audits with repeated decisions, and coupled flips.

    The mean square error of the audits contains their noise, which is known and subtracted.
    """
    import pandas as pd

    rows = []
    for (target, label), traces in results.traces().items():
        error, noise = (_joined(traces, f"audit_acceptance_{name}") for name in ("error", "noise"))
        if error is None or noise is None or not np.isfinite(error).any():
            continue
        kept = np.isfinite(error)
        square = float((error[kept] ** 2 - noise[kept] ** 2).mean())
        total = {name: sum(int(t.sample_stats[name].sum()) for t in traces) for name in _AUDITS}
        rows.append(
            {
                "target": target,
                "sampler": label,
                "audits": total["decisions_audited"],
                "mean error": float(error[kept].mean()),
                "its standard error": float(error[kept].std() / np.sqrt(kept.sum())),
                "root mean square error": float(np.sqrt(max(square, 0.0))),
                "coupled flips": total["wrong_decisions"] / total["decisions_audited"],
                "largest |skewness| / sqrt(n)": max(float(t.sample_stats["skewness_ratio"].max()) for t in traces),
            }
        )
    caption = (
        "Acceptance probability of the test, averaged over minibatches, minus the exact one, at audited decisions; "
        "the audits' noise is subtracted from the root mean square. Coupled flips are differences from the exact "
        "decision with the same uniform; they come from the minibatch's noise and are no error."
    )
    return [Table("Error of the acceptance probability", caption, pd.DataFrame(rows))] if rows else []


_AUDITS = ("decisions_audited", "wrong_decisions")


def _joined(traces: Sequence["xr.DataTree"], name: str) -> Any:
    values = [t.sample_stats[name].values.ravel() for t in traces if name in t.sample_stats]
    return np.concatenate(values) if values else None


def _costs(traces: Sequence["xr.DataTree"], clock: str) -> dict[str, float]:
    effective = sum(_worst_bulk_size(trace) for trace in traces)
    stats = [trace.sample_stats for trace in traces]
    touched, decisions = (sum(float(s[name].sum()) for s in stats) for name in ("datapoints_touched", "decisions_made"))
    seconds = sum(float(s[clock].sum()) for s in stats)
    return {
        "effective samples": effective,
        "per million data": 1e6 * effective / touched if touched else float("nan"),
        "data per effective sample": touched / effective if effective else float("nan"),
        "per second": effective / seconds if seconds else float("nan"),
        "data per decision": touched / decisions if decisions else 0.0,
        "acceptance": float(np.mean([float(s["acceptance_rate"].mean()) for s in stats])),
    }


def _worst_bulk_size(trace: "xr.DataTree") -> float:
    import arviz as az

    if trace.posterior.sizes["draw"] < 4:
        return 0.0
    sizes = az.ess(trace["posterior"].dataset, method="bulk")
    return min(float(sizes[name].min()) for name in sizes.data_vars)
