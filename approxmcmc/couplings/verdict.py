"""Verdicts on the biases of a run: rules in a fixed order; the first that applies counts.

The rules are a filter, not a proof. On targets with two modes between which exact chains cross once in 752 steps, 9 of
100 runs of 200 audits passed although no coupling crossed; only 7 % of the intervals of these 9 runs held the truth.
The rules cannot detect a mode that no chain has visited.
"""

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import xarray as xr
from scipy.stats import norm

from approxmcmc.contracts import Finding, content_hash
from approxmcmc.couplings.meeting import SIGHTINGS
from approxmcmc.diagnostics.convergence import LEAST_ESS, R_HAT, convergence
from approxmcmc.diagnostics.copies import copies
from approxmcmc.diagnostics.health import movement, stopped
from approxmcmc.errors import IncompatibleError, InvalidInputError

NOT_JUDGED = "cannot be judged"
NOT_APPLICABLE = "not applicable"
BIASED = "biased"
SMALL = "small"
INCONCLUSIVE = "inconclusive"
LARGEST_BOUND = 1.0  # on total variation: a bound of 1 or more says nothing
LARGEST_SHARE = 0.1  # of one coupling in the sum over all couplings
# posterior standard deviations
NOTICED = 0.05
NEGLIGIBLE = 0.1
ESTIMATES = (BIASED, SMALL, INCONCLUSIVE)
# Least bulk or tail ESS of the draws. Audits start at draws spread over the run, and their intervals count each as
# independent: below this, most of them start in the same few places.
FEWEST_EFFECTIVE = float(LEAST_ESS)


class AuditSummary(NamedTuple):
    """The input of the rules: results of `bias`, arrays by estimand.

    `bias` and `error`, its standard error, are in posterior standard deviations, `variance` of one audit in their
    squares. `failed` holds the failed checks of the run, see `failed_checks`.
    """

    labels: Sequence[str]
    bias: np.ndarray
    error: np.ndarray
    variance: np.ndarray
    n_audits: int
    n_couplings: int
    unmet: int
    max_steps: int
    tv_upper: float
    largest_share: float
    forgetting_time: float
    confidence: float
    failed: Sequence[Finding] = ()


Rule = Callable[[AuditSummary], tuple[str, list[str]] | None]


def verdict(summary: AuditSummary) -> tuple[str, list[str]]:
    """Return the verdict, and sentences that give its reasons."""
    for rule in (
        _run_failed,
        _cut_off,
        _stood_still,
        _bound_says_nothing,
        _one_coupling_rules,
        _biased,
        _too_few_to_see,
        _small,
    ):
        answer = rule(summary)
        if answer:
            return answer
    return _inconclusive(summary)


def failed_checks(posterior: xr.Dataset) -> list[Finding]:
    """Return the findings that make draws unfit for an estimate of their bias; `posterior` holds their variables.

    They are those on how the run ended, copies of chains, whether each chain moved, and whether chains agree; and on
    the ESS, if it is below `FEWEST_EFFECTIVE`. Checks of the acceptance test are not among them, because their subject
    is the bias.
    """
    ended = [finding for finding in [stopped(posterior)] if finding.verdict == "failure"]
    mixing = [finding for finding in convergence(posterior) if finding.fires]
    apart = [finding for finding in mixing if finding.check == R_HAT.name]
    few = [finding for finding in mixing if finding.check != R_HAT.name and finding.value < FEWEST_EFFECTIVE]
    return [*ended, *copies(posterior), *(finding for finding in movement(posterior) if finding.fires), *apart, *few]


def _run_failed(summary: AuditSummary) -> tuple[str, list[str]] | None:
    if not summary.failed:
        return None
    names = ", ".join(finding.check for finding in summary.failed)
    why = f"the run failed its checks ({names}), so the bias of its draws cannot be estimated"
    advice = next((finding.advice for finding in summary.failed if finding.advice), "repair the run, see amc.diagnose")
    return NOT_JUDGED, [why, *(finding.finding for finding in summary.failed), f"next: {advice}"]


