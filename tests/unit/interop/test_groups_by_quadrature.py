"""Hierarchies whose rows are not normal, as PyMC users write them: found, and the density that of the model integrated.

The oracle integrates the model's own log densities of rows and effects over a grid: 4001 values of all effects at once.
"""

from types import SimpleNamespace

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
import pytest
from pytensor.graph.replace import vectorize_graph
from scipy.special import logsumexp

import approxmcmc as amc
from approxmcmc.engine.terms.gradients import ALL_ROWS, full_gradient
from approxmcmc.interop.attempts import NotPossibleError
from approxmcmc.interop.groups import target as groups_target
from approxmcmc.interop.groups.target import integrated
from approxmcmc.interop.plans import INTEGRATE_GROUPS
from approxmcmc.interop.read import ModelDescription, Request
from approxmcmc.interop.walk import PYTHON
from approxmcmc.targets.groups import quadrature_terms

pytestmark = pytest.mark.needs_jit  # PyTensor's numba backend cannot do without the compiler

G, N = 12, 60
rng = np.random.default_rng(7)
GROUP = np.concatenate([np.arange(G), np.repeat([0, 1, 2], [24, 12, 4]), rng.integers(3, G, 8)])
OTHER, X, W = rng.integers(3, size=N), rng.normal(size=N), rng.normal(size=G)
EXPOSED = rng.uniform(0.5, 3.0, N)
ETA = 0.2 + 0.9 * rng.normal(size=G)[GROUP] + 0.5 * X
COUNTS = rng.poisson(np.exp(1.0 + ETA))
CLASSES = (rng.random(N) < 1.0 / (1.0 + np.exp(-ETA))).astype(int)
CLASSES[GROUP == 0], CLASSES[GROUP == 1] = 1, 0


def bernoulli(eta):
    pm.Bernoulli("y", logit_p=eta, observed=CLASSES)


def poisson(eta):
    pm.Poisson("y", pm.math.exp(eta), observed=COUNTS)


def gamma(eta, alpha):
    pm.Gamma("y", alpha=alpha, beta=alpha / pm.math.exp(eta), observed=COUNTS + 0.5)


def named(mu, s, x):
    return pm.Deterministic("b", mu + s * pm.Normal("z", dims="group"), dims="group")[GROUP] + x


def centred(mu, s, x):
    return pm.Normal("b", mu, s, dims="group")[GROUP] + x


LAWS = {
    "logit": bernoulli,
    "sigmoid": lambda eta: pm.Bernoulli("y", pm.math.invlogit(eta), observed=CLASSES),
    "by hand": lambda eta: pm.Bernoulli("y", 1.0 / (1.0 + pm.math.exp(-eta)), observed=CLASSES),
    "invprobit": lambda eta: pm.Bernoulli("y", pm.math.invprobit(eta), observed=CLASSES),
    "erf": lambda eta: pm.Bernoulli("y", 0.5 * (1.0 + pm.math.erf(eta / np.sqrt(2.0))), observed=CLASSES),
    "binomial": lambda eta: pm.Binomial("y", COUNTS + 3, logit_p=eta, observed=COUNTS),
    "poisson": poisson,
    "exposure": lambda eta: pm.Poisson("y", EXPOSED * pm.math.exp(eta) / 2.0, observed=COUNTS),
    "known shape": lambda eta: pm.NegativeBinomial("y", mu=pm.math.exp(eta), alpha=2.5, observed=COUNTS),
    "shape": lambda eta: pm.NegativeBinomial(
        "y", mu=pm.math.exp(eta), alpha=pm.Exponential("alpha", 0.5), observed=COUNTS
    ),
}
OF_NODES = {
    "inverse shape": lambda eta: pm.NegativeBinomial(
        "y", mu=pm.math.exp(eta), alpha=1.0 / pm.HalfNormal("phi"), observed=COUNTS
    ),
    "cloglog": lambda eta: pm.Bernoulli("y", 1.0 - pm.math.exp(-pm.math.exp(eta)), observed=CLASSES),
    "gamma": lambda eta: gamma(eta, pm.Exponential("alpha", 0.5)),
    "gamma of mean and sd": lambda eta: pm.Gamma(
        "y",
        mu=EXPOSED * pm.math.exp(eta),
        sigma=EXPOSED * pm.math.exp(eta) * pm.HalfNormal("cv"),
        observed=COUNTS + 0.5,
    ),
    "exponential": lambda eta: pm.Exponential("y", pm.math.exp(-eta), observed=COUNTS + 0.5),
    "weibull": lambda eta: pm.Weibull("y", pm.HalfNormal("alpha"), pm.math.exp(eta), observed=COUNTS + 0.5),
}
WRITTEN = {
    "named": named,
    "centred": centred,
    "predictors of groups": lambda mu, s, x: pm.Normal("b", mu + pm.Normal("gamma") * W, s, dims="group")[GROUP] + x,
    "without some groups": lambda mu, s, x: mu + s * pm.Normal("z", dims="group")[GROUP % 9] + x,
    "a slope": lambda mu, s, x: mu + s * pm.Normal("z", dims="group")[GROUP] * x,
    "each row": lambda mu, s, x: mu + s * pm.Normal("z", shape=N) + x,
    "crossed": lambda mu, s, x: centred(mu, s, x) + (pm.HalfNormal("s_other") * pm.Normal("other", shape=3))[OTHER],
    "scales by kind": lambda mu, s, x: (
        mu + x + (pm.HalfNormal("scales", shape=2)[[0, 1] * 6] * pm.Normal("z", dims="group"))[GROUP]
    ),
    "a logarithm": lambda mu, s, x: mu + x + pt.exp(pm.Normal("log_t")) * pm.Normal("z", dims="group")[GROUP],
}


