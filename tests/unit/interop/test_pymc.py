"""A PyMC model as a target: one of each kind here, the whole zoo among the statistical tests."""

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest

import approxmcmc as amc
from approxmcmc.errors import IncompatibleError, InvalidInputError
from approxmcmc.expansion.general import GeneralExpansion
from approxmcmc.interop.pymc import from_pymc
from approxmcmc.targets.all_rows import AllRows
from tests import pymc_zoo as zoo

pytestmark = pytest.mark.needs_jit  # PyTensor's numba backend cannot do without the compiler


@pytest.mark.parametrize("model", zoo.REFUSED_AT_SIGHT, ids=lambda model: model.__name__)
def test_models_that_do_not_split_are_refused_with_the_reason(model):
    with pytest.raises(IncompatibleError, match=zoo.REFUSED_AT_SIGHT[model]):
        from_pymc(zoo.build(model))


@pytest.fixture(scope="module")
def regression():
    """A regression with a positive parameter, named axes, and data in containers."""
    coords = {"coef": ["u", "v", "w"], "row": np.arange(zoo.N)}
    with pm.Model(coords=coords) as model:
        X = pm.Data("X", zoo.X, dims=("row", "coef"))
        beta = pm.Normal("beta", 0.0, 1.0, dims="coef")
        sigma = pm.HalfNormal("sigma", 1.0)
        pm.Deterministic("largest", beta.max())
        pm.Normal("y", X @ beta, sigma, observed=zoo.Z, dims="row")
    return model, from_pymc(model, structure=False)


def test_rows_alone_equal_rows_of_the_whole(regression):
    model, target = regression
    compiled = target.compile()
    theta = np.array([0.3, -0.1, 0.2, -0.4])
    point = {"beta": theta[:3], "sigma_log__": theta[3]}
    [expected] = model.compile_logp(vars=model.observed_RVs, sum=False, mode="FAST_COMPILE")(point)
    order = np.random.default_rng(0).permutation(zoo.N)
    for rows, lo, hi in ((order, 0, 100), (order, 17, 18), (np.empty(0, dtype=np.int64), 40, 90)):
        out = np.empty(hi - lo)
        compiled.log_terms(theta, compiled.data, rows, lo, hi, out)
        np.testing.assert_allclose(out, expected[rows[lo:hi] if rows.size else slice(lo, hi)], rtol=1e-10)
    prior = model.compile_logp(vars=model.free_RVs, mode="FAST_COMPILE")(point)
    assert compiled.log_prior(theta) == pytest.approx(prior, abs=1e-9)


def test_draws_come_back_as_from_pm_sample(regression):
    _, target = regression
    start = {"beta": [0.5, -0.2, 0.1], "sigma": 1.0}
    sampler = amc.MetropolisHastings(amc.RandomWalk(0.05), amc.SequentialTTest(epsilon=0.1, batch_size=50))
    trace = amc.sample(
        target, sampler, draws=20, tune=0, chains=2, random_seed=1, initvals=start, progressbar=False, audit_every=1
    )
    assert dict(trace.posterior["beta"].sizes) == {"chain": 2, "draw": 20, "coef": 3}
    assert list(trace.posterior.coords["coef"].values) == ["u", "v", "w"]
    assert (trace.posterior["sigma"] > 0).all()
    np.testing.assert_array_equal(trace.posterior["largest"], trace.posterior["beta"].max("coef"))
    assert trace.observed_data["y"].dims == ("row",)
    assert trace.constant_data["X"].dims == ("row", "coef")
    assert int(trace.sample_stats["decisions_audited"].sum()) == 40


def test_changed_data_are_noticed():
    with pm.Model() as model:
        X = pm.Data("X", zoo.X)
        beta = pm.Normal("beta", 0.0, 1.0, shape=3)
        pm.Normal("y", X @ beta, 1.0, observed=zoo.Z)
    target = from_pymc(model)
    with model:
        pm.set_data({"X": 2.0 * zoo.X})
    with pytest.raises(InvalidInputError, match=r"\['X'\] were changed .*from_pymc\(model\) again"):
        target.compile()


def _regression_on(X, y, *, coupled=False, **settings):
    with pm.Model() as model:
        beta = pm.Normal("beta", 0.0, 1.0, shape=X.shape[1])
        mean = X @ beta
        pm.Normal("y", mean.max() if coupled else mean, 1.0, observed=y)
    return from_pymc(model, **settings)


