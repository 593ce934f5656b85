"""Discrete variables that are summed out of PyMC models, against sums over all their values by brute force."""

import itertools

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest
from scipy import stats

import approxmcmc as amc
from approxmcmc.engine.terms.batches import full_terms
from approxmcmc.engine.terms.gradients import full_gradient
from approxmcmc.errors import IncompatibleError
from approxmcmc.interop.attempts import NotPossibleError
from approxmcmc.interop.plans import target_of
from approxmcmc.interop.summed import model as summed_model
from approxmcmc.interop.summed.model import SummedModel, summed
from approxmcmc.interop.whole_model import WholeModel

FAST = "FAST_COMPILE"


def mixture(rng, n=5):
    with pm.Model() as model:
        w = pm.Dirichlet("w", np.ones(3))
        mu, sigma = pm.Normal("mu", 0, 3, shape=3), pm.HalfNormal("sigma", 1, shape=3)
        z = pm.Categorical("z", p=w, shape=n)
        pm.Normal("y", mu[z], sigma[z], observed=rng.normal(size=n))
    return model


def mixture_with_dims(rng, n=5):
    with pm.Model(coords={"state": ["low", "high"], "unit": np.arange(n)}) as model:
        a, mu = pm.Normal("a", 0, 1), pm.Normal("mu", 0, 1, dims="state")
        z = pm.Bernoulli("z", 0.3, dims="unit")
        pm.Normal("y", a + mu[z], 0.7, observed=rng.normal(size=n))
    return model


def groups_with_dims(rng, dims=True):
    codes = np.array([1, 1, 1, 0])
    with pm.Model(coords={"state": ["low", "high"], "unit": np.arange(2)}) as model:
        a = pm.Normal("a", 0, 1)
        mu = pm.Normal("mu", 0, 1, dims="state") if dims else pm.Normal("mu", 0, 1, shape=2)
        z = pm.Bernoulli("z", 0.3, dims="unit")
        pm.Bernoulli("y", logit_p=a + mu[z[codes]], observed=rng.integers(2, size=len(codes)))
    return model


def structural_zeros(rng, n=7):
    x = rng.normal(size=n)
    with pm.Model(coords={"obs": np.arange(n)}) as model:
        psi, b = pm.Beta("psi", 1, 1), pm.Normal("b", 0, 1, shape=2)
        z = pm.Bernoulli("z", psi, dims="obs")
        y = np.where(np.arange(n) < 3, 0, rng.poisson(3, n) + 1)
        pm.Poisson("y", z * pt.exp(b[0] + b[1] * x), observed=y, dims="obs")
        pm.Deterministic("share", z.mean())
    return model


def outliers(rng, n=6):
    with pm.Model() as model:
        X = pm.Data("X", rng.normal(size=(n, 2)))
        b, s, e = pm.Normal("b", 0, 1, shape=2), pm.HalfNormal("s", 1), pm.Beta("e", 1, 9)
        out = pm.Bernoulli("out", e, shape=n)
        pm.StudentT("y", 4, mu=X @ b, sigma=pm.math.switch(out, 10 * s, s), observed=rng.normal(size=n))
    return model


def sites(rng, n=5, visits=3):
    there, covariate = rng.random(n) < 0.6, rng.normal(size=n)
    y, x = (rng.random((n, visits)) < 0.5) & there[:, None], rng.normal(size=(n, visits))
    with pm.Model(coords={"site": list("abcdefgh"[:n])}) as model:
        a, b = pm.Normal("a", 0, 1, shape=2), pm.Normal("b", 0, 1, shape=2)
        z = pm.Bernoulli("z", logit_p=a[0] + a[1] * covariate, dims="site")
        pm.Bernoulli("y", z[:, None] * pm.math.invlogit(b[0] + b[1] * x), observed=y.astype(int))
        pm.Deterministic("occupied", z.sum())
    return model