def hierarchy(law="logit", written="named", prior=lambda: pm.HalfCauchy("s", 1.0)):
    with pm.Model(coords={"group": range(G)}) as model:
        mu, s, slope = pm.Normal("mu", 0.5, 2.0), prior(), pm.Normal("slope")
        {**LAWS, **OF_NODES}[law](WRITTEN[written](mu, s, slope * X))
    return model


def moved_before_the_link(law):
    with pm.Model(coords={"group": range(G)}) as model:
        effect = pm.Normal("mu") + pm.HalfNormal("s") * pm.Normal("z", dims="group")
        if law == "poisson":
            pm.Poisson("y", pm.math.exp(effect)[GROUP] * pm.math.exp(pm.Normal("slope") * X), observed=COUNTS)
        else:
            pm.Bernoulli("y", pm.Deterministic("p", pm.math.invlogit(effect))[GROUP], observed=CLASSES)
    return model


class ByGrid:
    """The density of a model's parameters, effects integrated over a grid."""

    def __init__(self, model, target):
        self.target, [effect] = target, target.groups.axes
        rows, prior = (model.logp(vars=[v], sum=False)[0] for v in (model.observed_RVs[0], effect))
        value = model.rvs_to_values[effect]
        values = [model.rvs_to_values[v] for v in target.coordinates.free]
        location, scale = effect.owner.op.dist_params(effect.owner)
        scales = model.replace_rvs_by_values([one + np.zeros(target.groups.n_groups) for one in (location, scale)])
        inputs = {"mode": PYTHON, "on_unused_input": "ignore"}
        self.scales = pytensor.function(values, scales, **inputs)
        many = pt.matrix("effects")
        self.densities = pytensor.function([*values, many], vectorize_graph([rows, prior], {value: many}), **inputs)
        others = [term.sum() for term in model.logp(vars=target.coordinates.free, sum=False)]
        self.prior = pytensor.function(values, sum(others), **inputs)

    def __call__(self, theta):
        coordinates, known, jacobian = self.target.coordinates, self.target.variables.unpack(theta), 0.0
        values = []
        for v in coordinates.free:
            place, shape = coordinates.places[v], np.shape(known[v.name])
            value = theta[place : place + int(np.prod(shape, dtype=int))].reshape(shape)
            if v in coordinates.signed:
                value = np.log(np.abs(value))
                jacobian += value.sum()
            values.append(value)
        location, scale = self.scales(*values)
        grid, labels = np.linspace(-9.0, 9.0, 4001), self.target.groups.rows
        rows, prior = self.densities(*values, location + scale * grid[:, None])
        found = np.array([np.bincount(labels, row, minlength=len(location)) for row in rows]) + prior + np.log(scale)
        integrals = logsumexp(found, axis=0) + np.log(grid[1] - grid[0])
        return float(integrals.sum() + self.prior(*values) - jacobian)


def log_density(target, theta):
    return target.compile().log_prior(theta) + target.own_terms(theta).sum() + np.sum(target.omitted_constants)


