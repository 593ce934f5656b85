"""Every adapter whose library is installed, on a tiny posterior: its draws, its clock, its counts, its seed."""

import functools
import importlib.util
import sys

import numpy as np
import pymc as pm
import pytest

import approxmcmc as amc
from approxmcmc import whole_chains
from approxmcmc.contracts import CompiledTarget, Target, Variables
from approxmcmc.errors import IncompatibleError, InvalidInputError, MissingExtraError
from approxmcmc.whole_chains.twin import twin_of
from tests.models import logistic

pytestmark = [pytest.mark.needs_jit, pytest.mark.filterwarnings("ignore:.*:DeprecationWarning")]
SGLD = {"step_size": 5e-3, "batch_size": 20}
CHAINS = {
    "BlackjaxNUTS": ("blackjax", {"tune": 80}),
    "BlackjaxMCLMC": ("blackjax", {"tune": 200}),
    "BlackjaxSGLD": ("blackjax", SGLD | {"tune": 100, "thin": 20}),
    "BlackjaxSGHMC": ("blackjax", SGLD | {"tune": 100, "thin": 20}),  # unthinned, 400 draws hold about 5 effective ones
    "NumPyroNUTS": ("numpyro", {"tune": 80}),
    "NumPyroHMCECS": ("numpyro", {"tune": 80, "batch_size": 20, "num_blocks": 2}),
}
FITS = {
    "LaplaceApproximation": ("numba", {}),
    "PyMCADVI": ("pymc", {"iterations": 20_000}),
    "PyMCPathfinder": ("pymc_extras", {"n_paths": 2, "n_draws": 400}),
    "BlackjaxPathfinder": ("blackjax", {}),
    "NumPyroADVI": ("numpyro", {"iterations": 3000}),
}
DRAWS = 400
SEED = 2**52 - 3  # a study's seeds have up to 52 bits, which not every library takes


@functools.cache
def target():
    return logistic(60, 2)


def run(name, library, settings, **changes):
    if importlib.util.find_spec(library) is None:
        pytest.skip(f"{library} is not installed")
    sampler = getattr(whole_chains, name)(**settings)
    return sampler.draw_chain(
        target(), **{"seconds": None, "draws": DRAWS, "seed": SEED, "initial": np.full(2, 0.1)} | changes
    )


def assert_near_the_mode(trace):
    """Assert that mean and sd are near those of the Laplace approximation, which is close to the posterior here."""
    fit, beta = amc.laplace(target()), trace["posterior"]["beta"].values[0]
    assert np.abs((beta.mean(axis=0) - fit.mode) / fit.sd).max() < 0.6
    assert np.all((beta.std(axis=0) / fit.sd > 0.6) & (beta.std(axis=0) / fit.sd < 1.6))


@pytest.mark.statistical
@pytest.mark.parametrize("name", CHAINS)
def test_a_chain_of_each_library_is_near_the_posterior_and_times_its_draws(name):
    trace = run(name, *CHAINS[name])
    assert dict(trace["posterior"].sizes) == {"chain": 1, "draw": DRAWS, "coef": 2}
    assert_near_the_mode(trace)
    stats, attrs = trace["sample_stats"], trace["sample_stats"].attrs
    assert (stats["perf_counter_diff"] > 0.0).all()
    assert attrs["tuning_perf_counter_diff"][0] > 0.0
    assert attrs["setup_compile_seconds"] > 0.0
    total = float(stats["perf_counter_diff"].sum()) + attrs["tuning_perf_counter_diff"][0]
    assert attrs["sampling_time"] == pytest.approx(total)
    assert (stats["gradient_evaluations"] > 0).all()
    assert attrs["tuning_gradient_evaluations"][0] > 0
    again = run(name, *CHAINS[name], draws=50)
    assert np.array_equal(again["posterior"]["beta"], trace["posterior"]["beta"].isel(draw=slice(50)))
    other = run(name, *CHAINS[name], draws=50, seed=SEED + 1)
    assert not np.array_equal(again["posterior"]["beta"], other["posterior"]["beta"])
    short = run(name, *CHAINS[name], draws=10**6, seconds=0.3)
    assert short["sample_stats"].attrs["stopped"] == "time_limit"


@pytest.mark.statistical
@pytest.mark.parametrize("name", FITS)
def test_a_law_fitted_by_each_library_is_near_the_posterior_and_is_one_point(name):
    trace = run(name, *FITS[name])
    assert_near_the_mode(trace)
    attrs = trace["sample_stats"].attrs
    assert attrs["approximation"] == 1
    assert attrs["tuning_perf_counter_diff"][0] > 0.0
    reference = amc.sample(
        target(),
        amc.MetropolisHastings(amc.proposals.Independence(amc.laplace(target())), amc.ExactTest()),
        draws=500,
        tune=0,
        chains=2,
        random_seed=1,
        progressbar=False,
    )
    point = amc.risk(trace, reference)
    assert point.sizes["time"] == 1
    assert float(point["time"][0]) == pytest.approx(attrs["sampling_time"])
    assert (point["variance"] == 0.0).all()


@pytest.mark.parametrize("n_draws", [7, 100])
def test_draws_of_a_fitted_law_have_its_mean_and_covariance(n_draws):
    normals = whole_chains.approximation.matched_normals(n_draws, 3, seed=1)
    assert normals.shape == (n_draws, 3)
    if n_draws == 100:
        assert np.abs(normals.mean(axis=0)).max() < 1e-14
        assert np.abs(normals.T @ normals / n_draws - np.eye(3)).max() < 1e-13


