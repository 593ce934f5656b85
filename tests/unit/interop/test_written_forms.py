"""Rows as PyMC and Bambi users write them: their family, predictor and shape are found, and look-alikes are refused.

The graphs that were found are evaluated, and compared with the numbers that the model was written with.
"""

import dataclasses

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
import pytest

import approxmcmc as amc
from approxmcmc import families
from approxmcmc.families import FORMS
from approxmcmc.interop import law as law_module
from approxmcmc.interop.attempts import NotPossibleError
from approxmcmc.interop.law import law_of_rows
from approxmcmc.interop.linear_predictor import structured_target
from approxmcmc.interop.model import ModelOfPyMC
from approxmcmc.interop.walk import PYTHON

N = 12
_rng = np.random.default_rng(3)
X, EXPOSED = _rng.normal(size=N), _rng.uniform(0.5, 2.0, N)
BITS, COUNTS, POSITIVE, SHARES = np.arange(N) % 2, np.arange(N) % 5, EXPOSED**2, EXPOSED / 3.0
exp, sigmoid = pm.math.exp, pm.math.sigmoid


def clipped(p):
    """Return a probability as Bambi clips it."""
    p = pt.switch(pt.eq(p, 0), np.finfo(float).eps, p)
    return pt.switch(pt.eq(p, 1), 1 - np.finfo(float).eps, p)


def beta_of(mean, phi):
    pm.Beta("y", alpha=mean * phi, beta=(1 - mean) * phi, observed=SHARES)