def check(model, allowed=1e-3, **rule):
    """Compare the log density with that on a grid; `rule` sets nodes and steps other than those chosen."""
    target = integrated(model)
    if rule:
        target.set_rule(**rule)
    exact, points = ByGrid(model, target), np.random.default_rng(1)
    for scale in (0.05, 0.7, 3.0):
        theta = target.center + 0.2 * points.normal(size=target.variables.size)
        theta[target.scale_coordinates] = scale
        if scale == 3.0 and not rule:  # far from the posterior, over which the error of the nodes is stated
            target.set_rule(n_nodes=64)
        assert log_density(target, theta) == pytest.approx(exact(theta), abs=allowed)
    return target


def some(cases, usual):
    """Return the cases; those that are not usual are left to the longer run."""
    return [case if case in usual else pytest.param(case, marks=pytest.mark.recompiles) for case in cases]


@pytest.mark.parametrize("law", some(LAWS, ["logit", "shape"]))
def test_laws(law):
    target = check(hierarchy(law))
    assert target.keeps_kernels and target.setup_attrs["setup_quadrature_nats"] < 0.01


@pytest.mark.parametrize("law", some(OF_NODES, []))
def test_laws_with_many_nodes_are_exact(law):
    """The error of the nodes that are chosen is checked with the other laws.

    At the scale 3 the largest error is that of cloglog: 1.1e-6 with 64 nodes, 2e-8 with 128, 3e-12 with 256.
    """
    target = check(hierarchy(law), 1e-6, n_nodes=128, n_steps=12)
    assert target.keeps_kernels == (law not in ("inverse shape", "gamma of mean and sd"))  # shapes computed by PyTensor
    assert target.accuracy.nats < 0.01


@pytest.mark.parametrize("written", some(WRITTEN, ["centred", "crossed"]))
def test_ways_to_write_it(written):
    target = check(hierarchy("poisson" if written == "each row" else "logit", written))
    signed = {"scales by kind": ["scales"], "a logarithm": []}.get(written, ["s"])
    assert [v.name for v in target.coordinates.signed] == signed


@pytest.mark.parametrize("law", some(["poisson", "logit"], ["logit"]))
def test_entries_that_are_picked_after_the_link(law):
    check(moved_before_the_link(law))


