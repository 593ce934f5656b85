"""Models that look like hierarchies of independent groups and are not: none is integrated, and the reason is told."""

import re
from functools import partial

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest

import approxmcmc as amc
from approxmcmc.errors import IncompatibleError
from approxmcmc.interop.attempts import NotPossibleError
from approxmcmc.interop.groups import labels
from approxmcmc.interop.groups.labels import FREE, MIXED
from approxmcmc.interop.groups.target import integrated

N, G = 60, 6
rng = np.random.default_rng(0)
GROUP, OTHER, X = np.arange(N) % G, np.arange(N) // 10, rng.normal(size=N)
Y = rng.normal(size=N)


COUNTS = rng.poisson(2.0, size=N)


def model_of(effects, *, potential=None, law=None, counts=False):
    """Return a model with a scale s, a mean mu and a noise tau, whose rows have mean `effects(mu, s)`, or its exp."""
    with pm.Model() as model:
        mu, s = pm.Normal("mu"), pm.HalfNormal("s")
        mean = effects(mu, s)
        if potential is not None:
            pm.Potential("potential", potential(model["z"]))
        tau = pm.HalfNormal("tau")
        if counts:
            pm.Poisson("y", pm.math.exp(mean), observed=COUNTS)
        else:
            pm.Normal("y", mean, tau if law is None else law(model["z"], tau), observed=Y)
    return model


def of_scaled(make):
    """Return effects(mu, s) = mu + make(s z)."""
    return lambda mu, s: mu + make(s * z())


def of_standard(make):
    """Return effects(mu, s) = mu + make(z, s)."""
    return lambda mu, s: mu + make(z(), s)


def z(**settings):
    return pm.Normal("z", **{"mu": 0.0, "sigma": 1.0, "shape": G, **settings})


LOOK_ALIKES = {
    "sum to zero, by law": (
        partial(model_of, lambda mu, s: mu + pm.ZeroSumNormal("z", s, shape=G)[GROUP]),
        "its distribution is ZeroSumNormal",
    ),
    "sum to zero, by hand": (
        partial(model_of, of_scaled(lambda e: (e - e.mean())[GROUP])),
        "several of its entries",
    ),
    "autoregressive": (
        partial(
            model_of, lambda mu, s: mu + pm.AR("z", [0.5], sigma=s, steps=G - 1, init_dist=pm.Normal.dist())[GROUP]
        ),
        "its distribution is AutoRegressive",
    ),
    "a random walk, by law": (
        partial(
            model_of, lambda mu, s: pm.GaussianRandomWalk("z", mu, s, steps=G - 1, init_dist=pm.Normal.dist())[GROUP]
        ),
        "its distribution is RandomWalk",
    ),
    "a random walk, by cumulative sums": (
        partial(model_of, lambda mu, s: mu + pt.cumsum(s * z())[GROUP]),
        "several of its entries",
    ),
    "shared through a sum": (
        partial(model_of, of_scaled(lambda e: e[GROUP] + e.sum() * X)),
        "several of its entries",
    ),
    "one effect under two index vectors": (
        partial(model_of, of_scaled(lambda e: e[GROUP] - e[OTHER])),
        "several of its entries",
    ),
    "neighbours": (
        partial(model_of, of_scaled(lambda e: (e + pt.roll(e, 1))[GROUP])),
        "several of its entries",
    ),
    "a potential of the effects": (
        partial(model_of, lambda mu, s: mu + s * z()[GROUP], potential=lambda e: -((e[0] - e[1]) ** 2)),
        "the potential potential depends on it",
    ),
    "a parameter that depends on an effect": (
        partial(model_of, of_standard(lambda e, s: s * e[GROUP] + pm.Normal("c", e[0]) * X)),
        "the variable c depends on it",
    ),
    "a correlated field": (
        partial(model_of, lambda mu, s: pm.MvNormal("z", np.zeros(G), np.eye(G) + 0.5)[GROUP] * s + mu),
        "it is one multivariate normal vector",
    ),
    "a smoothing matrix": (
        partial(model_of, lambda mu, s: mu + s * (pt.as_tensor(np.eye(G) + 0.1) @ z())[GROUP]),
        "several of its entries",
    ),
    "effects that bend": (
        partial(model_of, lambda mu, s: mu + pt.exp(s * z())[GROUP]),
        "is not linear in the effects",
    ),
    "effects of two kinds, multiplied": (
        partial(model_of, of_standard(lambda e, s: e[GROUP] * pm.Normal("w", shape=G)[GROUP])),
        "not linear in the effects",
    ),
    "a noise that depends on the effects": (
        partial(model_of, lambda mu, s: mu + s * z()[GROUP], law=lambda e, tau: tau * pt.exp(e)[GROUP]),
        "is not linear in the effects",
    ),
    "effects with heavy tails": (
        partial(model_of, lambda mu, s: mu + pm.StudentT("z", nu=4.0, sigma=s, shape=G)[GROUP]),
        "its distribution is StudentT",
    ),
    "ordered effects": (
        partial(
            model_of,
            lambda mu, s: (
                mu + z(transform=pm.distributions.transforms.ordered, initval=np.linspace(-1.0, 1.0, G))[GROUP]
            ),
        ),
        "it has the transform",
    ),
}


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("kind", "counts"),
    [(kind, counts) for kind in LOOK_ALIKES for counts in (False, True) if not counts or "noise" not in kind],
)
def test_what_is_not_independent_is_not_integrated_and_the_reason_is_told(kind, counts):
    make, reason = LOOK_ALIKES[kind]
    with pytest.raises(NotPossibleError) as refusal:
        integrated(make(counts=counts))
    assert reason in str(refusal.value)


