"""The samplers of the studies on tall data, each in the metric of its target's Laplace approximation.

A recipe makes a sampler from a Laplace approximation: a walk of 2.38 / sqrt(d) of its standard deviations (Roberts,
Gelman and Gilks 1997), Langevin steps, independent draws, or transitions of the surrogate of influential rows.
"""

import math
from collections.abc import Callable

import approxmcmc as amc
from approxmcmc.contracts import AcceptanceTest, Sampler
from approxmcmc.numerics import Laplace
from studies.tools.in_laplace_metric import InLaplaceMetric, control_variate, influential_rows

SMALL_TERMS = amc.SequentialTTest(epsilon=0.01, batch_size=64, growth=2.0, tol=0.05)  # for residuals of an expansion


def _walk(fit: Laplace) -> amc.RandomWalk:
    return amc.RandomWalk(2.38 / math.sqrt(fit.mode.size), preconditioner=fit)


def _mixture(fit: Laplace) -> amc.proposals.Mixture:
    return amc.proposals.Mixture([amc.proposals.PreconditionedCrankNicolson(0.0, fit), _walk(fit)], weights=[0.9, 0.1])


def exact_walk(fit: Laplace) -> Sampler:
    """Return the random walk on all data: exact."""
    return amc.MetropolisHastings(_walk(fit), amc.ExactTest())


def mala(fit: Laplace) -> Sampler:
    """Return Langevin steps on all data: exact."""
    step_size = 1.65**2 / fit.mode.size ** (1 / 3)
    return amc.MetropolisHastings(amc.Langevin(step_size, preconditioner=fit, target_acceptance=0.574), amc.ExactTest())


def t_test(fit: Laplace) -> Sampler:
    """Return the random walk with a sequential t-test."""
    return amc.MetropolisHastings(_walk(fit), amc.SequentialTTest(epsilon=0.05, batch_size=500))


def mixture(fit: Laplace) -> Sampler:
    """Return a random mixture of independent draws and a walk, with a t-test that stops at an absolute error."""
    return amc.MetropolisHastings(_mixture(fit), SMALL_TERMS)


def bernstein(fit: Laplace) -> Sampler:
    """Return the random walk with Bernstein bounds."""
    return amc.MetropolisHastings(_walk(fit), amc.acceptance.BernsteinTest())


def minibatch_barker(fit: Laplace) -> Sampler:
    """Return the random walk with the minibatch Barker test."""
    return amc.MetropolisHastings(_walk(fit), amc.acceptance.MinibatchBarker())


def sgld(fit: Laplace) -> Sampler:
    """Return stochastic-gradient Langevin dynamics."""
    return amc.MetropolisHastings(
        amc.proposals.StochasticGradientLangevin(0.02, 500, fit), amc.acceptance.AlwaysAccept()
    )


def firefly(fit: Laplace) -> Sampler:
    """Return Firefly Monte Carlo with bounds that touch at the mode: exact."""
    walk = amc.RandomWalk(2.38 / math.sqrt(fit.mode.size), preconditioner=fit, target_acceptance=0.234)
    return amc.Firefly(walk, "tuned", amc.samplers.ImplicitResampling(0.01))


def sghmc(fit: Laplace) -> Sampler:
    """Return stochastic-gradient Hamiltonian Monte Carlo."""
    return amc.MetropolisHastings(
        amc.proposals.StochasticGradientHamiltonian(0.1, 1.0, 500, preconditioner=fit), amc.acceptance.AlwaysAccept()
    )


def surrogate(test: AcceptanceTest) -> Callable[[Laplace], Sampler]:
    """Return a recipe of surrogate transitions, decided by a test."""

    def on_influential_rows(fit: Laplace) -> Sampler:
        return amc.MetropolisHastings(amc.SurrogateTransition(), test)

    return on_influential_rows


SAMPLERS = {
    "exact_walk": InLaplaceMetric(exact_walk),
    "mala": InLaplaceMetric(mala),
    "firefly": InLaplaceMetric(firefly),
    "t_test": InLaplaceMetric(t_test),
    "bernstein": InLaplaceMetric(bernstein),
    "minibatch_barker": InLaplaceMetric(minibatch_barker),
    "sgld": InLaplaceMetric(sgld),
    "control_variates": InLaplaceMetric(mixture, control_variate),
    "core_exact": InLaplaceMetric(surrogate(amc.ExactTest()), influential_rows),
    "core_t_test": InLaplaceMetric(surrogate(SMALL_TERMS), influential_rows),
    "core_bernstein": InLaplaceMetric(surrogate(amc.acceptance.BernsteinTest()), influential_rows),
    "core_barker": InLaplaceMetric(surrogate(amc.acceptance.MinibatchBarker()), influential_rows),
}
