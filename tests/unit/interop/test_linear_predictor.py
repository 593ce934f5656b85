"""Models of PyMC whose rows see theta through linear predictors: found, equal to the model, and fast."""

import arviz as az
import numpy as np
import pymc as pm
import pytest
from scipy.special import gammaln

import approxmcmc as amc
from approxmcmc.engine.terms.gradients import full_gradient
from approxmcmc.errors import IncompatibleError
from approxmcmc.expansion.linear import LinearExpansion
from approxmcmc.expansion.posterior import Posterior
from approxmcmc.expansion.predictors import PredictorExpansion
from approxmcmc.interop.pymc import from_pymc
from tests import pymc_zoo as zoo

pytestmark = pytest.mark.needs_jit  # PyTensor's numba backend cannot do without the compiler


def shifted():
    b = pm.Normal("b", 0.0, 1.0, shape=3)
    pm.Poisson("y", pm.math.exp(0.1 * zoo.Z + zoo.X @ b), observed=zoo.COUNTS)


def times_a_parameter():
    b = pm.Normal("b", 0.0, 1.0, shape=3)
    pm.Bernoulli("y", logit_p=(zoo.X @ b) * b[0], observed=zoo.BINARY)


# The expansion, and how far off the model's density that of the target is, apart from the constants of its terms:
# normal priors of a plain design leave out constants.
FOUND = {
    zoo.logistic: (LinearExpansion, None),
    zoo.transposed_design: (LinearExpansion, None),
    zoo.varying_intercepts: (PredictorExpansion, 0.0),
    shifted: (PredictorExpansion, None),
    times_a_parameter: (PredictorExpansion, None),
    zoo.two_observed: (PredictorExpansion, 0.0),
}


SLOW = (zoo.transposed_design, shifted, times_a_parameter, zoo.two_observed)  # up to a minute each, to compile


@pytest.mark.parametrize(
    "model",
    [pytest.param(model, marks=pytest.mark.recompiles) if model in SLOW else model for model in FOUND],
    ids=lambda model: model.__name__,
)
def test_the_density_is_that_of_the_model_but_for_a_constant(model):
    built, (kind, constant) = zoo.build(model), FOUND[model]
    target = from_pymc(built, integrate=False)
    posterior = Posterior(target)
    log_density, slope = (make(mode="FAST_COMPILE") for make in (built.compile_logp, built.compile_dlogp))
    assert isinstance(posterior.expansion, kind)
    gradient, rng, differences = target.compile_gradient(), np.random.default_rng(0), []
    for _ in range(4):
        theta = 0.3 * rng.normal(size=target.variables.size)
        point = target.variables.unconstrained.unpack(theta)
        here = posterior.at(theta)
        omitted = np.broadcast_to(target.omitted_constants, target.n_obs).sum()  # log y! of counts, say
        differences.append(here.value + omitted - log_density(point))
        found = full_gradient(gradient, theta)
        np.testing.assert_allclose(found, posterior.expansion.at(theta).gradient, rtol=1e-10, atol=1e-10)
        gradient.add_prior_gradient(theta, found)
        np.testing.assert_allclose(found, slope(point), rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(differences, differences[0] if constant is None else constant, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(
    ("model", "constants"),
    [
        pytest.param(zoo.poisson, -gammaln(zoo.COUNTS + 1.0), id="poisson"),
        pytest.param(zoo.transposed_design, -0.5 * np.log(2.0 * np.pi), id="normal", marks=pytest.mark.recompiles),
        pytest.param(zoo.logistic, 0.0, id="logistic", marks=pytest.mark.recompiles),
    ],
)
def test_cross_validation_has_the_constants_that_the_terms_leave_out(model, constants):
    """Else a Poisson model would lose against a negative binomial one by the sum of log y!."""
    built = zoo.build(model)
    target = from_pymc(built)
    np.testing.assert_allclose(target.omitted_constants, np.broadcast_to(constants, zoo.N), rtol=1e-9)
    theta = np.array([[[0.1, -0.2, 0.3]]])
    trace = az.from_dict({"posterior": dict.fromkeys(target.variables.shapes, theta)})
    known = pm.compute_log_likelihood(trace, model=built, progressbar=False)["log_likelihood"]["y"]
    np.testing.assert_allclose(amc.log_likelihood(trace, target)["log_likelihood"]["terms"], known, rtol=1e-9)


def test_prior_gradients_are_those_of_means_and_scales():
    with pm.Model() as model:
        a = pm.Normal("a", 1.0, 2.0)
        b = pm.Normal("b", [0.0, -1.0, 0.5], [1.0, 0.1, 10.0], shape=3)
        c = pm.Flat("c")
        pm.Bernoulli("y", logit_p=a + zoo.X @ b + c * zoo.X[:, 0], observed=zoo.BINARY)
    target = from_pymc(model)
    theta, found = np.array([0.3, -0.2, 0.4, 0.1, 2.0]), np.zeros(5)
    target.compile_gradient().add_prior_gradient(theta, found)
    expected = model.compile_dlogp(model.free_RVs, mode="FAST_COMPILE")
    with_data = expected(target.variables.unconstrained.unpack(theta))
    slope = np.column_stack([np.ones(zoo.N), zoo.X, zoo.X[:, 0]]).T @ (
        zoo.BINARY - 1.0 / (1.0 + np.exp(-(np.column_stack([np.ones(zoo.N), zoo.X, zoo.X[:, 0]]) @ theta)))
    )
    np.testing.assert_allclose(found + slope, with_data, rtol=1e-9)


@pytest.mark.parametrize(
    ("model", "told"),
    [
        (
            zoo.unknown_sigma,
            "normal regression with 4 parameters in one linear predictor and one value that all rows share",
        ),
        (
            shifted,
            "poisson regression with 3 parameters in one linear predictor, normal priors; the library",
        ),
        (
            zoo.potential_on_parameters,
            "normal regression with 1 parameter in one linear predictor, a prior compiled by",
        ),
        (zoo.censored, "no quantity that is linear in the parameters differs from row to row"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_what_was_found_is_told_or_why_nothing_was(model, told):
    assert told in amc.explain(zoo.build(model))


def test_rows_that_a_nonlinear_function_couples_are_refused_as_ever():
    with pm.Model() as model:
        b = pm.Normal("b", 0.0, 1.0, shape=3)
        pm.Normal("y", pm.math.exp(zoo.X @ b).cumsum(), 1.0, observed=zoo.Z)
    with pytest.raises(IncompatibleError, match="changes when other rows are left out"):
        from_pymc(model)


def test_draws_have_the_names_of_the_model():
    target = from_pymc(zoo.build(zoo.varying_intercepts), integrate=False)
    sampler = amc.MetropolisHastings(amc.RandomWalk(0.05), amc.ExactTest())
    trace = amc.sample(target, sampler, draws=20, tune=0, chains=1, random_seed=1, progressbar=False)
    assert {"tau", "mu", "intercept", "beta"} == set(trace.posterior.data_vars)
    assert (trace.posterior["tau"] > 0).all() and trace.posterior["intercept"].shape == (1, 20, zoo.GROUPS)
    assert "group_of_row" in trace.constant_data and "y" in trace.observed_data
