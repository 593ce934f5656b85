"""PyMC models as targets: the whole zoo, row by row and gradient by gradient, and posteriors against NUTS.

The comparisons with NUTS look at about 30 means and 30 standard deviations, each within 4 standard errors: a right
sampler fails once in some 260 runs. A forgotten Jacobian of a positive parameter moves its mean by more than 8.
"""

import arviz as az
import numpy as np
import pymc as pm
import pytest

import approxmcmc as amc
from approxmcmc.design.normal_by_pilot import normal_by_pilot
from approxmcmc.errors import IncompatibleError
from approxmcmc.interop.pymc import from_pymc
from tests import pymc_zoo as zoo

FOUR_MCSE = 4.0
# Advice of numba about the array layout in PyMC's own compute_log_likelihood, at the oldest versions admitted.
layout = pytest.mark.filterwarnings("ignore::numba.core.errors.NumbaPerformanceWarning")
pytestmark = [pytest.mark.statistical, pytest.mark.needs_jit, layout]


@pytest.mark.parametrize("model", zoo.REFUSED_WHEN_RUN, ids=lambda model: model.__name__)
def test_coupled_rows_are_found_by_running(model):
    with pytest.raises(IncompatibleError, match=zoo.REFUSED_WHEN_RUN[model]):
        from_pymc(zoo.build(model))


@pytest.mark.parametrize("model_function", zoo.ACCEPTED, ids=lambda model: model.__name__)
def test_every_kind_of_model_is_read_row_by_row(model_function):
    model = zoo.build(model_function)
    target = from_pymc(model, integrate=False)
    terms, gradient = target.compile(), target.compile_gradient()
    theta = target.initial_point() + 0.1 * np.random.default_rng(1).normal(size=target.variables.size)
    order = np.random.default_rng(0).permutation(target.n_obs)

    out = np.empty(120)
    terms.log_terms(theta, terms.data, order, 0, 120, out)
    posterior = {name: value[None, None] for name, value in target.variables.unpack(theta).items()}
    # PyMC knows no log-likelihood of all rows of minibatches: the same model without them does.
    whole = zoo.build(zoo.logistic) if model_function is zoo.minibatch else model
    known = pm.compute_log_likelihood(az.from_dict({"posterior": posterior}), model=whole, progressbar=False)
    expected = known.log_likelihood["y"].values[0, 0]
    constants = np.broadcast_to(target.omitted_constants, target.n_obs)
    np.testing.assert_allclose(out + constants[order[:120]], expected[order[:120]], rtol=1e-10, atol=1e-10)

    def density(theta):
        terms.log_terms(theta, terms.data, order, 0, 120, out)
        return out.sum() + terms.log_prior(theta)

    slope = np.zeros(theta.size)
    gradient.add_gradient(theta, gradient.data, order, 0, 120, slope)
    gradient.add_prior_gradient(theta, slope)
    differences = [(density(theta + s) - density(theta - s)) / 2e-5 for s in 1e-5 * np.eye(theta.size)]
    np.testing.assert_allclose(slope, differences, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize(
    ("model_function", "sampler"),
    [
        (zoo.poisson, "random walk"),
        (zoo.negative_binomial, "mala"),
        (zoo.unknown_sigma, "random walk"),
        (zoo.varying_intercepts, "trajectories"),  # at a small tau a Langevin step sticks, and no MCSE holds
    ],
    ids=lambda value: getattr(value, "__name__", value),
)
def test_posteriors_agree_with_nuts(model_function, sampler, seed):
    target = from_pymc(zoo.build(model_function), integrate=False)
    # Where the intercepts agree, the density of their scale rises without bound: that hierarchy has no mode.
    fit = normal_by_pilot(target, random_seed=seed) if model_function is zoo.varying_intercepts else amc.laplace(target)
    dim = target.variables.size
    proposal = {
        "random walk": amc.RandomWalk(2.38 / np.sqrt(dim), preconditioner=fit),
        "mala": amc.Langevin(1.4 / dim ** (1 / 3), preconditioner=fit),
        "trajectories": amc.proposals.Hamiltonian(0.4, preconditioner=fit),
    }[sampler]
    trace = amc.sample(
        target, amc.MetropolisHastings(proposal, amc.ExactTest()), draws=20_000, tune=1000, chains=2,
        random_seed=seed, initvals=fit, progressbar=False,
    )  # fmt: skip
    reference = amc.reference_posterior(target, draws=2500, chains=4, enforce=False, random_seed=1)
    for name in trace.posterior.data_vars:
        ours, theirs = trace.posterior[name], reference.posterior[name]
        for method, moment in (("mean", lambda draws: draws.mean(("chain", "draw"))),
                               ("sd", lambda draws: draws.std(("chain", "draw")))):  # fmt: skip
            error = np.hypot(*(az.mcse(draws, method=method) for draws in (ours, theirs)))
            score = np.abs(moment(ours) - moment(theirs)) / error
            assert float(score.max()) < FOUR_MCSE, (name, method, float(score.max()))
