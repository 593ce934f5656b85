"""Models of PyMC whose rows see theta through one linear predictor: found, equal to the model, and fast."""

import numpy as np
import pymc as pm
import pytest

import approxmcmc as amc
from approxmcmc.interop.pymc import PyMCTarget, from_pymc
from approxmcmc.targets.expansion.linear import LinearExpansion
from approxmcmc.targets.linear import LinearTarget
from approxmcmc.targets.posterior import Posterior
from tests import pymc_zoo as zoo

pytestmark = pytest.mark.needs_jit  # PyTensor's numba backend cannot do without the compiler

FOUND = (zoo.logistic, zoo.poisson, zoo.varying_intercepts, zoo.transposed_design)


@pytest.mark.parametrize("model", FOUND, ids=lambda model: model.__name__)
def test_the_density_is_that_of_the_model_but_for_a_constant(model):
    built = zoo.build(model)
    target = from_pymc(built)
    assert isinstance(target, LinearTarget) and isinstance(Posterior(target).expansion, LinearExpansion)
    posterior, log_density = Posterior(target), built.compile_logp()
    rng, differences = np.random.default_rng(0), []
    for _ in range(4):
        theta = 0.3 * rng.normal(size=target.variables.size)
        point = target.variables.unconstrained.unpack(theta)
        differences.append(posterior.at(theta).value - log_density(point))
    np.testing.assert_allclose(differences, differences[0], rtol=1e-9)


def test_prior_gradients_are_those_of_means_and_scales():
    with pm.Model() as model:
        a = pm.Normal("a", 1.0, 2.0)
        b = pm.Normal("b", [0.0, -1.0, 0.5], [1.0, 0.1, 10.0], shape=3)
        c = pm.Flat("c")
        pm.Bernoulli("y", logit_p=a + zoo.X @ b + c * zoo.X[:, 0], observed=zoo.BINARY)
    target = from_pymc(model)
    theta, found = np.array([0.3, -0.2, 0.4, 0.1, 2.0]), np.zeros(5)
    target.compile_gradient().add_prior_gradient(theta, found)
    expected = model.compile_dlogp(model.free_RVs)
    with_data = expected(target.variables.unconstrained.unpack(theta))
    slope = np.column_stack([np.ones(zoo.N), zoo.X, zoo.X[:, 0]]).T @ (
        zoo.BINARY - 1.0 / (1.0 + np.exp(-(np.column_stack([np.ones(zoo.N), zoo.X, zoo.X[:, 0]]) @ theta)))
    )
    np.testing.assert_allclose(found + slope, with_data, rtol=1e-9)


@pytest.mark.parametrize(
    ("model", "reason"),
    [
        (zoo.unknown_sigma, "scale of its normal law is a parameter"),
        (zoo.negative_binomial, "likelihood is NegBinomial"),
        (zoo.potential_on_parameters, "not one number for each row"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_the_reason_is_told_where_there_is_none(model, reason):
    assert reason in amc.explain(zoo.build(model))


def test_what_only_looks_linear_is_not_taken():
    with pm.Model() as squared:
        b = pm.Normal("b", 0.0, 1.0, shape=3)
        pm.Bernoulli("y", logit_p=(zoo.X @ b) * b[0], observed=zoo.BINARY)
    with pm.Model() as shifted:
        b = pm.Normal("b", 0.0, 1.0, shape=3)
        pm.Poisson("y", pm.math.exp(0.1 * zoo.Z + zoo.X @ b), observed=zoo.COUNTS)
    with pm.Model() as other_link:
        b = pm.Normal("b", 0.0, 1.0, shape=3)
        pm.Bernoulli("y", p=pm.math.invprobit(zoo.X @ b), observed=zoo.BINARY)
    for model, reason in ((squared, "not linear"), (shifted, "offset"), (other_link, "no sigmoid")):
        assert reason in amc.explain(model)
    assert isinstance(from_pymc(other_link), PyMCTarget)


def test_draws_have_the_names_of_the_model():
    target = from_pymc(zoo.build(zoo.varying_intercepts))
    sampler = amc.MetropolisHastings(amc.RandomWalk(0.05), amc.ExactTest())
    trace = amc.sample(target, sampler, draws=20, tune=0, chains=1, random_seed=1, progressbar=False)
    assert {"tau", "mu", "intercept", "beta"} == set(trace.posterior.data_vars)
    assert (trace.posterior["tau"] > 0).all() and trace.posterior["intercept"].shape == (1, 20, zoo.GROUPS)
    assert "group_of_row" in trace.constant_data and "y" in trace.observed_data