def sites_in_rows(rng, n=5):
    """Visits of sites in no order, of different numbers, none of one site, with data of sites in both laws."""
    codes = np.array([2, 0, 1, 1, 0, 3, 2, 2, 0])
    x = rng.normal(size=len(codes))
    with pm.Model() as model:
        height, site = pm.Data("height", rng.normal(size=n)), pm.Data("site", codes)
        a, b = pm.Normal("a", 0, 1, shape=2), pm.Normal("b", 0, 1, shape=3)
        z = pm.Bernoulli("z", logit_p=a[0] + a[1] * height, shape=n)
        p = pm.math.invlogit(b[0] + b[1] * x + b[2] * height[site])
        pm.Bernoulli("y", z[site] * p, observed=np.array([0, 1, 0, 0, 0, 0, 1, 1, 1]))
    return model


def zeros(rng, n=2):
    """Groups of 4 and 2 rows whose predictor has a product with zeros, which rewriting repeats for each row."""
    codes = np.array([0, 1, 0, 0, 1, 0])
    with pm.Model() as model:
        a, b, mu = pm.Normal("a", 0, 1), pm.Normal("b", 0, 1, shape=1), pm.Normal("mu", 0, 1, shape=2)
        z = pm.Bernoulli("z", logit_p=a * rng.normal(size=n), shape=n)
        pm.Exponential("y", pm.math.exp(np.zeros((6, 1)) @ b + mu[z[codes]]), observed=rng.exponential(size=6))
    return model


def two_observed(rng, n=5):
    with pm.Model() as model:
        w = pm.Dirichlet("w", np.ones(2))
        mu, lam = pm.Normal("mu", 0, 3, shape=2), pm.Gamma("lam", 2, 1, shape=2)
        z = pm.Categorical("z", w, shape=n)
        pm.Normal("y1", mu[z], 1, observed=rng.normal(size=n))
        pm.Poisson("y2", lam[z], observed=rng.poisson(2, n))
    return model


def classes(rng, n=4, items=5):
    with pm.Model() as model:
        w, p = pm.Dirichlet("w", np.ones(3)), pm.Beta("p", 1, 1, shape=(3, items))
        q = pm.Dirichlet("q", np.ones(3), shape=(3, 3))
        z = pm.Categorical("z", w, shape=n)
        pm.Bernoulli("y", p[z], observed=rng.integers(0, 2, (n, items)))
        pm.Categorical("answer", q[z], observed=rng.integers(0, 3, n))
    return model


def cells(rng, n=4, columns=2):
    with pm.Model() as model:
        p, mu = pm.Beta("p", 1, 1, shape=columns), pm.Normal("mu", 0, 1, shape=columns)
        z = pm.Bernoulli("z", p, shape=(n, columns))
        pm.Normal("y", mu * z, 1, observed=rng.normal(size=(n, columns)))
    return model


def two_indicators(rng, n=4):
    with pm.Model() as model:
        p, mu = pm.Beta("p", 1, 1), pm.Normal("mu", 0, 1, shape=3)
        z, u = pm.Bernoulli("z", p, shape=n), pm.DiscreteUniform("u", 1, 3, shape=n)
        pm.Normal("y", mu[u - 1] + 3 * z, 1, observed=rng.normal(size=n))
    return model


def counts(rng, n=4):
    with pm.Model() as model:
        p, lam = pm.Beta("p", 1, 1), pm.Gamma("lam", 2, 1)
        z = pm.Binomial("z", n=np.array([2, 3, 1, 2]), p=p, shape=n)
        pm.Poisson("y", lam * (1 + z), observed=rng.poisson(2, n))
    return model


def vectors(rng, n=4):
    with pm.Model() as model:
        g, mu = pm.Normal("g", 0, 1, shape=2), pm.Normal("mu", 0, 3, shape=(2, 2))
        z = pm.Categorical("z", logit_p=g[None, :] * rng.normal(size=(n, 1)))
        pm.MvNormal("y", mu[z], np.eye(2) + 0.2, observed=rng.normal(size=(n, 2)))
    return model


KINDS = [
    mixture,
    mixture_with_dims,
    groups_with_dims,
    structural_zeros,
    outliers,
    sites,
    sites_in_rows,
    zeros,
    two_observed,
    classes,
    cells,
    two_indicators,
    counts,
    vectors,
]


def random_point(model, rng):
    return {name: rng.normal(value, 0.3) for name, value in model.initial_point().items()}


