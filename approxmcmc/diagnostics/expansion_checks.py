"""Check whether an expansion and its proposals are close enough to the posterior; failed checks only warn.

The checks read attributes of the trace that set-up and tuning stored, and acceptance rates of the kept draws. A trace
without tuning is not checked. The mean data per decision is not checked, because a chain that is stuck far from the
posterior also reads little: there a small sample suffices to decide.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
import xarray as xr

from approxmcmc.acceptance.laws.audits import VARIANCE_RATIO
from approxmcmc.acceptance.stored import stored_test
from approxmcmc.contracts import Finding
from approxmcmc.diagnostics.records import leaves_invariant

LARGEST_DISTANCE = 1.0  # largest distance of theta_hat from the mode, in posterior standard deviations
VARIANCE_RATIO_THAT_HURTS = 0.5  # variance of residuals over variance of terms
# Largest share of the data per decision: a test evaluates terms at two thetas, an exact step at one.
LARGEST_SHARE = 0.5
LEAST_ACCEPTANCE = 0.3  # least acceptance rate of proposals drawn from the Laplace approximation
HARDLY_ANY = 0.01  # acceptance rate below which a chain hardly moves, and the least limit
SMALLEST_PILOT = 50  # decisions


def expansion_checks(
    attrs: Mapping[str, Any], settings: Mapping[str, Any], stats: xr.Dataset | None = None
) -> list[Finding]:
    """Return one finding for each check that applies to the run.

    Parameters
    ----------
    attrs
        Attributes of the trace.
    settings
        The sampler's settings as a dict.
    stats
        Records of the kept draws; None: only the tuning steps are checked.
    """
    if not attrs.get("tuning_steps", 0):
        return []
    findings = (
        _point_of_expansion(attrs),
        _gain(attrs),
        _data_read(attrs, settings),
        _accepted(attrs, settings, stats),
    )
    return [finding for finding in findings if finding is not None]


def _point_of_expansion(attrs: Mapping[str, Any]) -> Finding | None:
    if "setup_distance_to_mode" not in attrs:
        return None
    distance = attrs["setup_distance_to_mode"]
    numbers = {"value": distance, "limit": LARGEST_DISTANCE}
    sentence = f"the terms were expanded {distance:.3g} posterior standard deviations from the mode"
    if distance <= LARGEST_DISTANCE:
        return Finding("point of expansion", "ok", sentence, **numbers)
    sentence += f" (limit: {LARGEST_DISTANCE:g}). The posterior is still exact, but more data are read"
    return Finding("point of expansion", "warning", sentence, 'use ControlVariate(target, at="mode")', **numbers)


def _gain(attrs: Mapping[str, Any]) -> Finding | None:
    if "setup_variance_ratio" not in attrs:
        return None
    ratio = attrs["setup_variance_ratio"]
    sentence = f"residual terms have {ratio:.3g} times the variance of the terms themselves"
    if ratio > VARIANCE_RATIO_THAT_HURTS:
        sentence = f"control variates hurt here: {sentence} (limit: {VARIANCE_RATIO_THAT_HURTS:g})"
        advice = 'expand nearer to the posterior (at="mode"), or use the plain target'
        return Finding("gain of the expansion", "warning", sentence, advice, ratio, VARIANCE_RATIO_THAT_HURTS)
    if ratio > VARIANCE_RATIO:
        sentence = f"control variates help little: {sentence} (limit: {VARIANCE_RATIO:g})"
        advice = (
            'expand nearer to the posterior (at="mode"); if that was done, the data are too few for the number of '
            "parameters, and ExactTest may be as fast"
        )
        return Finding("gain of the expansion", "warning", sentence, advice, ratio, VARIANCE_RATIO)
    return Finding("gain of the expansion", "ok", sentence, value=ratio, limit=VARIANCE_RATIO)


def _data_read(attrs: Mapping[str, Any], settings: Mapping[str, Any]) -> Finding | None:
    """Return the finding on the data read by a decision in tuning, compared with what an exact step reads.

    None if this is unknown, few decisions were made, or the sampler has no test or an exact one.
    """
    decisions = np.sum(attrs.get("tuning_decisions_made", 0))
    if "setup_variance_ratio" not in attrs or stored_test(settings) is None or decisions < SMALLEST_PILOT:
        return None
    if leaves_invariant(attrs, settings):
        return None
    share = np.sum(attrs["tuning_datapoints_touched"]) / decisions / attrs["n_obs"]
    sentence = f"a decision read {share:.2g} of the data in tuning"
    if share <= LARGEST_SHARE:
        return Finding("data read in tuning", "ok", sentence, value=share, limit=LARGEST_SHARE)
    sentence += f" (limit: {LARGEST_SHARE:g}): the test saves nothing"
    advice = "use ExactTest(): with the same proposal it is as fast and never wrong"
    return Finding("data read in tuning", "warning", sentence, advice, share, LARGEST_SHARE)


def _accepted(attrs: Mapping[str, Any], settings: Mapping[str, Any], stats: xr.Dataset | None) -> Finding | None:
    """Return the finding on the acceptance rate of the chain that accepts least, compared with what it should reach.

    The rate is that of tuning and kept steps together, because tuning alone may be too short: a chain of independent
    draws accepted .18 of its 108 tuning steps, but .45 of the 4000 kept ones. None if the rate is unknown, or a chain
    made few decisions in tuning.
    """
    decisions = np.atleast_1d(attrs.get("tuning_decisions_made", 0))
    if "tuning_accepted" not in attrs or decisions.min() < SMALLEST_PILOT:
        return None
    accepted = np.atleast_1d(attrs["tuning_accepted"])
    if stats is not None and "acceptance_rate" in stats:
        kept = stats["decisions_made"].sum("draw").to_numpy()
        accepted = accepted + kept * np.nan_to_num(stats["acceptance_rate"].mean("draw").to_numpy())
        decisions = decisions + kept
    rates = accepted / decisions
    worst = float(rates.min())
    chain = int(rates.argmin())
    share = laplace_share(settings.get("proposal"))
    limit = max(LEAST_ACCEPTANCE * share, HARDLY_ANY)
    numbers: dict[str, Any] = {"value": worst, "limit": limit, "where": f"chain {chain}"}
    sentence = f"chain {chain} accepted {worst:.2g} of its proposals"
    if worst >= limit:
        return Finding("accepted proposals", "ok", sentence + ", the fewest of all", **numbers)
    sentence += f" (limit: {limit:.2g})" + (": the chain hardly moves" if worst < HARDLY_ANY else "")
    advice = "reduce the scale, tune it (target_acceptance), or start elsewhere"
    if share > 0.0:
        sentence += ". The posterior is far from the normal distribution of the proposals"
        advice = (
            "build the proposal from laplace(target); if it was, use PreconditionedCrankNicolson(rho=0.8, ...), or a "
            "Mixture with a RandomWalk of more weight"
        )
    return Finding("accepted proposals", "warning", sentence, advice, **numbers)


def laplace_share(proposal: Any) -> float:
    """Return the probability with which a proposal, given by its settings, draws from a fixed normal distribution."""
    if not isinstance(proposal, Mapping):
        return 0.0
    if proposal.get("kind") == "Mixture":
        members = zip(proposal["weights"], proposal["proposals"], strict=True)
        return float(sum(weight * laplace_share(member) for weight, member in members))
    return 1.0 if proposal.get("kind") in ("PreconditionedCrankNicolson", "Independence") else 0.0
