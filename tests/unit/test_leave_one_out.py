"""Leave-one-out cross-validation evaluates only the terms that ArviZ needs."""

import arviz as az
import numpy as np
import pytest
import xarray as xr
from scipy import stats

import approxmcmc as amc
from approxmcmc.errors import IncompatibleError, InvalidInputError
from tests.models import logistic, normal_mean

N = 40


def posterior_of(target, draws):
    """Return a trace of these thetas; shape (chains, draws, dim)."""
    variables = target.variables.unpack(draws)
    return xr.DataTree.from_dict({"posterior": az.convert_to_datatree(variables)["posterior"].to_dataset()})


@pytest.fixture(scope="module")
def normal():
    """Return a target, independent draws of its posterior, and the elpd of leaving one out in closed form."""
    target = normal_mean(N)
    (x,) = target.data
    draws = np.random.default_rng(1).normal((4.0 + x.sum()) / (4.0 + N), (4.0 + N) ** -0.5, size=(2, 1000, 1))
    others = (4.0 + x.sum() - x) / (3.0 + N)
    exact = stats.norm.logpdf(x, others, np.sqrt(1.0 + 1.0 / (3.0 + N))) + 0.5 * np.log(2.0 * np.pi)
    return target, posterior_of(target, draws), exact.sum()


def test_terms_are_those_of_numpy():
    target = logistic(n=30)
    draws = np.random.default_rng(2).normal(size=(2, 5, 3))
    tree = amc.log_likelihood(posterior_of(target, draws), target)
    eta = draws @ target.X.T
    sign = np.where(target.y > 0, 1.0, -1.0)
    expected = -np.log1p(np.exp(-sign * eta))
    np.testing.assert_allclose(tree.log_likelihood.terms.isel(row=[7, 3], draw=2), expected[:, 2][:, [7, 3]], rtol=1e-9)
    np.testing.assert_allclose(tree.log_likelihood.terms[1, :, ::7], expected[1, :, ::7], rtol=1e-9)
    np.testing.assert_allclose(tree.log_likelihood.terms, expected, rtol=1e-9)
    assert tree.log_likelihood.terms.dims == ("chain", "draw", "row")


@pytest.mark.needs_jit  # PyTensor's numba backend cannot do without the compiler
def test_terms_are_those_of_the_model_where_theta_is_unconstrained():
    pm = pytest.importorskip("pymc")
    y = np.random.default_rng(3).normal(size=20)
    with pm.Model() as model:
        mu, sigma = pm.Normal("mu", 0.0, 5.0), pm.HalfNormal("sigma", 5.0)
        pm.Normal("y", mu, sigma, observed=y)
    target = amc.from_pymc(model)
    draws = np.random.default_rng(4).normal(size=(1, 3, 2))
    trace = posterior_of(target, draws)
    found = amc.log_likelihood(trace, target).log_likelihood.terms
    expected = stats.norm.logpdf(y, draws[..., :1], np.exp(draws[..., 1:]))
    np.testing.assert_allclose(found, expected, rtol=1e-9)


def test_psis_finds_what_leaving_rows_out_gives(normal):
    target, trace, exact = normal
    assert az.loo(amc.log_likelihood(trace, target)).elpd == pytest.approx(exact, abs=0.05)


@pytest.mark.thorough
def test_what_the_terms_leave_out_is_added(normal):
    target, trace, exact = normal
    constants = np.arange(N) / N
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(target, "omitted_constants", constants)
        assert az.loo(amc.log_likelihood(trace, target)).elpd == pytest.approx(exact + constants.sum(), abs=0.05)
        sampled = [amc.loo_subsample(trace, target, rows).elpd for rows in (1000, np.arange(N))]
    assert sampled == pytest.approx([exact + constants.sum()] * 2, abs=0.05)


def test_a_sample_of_all_rows_is_the_whole(normal):
    target, trace, _ = normal
    whole = az.loo(amc.log_likelihood(trace, target))
    sampled = amc.loo_subsample(trace, target, observations=N)
    assert sampled.elpd == pytest.approx(whole.elpd, rel=1e-12)
    assert sampled.p == pytest.approx(whole.p, rel=1e-9)


