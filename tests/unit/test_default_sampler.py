"""The sampler for who names none: with a mode, and for a hierarchy that has none."""

import math
import re
import sys

import numpy as np
import pytest

import approxmcmc as amc
from approxmcmc.design.default_sampler import default_sampler, normal_by_pilot

module = sys.modules[default_sampler.__module__]  # the room's name of the module is the function
pytestmark = pytest.mark.needs_jit  # pilots of hundreds of passes over the data
GROUPS, N = 3, 60
GROUP = np.arange(N) % GROUPS
Y = 0.1 * GROUP + np.random.default_rng(0).normal(size=N)


def _loglik(theta, data, i):
    group, y = data
    return -0.5 * (y[i] - theta[1 + group[i]]) ** 2


def _logprior(theta):
    """Effects ~ N(0, tau), tau ~ HalfNormal(1), theta_0 = log tau: rises without bound where tau falls to 0."""
    tau = np.exp(theta[0])
    return -0.5 * tau**2 + theta[0] - 3 * theta[0] - 0.5 * np.sum(theta[1:] ** 2) / tau**2


@pytest.fixture(scope="module")
def hierarchy():
    return amc.Target(_loglik, _logprior, data=(GROUP, Y), n_obs=N, dim=1 + GROUPS)


def _moments_of_log_tau():
    """Return mean and sd of log tau by quadrature; the effects are integrated out in closed form."""
    grid = np.linspace(-12.0, 4.0, 4001)
    tau2 = np.exp(2.0 * grid)
    means = np.array([Y[k == GROUP].mean() for k in range(GROUPS)])
    total = tau2 + GROUPS / N
    log_density = -0.5 * tau2 + grid
    log_density += np.sum([-0.5 * np.log(total) - 0.5 * mean**2 / total for mean in means], axis=0)
    weight = np.exp(log_density - log_density.max())
    mean = np.average(grid, weights=weight)
    return mean, math.sqrt(np.average((grid - mean) ** 2, weights=weight))


@pytest.mark.parametrize("shares", [(0.1, 0.6), (0.0, 0.0), (1.0, 1.0)], ids=["as it is", "never pays", "pays"])
def test_with_a_mode_steps_are_scaled_by_the_curvature(shares, monkeypatch):
    monkeypatch.setattr(module, "WORTHWHILE_WITH_GRADIENT", shares[0])
    monkeypatch.setattr(module, "WORTHWHILE_FRACTION", shares[1])
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2000, 2))
    target = amc.targets.LogisticRegression(X, (X[:, 0] + rng.logistic(size=2000) > 0).astype(int))
    chosen = default_sampler(target, random_seed=1)
    proposal, test = chosen.sampler.proposal, chosen.sampler.test
    np.testing.assert_allclose(chosen.laplace.cov, amc.laplace(target).cov)
    assert chosen.attrs["setup_mode_passes"] < 20
    if shares[0] == 1.0:
        assert isinstance(proposal, amc.RandomWalk) and isinstance(test, amc.SequentialTTest)
        assert re.match(
            "a random walk of 1.7 posterior standard deviations at the mode, SequentialTTest.*expect", chosen.sentence
        )
    else:
        assert isinstance(proposal, amc.Langevin) and isinstance(test, amc.ExactTest)
        assert re.match("Langevin steps .* at the mode, ExactTest.*would read [0-9]+% of 2000 data", chosen.sentence)


def test_without_a_gradient_it_walks():
    target = amc.Target(
        lambda theta, data, i: -0.5 * (data[0][i] - theta[0]) ** 2, lambda theta: 0.0, data=(Y,), n_obs=N, dim=1
    )
    chosen = default_sampler(target, random_seed=1)
    assert isinstance(chosen.sampler.proposal, amc.RandomWalk)
    assert "a random walk of 2.4 posterior standard deviations at the mode" in chosen.sentence


def test_a_hierarchy_without_a_mode_is_measured_by_a_pilot(hierarchy):
    with pytest.raises(amc.errors.InvalidInputError, match="no mode"):
        amc.laplace(hierarchy)
    chosen = default_sampler(hierarchy, random_seed=1)
    assert "of a pilot run, as there is no mode" in chosen.sentence
    assert math.isnan(chosen.laplace.decrement)
    assert chosen.attrs["setup_mode_passes"] == chosen.laplace.passes > 1000


def test_the_pilot_measures_mean_and_scale(hierarchy):
    fit = normal_by_pilot(hierarchy, random_seed=1)
    mean, sd = _moments_of_log_tau()
    assert abs(fit.mode[0] - mean) < sd
    assert 0.5 < fit.sd[0] / sd < 2.0  # what a random walk asks of a scale


def test_separable_classes_under_a_flat_prior_are_called_improper():
    X = np.random.default_rng(0).normal(size=(200, 2))
    target = amc.targets.LogisticRegression(X, (X[:, 0] > 0).astype(int), prior_scale=math.inf)
    with pytest.warns(amc.errors.SamplingWarning, match=r"beta\[x.\] still grew .* may be improper"):
        normal_by_pilot(target, random_seed=1)
