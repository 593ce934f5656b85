"""Names from the literature, as pairings of proposal and test."""

from typing import Any

from approxmcmc.acceptance import (
    AlwaysAccept,
    DelayedAcceptance,
    ExactTest,
    FactorizedTest,
    MinibatchBarker,
    PoissonTest,
    SequentialTTest,
    TunaTest,
)
from approxmcmc.proposals import (
    Langevin,
    RandomWalk,
    StochasticGradientHamiltonian,
    StochasticGradientLangevin,
    StochasticGradientZigZag,
)
from approxmcmc.samplers.metropolis_hastings import MetropolisHastings
from approxmcmc.samplers.slice import Slice, SliceSampler


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


def tuna(scale: Any = 1.0, *, chi: float = 0.0) -> MetropolisHastings:
    """Return TunaMH, a random walk with exact minibatches (Zhang, Cooper and De Sa 2020).

    Examples
    --------
    >>> import approxmcmc as amc
    >>> amc.presets.tuna(0.01, chi=1e-5).test
    TunaTest(chi=1e-05)
    """
    return MetropolisHastings(RandomWalk(scale), TunaTest(chi))


def scalable_metropolis_hastings(scale: Any = 1.0) -> MetropolisHastings:
    """Return scalable Metropolis-Hastings (Cornish et al. 2019): exact; SMH-k on a `ControlVariate` of order k.

    Examples
    --------
    >>> import approxmcmc as amc
    >>> amc.presets.scalable_metropolis_hastings(0.01).test
    FactorizedTest()
    """
    return MetropolisHastings(RandomWalk(scale), FactorizedTest())


def scalable_subsampling(scale: Any = 1.0) -> MetropolisHastings:
    """Return Metropolis-Hastings with scalable subsampling (Prado, Nemeth and Sherlock 2024): exact.

    MH-SS-k on a `ControlVariate` of order k: delayed acceptance by the expansion, then Poisson counts.

    Examples
    --------
    >>> import approxmcmc as amc
    >>> amc.presets.scalable_subsampling(0.01).test
    DelayedAcceptance(test=PoissonTest())
    """
    return MetropolisHastings(RandomWalk(scale), DelayedAcceptance(PoissonTest()))


def mala(
    step_size: float = 1.0, *, preconditioner: Any = None, target_acceptance: float | None = None
) -> MetropolisHastings:
    """Return the Metropolis-adjusted Langevin algorithm (Besag 1994; Roberts and Tweedie 1996) on all data: exact.

    Examples
    --------
    >>> import approxmcmc as amc
    >>> amc.presets.mala(0.1).test
    ExactTest(rule='metropolis')
    """
    proposal = Langevin(step_size, preconditioner=preconditioner, target_acceptance=target_acceptance)
    return MetropolisHastings(proposal, ExactTest())


def sgld(
    step_size: Any, *, batch_size: int = 500, preconditioner: Any = None, control_variate: Any = None
) -> MetropolisHastings:
    """Return stochastic-gradient Langevin dynamics (Welling and Teh 2011), without a test: biased at any fixed step.

    Examples
    --------
    >>> import approxmcmc as amc
    >>> amc.presets.sgld(1e-4).test
    AlwaysAccept()
    """
    proposal = StochasticGradientLangevin(step_size, batch_size, preconditioner, control_variate)
    return MetropolisHastings(proposal, AlwaysAccept())


def corrected_sgld(
    step_size: Any,
    *,
    epsilon: float = 0.01,
    batch_size: int = 500,
    test_batch_size: int = 500,
    preconditioner: Any = None,
    control_variate: Any = None,
) -> MetropolisHastings:
    """Return SGLD corrected by a sequential t-test (Korattikara, Chen and Welling 2013, section 6.2): biased.

    epsilon = 0 is exact. Densities of proposals are those given the minibatch; the test reads other data.

    Examples
    --------
    >>> import approxmcmc as amc
    >>> amc.presets.corrected_sgld(1e-4, epsilon=0.05).test.epsilon
    0.05
    """
    proposal = StochasticGradientLangevin(step_size, batch_size, preconditioner, control_variate)
    return MetropolisHastings(proposal, SequentialTTest(epsilon=epsilon, batch_size=test_batch_size))


def sghmc(
    step_size: float,
    friction: float = 1.0,
    *,
    batch_size: int = 500,
    preconditioner: Any = None,
    control_variate: Any = None,
) -> MetropolisHastings:
    """Return stochastic-gradient Hamiltonian Monte Carlo (Chen, Fox and Guestrin 2014), by BAOAB: biased.

    Tuning steps learn the noise of the gradients, which friction makes up for.

    Examples
    --------
    >>> import approxmcmc as amc
    >>> amc.presets.sghmc(0.1, friction=2.0).test
    AlwaysAccept()
    """
    proposal = StochasticGradientHamiltonian(step_size, friction, batch_size, 1, preconditioner, control_variate)
    return MetropolisHastings(proposal, AlwaysAccept())


def sg_zigzag(
    step_size: float,
    *,
    batch_size: int = 10,
    steps: int = 1,
    preconditioner: Any = None,
    control_variate: Any = None,
) -> MetropolisHastings:
    """Return the stochastic-gradient zig-zag (SG-PDMP: Fearnhead, Grazzi, Nemeth and Roberts 2024): biased by its step.

    Examples
    --------
    >>> import approxmcmc as amc
    >>> amc.presets.sg_zigzag(0.1).test
    AlwaysAccept()
    """
    proposal = StochasticGradientZigZag(step_size, batch_size, steps, preconditioner, control_variate)
    return MetropolisHastings(proposal, AlwaysAccept())


def minibatch_slice(width: Any = 1.0, *, epsilon: float = 0.01, batch_size: int = 500) -> SliceSampler:
    """Return approximate slice sampling (DuBois, Korattikara, Welling and Smyth 2014): biased.

    Examples
    --------
    >>> import approxmcmc as amc
    >>> amc.presets.minibatch_slice(0.1, epsilon=0.05).test.epsilon
    0.05
    """
    return SliceSampler(Slice(width), SequentialTTest(epsilon=epsilon, batch_size=batch_size))


def amagold(
    step_size: float,
    friction: float = 1.0,
    *,
    steps: int = 10,
    batch_size: int = 500,
    preconditioner: Any = None,
    control_variate: Any = None,
) -> MetropolisHastings:
    """Return SGHMC with one exact correction for `steps` steps (AMAGOLD: Zhang, Cooper and De Sa 2020): exact.

    The integrator is BAOAB, theirs another; the correction is the same.

    Examples
    --------
    >>> import approxmcmc as amc
    >>> amc.presets.amagold(0.1, steps=5).test
    ExactTest(rule='metropolis')
    """
    proposal = StochasticGradientHamiltonian(step_size, friction, batch_size, steps, preconditioner, control_variate)
    return MetropolisHastings(proposal, ExactTest())
