"""Pseudo-marginal Metropolis-Hastings: an unbiased random estimate takes the place of the likelihood.

    log a = log p^(y|theta') - log p^(y|theta) + log p(theta')/p(theta) + log q ratio.

GIMH keeps the estimate at theta that led there, and draws one at theta' only: (theta, p^) is a Markov chain whose
theta-marginal is the posterior, exactly (Beaumont 2003; Andrieu and Roberts 2009). MCWM draws both anew in each step:
theta alone is a Markov chain, which mixes better and is biased.
"""

import dataclasses
import math
from typing import Any

import numpy as np

from approxmcmc.contracts import COUNT_NAMES, Component, EstimatedTarget, ProposalSampler, Streams
from approxmcmc.engine.compile import compiled
from approxmcmc.errors import IncompatibleError
from approxmcmc.samplers.noisy.chain import NoisyProgram, NoisyStep, follow_proposal, keep_nothing, with_part
from approxmcmc.samplers.noisy.exchange import check_proposal

TOUCHED = COUNT_NAMES.index("datapoints_touched")
EVALUATIONS = COUNT_NAMES.index("likelihood_evaluations")
# Entries of the memory's pair of estimates: log p^(y|theta) and log p^(y|theta').
HERE, THERE = 0, 1


def estimate_against_kept(  # type: ignore[no-untyped-def]  # bound into the template
    rng, params, memory, theta, proposed, count
):
    """Draw an estimate at theta' and compare it with the one that is kept (GIMH)."""
    data, n_terms, _ = params[1]
    kept = memory[1]
    kept[THERE] = SIMULATE(rng, proposed, data)  # noqa: F821 (bound)
    count[TOUCHED] += n_terms
    count[EVALUATIONS] += n_terms
    return difference(kept[HERE], kept[THERE])


def estimate_both(rng, params, memory, theta, proposed, count):  # type: ignore[no-untyped-def]  # as above
    """Draw an estimate at theta and one at theta' (MCWM)."""
    data, n_terms, n_obs = params[1]
    here = SIMULATE(rng, theta, data)  # noqa: F821 (bound)
    there = SIMULATE(rng, proposed, data)  # noqa: F821 (bound)
    count[TOUCHED] += min(2 * n_terms, n_obs)
    count[EVALUATIONS] += 2 * n_terms
    return difference(here, there)


def estimate_ratio(rng, params, memory, theta, proposed, count):  # type: ignore[no-untyped-def]  # as above
    """Ask the user's estimate of the log ratio."""
    data, n_terms, _ = params[1]
    count[TOUCHED] += n_terms
    count[EVALUATIONS] += 2 * n_terms
    return SIMULATE(rng, theta, proposed, data)  # noqa: F821 (bound)


def carry_estimate(memory):  # type: ignore[no-untyped-def]  # bound into the template
    """Let the estimate at theta' become the one at theta."""
    memory[1][HERE] = memory[1][THERE]


@compiled
def difference(here: float, there: float) -> float:
    """Return there - here; a proposal with estimate 0 is rejected whatever stands here, +inf is no estimate."""
    if math.inf in (there, here):
        return math.nan
    return there if there == -math.inf else there - here


@dataclasses.dataclass(frozen=True, eq=False)
class PseudoMarginal(Component, ProposalSampler):
    """Metropolis-Hastings with an unbiased estimate of the likelihood in place of the likelihood: GIMH or MCWM.

    Parameters
    ----------
    proposal
        Where to go: :class:`RandomWalk`.
    refresh
        False: the estimate at theta is the one that led there (GIMH). True: it is drawn anew in each step (MCWM).

    Raises
    ------
    IncompatibleError
        When the target is no :class:`approxmcmc.targets.EstimatedLikelihood`; raised before anything runs.

    Notes
    -----
    Guarantee: with ``refresh=False`` exact, whatever the variance of an unbiased estimate; with a large one the chain
    sticks where an estimate came out high. A standard deviation of log p^ near 1 is a good compromise (Doucet et al.
    2015). With ``refresh=True`` biased; the bias vanishes with the variance of the estimate. Estimates of 0 are
    rejected.

    Records: `datapoints_touched` and `likelihood_evaluations` count the target's `n_terms` for each estimate. Where the
    target knows its likelihood, audits compare with the exact decision at the same theta' and u: noise, not bias.

    References
    ----------
    Beaumont (2003); Andrieu and Roberts (2009); Alquier, Friel, Everitt and Boland (2016), section 2.

    Examples
    --------
    >>> import approxmcmc as amc
    >>> amc.PseudoMarginal(amc.RandomWalk(0.5)).refresh
    False
    """

    proposal: Any
    refresh: bool = False

    def __post_init__(self) -> None:
        """Check the role of the proposal."""
        check_proposal(self.proposal, "PseudoMarginal")

    def build(self, target: EstimatedTarget, *, audit_every: int | str | None = "auto") -> NoisyProgram:
        """Check the pairing, compile it, and return the program that starts chains."""
        estimate = estimate_both if self.refresh else estimate_against_kept
        return estimated_program(self, target, "likelihood", estimate, not self.refresh, audit_every)


def estimated_program(
    sampler: Any,
    target: EstimatedTarget,
    of: str,
    estimate: Any,
    keeps: bool,
    audit_every: int | str | None,
) -> NoisyProgram:
    """Bind a sampler to a target with estimates of the kind `of`; `keeps` says that estimates outlive their step."""
    who = type(sampler).__name__
    if not isinstance(target, EstimatedTarget) or target.build_estimator().of != of:
        raise IncompatibleError(
            f"{who} needs a target that estimates its {of}, targets.Estimated{of.capitalize()}; found {target!r}"
        )
    estimator, proposal = target.build_estimator(), sampler.proposal.build_proposal(target)
    log_prior, n_obs = target.compile_log_prior(), int(target.n_obs)  # type: ignore[attr-defined]  # a Target, too
    functions = {
        "MOVE": with_part(follow_proposal, "PROPOSE", proposal.functions["PROPOSE"]),
        "ESTIMATE": with_part(estimate, "SIMULATE", estimator.estimate),
        "KEEP": carry_estimate if keeps else keep_nothing,
        "ADAPT": proposal.functions["ADAPT"],
    }

    def make_memory(theta: np.ndarray, streams: Streams) -> tuple[Any, ...]:
        kept = np.full(2, math.nan)
        if keeps:
            kept[HERE] = estimator.estimate(streams.order, theta, estimator.data)
        return (proposal.make_state(), kept)

    params = (proposal.params, (estimator.data, estimator.n_terms, n_obs))
    step = NoisyStep(
        functions, params, make_memory, proposal.describe, tuple(proposal.records), decides=True, n_obs=n_obs
    )
    start = np.asarray(target.initial_point(), dtype=np.float64)  # type: ignore[attr-defined]  # a Target, too
    return NoisyProgram(step, log_prior, start, target.log_likelihood, audit_every)
