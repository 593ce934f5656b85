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


def verdict(found: AuditSummary) -> tuple[str, list[str]]:
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
        told = rule(found)
        if told:
            return told
    return _inconclusive(found)


def failed_checks(posterior: xr.Dataset) -> list[Finding]:
    """Return the findings that make draws unfit for an estimate of their bias; `posterior` holds their variables.

    They are those on how the run ended, whether each chain moved, and whether chains agree; and on the ESS, if it is
    below `FEWEST_EFFECTIVE`. Checks of the acceptance test are not among them, because their subject is the bias.
    """
    ended = [finding for finding in [stopped(posterior)] if finding.verdict == "failure"]
    mixing = [finding for finding in convergence(posterior) if finding.fires]
    apart = [finding for finding in mixing if finding.check == R_HAT.name]
    few = [finding for finding in mixing if finding.check != R_HAT.name and finding.value < FEWEST_EFFECTIVE]
    return [*ended, *(finding for finding in movement(posterior) if finding.fires), *apart, *few]


def _run_failed(found: AuditSummary) -> tuple[str, list[str]] | None:
    if not found.failed:
        return None
    names = ", ".join(finding.check for finding in found.failed)
    why = f"the run failed its checks ({names}), so its draws have no stationary distribution with a bias to estimate"
    advice = next((finding.advice for finding in found.failed if finding.advice), "repair the run, see amc.diagnose")
    return NOT_JUDGED, [why, *(finding.finding for finding in found.failed), f"next: {advice}"]


def _cut_off(found: AuditSummary) -> tuple[str, list[str]] | None:
    if not found.unmet:
        return None
    told = (
        f"{found.unmet} of {found.n_couplings} couplings had not met after {found.max_steps} steps: the figures are "
        f"the drift of {found.max_steps} exact steps, not biases; give a kernel that mixes, or raise max_steps"
    )
    return NOT_APPLICABLE, [told]


def _stood_still(found: AuditSummary) -> tuple[str, list[str]] | None:
    if found.n_couplings or np.isfinite(found.error).any():
        return None
    told = (
        f"the exact kernel did not move from any of {found.n_audits} draws, so the biases are unknown; give a kernel "
        "that moves there, such as (ControlVariate(target, always_read='auto'), "
        "MetropolisHastings(SurrogateTransition()))"
    )
    return INCONCLUSIVE, [told]


def _bound_says_nothing(found: AuditSummary) -> tuple[str, list[str]] | None:
    if not found.tv_upper >= LARGEST_BOUND:
        return None
    told = (
        f"tv_bound may be as large as {found.tv_upper:.2g} (limit {LARGEST_BOUND:g}): although couplings met, "
        "the test errs too often, or the exact chain mixes too slowly, for an estimate; give a kernel that "
        "mixes, such as (ControlVariate(target, always_read='auto'), MetropolisHastings(SurrogateTransition()))"
    )
    return NOT_APPLICABLE, [told]


def _one_coupling_rules(found: AuditSummary) -> tuple[str, list[str]] | None:
    if not found.largest_share > LARGEST_SHARE:
        return None
    told = (
        f"one of {found.n_couplings} couplings contributes {found.largest_share:.0%} of the sum over all "
        f"(limit {LARGEST_SHARE:.0%}), so that intervals of {found.n_audits} audits cannot be trusted; make "
        f"more: n_audits={2 * found.n_audits}, from as many draws"
    )
    return INCONCLUSIVE, [told]


def _biased(found: AuditSummary) -> tuple[str, list[str]] | None:
    margin = norm.ppf(1.0 - 0.5 * (1.0 - found.confidence) / len(found.bias)) * found.error
    seen = np.flatnonzero((np.abs(found.bias) > margin) & (np.abs(found.bias) > NOTICED))
    if not seen.size:
        return None
    worst = seen[np.argmax(np.abs(found.bias[seen]))]
    told = (
        f"{seen.size} of {len(found.bias)} biases are not 0 and above {NOTICED:g} posterior sd; the largest is that of "
        f"{found.labels[worst]}, {found.bias[worst]:+.2g} +- {margin[worst]:.2g} sd"
    )
    return BIASED, [told]


def _too_few_to_see(found: AuditSummary) -> tuple[str, list[str]] | None:
    wanted = SIGHTINGS * found.forgetting_time
    if not found.n_audits < wanted:
        return None
    some = "at least" if found.forgetting_time > found.n_audits else "about"  # the former if no pair met
    told = (
        f"no bias was seen, but exact chains from draws far apart need {some} {found.forgetting_time:.3g} steps to "
        f"meet, so {found.n_audits} audits may have missed a bias; {some} {math.ceil(wanted):,} audits are "
        "needed, or a kernel that mixes"
    )
    return INCONCLUSIVE, [told]


def _small(found: AuditSummary) -> tuple[str, list[str]] | None:
    upper = np.abs(found.bias) + norm.ppf(0.5 + 0.5 * found.confidence) * found.error
    if not (upper < NEGLIGIBLE).all():
        return None
    return SMALL, [f"every bias is below {upper.max():.2g} posterior sd (limit {NEGLIGIBLE:g})"]


def _inconclusive(found: AuditSummary) -> tuple[str, list[str]]:
    quantile = norm.ppf(0.5 + 0.5 * found.confidence)
    wanted = float(np.max(found.variance)) * (quantile / NOTICED) ** 2
    upper = np.abs(found.bias) + quantile * found.error
    worst = int(np.argmax(upper))
    need = f"about {math.ceil(wanted):,} audits are needed" if math.isfinite(wanted) else "more audits are needed"
    told = (
        f"the bias of {found.labels[worst]} may be as large as {upper[worst]:.2g} posterior sd; {need} to estimate it "
        f"within {NOTICED:g} sd"
    )
    return INCONCLUSIVE, [told]


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
    ratio = f"for the same variance audits cost {c2 / c1:.2g} times as much as the chain" if c1 else ""
    return f"the bias was subtracted: {ratio}" if cheap else f"the means are unchanged: {ratio}"


def _check_same_draws(trace: xr.DataTree, bias: xr.Dataset) -> None:
    """Raise unless `trace` holds the very draws from which `bias` was computed."""
    names = bias.attrs["variables"].split("\n")
    found = trace["posterior"].dataset
    if not set(names) <= set(found.data_vars) or identity_of_draws(trace, names) != bias.attrs["draws"]:
        raise IncompatibleError(
            f"debias needs the trace from which bias was computed, found other draws of {', '.join(names)}; "
            "call amc.bias on this trace"
        )


def identity_of_draws(trace: xr.DataTree, names: Sequence[str]) -> str:
    """Return a hash of the draws of the variables `names`."""
    posterior = trace["posterior"].dataset
    return content_hash(*(part for name in names for part in (name, posterior[name].to_numpy())))