# The family, a function of predictor eta and positive variable a, and the shape as a function of a.
WRITTEN = {
    "logit": (families.LOGIT, lambda eta, a: pm.Bernoulli("y", logit_p=eta, observed=BITS), None),
    "sigmoid": (families.LOGIT, lambda eta, a: pm.Bernoulli("y", p=sigmoid(eta), observed=BITS), None),
    "a failure": (families.LOGIT, lambda eta, a: pm.Bernoulli("y", p=1.0 - sigmoid(-eta), observed=BITS), None),
    "clipped": (families.LOGIT, lambda eta, a: pm.Bernoulli("y", p=clipped(sigmoid(eta)), observed=BITS), None),
    "invprobit": (families.PROBIT, lambda eta, a: pm.Bernoulli("y", p=pm.math.invprobit(eta), observed=BITS), None),
    "cloglog": (families.CLOGLOG, lambda eta, a: pm.Bernoulli("y", p=1 - exp(-exp(eta)), observed=BITS), None),
    "cloglog, clipped": (
        families.CLOGLOG,
        lambda eta, a: pm.Bernoulli("y", p=clipped(1 - exp(-exp(eta))), observed=BITS),
        None,
    ),
    "expm1": (families.CLOGLOG, lambda eta, a: pm.Bernoulli("y", p=-pt.expm1(-exp(eta)), observed=BITS), None),
    "binomial": (families.BINOMIAL, lambda eta, a: pm.Binomial("y", n=5, p=sigmoid(eta), observed=COUNTS), None),
    "poisson": (families.POISSON, lambda eta, a: pm.Poisson("y", mu=exp(eta), observed=COUNTS), None),
    "negative binomial": (
        families.NEGATIVE_BINOMIAL,
        lambda eta, a: pm.NegativeBinomial("y", mu=exp(eta), alpha=a, observed=COUNTS),
        lambda a: a,
    ),
    "dispersion": (
        families.NEGATIVE_BINOMIAL,
        lambda eta, a: pm.NegativeBinomial("y", mu=exp(eta), alpha=1 / a, observed=COUNTS),
        lambda a: 1.0 / a,
    ),
    "n and p": (
        families.NEGATIVE_BINOMIAL,
        lambda eta, a: pm.NegativeBinomial("y", n=a, p=a / (a + exp(eta)), observed=COUNTS),
        lambda a: a,
    ),
    "gamma": (
        families.GAMMA,
        lambda eta, a: pm.Gamma("y", alpha=a, beta=a / exp(eta), observed=POSITIVE),
        lambda a: a,
    ),
    "rate": (
        families.GAMMA,
        lambda eta, a: pm.Gamma("y", alpha=a, beta=exp(-eta) * a, observed=POSITIVE),
        lambda a: a,
    ),
    "gamma, Bambi": (
        families.GAMMA,
        lambda eta, a: pm.Gamma("y", mu=exp(eta), sigma=exp(eta) / a**0.5, observed=POSITIVE),
        lambda a: a,
    ),
    "coefficient of variation": (
        families.GAMMA,
        lambda eta, a: pm.Gamma("y", mu=exp(eta), sigma=exp(eta) * a, observed=POSITIVE),
        lambda a: a**-2.0,
    ),
    "known alpha": (
        families.GAMMA,
        lambda eta, a: pm.Gamma("y", alpha=2.0, beta=2.0 / exp(eta), observed=POSITIVE),
        lambda a: 2.0,
    ),
    "exponential": (
        families.GAMMA,
        lambda eta, a: pm.Exponential("y", lam=1.0 / exp(eta), observed=POSITIVE),
        lambda a: 1.0,
    ),
    "weibull": (
        families.WEIBULL,
        lambda eta, a: pm.Weibull("y", alpha=a, beta=exp(eta), observed=POSITIVE),
        lambda a: a,
    ),
    "precision": (
        families.beta.BETA,
        lambda eta, a: pm.Beta("y", mu=sigmoid(eta), nu=a, observed=SHARES),
        lambda a: a,
    ),
    "beta, Bambi": (
        families.beta.BETA,
        lambda eta, a: beta_of(clipped(sigmoid(eta)), a),
        lambda a: a,
    ),
    "normal": (families.NORMAL, lambda eta, a: pm.Normal("y", eta, tau=a, observed=X), lambda a: a**-0.5),
}  # fmt: skip
LOOK_ALIKES = {
    "log-log": lambda eta, a: pm.Bernoulli("y", p=exp(-exp(-eta)), observed=BITS),
    "scaled": lambda eta, a: pm.Bernoulli("y", p=0.5 * sigmoid(eta), observed=BITS),
    "unknown trials": lambda eta, a: pm.Binomial("y", n=5.0 + a, p=sigmoid(eta), observed=COUNTS),
    "softplus": lambda eta, a: pm.Poisson("y", mu=pm.math.log1pexp(eta), observed=COUNTS),
    "a mean plus a number": lambda eta, a: pm.Poisson("y", mu=exp(eta) + 1.0, observed=COUNTS),
    "a sum of two": lambda eta, a: pm.NegativeBinomial("y", mu=exp(eta) + exp(a), alpha=a, observed=COUNTS),
    "two shapes": lambda eta, a: pm.Beta("y", alpha=a * sigmoid(eta), beta=3.0 * sigmoid(-eta), observed=SHARES),
    "two means": lambda eta, a: pm.Beta("y", alpha=a * sigmoid(eta), beta=a * sigmoid(eta), observed=SHARES),
    "a rate without alpha": lambda eta, a: pm.Gamma("y", alpha=a, beta=exp(-eta), observed=POSITIVE),
    "Weibull of a mean": lambda eta, a: pm.Weibull("y", a, exp(eta) / pt.gamma(1 + 1 / a), observed=POSITIVE),
    "unknown degrees of freedom": lambda eta, a: pm.StudentT("y", nu=a, mu=eta, sigma=1.0, observed=X),
}


def model_of(make):
    with pm.Model() as model:
        b, a = pm.Normal("b"), pm.HalfNormal("a")
        make(b * X + 0.5, a)
    return model