def test_who_asks_for_it_gets_the_reason():
    make, reason = LOOK_ALIKES["one effect under two index vectors"]
    with pytest.raises(IncompatibleError, match=f"no effects can be integrated out: z: a row depends on {reason}"):
        amc.from_pymc(make(), integrate=True)


@pytest.mark.thorough
def test_parameters_that_all_rows_read_are_not_named_as_effects():
    """A covariance of effects, and coefficients of a design, are not normal, but they are no effects either."""
    with pm.Model() as model:
        pm.LKJCholeskyCov("cov", n=2, eta=2.0, sd_dist=pm.Exponential.dist(1.0, shape=2), compute_corr=False)
        b = pm.Laplace("b", 0.0, 1.0, shape=3)
        effects = pm.math.expand_packed_triangular(2, model["cov"]) @ pm.StudentT(
            "z", nu=4.0, mu=0.0, sigma=1.0, shape=(2, G)
        )
        mean = effects[0][GROUP] + np.outer(np.arange(len(GROUP)), [1.0, 0.5, -1.0]) @ b
        pm.Normal("y", mean, 1.0, observed=Y)
    with pytest.raises(IncompatibleError) as refusal:
        amc.from_pymc(model, integrate=True)
    assert "z: its distribution is StudentT" in str(refusal.value)
    assert "cov:" not in str(refusal.value) and "b:" not in str(refusal.value)


@pytest.mark.thorough
@pytest.mark.parametrize("counts", [False, True])
def test_effects_that_are_the_only_parameters_stay_parameters(counts):
    group = np.array([1, 1, 1, 0])
    with pm.Model() as model:
        u = pm.Normal("u", 0.0, 0.8, shape=2)
        if counts:
            pm.Poisson("y", pm.math.exp(u[group]), observed=np.array([0, 1, 3, 1]))
        else:
            pm.Normal("y", u[group], 0.7, observed=np.array([0.64, 0.1, -0.54, 0.36]))
    with pytest.raises(IncompatibleError, match="u: no parameters would remain to sample"):
        amc.from_pymc(model, integrate=True)
    assert list(amc.from_pymc(model).variables.shapes) == ["u"]


def heavy_tails():
    with pm.Model() as model:
        pm.StudentT("y", nu=4.0, mu=pm.HalfNormal("s") * z()[GROUP], sigma=1.0, observed=Y)
    return model


def two_noises():
    """Return a model of two observed variables, each with its own noise; the first does not depend on the effects."""
    with pm.Model() as model:
        mu = pm.Normal("mu")
        pm.Normal("x", mu, pm.HalfNormal("tau"), observed=X)
        pm.Normal("y", mu + z()[GROUP], 1.0, observed=Y)
    return model


def no_groups():
    with pm.Model() as model:
        pm.StudentT("y", nu=4.0, mu=pm.Normal("mu") + pm.Normal("beta") * X, sigma=1.0, observed=Y)
    return model


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (heavy_tails, "z: the rows of y: StudentT rows are not log-concave in the predictor"),
        (two_noises, "z: the scale of the noise is not one parameter times known numbers"),
        (LOOK_ALIKES["a random walk, by law"][0], "z: its distribution is RandomWalk"),
        (no_groups, "no variable has an effect for each of several groups"),
    ],
)
def test_explain_says_why_effects_stay_parameters(make, reason):
    lines = amc.explain(make()).splitlines()
    [answer] = [line for line in lines if line.startswith("- effects of groups integrated out: no, ")]
    assert reason in answer


def test_explain_answers_where_no_row_is_a_term_and_nuts_is_quicker():
    """The observed variables have 40 and 30 rows."""
    group = np.arange(40) % 8
    with pm.Model() as model:
        z, scale = pm.Normal("z", shape=8), pm.HalfNormal("scale")
        pm.Bernoulli("class", logit_p=scale * z[group], observed=group > 3)
        pm.Poisson("count", pm.math.exp(scale * z[group[:30]]), observed=group[:30])
    explained = amc.explain(model)
    assert explained.startswith("class, count: no row is a term: the observed variables need the same number of rows")
    assert "'class' has 40, 'count' has 30" in explained
    prices = re.search(
        r"out: 12 s if it fits; not tried.*whole chains by NUTS: ([\d.]+) s, taken$", explained, re.DOTALL
    )
    assert prices and float(prices[1]) < 12.0


@pytest.mark.needs_jit
@pytest.mark.parametrize("kind", ["shared through a sum", "a smoothing matrix"])
def test_the_check_by_numbers_sees_what_labels_overlook(kind, monkeypatch):
    """Planted bug: labels that join two groups to the second. The terms are then not those of the model."""
    monkeypatch.setattr(labels, "join", lambda one, other: np.where(other == FREE, one, other))
    monkeypatch.setattr(labels, "join_along", lambda known, axis: known.max(axis=axis))
    monkeypatch.setattr("approxmcmc.interop.groups.candidates.join", labels.join)
    with pytest.raises(NotPossibleError, match="and that of the model"):
        integrated(LOOK_ALIKES[kind][0]())


def test_labels_join():
    one, other = np.array([FREE, FREE, 1, 1, MIXED, MIXED]), np.array([FREE, 2, 1, 2, FREE, 1])
    assert labels.join(one, other).tolist() == labels.join(other, one).tolist() == [FREE, 2, 1, MIXED, MIXED, MIXED]
    table = np.array([[FREE, 1, 1, FREE], [1, 2, FREE, FREE], [MIXED, MIXED, MIXED, MIXED], [MIXED, 3, 3, 3]])
    assert labels.join_along(table, 1).tolist() == [1, MIXED, MIXED, MIXED]
    assert labels.join_along(table, 0).tolist() == [MIXED, MIXED, MIXED, MIXED]
