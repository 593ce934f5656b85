"""Examples of every public component: one table, from which all tests of components and of pairings take them.

A new proposal, test, sampler or target has its entry here, and is then paired with everything.
"""

import numba
import numpy as np

import approxmcmc as amc
from approxmcmc import whole_chains
from approxmcmc.acceptance import SequentialTTest
from approxmcmc.proposals import RandomWalk
from approxmcmc.samplers import MetropolisHastings
from tests import langevin as book
from tests.models import logistic
from tests.unit.targets.test_bayesian_network import weather
from tests.unit.targets.test_mrf import mixed

N = 12
X = np.random.default_rng(0).normal(size=(N, 2))
SPINS = np.where(np.random.default_rng(1).random((3, 3)) < 0.5, -1, 1)


def log_poisson(eta, y):
    """Return a log density whose derivatives are taken by differences."""
    return y * eta - np.exp(min(eta, 700.0))  # NumPy warns of an overflow where compiled code does not


term = numba.njit(book.loglik)


def no_gap(theta, data, i):
    """Return a lower bound of `book.loglik` that touches it."""
    return term(theta, data, i)


def log_bound(theta, sums):
    """Return the sum of the terms of `book.loglik`."""
    (sums,) = sums
    return -0.5 * (sums[0] - 2.0 * (sums[1] * theta[0] + sums[2] * theta[1]) + N * (theta[0] ** 2 + theta[1] ** 2))


@numba.njit
def estimate(rng, theta, data):
    """Return a noisy log-likelihood."""
    return -0.5 * ((theta - data[0][0]) ** 2).sum() + 0.1 * rng.standard_normal()


def estimate_ratio(rng, theta, proposed, data):
    """Return a noisy log ratio."""
    return estimate(rng, proposed, data) - estimate(rng, theta, data)


def reach(theta, proposed):
    """Return a distance of two states; terms of `book.loglik` change by less than ten times it; infinity far out."""
    largest = max(np.abs(theta).max(), np.abs(proposed).max())
    return np.abs(proposed - theta).sum() if largest < 5.0 else np.inf


def user_target(loglik=book.loglik):
    """Return two normal means as a `FunctionTarget` with every optional argument."""
    return amc.FunctionTarget(
        loglik, book.logprior, data=X, n_obs=N, dim=2, grad_loglik=book.grad_loglik, grad_logprior=book.grad_logprior,
        term_range=lambda theta, proposed: 10.0 * np.abs(proposed - theta).sum(), initial_point=np.zeros(2),
        difference_bound=(np.full(N, 10.0), reach),
    )  # fmt: skip


def batch_terms(theta, rows):
    """Return the terms of `textbook`'s model for a batch of rows."""
    (x,) = rows
    return np.array([book.loglik(theta, (x,), i) for i in range(len(x))])


def batch_gradient(theta, rows):
    """Return the gradient of the sum of these terms."""
    (x,) = rows
    out = np.zeros(2)
    for i in range(len(x)):
        book.grad_loglik(theta, (x,), i, out)
    return out


def in_batches():
    """Return two normal means as a `BatchTarget`."""
    return amc.targets.BatchTarget(
        batch_terms, X, dim=2, gradient=batch_gradient, prior=book.logprior, grad_prior=book.grad_logprior
    )


def friends():
    """Return a model of a graph of six nodes."""
    graph = np.zeros((6, 6), dtype=int)
    for i, j in ((0, 1), (1, 2), (0, 2), (2, 3), (3, 4), (1, 5)):
        graph[i, j] = graph[j, i] = 1
    return amc.targets.ERGM(graph, ["edges", "two_stars"], prior_scale=1.0)


