"""Names from the literature, as pairings of proposal and test."""

from typing import Any

from approxmcmc.acceptance import ExactTest, MinibatchBarker, SequentialTTest
from approxmcmc.proposals import RandomWalk
from approxmcmc.samplers.metropolis_hastings import MetropolisHastings


def random_walk_metropolis(scale: Any = 1.0, *, target_acceptance: float | None = None) -> MetropolisHastings:
    """Return random-walk Metropolis on all data: exact.

    Examples
    --------
    >>> import approxmcmc as amc
    >>> amc.presets.random_walk_metropolis(0.1).test
    ExactTest(rule='metropolis')
    """
    return MetropolisHastings(RandomWalk(scale, target_acceptance), ExactTest())


def austerity(
    scale: Any = 1.0, *, epsilon: float = 0.01, batch_size: int = 500, growth: float = 1.0
) -> MetropolisHastings:
    """Return random-walk Metropolis-Hastings with a sequential t-test (Korattikara, Chen and Welling 2014): biased.

    Examples
    --------
    >>> import approxmcmc as amc
    >>> amc.presets.austerity(0.01, epsilon=0.05).test.epsilon
    0.05
    """
    return MetropolisHastings(RandomWalk(scale), SequentialTTest(epsilon=epsilon, batch_size=batch_size, growth=growth))


def minibatch_barker(scale: Any = 1.0, *, target_variance: float = 1.0, batch_size: int = 100) -> MetropolisHastings:
    """Return a random walk with the minibatch Barker test (Seita, Pan, Chen and Canny 2017): biased.

    Examples
    --------
    >>> import approxmcmc as amc
    >>> amc.presets.minibatch_barker(0.01).test.batch_size
    100
    """
    return MetropolisHastings(RandomWalk(scale), MinibatchBarker(target_variance, batch_size))