def test_careless_input_is_refused_by_name():
    with pytest.raises(IncompatibleError, match=r"needs a pm\.Model, found ndarray"):
        from_pymc(zoo.X)
    for rows in (0, 1):
        with pytest.raises(IncompatibleError, match=f"'y' has {rows} rows.*needs at least 2"):
            _regression_on(zoo.X[:rows], zoo.Z[:rows])
    with pytest.raises(InvalidInputError, match=r"has the dim 'row' given as row_dim; its dims are \[\]"):
        _regression_on(zoo.X, zoo.Z, row_dim="row")
    X = zoo.X.copy()
    X[[3, 5], 1] = np.nan
    with pytest.raises(InvalidInputError, match=r"row 3 .*'y' .*NaN .*such rows: 2.*shape \(300, 3\)'\] hold NaN"):
        _regression_on(X, zoo.Z)


def test_data_outside_the_support_are_refused_by_row():
    with pm.Model() as model:
        rate = pm.Exponential("rate", 1.0)
        pm.Poisson("y", rate, observed=np.array([1, 2, -1, 0]))
    with pytest.raises(InvalidInputError, match="row 2 of the observed variable 'y' is impossible"):
        from_pymc(model)


@pytest.mark.parametrize("n_rows", [2, 40, 64])
def test_coupled_rows_are_found_among_few_of_them(n_rows):
    """A check that begins with 64 rows would compare 40 rows with the same 40."""
    with pytest.raises(IncompatibleError, match="changes when other rows are left out"):
        _regression_on(zoo.X[:n_rows], zoo.Z[:n_rows], coupled=True)


def test_extreme_predictors_stay_finite():
    """Merged branches must stay stable: log(1 - sigmoid(800)) is -800, not -inf."""
    X = np.array([[800.0], [-800.0], [800.0], [-800.0]])
    with pm.Model() as model:
        beta = pm.Normal("beta", 0.0, 1.0, shape=1)
        pm.Bernoulli("y", logit_p=X @ beta, observed=np.array([1, 1, 0, 0]))
    compiled = from_pymc(model).compile()
    out = np.empty(4)
    compiled.log_terms(np.ones(1), compiled.data, np.empty(0, dtype=np.int64), 0, 4, out)
    np.testing.assert_allclose(out, [0.0, -800.0, -800.0, 0.0], atol=1e-12)


def test_row_dim_settles_an_ambiguous_array():
    square = np.random.default_rng(0).normal(size=(20, 20))
    with pm.Model(coords={"row": range(20), "coef": range(20)}) as model:
        X = pm.Data("X", square, dims=("row", "coef"))
        beta = pm.Normal("beta", 0.0, 1.0, dims="coef")
        pm.Normal("y", X @ beta, 1.0, observed=square[:, 0], dims="row")
    with pytest.raises(IncompatibleError, match="row_dim"):
        from_pymc(model)
    assert from_pymc(model, row_dim="row").n_obs == 20


def test_parameters_without_a_likelihood_at_the_start_are_named_in_place_of_rows():
    """An inverse link has an infinite mean at the start of all regressions, 0; the data are not at fault."""
    with pm.Model() as model:
        a, b = pm.Normal("a"), pm.Normal("b")
        mean = 1.0 / (a + b * zoo.Z)
        pm.Gamma("y", mu=mean, sigma=mean / np.sqrt(2.0), observed=np.exp(zoo.Z))
    with pytest.raises(
        InvalidInputError, match=r"rows of 'y' is NaN at the initial point \('a': 0.0, 'b': 0.0\).* link"
    ):
        from_pymc(model)


def test_latents_of_rows_under_another_dim_are_refused_by_the_graph_and_read_as_a_linear_predictor():
    with pm.Model(coords={"row": np.arange(20), "person": np.arange(20)}) as model:
        u = pm.Normal("u", 0.0, 1.0, dims="person")
        pm.Normal("y", u, 1.0, observed=zoo.Z[:20], dims="row")
    with pytest.raises(IncompatibleError, match="an entry for each row, under a dim that is not that of the rows"):
        from_pymc(model, integrate=False, structure=False)
    target = from_pymc(model, integrate=False)
    theta = np.random.default_rng(0).normal(size=(2, 20))
    expected = [model.compile_logp()({"u": point}) for point in theta]
    np.testing.assert_allclose(np.diff(AllRows(target).log_densities(theta)), np.diff(expected), rtol=1e-10)