FIT = {"center": np.zeros(2), "cov": 0.2 * np.eye(2)}
PROPOSALS = {
    "AdaptiveDirection": [amc.proposals.AdaptiveDirection(0.4, n_members=5)],
    "Hamiltonian": [
        amc.proposals.Hamiltonian(0.2),
        amc.proposals.Hamiltonian(0.2, preconditioner=[1.0, 2.0], target_acceptance=0.8),
    ],
    "Independence": [amc.proposals.Independence(np.zeros(2), 0.2 * np.eye(2))],
    "Langevin": [amc.Langevin(0.05), amc.Langevin(0.05, cov=np.eye(2), target_acceptance=0.6)],
    "Mixture": [
        amc.proposals.Mixture([amc.RandomWalk(0.1), amc.Langevin(0.05), amc.RandomWalk(0.3, target_acceptance=0.4)]),
        amc.proposals.Mixture([amc.RandomWalk(0.1), amc.proposals.PreconditionedCrankNicolson(0.5, **FIT)]),
    ],
    "PreconditionedCrankNicolson": [amc.proposals.PreconditionedCrankNicolson(0.5, **FIT)],
    "RandomWalk": [amc.RandomWalk(0.3), amc.RandomWalk(0.3, target_acceptance=0.4), amc.RandomWalk(0.1 * np.eye(2))],
    "SingleSite": [amc.proposals.SingleSite()],
    "StochasticGradientFisherScoring": [
        amc.proposals.StochasticGradientFisherScoring(0.1, 6, np.ones(2)),
        amc.proposals.StochasticGradientFisherScoring(0.2, 6, information=3.0 * np.eye(2)),
    ],
    "StochasticGradientHamiltonian": [
        amc.proposals.StochasticGradientHamiltonian(0.1, 4.0, 4, steps=2, control_variate=[0.1, 0.2]),
        amc.proposals.StochasticGradientHamiltonian(0.05, 1.0, 4, gradient_noise=None),
    ],
    "StochasticGradientLangevin": [
        amc.proposals.StochasticGradientLangevin(0.05, 4),
        amc.proposals.StochasticGradientLangevin(amc.proposals.DecreasingStep(0.05), 4, control_variate=[0.1, 0.2]),
    ],
    "StochasticGradientNoseHoover": [amc.proposals.StochasticGradientNoseHoover(0.05, 1.0, 4)],
    "StochasticGradientZigZag": [amc.proposals.StochasticGradientZigZag(0.05, 4, steps=2)],
    "SurrogateTransition": [amc.SurrogateTransition(), amc.SurrogateTransition("walk", steps=2)],
}
EARLY = amc.SequentialTTest(0.2, 4)
TESTS = {
    "AlwaysAccept": [amc.acceptance.AlwaysAccept()],
    "AnnealedEpsilon": [amc.acceptance.AnnealedEpsilon((0.1, 0.0), steps=(3,), test=amc.SequentialTTest(batch_size=4))],
    "BernsteinTest": [
        amc.acceptance.BernsteinTest(0.1, 4),
        amc.acceptance.BernsteinTest(0.1, 4, range="observed", order="blocks"),
    ],
    "CheapestExactTest": [amc.acceptance.CheapestExactTest()],
    "DelayedAcceptance": [
        amc.acceptance.DelayedAcceptance(amc.ExactTest("barker")),
        amc.acceptance.DelayedAcceptance(amc.acceptance.PoissonTest()),
        amc.acceptance.DelayedAcceptance(amc.SequentialTTest(0.2, 4, order="blocks")),
    ],
    "ExactTest": [amc.ExactTest(), amc.ExactTest("barker")],
    "FactorizedTest": [amc.acceptance.FactorizedTest()],
    "MinibatchBarker": [
        amc.acceptance.MinibatchBarker(batch_size=5),
        amc.acceptance.MinibatchBarker(batch_size=4, order="blocks"),
    ],
    "PoissonTest": [amc.acceptance.PoissonTest()],
    "SequentialTTest": [EARLY, amc.SequentialTTest(0.2, 4, 1.5, tol=0.05, order="blocks")],
    "TunaTest": [amc.acceptance.TunaTest(0.01)],
}
LAPLACE = amc.numerics.Laplace(np.zeros(2), 0.1 * np.eye(2))
SAMPLERS = {  # those with a setting `proposal` or `test` are paired with all of them
    "BouncyParticle": [amc.samplers.BouncyParticle(LAPLACE)],
    "Exchange": [amc.Exchange(amc.RandomWalk(0.1), n_auxiliary=2, auxiliary=amc.targets.AuxiliaryChain(20))],
    "Firefly": [
        amc.Firefly(amc.RandomWalk(0.1), bound="untuned", z_update=amc.samplers.ImplicitResampling(0.3)),
        amc.Firefly(amc.RandomWalk(0.1), bound="own", z_update=amc.samplers.ExplicitResampling(0.3)),
        amc.Firefly(amc.samplers.Slice(0.5), bound="untuned"),
    ],
    "Gibbs": [amc.Gibbs(), amc.Gibbs(scan="random")],
    "MALAExchange": [amc.samplers.MALAExchange(0.1, noisy=True, n_auxiliary=2)],
    "MetropolisHastings": [amc.MetropolisHastings(amc.RandomWalk(0.1), amc.ExactTest())],
    "NoisyLangevin": [amc.samplers.NoisyLangevin(0.1)],
    "NoisyMetropolisHastings": [amc.samplers.NoisyMetropolisHastings(amc.RandomWalk(0.1))],
    "PoissonGibbs": [amc.samplers.PoissonGibbs(), amc.samplers.PoissonGibbs(3.0, metropolised=True, scan="random")],
    "PseudoMarginal": [
        amc.samplers.PseudoMarginal(amc.RandomWalk(0.1)),
        amc.samplers.PseudoMarginal(amc.RandomWalk(0.1), refresh=True),
    ],
    "SliceSampler": [amc.samplers.SliceSampler(amc.samplers.Slice(0.5))],
    "ZigZag": [amc.samplers.ZigZag(LAPLACE)],
}
TARGETS = {
    "BayesianNetwork": weather,
    "BatchTarget": in_batches,
    "BinaryMRF": mixed,
    "BetaRegression": lambda: amc.targets.BetaRegression(0.2 * X, (0.5 + np.arange(N) % 3) / 4.0, phi=6.0),
    "BinomialRegression": lambda: amc.targets.BinomialRegression(X, np.arange(N) % 3, 2 + np.arange(N) % 4),
    "BoundedLikelihood": lambda: amc.targets.BoundedLikelihood(
        user_target(), no_gap, log_bound, np.array([(X**2).sum(), *X.sum(axis=0)])
    ),
    "ControlVariate": lambda: amc.ControlVariate(logistic(N, 2)),
    "ControlVariate, influential rows": lambda: amc.ControlVariate(logistic(N, 2), always_read=[0, 5], at="mode"),
    "ERGM": friends,
    "EstimatedLikelihood": lambda: amc.targets.EstimatedLikelihood(estimate, book.logprior, dim=2, data=X),
    "EstimatedRatio": lambda: amc.targets.EstimatedRatio(estimate_ratio, book.logprior, dim=2, data=X),
    "CloglogRegression": lambda: amc.targets.CloglogRegression(X, np.arange(N) % 2),
    "ExponentialRegression": lambda: amc.targets.ExponentialRegression(0.2 * X, 0.5 + np.arange(N) % 3),
    "GLMTarget": lambda: amc.targets.GLMTarget(log_poisson, X, np.ones(N), prior_scale=1.0),
    "GroupedTarget": lambda: amc.targets.GroupedTarget(X, np.arange(N) % 2, np.arange(N) // 2),
    "GammaRegression": lambda: amc.targets.GammaRegression(0.2 * X, 0.5 + np.arange(N) % 3, alpha=2.0),
    "GaussianMixture": lambda: amc.targets.GaussianMixture.simulated(N, random_seed=1),
    "Ising": lambda: amc.targets.Ising(SPINS, prior_scale=1.0),
    "LinearRegression": lambda: amc.targets.LinearRegression(X, X[:, 0] + np.arange(N) % 2, sigma=1.0),
    "LogisticRegression": lambda: logistic(N, 2),
    "NegativeBinomialRegression": lambda: amc.targets.NegativeBinomialRegression(X[:, :1], np.arange(N) % 3),
    "NormalGroups": lambda: amc.targets.NormalGroups(X, X[:, 0], np.arange(N) // 2),
    "OrderedRegression": lambda: amc.targets.OrderedRegression(X[:, :1], np.arange(N) % 2),
    "PoissonRegression": lambda: amc.targets.PoissonRegression(0.2 * X, np.arange(N) % 3),
    "PredictorTarget": lambda: amc.targets.PredictorTarget(
        log_poisson, {"eta": {"beta": X[:, :1], "intercept": 1.0}}, np.ones(N)
    ),
    "ProbitRegression": lambda: amc.targets.ProbitRegression(X, np.arange(N) % 2),
    "PseudoLikelihood": lambda: amc.targets.PseudoLikelihood(friends()),
    "RobustRegression": lambda: amc.targets.RobustRegression(X, X[:, 0], df=3.0, prior_scale=1.0),
    "SoftmaxRegression": lambda: amc.targets.SoftmaxRegression(X[:, :1], np.arange(N) % 2, prior_scale=1.0),
    "FunctionTarget": user_target,
    "WeibullRegression": lambda: amc.targets.WeibullRegression(0.2 * X, 0.5 + np.arange(N) % 3, alpha=1.5),
}
# Targets whose functions another library makes, which may be missing; to samplers they are batch targets.
IN_OTHER_LIBRARIES = ("JaxTarget", "TorchTarget")
SETTINGS = {  # of classes that are paired with nothing by themselves, and further settings of others
    "AnnealedEpsilon": [amc.acceptance.AnnealedEpsilon((0.1, 0.0), steps=(50,), test=SequentialTTest(batch_size=20))],
    "AuxiliaryChain": [amc.targets.AuxiliaryChain(1000, "both", thin=10)],
    "BernsteinTest": [amc.acceptance.BernsteinTest(0.1), amc.acceptance.BernsteinTest(0.1, range=3.0)],
    "BlackjaxMCLMC": [whole_chains.BlackjaxMCLMC(tune=500)],
    "BlackjaxNUTS": [whole_chains.BlackjaxNUTS(tune=500)],
    "BlackjaxPathfinder": [whole_chains.BlackjaxPathfinder(max_iterations=20)],
    "BlackjaxSGHMC": [whole_chains.BlackjaxSGHMC(1e-3)],
    "BlackjaxSGLD": [whole_chains.BlackjaxSGLD(1e-3, batch_size=20)],
    "BouncyParticle": [amc.samplers.BouncyParticle(amc.numerics.Laplace(np.zeros(2), np.eye(2)), refresh_rate=0.5)],
    "DecreasingStep": [amc.proposals.DecreasingStep(0.1, offset=10.0)],
    "Exchange": [amc.Exchange(RandomWalk(0.1), n_auxiliary=3, auxiliary=amc.targets.AuxiliaryChain(50))],
    "ExplicitResampling": [amc.samplers.ExplicitResampling(0.2)],
    "Firefly": [amc.Firefly(RandomWalk(0.1), z_update=amc.samplers.ExplicitResampling(0.3), bound="untuned")],
    "Gibbs": [amc.Gibbs(SequentialTTest(0.1, 5), scan="random")],
    "Hamiltonian": [amc.proposals.Hamiltonian(0.1, preconditioner=[1.0, 2.0], target_acceptance=0.8)],
    "ImplicitResampling": [amc.samplers.ImplicitResampling(0.1, q_bright=0.5)],
    "Independence": [amc.proposals.Independence([0.0, 1.0], cov=[1.0, 2.0])],
    "Langevin": [amc.Langevin(0.1, cov=[1.0, 2.0]), amc.Langevin(0.1, target_acceptance=0.6)],
    "Laplace": [amc.numerics.Laplace(np.zeros(2), np.eye(2))],
    "MALAExchange": [amc.samplers.MALAExchange(0.1, noisy=True, n_auxiliary=7)],
    "MetropolisHastings": [MetropolisHastings(RandomWalk([0.1, 0.2]), SequentialTTest())],
    "MinibatchBarker": [amc.acceptance.MinibatchBarker(batch_size=50, max_error=0.01)],
    "Mixture": [amc.proposals.Mixture([RandomWalk(0.1), amc.proposals.Independence([0.0], cov=[1.0])], weights=[3, 1])],
    "NoisyLangevin": [amc.samplers.NoisyLangevin(0.1, cov=[[2.0]])],
    "NoisyMetropolisHastings": [amc.samplers.NoisyMetropolisHastings(RandomWalk(0.3))],
    "PoissonGibbs": [amc.samplers.PoissonGibbs(2.0, metropolised=True, scan="random")],
    "PreconditionedCrankNicolson": [amc.proposals.PreconditionedCrankNicolson(0.8, center=np.zeros(2), cov=np.eye(2))],
    "PseudoMarginal": [amc.samplers.PseudoMarginal(RandomWalk(0.3), refresh=True)],
    "RandomWalk": [
        RandomWalk(0.1),
        RandomWalk([0.1, 0.2], target_acceptance=0.3),
        RandomWalk(np.diag([1.0, 2.0])),
    ],
    "SequentialTTest": [SequentialTTest(0.05, 200, 1.5)],
    "Slice": [amc.samplers.Slice([0.5, 1.0], max_steps=3), amc.samplers.Slice(0.5, directions="coordinates")],
    "SliceSampler": [amc.samplers.SliceSampler(amc.samplers.Slice(0.2), SequentialTTest(0.1, 50))],
    "StochasticGradientFisherScoring": [amc.proposals.StochasticGradientFisherScoring(0.1, batch_size=20)],
    "StochasticGradientHamiltonian": [
        amc.proposals.StochasticGradientHamiltonian(0.1, 2.0, 20, steps=3),
        amc.proposals.StochasticGradientHamiltonian(0.1, batch_size=20, gradient_noise=np.eye(2)),
        amc.proposals.StochasticGradientHamiltonian(0.1, batch_size=20, gradient_noise=None),
    ],
    "LaplaceApproximation": [whole_chains.LaplaceApproximation(n_draws=100)],
    "NUTS": [amc.NUTS(), amc.NUTS(tune=200, target_accept=0.9, backend="pymc")],
    "NumPyroADVI": [whole_chains.NumPyroADVI(iterations=100)],
    "NumPyroHMCECS": [whole_chains.NumPyroHMCECS(batch_size=20)],
    "NumPyroNUTS": [whole_chains.NumPyroNUTS(tune=500)],
    "PyMCADVI": [whole_chains.PyMCADVI(iterations=100)],
    "PyMCPathfinder": [whole_chains.PyMCPathfinder(n_paths=2)],
    "StochasticGradientLangevin": [
        amc.proposals.StochasticGradientLangevin(amc.proposals.DecreasingStep(0.1), batch_size=20)
    ],
    "StochasticGradientNoseHoover": [amc.proposals.StochasticGradientNoseHoover(0.1, 0.5, 20)],
    "ZigZag": [amc.samplers.ZigZag(amc.numerics.Laplace(np.zeros(2), np.eye(2)), spacing=2.0)],
    "StochasticGradientZigZag": [amc.proposals.StochasticGradientZigZag(0.1, 20, steps=3)],
    "TunaTest": [amc.acceptance.TunaTest(1e-4)],
}

PAIRED = {**PROPOSALS, **TESTS, **SAMPLERS}
EXAMPLES = {  # of every component: those that are paired, then further settings
    name: [*PAIRED.get(name, ()), *SETTINGS.get(name, ())] for name in sorted({*PAIRED, *SETTINGS})
}
