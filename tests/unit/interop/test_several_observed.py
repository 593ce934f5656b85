"""Several observed variables that share groups: their rows are one stack, and an integral is over all of a group."""

import dataclasses

import numpy as np
import pymc as pm
import pytest
from scipy import stats
from scipy.special import expit, logsumexp

import approxmcmc as amc
from approxmcmc.engine.terms.gradients import full_gradient
from approxmcmc.interop import rows
from approxmcmc.interop.attempts import NotPossibleError
from approxmcmc.interop.groups.target import NormalGroupsOfPyMC, integrated

pytestmark = pytest.mark.needs_jit  # PyTensor's numba backend cannot do without the compiler

G = 6
rng = np.random.default_rng(7)
FIRST, SECOND = rng.integers(G, size=20), rng.integers(G, size=31)
X, EFFECT = rng.normal(size=31), rng.normal(size=G)
CLASS = (rng.random(20) < expit(EFFECT[FIRST])).astype(int)
COUNT = rng.poisson(np.exp(0.5 * EFFECT[SECOND]))
SIZE = 0.3 * X + EFFECT[SECOND] + 0.5 * rng.normal(size=31)
TRIALS = rng.integers(0, 5, size=31)
HITS = rng.binomial(TRIALS, 0.4)


def bernoulli(eta):
    pm.Bernoulli("class", logit_p=eta, observed=CLASS)


def poisson(eta):
    pm.Poisson("count", pm.math.exp(eta + pm.Normal("slope") * X), observed=COUNT)


def normal(eta):
    pm.Normal("size", eta, pm.HalfNormal("noise"), observed=SIZE)


def binomial(eta):
    pm.Binomial("hits", TRIALS, logit_p=eta, observed=HITS)


def negative_binomial(eta):
    pm.NegativeBinomial("count", mu=pm.math.exp(eta), alpha=pm.HalfNormal("alpha", 3.0), observed=COUNT)


LAWS = {  # by the names of the second variable's rows: log p(row | eta), for a dict of parameters
    poisson: lambda eta, p: stats.poisson.logpmf(COUNT[:, None], np.exp(eta + p["slope"] * X[:, None])),
    normal: lambda eta, p: stats.norm.logpdf(SIZE[:, None], eta, p["noise"]),
    binomial: lambda eta, p: stats.binom.logpmf(HITS[:, None], TRIALS[:, None], expit(eta)),
    negative_binomial: lambda eta, p: stats.nbinom.logpmf(
        COUNT[:, None], p["alpha"], p["alpha"] / (p["alpha"] + np.exp(eta))
    ),
}


def model_of(second, first=bernoulli):
    """Return a model whose two observed variables share the effects; the second one multiplies them by a loading."""
    with pm.Model(coords={"group": range(G)}) as model:
        scale, loading = pm.HalfNormal("scale"), pm.Normal("loading")
        z = pm.Normal("z", dims="group")
        first(pm.Normal("mu") + scale * z[FIRST])
        second(loading * z[SECOND])
    return model


DAILY = "normal"  # the others, ten seconds each to compile, are left to the longer run


@pytest.mark.parametrize(
    "second", [pytest.param(law, marks=() if law == DAILY else pytest.mark.recompiles) for law in LAWS]
)
def test_terms_are_integrals_over_the_rows_of_both_variables(second):
    target = integrated(model_of(second), always=True)
    theta = target.initial_point() + 0.3 * np.random.default_rng(2).normal(size=target.variables.size)
    point = {name: value[0] for name, value in target.variables.unpack(theta[None]).items()}
    grid = np.linspace(-9.0, 9.0, 3601)
    rows = np.zeros((G, grid.size))
    one = stats.bernoulli.logpmf(CLASS[:, None], expit(point["mu"] + point["scale"] * grid))
    np.add.at(rows, FIRST, one)
    np.add.at(rows, SECOND, LAWS[second](point["loading"] * grid[None], point))
    exact = logsumexp(rows + stats.norm.logpdf(grid), axis=1) + np.log(grid[1] - grid[0])
    found = target.own_terms(theta) + target.omitted_constants
    np.testing.assert_allclose(found, exact, atol=2e-4)

    def log_density(at):
        return target.compile().log_prior(at) + target.own_terms(at).sum()

    slopes = [(log_density(theta + e) - log_density(theta - e)) / 2e-4 for e in 1e-4 * np.eye(theta.size)]
    gradient = target.compile_gradient()
    mine = full_gradient(gradient, theta)
    gradient.add_prior_gradient(theta, mine)
    np.testing.assert_allclose(mine, slopes, rtol=1e-3, atol=5e-3)


@pytest.mark.recompiles
def test_two_variables_of_one_law_are_rows_of_one_family():
    with pm.Model() as model:
        z, scale = pm.Normal("z", shape=G), pm.HalfNormal("scale")
        pm.Bernoulli("class", logit_p=scale * z[FIRST], observed=CLASS)
        pm.Poisson("unused", pm.math.exp(pm.Normal("mu") + scale * z[SECOND]), observed=COUNT)
        pm.Bernoulli("other", logit_p=0.3 + scale * z[FIRST], observed=1 - CLASS)
    target = integrated(model, always=True)
    assert target.family_name == "logit and poisson" and target.n_rows == 71
    assert set(target.observed_data) == {"class", "unused", "other"}


def test_normal_rows_with_one_noise_have_a_closed_form_and_with_two_are_refused_with_the_reason():
    with pm.Model() as model:
        z, noise = pm.Normal("z", shape=G), pm.HalfNormal("noise")
        pm.Normal("a", pm.HalfNormal("scale") * z[SECOND], noise, observed=SIZE)
        pm.Normal("b", pm.Normal("mu") + z[FIRST], 2.0 * noise, observed=1.0 * CLASS)
    assert isinstance(integrated(model), NormalGroupsOfPyMC)
    with pytest.raises(NotPossibleError, match="noise is not one parameter"):
        integrated(model_of(normal, lambda eta: pm.Normal("class", eta, pm.HalfNormal("other"), observed=1.0 * CLASS)))


def test_three_laws_are_refused_with_the_reason():
    model = model_of(poisson)
    with model:
        pm.Normal("third", model["z"][SECOND], 1.0, observed=SIZE)
    with pytest.raises(NotPossibleError, match="z: observed variables with the distributions logit, poisson, normal"):
        integrated(model, always=True)


def test_effects_that_mix_in_one_of_the_variables_are_not_integrated():
    model = model_of(poisson)
    with model:
        pm.Poisson("total", pm.math.exp(model["z"].sum()), observed=3)
    with pytest.raises(NotPossibleError, match="a row depends on several of its entries"):
        integrated(model, always=True)


def test_rows_taken_for_those_of_the_other_law_are_seen_by_the_models_own_densities(monkeypatch):
    """Planted bug: the two laws are swapped."""
    right = rows.joint_law

    def swapped(laws, shapes):
        law = right(laws, shapes)
        return dataclasses.replace(law, family=law.second, second=law.family)

    monkeypatch.setattr(rows, "joint_law", swapped)
    with pytest.raises(NotPossibleError, match="and that of the model"):
        integrated(model_of(poisson), always=True)


def test_both_variables_are_named_and_their_data_are_in_the_trace():
    target = amc.from_pymc(model_of(normal), integrate=True)
    assert "class and size: 51 rows in 6 groups" in repr(target)
    np.testing.assert_array_equal(target.observed_data["size"], SIZE)
