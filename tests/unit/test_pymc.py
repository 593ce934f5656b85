"""A PyMC model as a target: one of each kind here, the whole zoo among the statistical tests."""

import numpy as np
import pymc as pm
import pytest

import approxmcmc as amc
from approxmcmc.errors import IncompatibleError, InvalidInputError
from approxmcmc.interop.pymc import from_pymc
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
    return model, from_pymc(model, deterministics=True)


def test_rows_alone_equal_rows_of_the_whole(regression):
    model, target = regression
    compiled = target.compile()
    theta = np.array([0.3, -0.1, 0.2, -0.4])
    expected = model.compile_logp(vars=model.observed_RVs, sum=False)({"beta": theta[:3], "sigma_log__": theta[3]})[0]
    order = np.random.default_rng(0).permutation(zoo.N)
    for rows, lo, hi in ((order, 0, 100), (order, 17, 18), (np.empty(0, dtype=np.int64), 40, 90)):
        out = np.empty(hi - lo)
        compiled.log_terms(theta, compiled.data, rows, lo, hi, out)
        np.testing.assert_allclose(out, expected[rows[lo:hi] if rows.size else slice(lo, hi)], rtol=1e-10)
    prior = model.compile_logp(vars=model.free_RVs)({"beta": theta[:3], "sigma_log__": theta[3]})
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
