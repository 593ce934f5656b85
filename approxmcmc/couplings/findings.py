"""The results of finished audits as one Dataset, with units and meanings."""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import xarray as xr
from scipy.stats import norm

from approxmcmc.contracts import Finding
from approxmcmc.couplings.forms import AuditRecord
from approxmcmc.couplings.measure import AtDraws, Draws, Quantities, at_draws
from approxmcmc.couplings.summands import Average, DriftCurve, average, shares, unknown
from approxmcmc.couplings.verdict import AuditSummary, identity_of_draws, optimal_share, verdict
from approxmcmc.diagnostics.gates import distance

MEANINGS = {
    "bias": "bias of the mean of the draws",
    "bias_sd": "bias in posterior standard deviations",
    "mean": "mean of the draws",
    "debiased": "mean of the draws minus the bias",
    "posterior_sd": "standard deviation of the draws",
    "variance_per_audit": "variance of one audit's estimate of the bias",
    "largest_share": "share of the largest audit in the sum of absolute values over all audits",
    "drift": "how far that many exact steps move the mean, in the sign of the bias",
    "delta": "acceptance probability of the test minus acceptance probability on all data",
    "alpha": "acceptance probability on all data",
    "alpha_hat": "acceptance probability of the test",
    "weight": "weight of the sum over the coupled chains; 0 without coupled chains",
    "meeting_time": "steps until the coupled chains met, or were cut off; -1 without coupled chains",
    "met": "whether the coupled chains met; true without coupled chains",
    "wrong_decision_rate": "share of decisions that differ from the decision on all data",
    "mean_abs_delta": "mean absolute error of the acceptance probability",
    "tv_bound": "bound on the total variation distance of the draws' distribution from the posterior",
    "sign_score": "E[alpha sign(Lambda)], 0 for exact draws",
    "energy_drift": "E[alpha (log pi(theta') - log pi(theta))], 0 for exact draws",
    "forgetting_time": "mean steps until exact chains from distant draws meet",
    "passes": "evaluations of all terms or gradients, pilots included",
    "seconds": "seconds, pilots included",
    "optimal_audit_share": "share of the time to spend on audits so that debiased means have the least risk",
}


class FinishedAudits(NamedTuple):
    """A finished run of audits.

    `audited` holds the indices of the audited draws in ``draws.flat``, `rows` (n_audits, n_estimands) the estimates of
    the bias by single audits. `drift` has the means of these estimates if each audit stopped after T steps, by T.
    `other_passes` counts the passes over the data that the pilots and the estimate of the forgetting time made.
    `failed` holds the failed checks of the run that made the draws, see `verdict.failed_checks`.
    """

    trace: xr.DataTree
    measure: Quantities
    draws: Draws
    audited: np.ndarray
    records: list[AuditRecord]
    rows: np.ndarray
    drift: DriftCurve
    audit_seconds: float
    seconds: float
    confidence: float
    max_steps: int
    other_passes: float
    forgetting_time: float
    failed: Sequence[Finding] = ()


def as_dataset(run: FinishedAudits) -> xr.Dataset:
    """Return all results of the audits as a Dataset; see `bias`."""
    columns = {
        name: np.array(values) for name, values in zip(AuditRecord._fields, zip(*run.records, strict=True), strict=True)
    }
    confidence = run.confidence
    launched = columns["weight"] != 0.0
    has_delta = bool(np.isfinite(columns["delta"]).all())
    averages = average(run.rows) if has_delta or launched.any() else unknown(run.rows)
    at = at_draws(run.measure, run.draws, run.audited, columns["log_density"])
    strain = np.where(launched, np.abs(columns["weight"]) * columns["meeting_time"], 0.0)
    # A proposal that is accepted with probability 0 may have density 0.
    energy_change = np.where(columns["alpha"] == 0.0, 0.0, columns["energy_change"])
    scalars: dict[str, Any] = {
        **_with_limits("wrong_decision_rate", columns["wrong"], confidence),
        **_with_limits("mean_abs_delta", distance(columns["delta"], columns["noise"]), confidence),
        **_with_limits("tv_bound", strain if has_delta else np.full(len(strain), math.nan), confidence),
        **_with_limits("sign_score", columns["alpha"] * np.sign(columns["log_ratio"]), confidence),
        **_with_limits("energy_drift", columns["alpha"] * energy_change, confidence),
    }
    answer, reasons = verdict(_evidence(run, averages, at, launched, columns["met"], strain, scalars))
    c2 = _mean_over(averages.variance, at.sd) * run.audit_seconds / averages.n
    scalars |= {
        "n_audits": averages.n,
        "n_couplings": int(launched.sum()),
        "unmet": int((~columns["met"]).sum()),
        "passes": float(columns["passes"].sum()) + run.other_passes,
        "forgetting_time": run.forgetting_time,
        "seconds": run.seconds,
        "optimal_audit_share": optimal_share(chain_cost(run.trace, at), c2),
        "verdict": answer,
        "reasons": "; ".join(reasons),
    }
    per_audit = {
        name: ("audit", columns[name]) for name in ("delta", "alpha", "alpha_hat", "weight", "meeting_time", "met")
    }
    data: dict[str, Any] = {**_by_estimand(run, averages, at), **_drift(run), **per_audit, **scalars}
    dataset = xr.Dataset(data, coords={"estimand": run.measure.labels})
    for name, meaning in MEANINGS.items():
        dataset[name].attrs["long_name"] = meaning
    names = sorted(map(str, run.trace["posterior"].data_vars))
    dataset.attrs |= {"variables": "\n".join(names), "draws": identity_of_draws(run.trace, names)}
    dataset.attrs |= {"verdict": answer, "problems": ", ".join(finding.check for finding in run.failed)}
    dataset.attrs |= {"cost_of_draws": chain_cost(run.trace, at), "cost_of_audits": c2}
    return dataset