@pytest.mark.slow
def test_a_model_with_constraints_starts_and_returns_under_its_own_names():
    rng = np.random.default_rng(0)
    with pm.Model() as model:
        sigma = pm.HalfNormal("sigma", 1.0)
        pm.Normal("y", pm.Normal("mu", 0.0, 1.0), sigma, observed=rng.normal(size=30))
    theta = np.array([0.4, -0.7])
    for own in (amc.from_pymc(model), amc.from_pymc(model, structure=False)):
        twin = twin_of(own)
        vector = twin.unconstrain(theta)
        expected = own.variables.unpack(theta[None])
        found = twin.constrain(vector[None])
        assert set(found) == set(expected)
        assert all(np.allclose(found[name], expected[name]) for name in expected)


class NoTwin(Target):
    """A target without a PyMC model."""

    n_obs = 10
    variables = Variables({"beta": (1,)})

    def initial_point(self):
        return np.zeros(1)

    def content_hash(self):
        return "no twin"

    def compile(self) -> CompiledTarget:
        raise NotImplementedError


def test_a_target_without_a_model_and_one_with_other_names_are_refused():
    with pytest.raises(IncompatibleError, match="NoTwin has no PyMC model"):
        twin_of(NoTwin())
    with pm.Model() as model:
        pm.Normal("y", pm.Normal("beta", 0.0, 1.0), 1.0, observed=np.zeros(10))
    other = amc.FunctionTarget(
        lambda theta, data, i: -0.5 * (data[0][i] - theta[0]) ** 2,
        lambda theta: 0.0,
        data=np.zeros(10),
        n_obs=10,
        dim=1,
        var_names=["mu"],
        pymc_model=lambda: model,
    )
    with pytest.raises(IncompatibleError, match=r"lacks \['mu'\]"):
        twin_of(other)


@pytest.mark.parametrize("name", ["BlackjaxSGLD", "BlackjaxSGHMC"])
def test_a_step_size_that_is_none_is_refused(name):
    with pytest.raises(InvalidInputError, match="step_size must be a positive number"):
        getattr(whole_chains, name)(step_size=0.0)


def test_pathfinder_of_pymc_says_where_it_comes_from(monkeypatch):
    monkeypatch.setitem(sys.modules, "pymc_extras", None)
    with pytest.raises(MissingExtraError, match="pip install pymc-extras"):
        whole_chains.PyMCPathfinder().draw_chain(target(), seconds=None, draws=1, seed=1, initial=np.zeros(2))


@pytest.mark.parametrize(
    ("name", "library", "settings"),
    [
        ("BlackjaxNUTS", "jax", {}),
        ("NumPyroADVI", "jax", {}),
    ],
)
def test_a_missing_library_is_named_with_its_extra(monkeypatch, name, library, settings):
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(MissingExtraError, match=r"approxmcmc\[foreign\]"):
        getattr(whole_chains, name)(**settings).draw_chain(target(), seconds=None, draws=1, seed=1, initial=np.zeros(2))


# --- finished runs of the libraries themselves, which `as_trace` reads ---


def run_of_emcee():
    emcee = pytest.importorskip("emcee")
    ensemble = emcee.EnsembleSampler(
        8, 3, lambda at: -0.5 * sum(x**2 for x in at.values()), parameter_names=["a", "b", "c"]
    )
    ensemble.run_mcmc(np.random.default_rng(0).normal(size=(8, 3)), 40)
    return ensemble


def run_of_numpyro():
    numpyro = pytest.importorskip("numpyro")
    import jax

    def model():
        numpyro.sample("beta", numpyro.distributions.Normal(np.zeros(3), 1.0))

    kernel = numpyro.infer.NUTS(model)
    run = numpyro.infer.MCMC(
        kernel, num_warmup=20, num_samples=40, num_chains=2, chain_method="sequential", progress_bar=False
    )
    run.run(jax.random.PRNGKey(0), extra_fields=("num_steps",))
    return run


def run_of_blackjax():
    blackjax = pytest.importorskip("blackjax")
    import jax

    kernel = blackjax.hmc(lambda at: -0.5 * (at["beta"] ** 2).sum(), 0.5, np.ones(3), 4)
    return blackjax.util.run_inference_algorithm(
        jax.random.PRNGKey(0), kernel, 40, initial_position={"beta": jax.numpy.zeros(3)}
    )


@pytest.mark.statistical
@pytest.mark.parametrize(
    ("made", "shapes", "records", "replicates"),
    [
        (run_of_emcee, dict.fromkeys("abc", (8, 40)), {"lp"}, 1),
        (run_of_numpyro, {"beta": (2, 40, 3)}, {"num_steps", "diverging"}, 2),
        (run_of_blackjax, {"beta": (1, 40, 3)}, {"acceptance_rate", "is_divergent", "num_integration_steps"}, 1),
    ],
)
def test_a_finished_run_is_a_trace(made, shapes, records, replicates):
    result = made()
    trace = amc.as_trace(result, seconds=2.0)
    assert {name: values.shape for name, values in trace["posterior"].data_vars.items()} == shapes
    assert records < set(trace["sample_stats"].data_vars)
    assert all(np.isfinite(values).all() for values in trace["posterior"].data_vars.values())
    reference = amc.as_trace({name: np.zeros((4, 400, *shape[2:])) for name, shape in shapes.items()})
    for name in shapes:
        reference["posterior"][name].values[:] = np.random.default_rng(0).normal(
            size=reference["posterior"][name].shape
        )
    with pytest.warns(amc.errors.ApproxMCMCWarning, match="Risk over copies"):
        found = amc.risk([result, result], amc.as_trace(reference), clock=2.0, n_bootstrap=10)
    assert int(found["n_replicates"]) == 2 * replicates
