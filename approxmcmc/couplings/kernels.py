"""Which exact kernel is coupled: that of a sampler, one that the user names, or a default of the posterior."""

from typing import Any, NamedTuple

import numpy as np

from approxmcmc.acceptance import ExactTest
from approxmcmc.contracts import DiscreteTarget, DoublyIntractableTarget, Sampler, Target
from approxmcmc.couplings.exchange import couple_exchange
from approxmcmc.couplings.gibbs import couple_gibbs
from approxmcmc.couplings.meeting import Coupling
from approxmcmc.couplings.metropolis import couple_metropolis
from approxmcmc.engine.batches import full_terms
from approxmcmc.errors import IncompatibleError, InvalidInputError
from approxmcmc.proposals import Mixture, PreconditionedCrankNicolson, RandomWalk, SingleSite
from approxmcmc.samplers import Exchange, Gibbs, MetropolisHastings
from approxmcmc.targets.expansion.expanded import ExpandedTarget
from approxmcmc.targets.mode import laplace

LARGEST_DIFFERENCE = 1e-6  # of two log densities of one posterior, beyond a constant, beside their rounding
POINTS = 10


class Kernel(NamedTuple):
    """An exact sampler, and the target whose posterior it leaves invariant."""

    target: Any
    sampler: Any


def coupling_of(target: Any, sampler: Any) -> Coupling:
    """Return the coupling of the *exact* chain of a sampler: its own steps, decided on all data.

    Raises
    ------
    IncompatibleError
        When no coupling is known for it.
    """
    if isinstance(sampler, (MetropolisHastings, Gibbs)) and sampler.test.temperature != 1.0:
        raise IncompatibleError(f"couplings follows the posterior itself, not a tempered one; found {sampler!r}")
    discrete, intractable = isinstance(target, DiscreteTarget), isinstance(target, DoublyIntractableTarget)
    if isinstance(sampler, MetropolisHastings) and not intractable and sampler.proposal.proposes_states == discrete:
        return couple_metropolis(
            target, MetropolisHastings(sampler.proposal.with_meetings(target), ExactTest(sampler.test.rule))
        )
    if isinstance(sampler, Gibbs) and _is_binary(target):
        return couple_gibbs(target, sampler)
    if isinstance(sampler, Exchange) and intractable:
        return couple_exchange(target, sampler)
    raise IncompatibleError(
        "couplings knows Metropolis-Hastings, with SingleSite on discrete states, Gibbs on binary sites, Exchange on "
        f"doubly intractable targets, and transition matrices; found {sampler!r} on {target!r}"
    )


def _is_binary(target: Any) -> bool:
    return isinstance(target, DiscreteTarget) and target.n_states.max() == 2


def default_kernel(target: Any, points: np.ndarray) -> Kernel:
    """Return the kernel of a posterior for which none is named; `points` (n, dim) are draws.

    Nine of ten proposals are independent draws of the Laplace approximation, and one is a step of a random walk in its
    metric, which frees a chain from a tail where the approximation is too light. On binary sites it is a Gibbs sweep,
    on others one site at a time by Barker's rule, with which two chains agree on a site that they trade more often
    than with Metropolis'. Without a normaliser it is the exchange sampler, its walk as wide as the draws.
    """
    if isinstance(target, DiscreteTarget):
        return Kernel(
            target,
            Gibbs(ExactTest()) if _is_binary(target) else MetropolisHastings(SingleSite(), ExactTest("barker")),
        )
    if isinstance(target, DoublyIntractableTarget):
        return Kernel(target, Exchange(_walk_as_wide_as(points), auxiliary="exact"))
    plain = target.target if isinstance(target, ExpandedTarget) else target  # the same posterior, without the algebra
    fit = laplace(plain)
    walk = RandomWalk(2.38 / target.variables.size**0.5, preconditioner=fit)
    proposal = Mixture([PreconditionedCrankNicolson(0.0, fit), walk], weights=[0.9, 0.1])
    return Kernel(plain, MetropolisHastings(proposal, ExactTest()))


def _walk_as_wide_as(points: np.ndarray) -> RandomWalk:
    spread = np.atleast_2d(np.cov(points, rowvar=False))
    if np.linalg.matrix_rank(spread) < len(spread):
        raise InvalidInputError(
            f"bias: {len(points)} draws with variances {np.diag(spread)} do not say how wide a walk should be; name a "
            "kernel, such as Exchange(RandomWalk(0.1), auxiliary='exact')"
        )
    return RandomWalk(2.38 / len(spread) ** 0.5, preconditioner=spread)


def chosen_kernel(kernel: Any, target: Target, points: np.ndarray) -> Kernel:
    """Return the exact kernel that the user names, or the default one; `points` (n, dim) are draws to check it at.

    Raises
    ------
    IncompatibleError
        When it is not exact, or its target has another posterior.
    """
    if kernel is None:
        return default_kernel(target, points)
    own, sampler = kernel if isinstance(kernel, tuple) and len(kernel) == 2 else (target, kernel)
    why = "it is no sampler" if not isinstance(sampler, Sampler) else sampler.why_not_invariant(own)
    if why:
        raise IncompatibleError(
            f"bias: kernel must leave the posterior invariant, and {why}; give an exact sampler, such as "
            "MetropolisHastings(proposal, ExactTest()), Gibbs(), or Exchange(proposal, auxiliary='exact') with one "
            f"auxiliary draw; or a pair (target, exact sampler) of the same posterior; found {sampler!r}"
        )
    if own is not target:
        _check_same_posterior(own, target, points[np.linspace(0, len(points) - 1, POINTS).astype(int)])
    return Kernel(own, sampler)


def _check_same_posterior(own: Any, target: Target, points: np.ndarray) -> None:
    if not isinstance(own, Target) or own.variables.size != target.variables.size:
        raise IncompatibleError(f"bias: the kernel's target needs the parameters of {target!r}, found {own!r}")
    differences = np.array([log_density_of(own, theta) - log_density_of(target, theta) for theta in points])
    rounding = 1e-13 * np.abs([log_density_of(target, theta) for theta in points]).max()
    apart = float(np.ptp(differences))
    if not apart <= LARGEST_DIFFERENCE + rounding:
        raise IncompatibleError(
            f"bias: the log densities of the kernel's target {own!r} and of {target!r} differ by more than a constant, "
            f"by {apart:.3g} over {len(points)} draws (limit {LARGEST_DIFFERENCE:g}): they are not one posterior"
        )


def log_density_of(target: Target, theta: np.ndarray) -> float:
    """Return log prior + log-likelihood on all data."""
    if isinstance(target, DoublyIntractableTarget):
        return float(target.log_densities(theta[None])[0])
    compiled = target.compile()
    log_prior = float(compiled.log_prior(theta))
    if log_prior == -np.inf:
        return log_prior
    return log_prior + float(full_terms(compiled.log_terms, theta, compiled.data, compiled.n_obs).sum())
