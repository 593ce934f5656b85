"""Group effects of PyMC models in scaled coordinates: found where they are, and the same posterior."""

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
import pytest

from approxmcmc.interop.graphs import over_flat
from approxmcmc.interop.hierarchies import group_effects, variance_ratio
from approxmcmc.interop.pymc import from_pymc

pytestmark = pytest.mark.needs_jit  # PyTensor's numba backend cannot do without the compiler

N, GROUPS = 600, 3
RNG = np.random.default_rng(0)
GROUP = np.arange(N) % GROUPS
Y = np.array([-1.0, 0.5, 1.0])[GROUP] + RNG.normal(size=N)
WRITTEN = {
    "scaled, then picked": lambda mu, sigma, z: (mu + sigma * z)[GROUP],
    "picked, then scaled": lambda mu, sigma, z: mu + z[GROUP] * sigma,
    "named": lambda mu, sigma, z: pm.Deterministic("effect", mu + sigma * z)[GROUP],
}


def hierarchy(effect, *, loc=0.0, scale=1.0, sigma=None, observed=Y):
    with pm.Model() as model:
        mu = pm.Normal("mu", 0.0, 2.0)
        sigma = pm.HalfNormal("sigma", 1.0) if sigma is None else sigma()
        z = pm.Normal("z", loc, scale, shape=GROUPS)
        pm.Normal("y", effect(mu, sigma, z), 1.0, observed=observed)
    return model


def never():
    raise AssertionError("the graph decides")


def differing():
    """Return the score of 200 normal rows for each entry, whose means are those of `effects`: F = 200 / 3 var."""
    return lambda theta: np.r_[0.0, 0.0, 200.0 * (np.array([0.0, 0.4, 0.6928]) - theta[2:])]


@pytest.fixture(scope="module")
def targets():
    """Return one model as a target in scaled coordinates, and in the model's coordinates."""
    model = hierarchy(WRITTEN["named"])
    return from_pymc(model, structure=False), from_pymc(model, scale_effects=False, integrate=False)


@pytest.mark.parametrize("written", WRITTEN)
def test_effects_are_found_however_they_are_written(written):
    [found] = group_effects(hierarchy(WRITTEN[written]), N, differing)
    assert (found.effect.name, found.scale.name) == ("z", "sigma")
    assert found.reason.startswith(
        "z is sampled as sigma * z: its entries vary by 24.2 times their variance given the rows"
    )


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ({"effect": lambda mu, sigma, z: (mu * z + sigma * z)[GROUP]}, "which is not one positive variable"),
        (
            {"effect": WRITTEN["named"], "sigma": lambda: pm.Normal("sigma", 0.0, 1.0)},
            "it is multiplied by sigma, which is not one positive variable",
        ),
    ],
    ids=["two scales", "a scale of either sign"],
)
def test_other_effects_keep_the_models_coordinates_for_a_stated_reason(arguments, reason):
    [found] = group_effects(hierarchy(**arguments), N, never)
    assert found.scale is None and reason in found.reason


@pytest.mark.parametrize("differ", [True, False])
def test_whether_groups_differ_is_told_by_an_analysis_of_variance(differ):
    y = Y if differ else np.random.default_rng(2).normal(size=N)
    model = hierarchy(WRITTEN["named"], observed=y)
    means = [y[group == GROUP].mean() for group in range(GROUPS)]
    expected = np.var(means, ddof=1) * N / GROUPS
    assert (expected > 10.0) == differ
    theta = pt.vector("theta", shape=(2 + GROUPS,))
    values = [model.rvs_to_values[variable] for variable in model.free_RVs]
    [total] = over_flat([model.logp(vars=model.observed_RVs)], theta, values, model.initial_point())
    score = pytensor.function([theta], pt.grad(total, theta), mode="FAST_COMPILE")
    assert variance_ratio(model, model["z"], score) == pytest.approx(expected, rel=1e-3)
    [found] = group_effects(model, N, lambda: score)
    assert (found.scale is not None) == differ
    assert f"vary by {expected:.3g} times" in found.reason


def test_few_rows_keep_the_written_coordinates():
    [found] = group_effects(hierarchy(WRITTEN["named"]), 299, never)
    assert found.scale is None and "not as sigma * z: there are 99 rows for each entry, fewer than 100" in found.reason


@pytest.mark.parametrize("law", [{"loc": 1.0}, {"scale": 2.0}], ids=str)
def test_normals_that_are_not_standard_keep_the_models_coordinates(law):
    assert group_effects(hierarchy(WRITTEN["named"], **law), N, never) == []


def test_a_vector_that_no_variable_multiplies_is_not_mentioned():
    assert group_effects(hierarchy(lambda mu, sigma, z: (mu + z)[GROUP]), N, never) == []


def test_the_density_is_that_of_the_model_times_the_jacobian(targets):
    """log p(theta, a) = log p(theta, z = a / sigma) - J log sigma, prior and terms, and all gradients."""
    ours, theirs = targets
    assert theirs.effects == [] and ours.content_hash() != theirs.content_hash()
    rng = np.random.default_rng(1)
    for _ in range(5):
        plain = rng.normal(size=2 + GROUPS)
        scaled = plain.copy()
        scaled[2:] *= np.exp(plain[1])
        np.testing.assert_allclose(_terms(ours, scaled), _terms(theirs, plain), rtol=1e-10)
        prior = theirs.compile().log_prior(plain) - GROUPS * plain[1]
        assert ours.compile().log_prior(scaled) == pytest.approx(prior, rel=1e-10)
        slope, h = _gradient(ours, scaled), 1e-6
        for j in range(scaled.size):
            step = h * np.eye(scaled.size)[j]
            difference = (_log_density(ours, scaled + step) - _log_density(ours, scaled - step)) / (2 * h)
            assert slope[j] == pytest.approx(difference, rel=1e-5, abs=1e-4)


def test_draws_and_starting_values_are_those_of_the_model(targets):
    target, plain = targets
    assert target.variables.labels() == ["mu", "sigma_log__", "z_scaled__[0]", "z_scaled__[1]", "z_scaled__[2]"]
    assert target.setup_attrs["group_effects"] == target.effects[0].reason
    theta = target.variables.pack({"mu": 0.3, "sigma": 0.5, "z": [1.0, -2.0, 0.25]})
    np.testing.assert_allclose(theta, [0.3, np.log(0.5), 0.5, -1.0, 0.125])
    values = target.variables.unpack(theta)
    np.testing.assert_allclose(values["z"], [1.0, -2.0, 0.25])
    assert "effect" not in values  # a deterministic, which is computed from the finished draws
    effect = target.returned.compute({name: value[None] for name, value in values.items()}, ["effect"])
    np.testing.assert_allclose(effect["effect"], [[0.8, -0.7, 0.425]])
    start = target.variables.unpack(target.initial_point())
    for name, value in plain.variables.defaults.items():
        np.testing.assert_allclose(start[name], value)


def _terms(target, theta):
    compiled, out = target.compile(), np.empty(N)
    compiled.log_terms(theta, compiled.data, np.empty(0, dtype=np.int64), 0, N, out)
    return out


def _log_density(target, theta):
    return target.compile().log_prior(theta) + _terms(target, theta).sum()


def _gradient(target, theta):
    compiled, out = target.compile_gradient(), np.zeros(theta.size)
    compiled.add_gradient(theta, compiled.data, np.empty(0, dtype=np.int64), 0, N, out)
    compiled.add_prior_gradient(theta, out)
    return out