@pytest.mark.thorough
def test_few_rows_estimate_the_whole(normal):
    # The error is deterministic here: seeds are fixed, and 4 standard errors have a chance of 6e-5 each.
    target, trace, _ = normal
    whole = az.loo(amc.log_likelihood(trace, target)).elpd
    for seed in range(5):
        sampled = amc.loo_subsample(trace, target, observations=20, seed=seed)
        assert abs(sampled.elpd - whole) < 4.0 * sampled.subsampling_se
        assert sampled.subsampling_se < 0.5


@pytest.mark.thorough
@pytest.mark.parametrize("method", ["stacking", "bb-pseudo-bma"])
def test_weights_from_a_sample_of_rows_are_those_of_all_rows(method):
    """The worse model lacks a coefficient; its weight from all rows is below .3; NaN gave it .5."""
    better = logistic(n=400)
    worse = amc.targets.LogisticRegression(better.X[:, :2], better.y, prior_scale=1.0)
    weights = {}
    for rows in (400, 100):
        estimates = {}
        for name, target, mean in (("better", better, [-1.0, 0.0, 1.0]), ("worse", worse, [-1.0, 0.0])):
            draws = np.random.default_rng(5).normal(mean, 0.05, size=(2, 200, len(mean)))
            estimates[name] = amc.loo_subsample(posterior_of(target, draws), target, observations=rows, seed=1)
            assert float(estimates[name].elpd_i.sum()) == pytest.approx(estimates[name].elpd, rel=1e-12)
        weights[rows] = az.compare(estimates, method=method, round_to="none")["weight"]["worse"]
        assert weights[rows] < 0.3
    assert weights[100] == pytest.approx(weights[400], abs=0.02)


def test_only_the_rows_that_count_are_read(normal, monkeypatch):
    target, trace, _ = normal
    read = []
    compiled = target.compile()

    def counting(theta, data, order, lo, hi, out):
        read.append(hi - lo)
        compiled.log_terms(theta, data, order, lo, hi, out)

    monkeypatch.setattr(target, "compile", lambda: compiled._replace(log_terms=counting))
    amc.log_likelihood(trace, target)
    assert read == []
    amc.loo_subsample(trace, target, observations=5)
    assert sum(read) == N + 5 * 2 * 1000  # all rows once, at the mean; five at every draw


def test_what_has_no_rows_is_refused(normal):
    target, trace, _ = normal
    with pytest.raises(IncompatibleError, match="single rows"):
        amc.log_likelihood(trace, amc.targets.alarm_network(J=1, M=1))
    expanded = amc.ControlVariate(logistic())
    with pytest.raises(IncompatibleError, match="plain target"):
        amc.log_likelihood(trace, expanded)
    with pytest.raises(InvalidInputError, match="lacks"):
        amc.log_likelihood(trace, logistic())
    weighted = trace.copy()
    weighted["sample_stats"] = xr.DataTree(xr.Dataset({"weight": ("draw", np.ones(1000))}))
    with pytest.raises(InvalidInputError, match="weights"):
        amc.log_likelihood(weighted, target)


def draws_of(model, *, chains=2, draws=20):
    """Return a trace of made-up positive values of the free variables."""
    rng, shapes = np.random.default_rng(5), model.eval_rv_shapes()
    values = {rv.name: rng.lognormal(size=(chains, draws, *shapes[rv.name])) for rv in model.free_RVs}
    return xr.DataTree.from_dict({"posterior": az.convert_to_datatree(values)["posterior"].to_dataset()})


def a_latent_for_each_row(pm):
    rate = pm.Gamma("rate", 2.0, 1.0, shape=12)
    pm.Poisson("y", rate, observed=np.arange(12) % 4)


def vectors(pm):
    """Rows with three values and one log density, of named axes."""
    mu = pm.Normal("mu", 0.0, 1.0, shape=3)
    y = np.random.default_rng(6).normal(size=(8, 3))
    pm.MvNormal("y", mu, np.eye(3), observed=y, dims=("person", "outcome"))


def tables(pm):
    """Rows along two axes."""
    mu = pm.Normal("mu", 0.0, 1.0, shape=3)
    pm.Normal("y", mu, pm.HalfNormal("sigma", 1.0), observed=np.random.default_rng(7).normal(size=(6, 3)))