def all_values(without):
    """Yield every value of all entries of all indicators, by name."""
    supports, size = without.found.supports, int(np.prod(without.found.shape))
    for values in itertools.product(*(support for support in supports.values() for _ in range(size))):
        parts = np.reshape(values, (len(supports), *without.found.shape))
        yield {variable.name: part for variable, part in zip(supports, parts, strict=True)}


@pytest.mark.thorough
@pytest.mark.parametrize("kind", KINDS)
def test_log_density_is_the_sum_over_all_values(kind, rng):
    model = kind(rng)
    without = summed(model)
    point, joint = random_point(without, rng), model.compile_logp(mode=FAST)
    expected = np.logaddexp.reduce([joint({**point, **values}) for values in all_values(without)])
    assert without.compile_logp(mode=FAST)(point) == pytest.approx(float(expected), rel=1e-10, abs=1e-10)
    assert np.isfinite(without.compile_dlogp(mode=FAST)(point)).all()


@pytest.mark.thorough
def test_parameters_of_the_states_are_not_rows_though_as_many(rng):
    assert amc.from_pymc(groups_with_dims(rng)).n_obs == 2
    with pytest.raises(
        IncompatibleError, match=r"z \(2 values\) of 2 entries summed out, each entry is a row.*\(mu\).*dims"
    ):
        amc.from_pymc(groups_with_dims(rng, dims=False))


@pytest.mark.needs_jit
@pytest.mark.parametrize("kind", [structural_zeros, sites_in_rows])
def test_terms_of_rows_and_groups_sum_to_the_log_density(kind, rng):
    target = amc.from_pymc(kind(rng))
    theta = target.initial_point() + rng.normal(scale=0.3, size=target.variables.size)
    compiled = target.compile()
    terms = full_terms(compiled.log_terms, theta, compiled.data, target.n_obs)
    values, position = {}, 0
    for variable in target.source.values:
        size = np.size(target.source.start[variable.name])
        values[variable.name] = theta[position : position + size].reshape(np.shape(target.source.start[variable.name]))
        position += size
    whole = target.to_pymc().compile_logp(mode=FAST)(values)
    assert terms.sum() + compiled.log_prior(theta) == pytest.approx(float(whole), rel=1e-10)
    gradient = full_gradient(target.compile_gradient(), theta)
    step = 1e-5 * np.eye(len(theta))

    def density(at):
        return full_terms(compiled.log_terms, at, compiled.data, target.n_obs).sum()

    by_differences = [(density(theta + h) - density(theta - h)) / 2e-5 for h in step]
    np.testing.assert_allclose(gradient, by_differences, rtol=1e-5, atol=1e-5)


@pytest.mark.thorough
def test_equals_the_mixture_written_by_hand(rng):
    model = mixture(rng, 6)
    with pm.Model() as by_hand:
        w = pm.Dirichlet("w", np.ones(3))
        mu, sigma = pm.Normal("mu", 0, 3, shape=3), pm.HalfNormal("sigma", 1, shape=3)
        parts = [pm.Normal.dist(mu[k], sigma[k]) for k in range(3)]
        pm.Mixture("y", w, parts, observed=model.rvs_to_values[model["y"]].data)
    without = summed(model)
    point = random_point(without, rng)
    for one in ("compile_logp", "compile_dlogp"):
        found, expected = (getattr(each, one)(mode=FAST)(point) for each in (without, by_hand))
        np.testing.assert_allclose(found, expected, rtol=1e-10)
    assert summed(by_hand) is by_hand


