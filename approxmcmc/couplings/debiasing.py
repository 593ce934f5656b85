r"""Subtract the estimated bias from means, and decide whether this lowers the risk.

Let c1 be the seconds of the chain times the variance of its mean, c2 = V t_a the variance of an audit times its
seconds, both in posterior variances. If a share f of a time B is spent on audits,

    risk = c1 / ((1 - f) B) + c2 / (f B),    least at f* = sqrt(c2) / (sqrt(c1) + sqrt(c2)),

with the least value (sqrt(c1) + sqrt(c2))^2 / B. The risk of the chain alone is b^2 + c1 / B. So debiased means have
the smaller risk from B = (c2 + 2 sqrt(c1 c2)) / b^2 on.
"""

import math

import numpy as np
import xarray as xr

from approxmcmc.couplings.verdict import ESTIMATES
from approxmcmc.errors import IncompatibleError, InvalidInputError


def optimal_share(c1: float, c2: float) -> float:
    """Return f*, the best share of time for audits; NaN if a cost is unknown.

    Examples
    --------
    >>> round(optimal_share(2.4e-4, 2.0e-4), 2)
    0.48
    """
    return math.sqrt(c2) / (math.sqrt(c1) + math.sqrt(c2)) if c1 + c2 > 0.0 else math.nan


def debias(trace: xr.DataTree, bias: xr.Dataset) -> xr.Dataset:
    r"""Return posterior means with the estimated bias subtracted, and whether this lowers the risk.

    .. math:: \tilde h = \bar h - \hat b, \qquad
              \mathrm{sd}(\tilde h)^2 = \mathrm{sd}(\bar h)^2 + \mathrm{sd}(\hat b)^2 .

    Parameters
    ----------
    trace
        The audited trace; its means are used.
    bias
        Output of `bias` for this trace.

    Returns
    -------
    xarray.Dataset
        By ``estimand``: ``mean``, ``bias``, ``debiased`` with limits, and ``estimate``, which is ``debiased`` if
        ``applied`` is true, otherwise ``mean``. ``applied`` is true if audits cost less than the chain for the same
        variance (c2 < c1) and the verdict gives an estimate. ``pays_from`` (estimand): seconds of chain and audits
        together from which debiased means have the smaller risk, if the true bias equals its estimate.
        ``optimal_audit_share``: the share of the time to spend on audits. Attribute ``sentence``: the result in words.

    Raises
    ------
    IncompatibleError
        When `bias` was not computed from the draws of `trace`.

    Notes
    -----
    The covariance of the mean and the audits through common draws is ignored. Guarantee: the same as for `bias`.

    References
    ----------
    P. W. Glynn, C.-H. Rhee (2014). Exact estimation for Markov chain equilibrium expectations. J. Appl. Probab.

    Examples
    --------
    >>> found = amc.bias(trace, target, sampler)  # doctest: +SKIP
    >>> amc.debias(trace, found).estimate  # doctest: +SKIP
    """
    if not isinstance(bias, xr.Dataset) or "debiased" not in bias:
        raise InvalidInputError(f"debias needs the Dataset that bias returned, found a {type(bias).__name__}")
    _check_same_draws(trace, bias)
    c1, c2 = float(bias.attrs["cost_of_draws"]), float(bias.attrs["cost_of_audits"])
    verdict = str(bias["verdict"].item())
    cheap, estimated = c2 < c1, verdict in ESTIMATES
    applied = cheap and estimated
    relative = np.square(bias["bias_sd"])
    found = bias[["mean", "bias", "debiased", "debiased_lower", "debiased_upper"]].copy()
    found["estimate"] = bias["debiased"] if applied else bias["mean"]
    found["applied"] = applied
    found["pays_from"] = (c2 + 2.0 * math.sqrt(c1 * c2)) / relative if c1 >= 0.0 else math.nan * relative
    found["pays_from"].attrs = {"units": "s", "long_name": "time from which debiased means have the smaller risk"}
    found["optimal_audit_share"] = bias["optimal_audit_share"]
    found.attrs = {"verdict": verdict, "sentence": _sentence(cheap, estimated, verdict, c1, c2)}
    return found


def _sentence(cheap: bool, estimated: bool, verdict: str, c1: float, c2: float) -> str:
    if not estimated:
        return f"the means are unchanged: the verdict on their bias is {verdict!r}"
    if math.isnan(c1):
        return "the means are unchanged: the trace does not record the cost of its draws"
    ratio = f"for the same variance an audit costs {c2 / c1:.2g} times as much as the chain" if c1 else ""
    return f"the bias was subtracted: {ratio}" if cheap else f"the means are unchanged: {ratio}"


def _check_same_draws(trace: xr.DataTree, bias: xr.Dataset) -> None:
    """Compare the trace's means with those in `bias`; the parameters come first there, in any order of variables."""
    posterior = trace["posterior"].dataset
    means = [
        float(value)
        for name in posterior.data_vars
        for value in np.ravel(posterior[name].mean(("chain", "draw")).to_numpy())
    ]
    known = bias["mean"].to_numpy()
    shared = [label for label in bias["estimand"].to_numpy() if str(label) in posterior.data_vars or "[" in str(label)]
    if shared and not np.isclose(np.asarray(means)[:, None], known[None], rtol=1e-8, atol=1e-12).any():
        raise IncompatibleError("debias: the two arguments must belong to one run, but no mean of the trace is in bias")
