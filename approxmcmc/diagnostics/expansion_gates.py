"""Are an expansion, and the proposals built on it, near enough to the posterior? Gates that warn and change nothing.

They read what set-up and tuning wrote into the trace's attributes, and are silent when there was no tuning. Mean data
per decision is none of them: a chain that is stuck far out reads little, because its decisions are easy.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from approxmcmc.acceptance.laws.heavy_tails import VARIANCE_RATIO
from approxmcmc.contracts import AcceptanceTest

LARGEST_DISTANCE = 1.0  # of theta_hat from the mode, in posterior standard deviations
VARIANCE_RATIO_THAT_HURTS = 0.5  # of residuals and terms
LARGEST_SHARE = 0.5  # of the data read in a decision: a test evaluates at two thetas, the exact step at one
LEAST_ACCEPTANCE = 0.3  # of proposals drawn from the Laplace approximation
HARDLY_ANY = 0.01
SMALLEST_PILOT = 50  # decisions


def expansion_problems(attrs: Mapping[str, Any], settings: Mapping[str, Any]) -> list[str]:
    """Return one sentence for each gate that a run does not pass.

    Parameters
    ----------
    attrs
        Attributes of the trace.
    settings
        The sampler's settings as a dict.
    """
    if not attrs.get("tuning_steps", 0):
        return []
    checks = (_far_from_mode(attrs), _useless(attrs), _reads_most(attrs, settings), _refused(attrs, settings))
    return [sentence for sentence in checks if sentence]


def _far_from_mode(attrs: Mapping[str, Any]) -> str | None:
    distance = attrs.get("setup_distance_to_mode", 0.0)
    if distance <= LARGEST_DISTANCE:
        return None
    return (
        f"the terms were expanded {distance:.3g} posterior standard deviations from the mode (gate: "
        f"{LARGEST_DISTANCE:g}). The posterior is still exact, but more data are read; "
        'use ControlVariate(target, at="mode")'
    )


def _useless(attrs: Mapping[str, Any]) -> str | None:
    ratio = attrs.get("setup_variance_ratio", 0.0)
    if not ratio > VARIANCE_RATIO:
        return None
    if ratio > VARIANCE_RATIO_THAT_HURTS:
        return (
            f"control variates hurt here: residual terms vary {ratio:.3g} times as much as the terms themselves (gate: "
            f'{VARIANCE_RATIO_THAT_HURTS:g}); expand nearer to the posterior (at="mode"), or use the plain target'
        )
    return (
        f"control variates help little: residual terms have {ratio:.3g} times the variance of the terms themselves "
        f'(gate: {VARIANCE_RATIO:g}); expand nearer to the posterior (at="mode"); at the mode, data are too few for '
        "the number of parameters, and ExactTest may be as fast"
    )


def _reads_most(attrs: Mapping[str, Any], settings: Mapping[str, Any]) -> str | None:
    """Compare the data read in tuning with those that an exact step reads."""
    test = AcceptanceTest.found_in(settings)
    approximate = test is not None and not test.is_exact
    decisions = np.sum(attrs.get("tuning_decisions_made", 0))
    if "setup_variance_ratio" not in attrs or not approximate or decisions < SMALLEST_PILOT:
        return None
    share = np.sum(attrs["tuning_datapoints_touched"]) / decisions / attrs["n_obs"]
    if share <= LARGEST_SHARE:
        return None
    return (
        f"a decision read {share:.2g} of the data in tuning (gate: {LARGEST_SHARE:g}): with the same proposal "
        "ExactTest() is as fast and never wrong"
    )


def _refused(attrs: Mapping[str, Any], settings: Mapping[str, Any]) -> str | None:
    """Compare the acceptance rate in tuning, chain by chain, with what its proposals should reach."""
    decisions = np.atleast_1d(attrs.get("tuning_decisions_made", 0))
    if "tuning_accepted" not in attrs or decisions.min() < SMALLEST_PILOT:
        return None
    rates = np.atleast_1d(attrs["tuning_accepted"]) / decisions
    worst, chain = float(rates.min()), int(rates.argmin())
    share = laplace_share(settings.get("proposal"))
    if share > 0.0 and worst < LEAST_ACCEPTANCE * share:
        stuck = ", and is stuck" if worst < HARDLY_ANY else ""
        return (
            f"chain {chain} accepted {worst:.2g} of its proposals in tuning (gate: {LEAST_ACCEPTANCE * share:.2g})"
            f"{stuck}: the posterior is not near the normal law that they are drawn from. Build it from "
            "laplace(target); if it was, take PreconditionedCrankNicolson(rho=0.8, ...), or a Mixture with a "
            "RandomWalk of more weight"
        )
    if worst < HARDLY_ANY:
        return (
            f"chain {chain} accepted {worst:.2g} of its proposals in tuning: it hardly moves, and its R-hat and ESS "
            "mean nothing; reduce the scale, tune it (target_acceptance), or start elsewhere"
        )
    return None


def laplace_share(proposal: Any) -> float:
    """Return the probability with which a proposal, given by its settings, draws from a fixed normal law."""
    if not isinstance(proposal, Mapping):
        return 0.0
    if proposal.get("kind") == "Mixture":
        members = zip(proposal["weights"], proposal["proposals"], strict=True)
        return float(sum(weight * laplace_share(member) for weight, member in members))
    return 1.0 if proposal.get("kind") in ("PreconditionedCrankNicolson", "Independence") else 0.0