@pytest.mark.needs_jit
@pytest.mark.filterwarnings("ignore:Estimated shape")  # of the few, made-up draws
@pytest.mark.parametrize("write", [a_latent_for_each_row, vectors, tables])
def test_a_model_has_the_log_likelihood_of_pymc(write):
    pm = pytest.importorskip("pymc")
    with pm.Model(coords={"person": list("abcdefgh"), "outcome": [1, 2, 3]}) as model:
        write(pm)
    trace = draws_of(model)
    found = amc.log_likelihood(trace, model)
    known = pm.compute_log_likelihood(trace, model=model, extend_inferencedata=False, progressbar=False)
    np.testing.assert_allclose(found.log_likelihood["y"], known["y"], rtol=1e-9)
    np.testing.assert_allclose(found.log_likelihood["y"][1, :, 3], known["y"][1, :, 3], rtol=1e-9)
    assert found.log_likelihood["y"].shape[2:] == found.observed_data["y"].shape
    whole = amc.loo_subsample(trace, model, observations=found.observed_data["y"].size)
    assert whole.elpd == pytest.approx(az.loo(found).elpd, rel=1e-9)


@pytest.mark.needs_jit
@pytest.mark.filterwarnings("ignore:Estimated shape")
def test_one_of_several_outcomes_is_named():
    pm = pytest.importorskip("pymc")
    with pm.Model() as model:
        n = pm.DiscreteUniform("n", 3, 5)  # its mean, between two values, is rounded
        pm.Poisson("count", n * pm.Gamma("k", 2.0, 2.0), observed=np.arange(6))
        pm.Normal("y", n + pm.Normal("m"), 1.0, observed=np.arange(4.0))
    trace = draws_of(model)
    trace["posterior"]["n"] = 3 + trace["posterior"]["n"].astype(int) % 3
    with pytest.raises(InvalidInputError, match=r"var_name must be one of \['count', 'y'\], found None"):
        amc.loo_subsample(trace, model)
    assert amc.loo_subsample(trace, model, var_name="count").n_data_points == 6
    assert az.loo(amc.log_likelihood(trace, model), var_name="y").n_data_points == 4


def test_rows_of_a_time_series_are_not_left_out():
    pm = pytest.importorskip("pymc")
    with pm.Model() as model:
        pm.AR("y", pm.Normal("rho"), init_dist=pm.Normal.dist(), sigma=1.0, observed=np.arange(9.0))
    trace = xr.DataTree.from_dict({"posterior": xr.Dataset({"rho": (("chain", "draw"), np.zeros((2, 5)))})})
    with pytest.raises(IncompatibleError, match="'y' has one for all rows"):
        amc.log_likelihood(trace, model)
    with pytest.raises(InvalidInputError, match="lacks rho of the model"):
        amc.log_likelihood(xr.DataTree.from_dict({"posterior": xr.Dataset()}), model)


def test_a_formula_has_another_intercept():
    pm = pytest.importorskip("pymc")
    with pm.Model() as model:
        pm.Normal("y", pm.Normal("m"), 1.0, observed=np.arange(9.0))
    posterior = xr.Dataset({"m": (("chain", "draw"), np.zeros((2, 5)))}, attrs={"modeling_interface": "bambi"})
    with pytest.raises(InvalidInputError, match="those of a Bambi formula"):
        amc.log_likelihood(xr.DataTree.from_dict({"posterior": posterior}), model)
    with pytest.raises(IncompatibleError, match=r"needs a target or a pm\.Model"):
        amc.log_likelihood(xr.DataTree.from_dict({"posterior": posterior}), "a model")


def test_a_row_that_no_parameter_moves_is_named_as_the_reason():
    target = amc.targets.GLMTarget(lambda eta, y: -0.5 * (y - eta) ** 2, np.eye(N)[:, :1], np.ones(N))
    trace = posterior_of(target, np.random.default_rng(5).normal(size=(2, 100, 1)))
    with pytest.raises(IncompatibleError, match="same log-likelihood at all draws"):
        amc.loo_subsample(trace, target, observations=N)