@pytest.mark.thorough
@pytest.mark.parametrize("kind", [mixture, sites_in_rows, two_indicators, cells])
def test_draws_follow_the_exact_weights(kind, rng):
    """Chi-squared tests of every entry at one theta; together they fail by chance in 1 of 10^4 runs."""
    model, n = kind(rng), 4000
    target = target_of(model)
    without, source = target.summed.model, target.summed
    joint, values = model.compile_logp(mode=FAST), list(all_values(without))
    theta = target.initial_point() + rng.normal(scale=0.3, size=target.variables.size)
    constrained = target.variables.unpack(theta[None])
    point = unconstrained(without, constrained)
    log_weights = np.array([joint({**point, **each}) for each in values])
    weights = np.exp(log_weights - np.logaddexp.reduce(log_weights))
    groups = np.arange(without.found.shape[0])
    thetas = np.repeat(theta[None], n, axis=0)
    drawn = source.name_latents(thetas, source.draw_latents(rng, thetas, groups), groups)
    statistic, degrees = 0.0, 0
    for variable, support in without.found.supports.items():
        dims, draws = drawn[variable.name]
        assert draws.shape == (n, *without.found.shape) and len(dims) == len(without.found.shape)
        for entry in np.ndindex(without.found.shape):
            expected = np.array(
                [
                    sum(w for w, each in zip(weights, values, strict=True) if each[variable.name][entry] == k)
                    for k in support
                ]
            )
            found = np.array([(draws[(slice(None), *entry)] == k).sum() for k in support])
            assert found[expected < 1e-12].sum() == 0
            some = expected * n > 1
            statistic += ((found - n * expected)[some] ** 2 / (n * expected)[some]).sum()
            degrees += some.sum() - 1
    assert statistic < stats.chi2.ppf(1 - 1e-4, degrees)


def unconstrained(without, constrained):
    """Return the model's point of the values of its free variables."""
    point = {}
    for variable in without.free_RVs:
        transform, value = without.rvs_to_transforms[variable], constrained[variable.name][0]
        known = pt.as_tensor(value)
        known = known if transform is None else transform.forward(known, *variable.owner.inputs)
        point[without.rvs_to_values[variable].name] = known.eval(mode=FAST)
    return point


def shared_entry(rng):
    """The entries of z reach two rows each, and rows two entries."""
    with pm.Model() as model:
        mu, z = pm.Normal("mu", shape=2), pm.Bernoulli("z", 0.5, shape=5)
        pm.Normal("y", mu[0] * z + mu[1] * z[::-1], 1, observed=rng.normal(size=5))
    return model


def cumulative(rng):
    with pm.Model() as model:
        mu, z = pm.Normal("mu"), pm.Bernoulli("z", 0.5, shape=5)
        pm.Normal("y", mu * pt.cumsum(z), 1, observed=rng.normal(size=5))
    return model


def lagged(rng):
    with pm.Model() as model:
        mu, z = pm.Normal("mu"), pm.Bernoulli("z", 0.5, shape=6)
        pm.Normal("y", mu * (z[1:] + z[:-1]), 1, observed=rng.normal(size=5))
    return model


def parent(rng):
    with pm.Model() as model:
        z = pm.Bernoulli("z", 0.5, shape=5)
        mu = pm.Normal("mu", z, 1, shape=5)
        pm.Normal("y", mu, 1 + z, observed=rng.normal(size=5))
    return model


def infinite(rng):
    with pm.Model() as model:
        lam, z = pm.Gamma("lam", 2, 1), pm.Poisson("z", 2.0, shape=5)
        pm.Normal("y", lam * z, 1, observed=rng.normal(size=5))
    return model


def markov(rng):
    with pm.Model() as model:
        mu, z = pm.Normal("mu", shape=2), pm.Bernoulli("z0", 0.5)
        states = [z]
        for k in range(1, 4):
            states.append(pm.Bernoulli(f"z{k}", 0.2 + 0.6 * states[-1]))
        pm.Normal("y", mu[pt.stack(states)], 1, observed=rng.normal(size=4))
    return model


def switch(rng):
    with pm.Model() as model:
        mu, z = pm.Normal("mu", shape=2), pm.Bernoulli("z", 0.5)
        pm.Normal("y", mu[z], 1, observed=rng.normal(size=5))
    return model


def mean(rng):
    with pm.Model() as model:
        mu, z = pm.Normal("mu"), pm.Bernoulli("z", 0.5, shape=5)
        pm.Normal("y", mu * (z - z.mean()), 1, observed=rng.normal(size=5))
    return model


def potential(rng):
    with pm.Model() as model:
        mu, z = pm.Normal("mu"), pm.Bernoulli("z", 0.5, shape=5)
        pm.Potential("neighbours", (z[1:] * z[:-1]).sum())
        pm.Normal("y", mu * z, 1, observed=rng.normal(size=5))
    return model


