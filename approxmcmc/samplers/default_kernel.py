"""Choose the default exact sampler of a posterior by the type of its target."""

import functools

import numpy as np

from approxmcmc.acceptance import ExactTest
from approxmcmc.contracts import DiscreteTarget, DoublyIntractableTarget, Sampler, Target
from approxmcmc.errors import InvalidInputError
from approxmcmc.numerics.mode import laplace
from approxmcmc.proposals import Mixture, PreconditionedCrankNicolson, RandomWalk, SingleSite
from approxmcmc.samplers.auxiliary_variable import Exchange
from approxmcmc.samplers.gibbs import Gibbs
from approxmcmc.samplers.metropolis_hastings import MetropolisHastings


@functools.singledispatch
def default_kernel(target: Target, points: np.ndarray) -> tuple[Target, Sampler]:
    """Return the target for the sampler, the plain one if `target` is expanded, and an exact sampler with a coupling.

    `points` (n, dim) are draws; only the sampler of a doubly intractable target uses them. Nine of ten proposals are
    independent draws of the Laplace approximation, and one is a step of a random walk in the metric of the
    approximation. The walk frees a chain that is stuck in a tail of the posterior that is heavier than the
    approximation's.
    """
    fit = laplace(target.plain)
    walk = RandomWalk(2.38 / target.variables.size**0.5, preconditioner=fit)
    proposal = Mixture([PreconditionedCrankNicolson(0.0, fit), walk], weights=[0.9, 0.1])
    return target.plain, MetropolisHastings(proposal, ExactTest())


@default_kernel.register
def _(target: DiscreteTarget, points: np.ndarray) -> tuple[Target, Sampler]:
    """Return a Gibbs sweep on binary sites; otherwise updates of one site at a time by Barker's rule.

    Under this rule two chains agree on a site more often than under Metropolis's.
    """
    binary = target.n_states.max() == 2
    return target, Gibbs(ExactTest()) if binary else MetropolisHastings(SingleSite(), ExactTest("barker"))


@default_kernel.register
def _(target: DoublyIntractableTarget, points: np.ndarray) -> tuple[Target, Sampler]:
    """Return the exchange sampler with one exact draw, and a random walk as wide as the draws."""
    spread = np.atleast_2d(np.cov(points, rowvar=False))
    if np.linalg.matrix_rank(spread) < len(spread):
        raise InvalidInputError(
            f"bias: {len(points)} draws with variances {np.diag(spread)} do not determine a width for the random walk; "
            "give a kernel, such as Exchange(RandomWalk(0.1), auxiliary='exact')"
        )
    return target, Exchange(RandomWalk(2.38 / len(spread) ** 0.5, preconditioner=spread), auxiliary="exact")
