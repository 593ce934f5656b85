r"""Means with the bias subtracted, and when that pays.

With c1 the seconds of the chain times the variance of its mean, c2 = V t_a the variance of an audit times its seconds,
both in posterior variances, and a share f of a time B for audits,

    risk = c1 / ((1 - f) B) + c2 / (f B),    least at f* = sqrt(c2) / (sqrt(c1) + sqrt(c2)),

where it is (sqrt(c1) + sqrt(c2))^2 / B, against b^2 + c1 / B for the chain alone: debiased means win from
B = (c2 + 2 sqrt(c1 c2)) / b^2 on.
"""

import math

import numpy as np
import xarray as xr

from approxmcmc.couplings.verdict import ESTIMATES
from approxmcmc.errors import IncompatibleError, InvalidInputError


def optimal_share(c1: float, c2: float) -> float:
    """Return f*; NaN where a cost is unknown.

    Examples
    --------
    >>> round(optimal_share(2.4e-4, 2.0e-4), 2)
    0.48
    """
    return math.sqrt(c2) / (math.sqrt(c1) + math.sqrt(c2)) if c1 + c2 > 0.0 else math.nan


def debias(trace: xr.DataTree, bias: xr.Dataset) -> xr.Dataset:
    r"""Return posterior means with the estimated bias subtracted, and whether that pays.

    .. math:: \tilde h = \bar h - \hat b, \qquad
              \mathrm{sd}(\tilde h)^2 = \mathrm{sd}(\bar h)^2 + \mathrm{sd}(\hat b)^2 .

    Parameters
    ----------
    trace
        The audited trace; its means are used.
    bias
        Output of `bias` for it.

    Returns
    -------
    xarray.Dataset
        By ``estimand``: ``mean``, ``bias``, ``debiased`` with limits, and ``estimate``: ``debiased`` where ``applied``
        is true, else ``mean``. ``applied``: an audit costs less than the chain for the same variance (c2 < c1) and the
        verdict is an estimate. ``pays_from`` (estimand): seconds of chain and audits together from which debiased
        means have the smaller risk, if the bias is what it is estimated to be. ``optimal_audit_share``: the share of
        the time that audits should get. Attribute ``sentence``.

    Raises
    ------
    IncompatibleError
        When the two do not belong together.

    Notes
    -----
    The covariance of the mean and the audits through common draws is ignored. Guarantee: that of `bias`.

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
    return f"the bias was taken off: {ratio}" if cheap else f"the means are unchanged: {ratio}"


def _check_same_draws(trace: xr.DataTree, bias: xr.Dataset) -> None:
    """Compare means: those of the parameters come first, in the order of the trace's variables or another."""
    posterior = trace["posterior"].dataset
    means = [
        float(value)
        for name in posterior.data_vars
        for value in np.ravel(posterior[name].mean(("chain", "draw")).to_numpy())
    ]
    known = bias["mean"].to_numpy()
    shared = [label for label in bias["estimand"].to_numpy() if str(label) in posterior.data_vars or "[" in str(label)]
    if shared and not np.isclose(np.asarray(means)[:, None], known[None], rtol=1e-8, atol=1e-12).any():
        raise IncompatibleError("debias: no mean of the trace is among those that bias was estimated for")