def _cut_off(summary: AuditSummary) -> tuple[str, list[str]] | None:
    if not summary.unmet:
        return None
    reason = (
        f"{summary.unmet} of {summary.n_couplings} couplings had not met after {summary.max_steps} steps: the figures "
        f"are the drift of {summary.max_steps} exact steps, not biases; give a kernel that mixes, or raise max_steps"
    )
    return NOT_APPLICABLE, [reason]


def _stood_still(summary: AuditSummary) -> tuple[str, list[str]] | None:
    if summary.n_couplings or np.isfinite(summary.error).any():
        return None
    reason = (
        f"the exact kernel did not move from any of {summary.n_audits} draws, so the biases are unknown; give a kernel "
        "that moves there, such as (ControlVariate(target, always_read='auto'), "
        "MetropolisHastings(SurrogateTransition()))"
    )
    return INCONCLUSIVE, [reason]


def _bound_says_nothing(summary: AuditSummary) -> tuple[str, list[str]] | None:
    if not summary.tv_upper >= LARGEST_BOUND:
        return None
    reason = (
        f"tv_bound may be as large as {summary.tv_upper:.2g} (limit {LARGEST_BOUND:g}): although couplings met, "
        "the test errs too often, or the exact chain mixes too slowly, for an estimate; give a kernel that "
        "mixes, such as (ControlVariate(target, always_read='auto'), MetropolisHastings(SurrogateTransition()))"
    )
    return NOT_APPLICABLE, [reason]


def _one_coupling_rules(summary: AuditSummary) -> tuple[str, list[str]] | None:
    if not summary.largest_share > LARGEST_SHARE:
        return None
    reason = (
        f"one of {summary.n_couplings} couplings contributes {summary.largest_share:.0%} of the sum over all "
        f"(limit {LARGEST_SHARE:.0%}), so that intervals of {summary.n_audits} audits cannot be trusted; make "
        f"more: n_audits={2 * summary.n_audits}, from as many draws"
    )
    return INCONCLUSIVE, [reason]


def _biased(summary: AuditSummary) -> tuple[str, list[str]] | None:
    margin = norm.ppf(1.0 - 0.5 * (1.0 - summary.confidence) / len(summary.bias)) * summary.error
    seen = np.flatnonzero((np.abs(summary.bias) > margin) & (np.abs(summary.bias) > NOTICED))
    if not seen.size:
        return None
    worst = seen[np.argmax(np.abs(summary.bias[seen]))]
    reason = (
        f"{seen.size} of {len(summary.bias)} biases are not 0 and above {NOTICED:g} posterior sd; the largest is "
        f"that of {summary.labels[worst]}, {summary.bias[worst]:+.2g} +- {margin[worst]:.2g} sd"
    )
    return BIASED, [reason]


def _too_few_to_see(summary: AuditSummary) -> tuple[str, list[str]] | None:
    audits_needed = SIGHTINGS * summary.forgetting_time
    if not summary.n_audits < audits_needed:
        return None
    # no pair has met when the time is longer than there were audits: it is then a lower bound
    at_least = "at least" if summary.forgetting_time > summary.n_audits else "about"
    reason = (
        f"no bias was seen, but exact chains from draws far apart need {at_least} {summary.forgetting_time:.3g} "
        f"steps to meet, so {summary.n_audits} audits may have missed a bias; {at_least} {math.ceil(audits_needed):,} "
        "audits are needed, or a kernel that mixes"
    )
    return INCONCLUSIVE, [reason]


def _small(summary: AuditSummary) -> tuple[str, list[str]] | None:
    upper = np.abs(summary.bias) + norm.ppf(0.5 + 0.5 * summary.confidence) * summary.error
    if not (upper < NEGLIGIBLE).all():
        return None
    return SMALL, [f"every bias is below {upper.max():.2g} posterior sd (limit {NEGLIGIBLE:g})"]