@pytest.mark.parametrize(
    ("law", "written"), [("shape", "named"), pytest.param("logit", "a logarithm", marks=pytest.mark.recompiles)]
)
def test_derivatives_are_those_of_the_density(law, written):
    """Gradients by Fisher's identity, second derivatives by Louis', both pulled back to theta."""
    target = integrated(hierarchy(law, written))
    target.set_rule(n_nodes=64)  # identities of the integral
    theta, d = target.center + 0.1, target.variables.size
    steps = 1e-4 * np.eye(d)
    gradient = target.compile_gradient()

    def slope(at):
        return full_gradient(gradient, at)

    expected = [(target.own_terms(theta + h).sum() - target.own_terms(theta - h).sum()) / 2e-4 for h in steps]
    assert slope(theta) == pytest.approx(np.array(expected), rel=1e-5, abs=1e-5)
    rows = np.empty((target.n_obs, 1 + d + d * (d + 1) // 2))
    target.compile_expansion()(theta, target.data, ALL_ROWS, 0, target.n_obs, rows)
    upper = np.triu_indices(d)
    hessian = np.array([(slope(theta + h) - slope(theta - h)) / 2e-4 for h in steps])
    found = rows.sum(axis=0)[1 + d :] * np.where(upper[0] == upper[1], 2.0, 1.0)
    assert found == pytest.approx(hessian[upper], rel=1e-4, abs=1e-3)


def test_effects_come_back_under_the_models_names():
    model = hierarchy("logit")
    sampler = amc.MetropolisHastings(amc.RandomWalk(0.1), amc.ExactTest())
    settings = {"draws": 40, "tune": 20, "chains": 2, "random_seed": 1, "progressbar": False, "audit_every": None}
    trace = amc.sample(amc.from_pymc(model, integrate=True), sampler, **settings)
    posterior = trace.posterior
    assert posterior["z"].dims == posterior["b"].dims == ("chain", "draw", "group")
    np.testing.assert_allclose(posterior["b"], posterior["mu"] + posterior["s"] * posterior["z"])
    assert posterior.attrs["integrated"].startswith("z of 12 groups integrated out by quadrature (64 nodes, error ")


def test_draws_of_effects_have_their_law():
    """P(z <= c | theta, y) by the model's own densities on a grid, against 20 000 draws of each group."""
    model = hierarchy("logit")
    target = integrated(model)
    theta = target.center + 0.2
    drawn = target.draw_latents(np.random.default_rng(0), np.tile(theta, (20_000, 1)), np.arange(G))[..., 0]
    grid = np.linspace(-6.0, 6.0, 601)
    joint = np.array([target.log_joint(theta, np.full((G, 1), z)) for z in grid])
    below = np.cumsum(np.exp(joint - joint.max(axis=0)), axis=0)
    below /= below[-1]
    for c in (200, 300, 400):
        shares, expected = (drawn <= grid[c] + 0.01).mean(axis=0), below[c]
        z = (shares - expected) / np.sqrt(expected * (1.0 - expected) / 20_000 + 1e-7)
        assert np.abs(z).max() < 5.0  # false-fail rate 2e-5


@pytest.mark.recompiles
def test_an_intercept_and_a_slope_of_each_group():
    """Terms and draws of two effects against a grid of both; the joint density was compared with the model's own."""
    with pm.Model() as model:
        b = pm.Normal("b", 0.0, pm.HalfNormal("s", shape=2), shape=(G, 2))
        poisson(pm.Normal("mu") + (b[GROUP] * np.column_stack([np.ones(N), X])).sum(axis=1))
    target = integrated(model)
    theta, n = target.center + 0.1, 5000
    grid = np.linspace(-5.0, 5.0, 101)
    pairs = np.array([[one, other] for one in grid for other in grid])
    joint = np.array([target.log_joint(theta, np.tile(pair, (G, 1))) for pair in pairs]) - target.omitted_constants
    integrals = logsumexp(joint, axis=0) + 2.0 * np.log(grid[1] - grid[0])
    assert target.own_terms(theta) == pytest.approx(integrals, abs=1e-3)
    drawn = target.draw_standard_effects(np.random.default_rng(0), np.tile(theta, (n, 1)), np.arange(G))
    weights = np.exp(joint - integrals)
    weights /= weights.sum(axis=0)
    for power in ([1, 0], [0, 1], [1, 1], [2, 0], [0, 2]):
        function = np.prod(pairs**power, axis=1)[:, None]
        mean = (weights * function).sum(axis=0)
        spread = np.sqrt((weights * function**2).sum(axis=0) - mean**2)
        z = (np.prod(drawn**power, axis=-1).mean(axis=0) - mean) / (spread / np.sqrt(n))
        assert np.abs(z).max() < 5.0  # false-fail rate 4e-5


REFUSED = {
    "a gamma law of known variance": (
        lambda eta: pm.Gamma("y", mu=pm.math.exp(eta), sigma=2.0, observed=COUNTS + 1.0),
        r"the shape of gamma rows \(alpha or sigma\) depends on the effects",
    ),
    "a log-log link": (
        lambda eta: pm.Bernoulli("y", pm.math.exp(-pm.math.exp(-eta)), observed=CLASSES),
        r"Bernoulli rows need p = sigmoid\(a linear predictor\), or p = the normal",
    ),
    "an identity link": (lambda eta: pm.Poisson("y", pt.abs(eta), observed=COUNTS), "rows need mu = exp"),
    "beta": (
        lambda eta: pm.Beta("y", mu=pm.math.invlogit(eta), nu=pm.HalfNormal("nu"), observed=(COUNTS + 0.5) / 50.0),
        "Beta rows are not log-concave in the predictor, so the effects of a group may have several modes",
    ),
    "unknown trials": (
        lambda eta: pm.Binomial("y", pt.ceil(pm.HalfNormal("n") + COUNTS), logit_p=eta, observed=COUNTS),
        "need known trials",
    ),
    "shapes that differ": (
        lambda eta: pm.NegativeBinomial("y", mu=pm.math.exp(eta), alpha=EXPOSED, observed=COUNTS),
        "differs from row to row",
    ),
    "a shape of each group": (
        lambda eta: pm.NegativeBinomial(
            "y", mu=pm.math.exp(eta), alpha=pm.HalfNormal("a", shape=G)[GROUP], observed=COUNTS
        ),
        "scale",
    ),
}


@pytest.mark.parametrize("kind", REFUSED)
def test_laws_that_are_not_known_are_refused_with_the_reason(kind, monkeypatch):
    make, reason = REFUSED[kind]
    monkeypatch.setitem(LAWS, kind, make)
    with pytest.raises(NotPossibleError, match=reason):
        integrated(hierarchy(kind))


def test_three_effects_of_a_group_are_refused_with_the_price():
    with pm.Model() as model:
        b = pm.Normal("b", 0.0, pm.HalfNormal("s", shape=3), shape=(G, 3))
        bernoulli((b[GROUP] * np.column_stack([np.ones(N), X, X**2])).sum(axis=1))
    with pytest.raises(NotPossibleError, match="3 effects of a group need at least 512 nodes"):
        integrated(model)


def test_a_few_large_groups_stay_parameters_unless_asked():
    with pm.Model() as model:
        effect = pm.Normal("b", 0.0, pm.HalfNormal("s"), shape=3)
        pm.Poisson("y", pm.math.exp(effect[np.arange(600) % 3]), observed=np.arange(600) % 5)
    with pytest.raises(NotPossibleError, match="3 groups of 200 rows would leave too few terms"):
        integrated(model)
    assert integrated(model, always=True).n_obs == 3


@pytest.mark.recompiles
def test_crossed_effects_stay_parameters_if_too_many_of_them_would_remain():
    """Four levels of the other factor are more than the square root of 12 groups, three are not."""

    def crossed(levels, effect):
        with pm.Model() as model:
            other = pm.HalfNormal("s_other") * pm.Normal("other", shape=levels)
            bernoulli(effect(pm.HalfNormal("s"))[GROUP] + other[np.arange(N) % levels])
        return model

    def scaled(s):
        return s * pm.Normal("z", shape=G)

    with pytest.raises(
        NotPossibleError, match="z: 4 effects of other factors would remain, too many for the terms of 12"
    ):
        integrated(crossed(4, scaled))
    why = INTEGRATE_GROUPS.why_not(ModelDescription(crossed(4, scaled), Request()))
    assert "z: 4 effects of other factors would remain" in why
    assert integrated(crossed(4, scaled), always=True).n_obs == G
    assert integrated(crossed(3, scaled)).n_obs == G
    centred = crossed(4, lambda s: pm.Normal("b", pm.Normal("mu"), s, shape=G))
    assert integrated(centred).n_obs == G  # trajectories would meet a funnel


@pytest.mark.recompiles
def test_a_few_effects_of_known_scale_stay_coefficients_unless_asked():
    with pm.Model() as model:
        bernoulli(pm.Normal("ability", 0.0, 1.0, shape=G)[GROUP] - pm.Normal("difficulty", shape=3)[OTHER])
    with pytest.raises(NotPossibleError, match="ability: the scale of 12 effects is known: coefficients"):
        integrated(model)
    target = integrated(model, always=True)
    assert amc.laplace(target) is target.known_fit  # the mode that placed the nodes is not searched again
    assert (
        amc.ControlVariate(target, always_read="auto").distance_to_model
        == target.distance_to_model
        == target.accuracy.nats
        > 0.0
    )
    assert amc.laplace(target, start=target.center).decrement < 1e-4


@pytest.mark.parametrize("bug", ["offset", "sign", "columns"])
def test_a_predictor_that_is_misread_is_seen_by_the_models_own_densities(bug, monkeypatch):
    right = groups_target.predictor_of

    def wrong(*arguments):
        found = right(*arguments)
        if bug == "offset":
            return found._replace(offset=found.offset + 1e-3)
        if bug == "sign":
            return found._replace(L=[(j, -weight, rest) for j, weight, rest in found.L])
        return found._replace(X=found.X * 1.001)

    monkeypatch.setattr(groups_target, "predictor_of", wrong)
    with pytest.raises(NotPossibleError, match="and that of the model"):
        integrated(hierarchy())


def test_a_density_without_a_bound_is_searched_near_the_start():
    """Log scales with flat priors: without the limit the search ended at -354, where the prior is not finite."""

    def nothing(theta, data, order, lo, hi, out):
        out[:] = 0.0

    compiled = SimpleNamespace(log_terms=nothing, data=(), log_prior=lambda theta: -40.0 * theta[0])
    target = SimpleNamespace(center=np.zeros(2), n_obs=3, compile=lambda: compiled)
    found = quadrature_terms.highest_point(target)
    assert found[0] < -1.0 and np.abs(found).max() <= quadrature_terms.REACH