def many_states(rng):
    with pm.Model() as model:
        mu, z = pm.Normal("mu"), pm.DiscreteUniform("z", 0, 100, shape=5)
        pm.Normal("y", mu * z, 1, observed=rng.normal(size=5))
    return model


LOOK_ALIKES = {
    shared_entry: "several of its entries",
    cumulative: "several of its entries",
    lagged: "several of its entries",
    parent: "mu depends on it",
    infinite: "no finite list",
    markov: "depends on it",
    switch: "single entry",
    mean: "several of its entries",
    potential: "potential neighbours",
    many_states: "101 states",
}


@pytest.mark.thorough
@pytest.mark.parametrize("kind", LOOK_ALIKES)
def test_look_alikes_keep_their_variables_and_say_why(kind, rng):
    model = kind(rng)
    with pytest.raises(IncompatibleError, match=LOOK_ALIKES[kind]):
        summed(model)
    target = target_of(model)
    assert isinstance(target, WholeModel) and target.to_pymc() is model and target.summed is None
    assert LOOK_ALIKES[kind] in target.why_no_terms


def no_weights(variable, k):
    return pt.zeros(())


def weights_twice(variable, k, once=summed_model.terms_of_states.__globals__["_log_weight"]):
    return 2.0 * once(variable, k)


def shifted(variable, k, once=summed_model.terms_of_states.__globals__["_log_weight"]):
    return once(variable, 1 - k)


@pytest.mark.thorough
@pytest.mark.parametrize("bug", [no_weights, weights_twice, shifted])
@pytest.mark.parametrize("kind", [structural_zeros, sites_in_rows])
def test_planted_bugs_in_the_weights_are_refused(kind, bug, rng, monkeypatch):
    monkeypatch.setitem(summed_model.terms_of_states.__globals__, "_log_weight", bug)
    with pytest.raises(IncompatibleError, match="differ from those of the model"):
        summed(kind(rng))


@pytest.mark.thorough
def test_rows_of_a_wrong_group_are_refused(rng, monkeypatch):
    model = sites_in_rows(rng)
    found = summed_model.indicators(model, [model["z"]])
    [(observed, labels)] = found.rows.items()
    wrong = found._replace(rows={observed: np.roll(labels, 1)})
    monkeypatch.setattr(summed_model, "terms_of_states", lambda given, _: TERMS(given, wrong))
    with pytest.raises(NotPossibleError, match="differ from those of the model"):
        SummedModel(model, found)


TERMS = summed_model.terms_of_states


def test_groups_of_very_different_sizes_are_not_padded(rng):
    codes = np.r_[np.zeros(300, dtype=int), np.arange(1, 50)]
    with pm.Model() as model:
        mu, z = pm.Normal("mu"), pm.Bernoulli("z", 0.5, shape=50)
        pm.Normal("y", mu * z[codes], 1, observed=rng.normal(size=len(codes)))
    with pytest.raises(IncompatibleError, match="50 groups have 1 to 300 rows"):
        summed(model)


def test_a_model_without_other_parameters_is_left_to_pymc(rng):
    with pm.Model() as model:
        z = pm.Bernoulli("z", 0.5, shape=5)
        pm.Normal("y", z, 1, observed=rng.normal(size=5))
    with pytest.raises(IncompatibleError, match="no other parameters"):
        summed(model)


@pytest.mark.thorough
def test_explain_says_what_is_summed_out(rng):
    assert amc.explain(mixture(rng, 20)).startswith("z (3 values) of 20 entries summed out; y, 20 rows: ")
    assert amc.explain(cells(rng)).startswith("z (2 values) of 4 by 2 entries summed out; ")


@pytest.mark.thorough
def test_changed_data_are_refused(rng):
    model = sites_in_rows(rng)
    target = amc.from_pymc(model)
    with model:
        pm.set_data({"height": rng.normal(size=5)})
    with pytest.raises(amc.errors.InvalidInputError, match="height"):
        target.compile()


@pytest.mark.thorough
def test_data_in_place_of_the_rows_of_the_model_are_refused(rng):
    with pytest.raises(IncompatibleError, match="for the rows of the model only"):
        amc.from_pymc(outliers(rng), data={"X": np.zeros((9, 2))})