def read(model, graphs_of=None):
    """Return the law of the rows, also of a family whose effects are not integrated out."""
    observed = model["y"]
    graphs = law_module.Graphs(model.free_RVs, [model["a"]])
    return law_module.law_of(observed.owner.op, observed.owner.op.dist_params(observed.owner), graphs)


def evaluated(model, graph, b=0.7, a=1.6):
    function = pytensor.function([model["b"], model["a"]], graph, mode=PYTHON, on_unused_input="ignore")
    return function(b, a)


@pytest.mark.thorough
@pytest.mark.parametrize("name", WRITTEN)
def test_the_family_its_predictor_and_its_shape_are_found(name):
    family, make, shape = WRITTEN[name]
    model = model_of(make)
    law = read(model)
    assert law.family is family
    assert law.is_clipped == ("clipped" in name or name == "beta, Bambi")
    exact = 1e-7 if name == "invprobit" else 1e-12  # PyMC takes the root of 2 in single precision
    np.testing.assert_allclose(evaluated(model, law.predictor), 0.7 * X + 0.5, rtol=exact)
    assert (law.shape is None) == (shape is None)
    if shape is not None:
        np.testing.assert_allclose(evaluated(model, law.shape), shape(1.6), rtol=1e-12)


@pytest.mark.thorough
@pytest.mark.parametrize("factor", [lambda mean: EXPOSED * mean, lambda mean: mean / EXPOSED], ids=["times", "over"])
@pytest.mark.parametrize("make", [
    lambda mean, a: pm.Poisson("y", mean, observed=COUNTS),
    lambda mean, a: pm.NegativeBinomial("y", mu=mean, alpha=a, observed=COUNTS),
    lambda mean, a: pm.Gamma("y", alpha=a, beta=a / mean, observed=POSITIVE),
    lambda mean, a: pm.Exponential("y", lam=1 / mean, observed=POSITIVE),
    lambda mean, a: pm.Weibull("y", alpha=a, beta=mean, observed=POSITIVE),
], ids=["poisson", "negative binomial", "gamma", "exponential", "weibull"])  # fmt: skip
def test_known_factors_of_a_mean_are_offsets(make, factor):
    model = model_of(lambda eta, a: make(factor(exp(eta)), a))
    np.testing.assert_allclose(
        evaluated(model, read(model).predictor), 0.7 * X + 0.5 + np.log(factor(np.ones(N))), rtol=1e-12
    )


@pytest.mark.parametrize("name", LOOK_ALIKES)
def test_a_look_alike_is_no_family_with_this_predictor(name):
    model = model_of(LOOK_ALIKES[name])
    law = read(model)
    if isinstance(law, str):  # the reason
        return
    predictor = law.predictor  # a law of the library, but not with eta: its mean has another factor
    assert predictor is None or not np.allclose(evaluated(model, predictor), 0.7 * X + 0.5)


def log_density(target, theta):
    """Return the log posterior density of rows, without the constants that a prior leaves out."""
    rows = np.arange(target.n_obs)
    terms = target.likelihood.evaluate(target.design.eta(theta, rows), target.responses, rows)
    return float(np.sum(terms + target.omitted_constants)) + target.compile().log_prior(theta)


def differs(model, target, density=None):
    """Return the largest relative difference of log density ratios of a target and its model at random points."""
    density = model.compile_logp(mode=PYTHON) if density is None else density
    found, expected = [], []
    points = np.random.default_rng(0).normal(scale=0.5, size=(4, 2))
    for b, log_a in points:
        found.append(log_density(target, np.array([b, log_a])))
        expected.append(float(density({"b": b, "a_log__": log_a})))
    return float(np.max(np.abs(np.diff(found) - np.diff(expected)) / (1.0 + np.abs(expected[1:]))))


