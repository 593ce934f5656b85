"""Identical rows of likelihoods of several predictors, codes and responses as one term with a weight."""

import math

import numpy as np
import pytest

import approxmcmc as amc
from approxmcmc.engine.terms.batches import full_terms
from approxmcmc.engine.terms.gradients import full_gradient
from approxmcmc.expansion.posterior import Posterior
from approxmcmc.targets import compressed
from approxmcmc.targets.distinct_rows import DistinctRows

N, LEVELS = 3000, 4
rng = np.random.default_rng(5)
GROUP, KIND = rng.integers(0, LEVELS, N), rng.integers(0, 2, N)
TRIALS = 3 + KIND
SUCCESSES = rng.binomial(TRIALS, 0.3 + 0.1 * GROUP)


def binomial_by_codes():
    """Return a PyMC model with an effect of each group, and a binomial law, which PyTensor compiles."""
    import pymc as pm

    with pm.Model() as model:
        effect, slope = pm.Normal("effect", 0.0, 1.0, shape=LEVELS), pm.Normal("slope", 0.0, 1.0)
        pm.Binomial("y", TRIALS, logit_p=effect[GROUP] + slope * KIND, observed=SUCCESSES)
    return model


def negative_binomial(eta, log_shape, y):
    """Return log p(y | mean exp(eta), shape exp(log_shape)), without log y!."""
    shape = math.exp(log_shape)
    gammas = math.lgamma(y + shape) - math.lgamma(shape)
    return gammas + shape * log_shape + y * eta - (y + shape) * math.log(shape + math.exp(eta))


@pytest.fixture(scope="module")
def rows():
    """Return counts with two predictors: the log mean, by codes and a column, and a log shape that all rows share."""
    predictors = {"eta": {"effect": GROUP, "slope": KIND[:, None].astype(float)}, "log_shape": {"log_shape": 1.0}}
    return amc.targets.PredictorTarget(negative_binomial, predictors, SUCCESSES.astype(float))


def total(target, theta):
    compiled = target.compile()
    return math.fsum(full_terms(compiled.log_terms, theta, compiled.data, compiled.n_obs))


@pytest.mark.thorough
def test_weighted_terms_add_up_to_those_of_all_rows(rows):
    target = compressed(rows)
    assert isinstance(target, DistinctRows) and target.plain is rows and compressed(target) is target
    assert target.weights.sum() == target.n_rows == N and target.n_obs < 50
    for theta in np.random.default_rng(0).normal(scale=0.5, size=(3, rows.variables.size)):
        assert total(target, theta) == pytest.approx(total(rows, theta), rel=1e-12)
        ours, theirs = (full_gradient(one.compile_gradient(), theta) for one in (target, rows))
        assert ours == pytest.approx(theirs, rel=1e-9, abs=1e-9 * N)
        here, there = (Posterior(one).at(theta) for one in (target, rows))
        assert here.value == pytest.approx(there.value, rel=1e-12)
        assert here.hessian == pytest.approx(there.hessian, rel=1e-9, abs=1e-9 * np.abs(there.hessian).max())


def test_weights_that_are_forgotten_would_be_told(rows):
    target = compressed(rows)
    target.data = (*target.data[:-1], np.ones(target.n_obs))
    theta = np.full(rows.variables.size, 0.2)
    assert total(target, theta) != pytest.approx(total(rows, theta), rel=1e-2)


def test_influential_rows_and_rest_are_the_same_posterior(rows):
    target = compressed(rows)
    fit = amc.laplace(target)
    split = amc.ControlVariate(target, always_read=np.array([0, 3]), at=fit)
    differences = []
    for theta in fit.mode + 0.1 * np.random.default_rng(0).normal(size=(4, rows.variables.size)):
        compiled = split.compile()
        ours = compiled.log_prior(theta) + total(split, theta)
        differences.append(ours - Posterior(rows).log_prior(theta) - total(rows, theta))
    assert np.ptp(differences) < 1e-9 * N


@pytest.mark.needs_jit
@pytest.mark.recompiles
def test_a_trace_of_a_pymc_model_keeps_all_rows():
    model = binomial_by_codes()
    trace = amc.sample(model, random_seed=1, progressbar=False)
    attrs = trace.posterior.attrs
    assert "distinct" in attrs["compression"] and attrs["n_rows"] == N > 50 > attrs["n_obs"]
    assert trace.observed_data.y.size == N
    terms = amc.log_likelihood(trace, model).log_likelihood
    assert terms["y"][0, 0].size == N
    fit = amc.laplace(amc.from_pymc(model))
    assert trace.posterior["effect"].mean(("chain", "draw")).to_numpy() == pytest.approx(fit.mode[:LEVELS], abs=0.05)