def test_coordinates_are_named_as_theta_holds_them():
    """Three weights lie on a simplex of two coordinates; a point alone is unpacked as draws are."""
    with pm.Model(coords={"kind": ["a", "b", "c"]}) as model:
        w = pm.Dirichlet("w", np.ones(3), dims="kind")
        m = pm.Normal("m", 0.0, 1.0, dims="kind")
        tau = pm.HalfNormal("tau", 1.0)
        pm.Deterministic("twice", 2.0 * tau)
        pm.Normal("y", (w * m).sum(), tau, observed=zoo.Z)
    variables = from_pymc(model).variables
    assert variables.labels() == ["w_simplex__[0]", "w_simplex__[1]", "m[a]", "m[b]", "m[c]", "tau_log__"]
    assert variables.size == len(variables.labels())
    values = variables.unpack(np.arange(6.0))
    assert set(values) == {"w", "m", "tau"}
    assert values["w"].sum() == pytest.approx(1.0)
    assert values["tau"].shape == ()
    assert values["tau"] == pytest.approx(np.exp(5.0))
    np.testing.assert_allclose(variables.pack(values), np.arange(6.0))


def test_starting_values_of_some_variables_suffice(regression):
    _, target = regression
    np.testing.assert_allclose(target.variables.pack({"sigma": 2.0}), [0.0, 0.0, 0.0, np.log(2.0)])
    sampler = amc.MetropolisHastings(amc.RandomWalk(0.05), amc.SequentialTTest(epsilon=0.1, batch_size=50))
    arguments = {"draws": 1, "tune": 0, "chains": 2, "random_seed": 1, "progressbar": False}
    some = amc.sample(target, sampler, initvals={"sigma": 2.0}, **arguments)
    every = amc.sample(target, sampler, initvals={"sigma": 2.0, "beta": np.zeros(3)}, **arguments)
    np.testing.assert_array_equal(some.posterior["sigma"], every.posterior["sigma"])
    with pytest.raises(InvalidInputError, match=r"\['beta', 'sigma'\]; \['sgima'\] are unknown"):
        amc.sample(target, sampler, initvals={"sgima": 2.0}, **arguments)


@pytest.mark.recompiles
def test_minibatches_are_read_as_the_rows_that_they_come_from():
    with pm.Model() as model:
        rows, y = pm.Minibatch(zoo.X, zoo.Z, batch_size=20)
        beta = pm.Normal("beta", 0.0, 1.0, shape=3)
        pm.Normal("y", rows @ beta, 1.0, observed=y, total_size=zoo.N)
    compiled = from_pymc(model, structure=False).compile()
    theta, out = np.array([0.3, -0.1, 0.2]), np.empty(zoo.N)
    compiled.log_terms(theta, compiled.data, np.empty(0, dtype=np.int64), 0, zoo.N, out)
    np.testing.assert_allclose(out, -0.5 * (zoo.Z - zoo.X @ theta) ** 2 - 0.5 * np.log(2.0 * np.pi), rtol=1e-10)


@pytest.mark.recompiles
def test_the_mode_is_found_by_gradients_of_sums(regression):
    """A Hessian by sums equals that of all rows, and costs a mode 2 passes for each coordinate."""
    _, target = regression
    expansion, theta = GeneralExpansion(target, 2), np.array([0.3, -0.1, 0.2, -0.4])
    rows = np.empty((zoo.N, expansion.columns))
    for ours, theirs in zip(expansion.at(theta), expansion.expand(theta, rows), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-6, atol=1e-6)
    found = amc.numerics.find_mode(target)
    residuals = zoo.Z - zoo.X @ found.theta[:3]
    variance = np.exp(2.0 * found.theta[3])
    np.testing.assert_allclose(zoo.X.T @ residuals / variance, found.theta[:3], atol=1e-2)  # the score is the prior's
    assert found.decrement < 1e-4
    assert found.passes < 70


def test_flat_priors_have_gradients_of_zero():
    with pm.Model() as model:
        pm.Normal("y", pt.sin(pm.Flat("a")) * pm.Flat("b"), 1.0, observed=zoo.Z[:20])
    gradient = np.zeros(2)
    from_pymc(model, structure=False).compile_prior_gradient()(np.ones(2), gradient)
    np.testing.assert_array_equal(gradient, 0.0)
