"""How often a test decided differently from the full data, with an exact binomial interval.

An audit repeats a decision on all data with the same u. The wrong-decision rate is a ratio of sums over audited
decisions; its interval is that of Clopper and Pearson (1934), which covers at least as often as it says for
independent decisions.
"""

from typing import Any

import numpy as np
import xarray as xr
from scipy import special

from approxmcmc.contracts.arguments import naming_the_arguments
from approxmcmc.diagnostics.records import check_confidence, group
from approxmcmc.errors import InvalidInputError

_RATES = {
    "wrong_decision": "wrong_decisions",
    "wrong_accept": "wrong_accepts",
    "wrong_reject": "wrong_rejects",
}


@naming_the_arguments
def clopper_pearson(successes: Any, trials: Any, confidence: float = 0.95) -> tuple[np.ndarray, np.ndarray]:
    """Return the exact two-sided confidence limits of a binomial proportion.

    Parameters
    ----------
    successes, trials
        Counts k and n, 0 <= k <= n; arrays broadcast.
    confidence
        Guaranteed coverage, in (0, 1).

    Returns
    -------
    lower, upper
        Quantiles of Beta(k, n - k + 1) and Beta(k + 1, n - k). The lower limit is 0 if k = 0, the upper limit 1 if
        k = n; both are NaN if n = 0.

    Examples
    --------
    >>> lower, upper = clopper_pearson(0, 100)
    >>> float(lower), round(float(upper), 4)
    (0.0, 0.0362)
    """
    check_confidence(confidence)
    k, n = np.broadcast_arrays(np.asarray(successes, dtype=float), np.asarray(trials, dtype=float))
    if np.any((k < 0) | (k > n)):  # NaN: unknown, and so are the limits
        raise InvalidInputError(
            f"clopper_pearson: successes must lie between 0 and trials, found successes={successes!r} and "
            f"trials={trials!r}"
        )
    tail = (1 - confidence) / 2
    # The incomplete beta function needs positive parameters; the limits at k = 0 and k = n are known without it.
    lower = np.where(k > 0, special.betaincinv(np.maximum(k, 1), n - k + 1, tail), 0.0)
    upper = np.where(k < n, special.betaincinv(k + 1, np.maximum(n - k, 1), 1 - tail), 1.0)
    none = n == 0
    return np.where(none, np.nan, lower), np.where(none, np.nan, upper)


@naming_the_arguments
def wrong_decision_rate(
    trace: xr.DataTree, *, sample_dims: tuple[str, ...] = ("chain", "draw"), confidence: float = 0.95
) -> xr.Dataset:
    """Return the rates of wrong decisions, wrong accepts and wrong rejects among audited decisions.

    Parameters
    ----------
    trace
        A trace whose ``sample_stats`` hold ``decisions_audited`` and ``wrong_decisions``; without them every rate is
        NaN.
    sample_dims
        Dims that are pooled; ``("draw",)`` gives one rate per chain.
    confidence
        Level of the Clopper-Pearson intervals.

    Returns
    -------
    xarray.Dataset
        ``decisions_audited``, ``wrong_decisions``, and for each of ``wrong_decision``, ``wrong_accept``,
        ``wrong_reject`` the variables ``<name>_rate``, ``<name>_lower``, ``<name>_upper``. NaN where no decision was
        audited; the last two also if the trace has no ``wrong_accepts``.

    Notes
    -----
    Rates are per audited decision, so wrong accepts plus wrong rejects are wrong decisions. Wrong accepts minus wrong
    rejects are the error of the acceptance probability, in which the two kinds cancel. Neighbouring
    decisions of a chain are dependent, so the interval is slightly too short for a chain that moves slowly. For
    MinibatchBarker the rate counts differences from the exact decision with the same u, which are noise, not bias.

    Examples
    --------
    >>> rates = amc.diagnostics.wrong_decision_rate(trace)  # doctest: +SKIP
    >>> float(rates.wrong_decision_rate), float(rates.wrong_decision_upper)  # doctest: +SKIP
    (0.004, 0.0086)
    """
    stats = group(trace, "sample_stats")
    shape = (stats.sizes["chain"], stats.sizes["draw"])
    nothing = xr.DataArray(np.zeros(shape, dtype=np.int64), dims=("chain", "draw"))

    def total(name: str) -> xr.DataArray:
        return stats.get(name, nothing).sum(list(sample_dims))

    counts = {"wrong_decisions": total("wrong_decisions")}
    audited = total("decisions_audited")
    if "wrong_accepts" in stats:
        counts["wrong_accepts"] = total("wrong_accepts")
        counts["wrong_rejects"] = counts["wrong_decisions"] - counts["wrong_accepts"]
    out: dict[str, xr.DataArray] = {"decisions_audited": audited, "wrong_decisions": counts["wrong_decisions"]}
    for rate, count in _RATES.items():
        if count in counts:
            lower, upper = clopper_pearson(counts[count], audited, confidence)
            out[f"{rate}_rate"] = counts[count] / audited.where(audited > 0)
        else:  # a sampler that does not separate accepts from rejects
            out[f"{rate}_rate"] = audited * np.nan
            lower = upper = np.full(audited.shape, np.nan)
        out[f"{rate}_lower"] = audited.copy(data=lower)
        out[f"{rate}_upper"] = audited.copy(data=upper)
    return xr.Dataset(out, attrs={"confidence": confidence, "interval": "Clopper-Pearson"})