def _inconclusive(summary: AuditSummary) -> tuple[str, list[str]]:
    quantile = norm.ppf(0.5 + 0.5 * summary.confidence)
    audits_needed = float(np.max(summary.variance)) * (quantile / NOTICED) ** 2
    upper = np.abs(summary.bias) + quantile * summary.error
    worst = int(np.argmax(upper))
    need = (
        f"about {math.ceil(audits_needed):,} audits are needed"
        if math.isfinite(audits_needed)
        else "more audits are needed"
    )
    reason = (
        f"the bias of {summary.labels[worst]} may be as large as {upper[worst]:.2g} posterior sd; {need} to estimate "
        f"it within {NOTICED:g} sd"
    )
    return INCONCLUSIVE, [reason]


def optimal_share(c1: float, c2: float) -> float:
    """Return sqrt(c2) / (sqrt(c1) + sqrt(c2)), the share of the time for audits with the least error of debiased means.

    c1 is the cost of the draws and c2 that of the audits: seconds times the squared error reached in them. NaN if a
    cost is unknown.

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
        The audited trace.
    bias
        Output of `bias` for this trace.

    Returns
    -------
    xarray.Dataset
        By ``estimand``: ``mean``, ``bias``, ``debiased`` with limits, and ``estimate``, which is ``debiased`` if
        ``applied`` is true, otherwise ``mean``. ``applied`` is true if audits cost less than the chain for the same
        variance and the verdict is "biased", "small" or
        "inconclusive". ``pays_from`` (estimand): seconds of chain and audits
        together from which debiased means have the smaller risk, if the true bias equals its estimate.
        ``optimal_audit_share``: the share of the time to spend on audits. Attribute ``sentence``: the result in words.

    Raises
    ------
    IncompatibleError
        When `trace` does not hold the draws from which `bias` was computed.
    InvalidInputError
        When `bias` is not the Dataset that the function `bias` returned.

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
    c1 = float(bias.attrs["cost_of_draws"])
    c2 = float(bias.attrs["cost_of_audits"])
    verdict = str(bias["verdict"].item())
    cheap = c2 < c1
    estimated = verdict in ESTIMATES
    applied = cheap and estimated
    relative = np.square(bias["bias_sd"])
    debiased = bias[["mean", "bias", "debiased", "debiased_lower", "debiased_upper"]].copy()
    debiased["estimate"] = bias["debiased"] if applied else bias["mean"]
    debiased["applied"] = applied
    debiased["pays_from"] = (c2 + 2.0 * math.sqrt(c1 * c2)) / relative if c1 >= 0.0 else math.nan * relative
    debiased["pays_from"].attrs = {"units": "s", "long_name": "time from which debiased means have the smaller risk"}
    debiased["optimal_audit_share"] = bias["optimal_audit_share"]
    debiased.attrs = {"verdict": verdict, "sentence": _sentence(cheap, estimated, verdict, c1, c2)}
    return debiased


def _sentence(cheap: bool, estimated: bool, verdict: str, c1: float, c2: float) -> str:
    if not estimated:
        return f"the means are unchanged: the verdict on their bias is {verdict!r}"
    if math.isnan(c1):
        return "the means are unchanged: the trace does not record the cost of its draws"
    ratio = f"for the same variance audits cost {c2 / c1:.2g} times as much as the chain" if c1 else ""
    return f"the bias was subtracted: {ratio}" if cheap else f"the means are unchanged: {ratio}"


def _check_same_draws(trace: xr.DataTree, bias: xr.Dataset) -> None:
    """Raise unless `trace` holds the very draws from which `bias` was computed."""
    names = bias.attrs["variables"].split("\n")
    posterior = trace["posterior"].dataset
    if not set(names) <= set(posterior.data_vars) or identity_of_draws(trace, names) != bias.attrs["draws"]:
        raise IncompatibleError(
            f"debias needs the trace from which bias was computed, found other draws of {', '.join(names)}; "
            "call amc.bias on this trace"
        )


def identity_of_draws(trace: xr.DataTree, names: Sequence[str]) -> str:
    """Return a hash of the draws of the variables `names`."""
    posterior = trace["posterior"].dataset
    return content_hash(*(part for name in names for part in (name, posterior[name].to_numpy())))