@pytest.mark.filterwarnings("ignore::approxmcmc.errors.SamplingWarning")
@pytest.mark.needs_jit
def test_a_run_stores_indicators_under_the_names_of_the_model(rng):
    model = structural_zeros(rng, 20)
    sampler = amc.MetropolisHastings(amc.RandomWalk([0.3, 0.3, 0.3]), amc.ExactTest())
    trace = amc.sample(amc.from_pymc(model), sampler, draws=50, chains=2, random_seed=1, progressbar=False)
    posterior = trace["posterior"].to_dataset()
    assert posterior["z"].dims == ("chain", "draw", "obs") and set(np.unique(posterior["z"])) <= {0, 1}
    np.testing.assert_allclose(posterior["share"], posterior["z"].mean("obs"))
    y = trace["observed_data"]["y"].to_numpy()
    np.testing.assert_array_equal(y, model.rvs_to_values[model["y"]].data)
    assert (posterior["z"].to_numpy()[..., y > 0] == 1).all()
    assert posterior.attrs["integrated"] == "z (2 values) of 20 entries summed out"
    some = amc.latents(trace, amc.from_pymc(model), groups=[3, 5])
    assert dict(some["z"].sizes) == {"chain": 2, "draw": 50, "obs": 2} and "share" not in some


@pytest.mark.thorough
def test_data_have_the_dims_of_the_users_model(rng):
    """States of groups with dims lie along an axis of the terms that the user's rows do not have."""
    group = np.arange(12) % 3
    with pm.Model(coords={"site": ["a", "b", "c"]}) as model:
        m = pm.Normal("m", 0.0, 1.0, shape=2)
        k = pm.Bernoulli("k", 0.3, dims="site")
        pm.Normal("y", m[k[group]], 1.0, observed=rng.normal(size=12))
    trace = amc.sample(
        amc.from_pymc(model),
        amc.MetropolisHastings(amc.RandomWalk(0.1), amc.ExactTest()),
        draws=2,
        tune=1,
        chains=1,
        random_seed=1,
        progressbar=False,
        audit_every=None,
    )
    assert trace["observed_data"]["y"].dims == ("y_dim_0",)
    assert trace["posterior"]["k"].dims == ("chain", "draw", "site")


@pytest.mark.thorough
@pytest.mark.parametrize("read", [{}, {"integrate": False, "structure": False}], ids=["found", "as a graph"])
def test_rows_that_depend_on_no_parameter_are_rows(read, rng):
    """A design of zeros, as of a category without rows, leaves no parameter in the graph of the rows."""
    with pm.Model() as model:
        b = pm.Normal("b", 0.0, 1.0, shape=1)
        eta = np.zeros((12, 1)) @ b
        logits = pm.math.stack([np.zeros(12), eta, -0.5 * eta], axis=1)
        pm.Categorical("y", logit_p=logits, observed=rng.integers(0, 3, 12))
    assert amc.from_pymc(model, **read).n_obs == 12


@pytest.mark.thorough
def test_as_many_groups_as_the_longest_has_rows(rng):
    """The padded rows would be square, and it would be ambiguous which axis counts groups."""
    group = np.arange(7) % 3
    with pm.Model() as model:
        m = pm.Normal("m", 0.0, 1.0, shape=2)
        k = pm.Bernoulli("k", 0.3, shape=3)
        pm.Normal("y", m[k[group]], 0.7, observed=rng.normal(size=7))
    assert amc.from_pymc(model).n_obs == 3
    without = summed(model)
    point, joint = random_point(without, rng), model.compile_logp(mode=FAST)
    expected = np.logaddexp.reduce([joint({**point, **values}) for values in all_values(without)])
    assert without.compile_logp(mode=FAST)(point) == pytest.approx(float(expected), rel=1e-10)


def test_a_variable_may_have_the_name_of_a_field_of_ours():
    """PyMC makes each variable an attribute of its model, too."""
    with pm.Model() as model:
        given = pm.Normal("given", 0.0, 1.0)
        pm.Normal("y", given, 1.0, observed=np.arange(5.0))
    assert list(amc.from_pymc(model).variables.shapes) == ["given"]