@pytest.mark.thorough
@pytest.mark.parametrize("name", ["invprobit", "cloglog", "dispersion", "gamma, Bambi", "weibull", "precision"])
def test_rows_have_the_density_of_the_model(name):
    family, make, _ = WRITTEN[name]
    model = model_of(make)
    target = structured_target(ModelOfPyMC(model, None))
    assert target.likelihood.family is family
    assert differs(model, target) < 1e-9
    if name == "weibull":  # planted: the density of a itself, without the Jacobian of its logarithm
        assert differs(model, target, model.compile_logp(jacobian=False, mode=PYTHON)) > 1e-3


def swapped(form):
    """Plant: return a form that takes shape and predictor for each other."""

    def read_swapped(graphs, alpha, beta):
        return graphs.of_logarithm(families.WEIBULL, graphs.product(alpha), graphs.product(beta))

    return form._replace(read=read_swapped)


def of_another_link(form):
    """Plant: return a form that takes a probit for a logit."""

    def read_probit(graphs, p):
        return dataclasses.replace(graphs.of_probability(families.PROBIT, "probit", p), family=families.LOGIT)

    return form._replace(read=read_probit)


PLANTED = {"invprobit": ("Bernoulli", of_another_link), "weibull": ("WeibullBeta", swapped)}


@pytest.mark.thorough
@pytest.mark.parametrize("name", PLANTED)
def test_a_wrong_form_is_noticed(name, monkeypatch):
    """The terms are compared with the model's, so PyTensor's are taken instead."""
    distribution, plant = PLANTED[name]
    form = next(form for form in FORMS if form.distribution == distribution)
    monkeypatch.setattr(law_module, "FORMS", (plant(form),))
    model = model_of(WRITTEN[name][1])
    target = structured_target(ModelOfPyMC(model, None))
    assert not hasattr(target.likelihood, "family")
    assert differs(model, target) < 1e-9


@pytest.mark.thorough
def test_categorical_rows_have_a_predictor_for_each_class():
    with pm.Model() as model:
        slopes = pm.Normal("slopes", shape=2)
        zeros = np.zeros((N, 1))
        pm.Categorical("y", logit_p=pt.concatenate([zeros, X[:, None] * slopes], axis=1), observed=np.arange(N) % 3)
    target = amc.from_pymc(model)
    assert target.design.n_predictors == 3 and type(target.likelihood).__name__ == "SoftmaxLikelihood"
    density = model.compile_logp(vars=model.observed_RVs, mode=PYTHON)
    theta, rows = np.array([0.3, -0.8]), np.arange(N)
    found = target.likelihood.evaluate(target.design.eta(theta, rows), target.responses, rows).sum()
    np.testing.assert_allclose(found, density({"slopes": theta}), rtol=1e-9)


@pytest.mark.thorough
def test_ordered_rows_have_a_predictor_and_cutpoints():
    with pm.Model() as model:
        slope = pm.Normal("slope")
        cuts = pm.Normal("cuts", [-1.0, 0.0, 1.0], transform=pm.distributions.transforms.ordered, shape=3)
        pm.OrderedLogistic("y", eta=slope * X, cutpoints=cuts, observed=np.arange(N) % 4, compute_p=False)
    target = structured_target(ModelOfPyMC(model, None))
    assert target.design.n_predictors == 4 and type(target.likelihood).__name__ == "OrderedLikelihood"
    density = model.compile_logp(vars=model.observed_RVs, mode=PYTHON)
    rows = np.arange(N)
    for theta in np.random.default_rng(1).normal(size=(3, 4)):
        found = target.likelihood.evaluate(target.design.eta(theta, rows), target.responses, rows).sum()
        np.testing.assert_allclose(found, density({"slope": theta[0], "cuts_ordered__": theta[1:]}), rtol=1e-9)


def test_families_that_are_not_concave_are_refused_in_groups():
    for make in (WRITTEN["precision"][1], lambda eta, a: pm.StudentT("y", nu=4, mu=eta, sigma=a, observed=X)):
        model = model_of(make)
        with pytest.raises(NotPossibleError, match="rows are not log-concave in the predictor"):
            law_of_rows(model, model["y"])
