"""The sampler for who names none: with a mode, and for a hierarchy that has none."""

import math

import numpy as np
import pytest

import approxmcmc as amc
from approxmcmc.bounds.default_sampler import default_sampler, normal_by_pilot

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


def test_with_a_mode_the_walk_is_scaled_by_the_curvature():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2000, 2))
    target = amc.targets.LogisticRegression(X, (X[:, 0] + rng.logistic(size=2000) > 0).astype(int))
    chosen = default_sampler(target, random_seed=1)
    np.testing.assert_allclose(chosen.laplace.cov, amc.laplace(target).cov)
    assert "standard deviations at the mode" in chosen.sentence
    assert chosen.attrs["setup_mode_passes"] < 20


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