def _by_estimand(run: FinishedAudits, averages: Average, at: AtDraws) -> dict[str, Any]:
    lower, upper = averages.interval(run.confidence)
    margin = norm.ppf(0.5 + 0.5 * run.confidence) * np.hypot(averages.error, np.nan_to_num(at.error))
    debiased = at.mean - averages.mean
    values = {
        "bias": averages.mean,
        "bias_lower": lower,
        "bias_upper": upper,
        "bias_sd": _in_sds(averages.mean, at.sd),
        "mean": at.mean,
        "debiased": debiased,
        "debiased_lower": debiased - margin,
        "debiased_upper": debiased + margin,
        "posterior_sd": at.sd,
        "variance_per_audit": averages.variance,
        "largest_share": shares(run.rows),
    }
    return {name: ("estimand", value) for name, value in values.items()}


def _drift(run: FinishedAudits) -> dict[str, Any]:
    longest = max((record.meeting_time for record in run.records), default=0)
    drift = run.drift.until(max(longest, 1))
    margin = norm.ppf(0.5 + 0.5 * run.confidence) * drift.error
    named = {"drift": drift.value, "drift_lower": drift.value - margin, "drift_upper": drift.value + margin}
    return {
        "step": ("step", drift.steps, {"units": "exact steps"}),
        **{name: (("estimand", "step"), value.T) for name, value in named.items()},
    }


def _evidence(
    run: FinishedAudits,
    averages: Average,
    at: AtDraws,
    launched: np.ndarray,
    met: np.ndarray,
    strain: np.ndarray,
    scalars: Any,
) -> AuditSummary:
    usable = (at.sd > 0.0) & np.isfinite(averages.mean)
    sd = at.sd[usable]
    return AuditSummary(
        [label for label, kept in zip(run.measure.labels, usable, strict=True) if kept],
        averages.mean[usable] / sd,
        averages.error[usable] / sd,
        averages.variance[usable] / sd**2,
        averages.n,
        int(launched.sum()),
        int((~met).sum()),
        run.max_steps,
        scalars["tv_bound_upper"],
        float(shares(strain)),
        run.forgetting_time,
        run.confidence,
        run.failed,
    )


def _with_limits(name: str, values: np.ndarray, confidence: float) -> dict[str, float]:
    """Return a mean over audits with its limits; NaN if no audit provides it."""
    averages = average(values)
    lower, upper = averages.interval(confidence)
    return {name: float(averages.mean), f"{name}_lower": float(lower), f"{name}_upper": float(upper)}


def _in_sds(values: np.ndarray, sd: np.ndarray) -> np.ndarray:
    return np.divide(values, sd, out=np.full(values.shape, np.nan), where=sd > 0.0)


def _mean_over(variance: np.ndarray, sd: np.ndarray) -> float:
    """Return the mean variance over estimands, in posterior sds squared."""
    return float(np.nanmean(_in_sds(variance, sd**2)))


def chain_cost(trace: xr.DataTree, at: AtDraws) -> float:
    """Return the seconds of the run times the mean squared error of its means, in posterior sds squared.

    NaN if the trace records no seconds.
    """
    stats = trace["sample_stats"].dataset if "sample_stats" in trace.children else {}
    seconds = float(stats["perf_counter_diff"].sum()) if "perf_counter_diff" in stats else math.nan
    return seconds * _mean_over(at.error**2, at.sd)
