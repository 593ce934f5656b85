"""Importance sampling: which laws it takes, and which draws it refuses."""

import types

import numpy as np
import pytest
from scipy import stats

import approxmcmc as amc
from approxmcmc.errors import IncompatibleError, NotFiniteError
from tests.models import normal_mean

NORMAL = stats.norm(0.0, 1.0)


def proposal(log_proposal):
    """Return a proposal that draws 0, 1, 2, ... with these log densities."""
    return types.SimpleNamespace(
        rvs=lambda size, random_state: np.arange(float(size)), logpdf=lambda x: np.array(log_proposal)
    )


def test_laws_of_discrete_numbers_have_a_logpmf():
    """Poisson(3) from Poisson(2): log w = x log(3 / 2) - 1."""
    trace = amc.importance_sampling(stats.poisson(3.0), stats.poisson(2.0), 40, random_seed=1)
    x = trace.posterior["x"].to_numpy()
    assert len(np.unique(x)) > 3
    np.testing.assert_allclose(trace.sample_stats["log_weight"], x * np.log(1.5) - 1.0, atol=1e-12)
    assert (trace.posterior.attrs["n_obs"], trace.posterior.attrs["stopped"]) == (1, "")


def test_a_target_need_not_be_able_to_draw():
    """And a law of numbers sees numbers, not vectors of one."""
    target = types.SimpleNamespace(logpdf=lambda x: -x * x.ndim)
    trace = amc.importance_sampling(target, proposal([0.0, -0.5, 1.0]), 3)
    np.testing.assert_array_equal(trace.sample_stats["log_weight"], [[0.0, -0.5, -3.0]])


def test_a_law_of_vectors_sees_vectors():
    target = types.SimpleNamespace(logpdf=lambda x: -x.sum(axis=1))
    trace = amc.importance_sampling(target, stats.multivariate_normal(np.zeros(3), np.eye(3)), 7, random_seed=1)
    x = trace.posterior["x"].to_numpy()
    assert x.shape == (1, 7, 3)
    expected = -x.sum(axis=2) + 0.5 * (x**2).sum(axis=2) + 1.5 * np.log(2.0 * np.pi)
    np.testing.assert_allclose(trace.sample_stats["log_weight"], expected, atol=1e-12)


@pytest.mark.parametrize(
    ("log_proposal", "said"),
    [
        ([0.0, -np.inf, -np.inf], r"the log weight of draw 1 is inf at x = \[1.\]"),
        ([0.0, 0.0, np.nan], r"the log weight of draw 2 is nan at x = \[2.\]"),
    ],
)
def test_the_first_draw_without_a_weight_is_named(log_proposal, said):
    with pytest.raises(NotFiniteError, match=said):
        amc.importance_sampling(NORMAL, proposal(log_proposal), 3)


def test_some_draws_may_have_no_density_under_the_target():
    trace = amc.importance_sampling(stats.uniform(0.5, 1.0), proposal([0.0, 0.0, 0.0]), 3)
    assert trace.sample_stats["weight"].to_numpy().tolist() == [[0.0, 1.0, 0.0]]


@pytest.mark.parametrize(
    ("target", "of", "said"),
    [
        (NORMAL, types.SimpleNamespace(logpdf=abs), "the proposal needs rvs"),
        (NORMAL, types.SimpleNamespace(rvs=abs), "proposal must be a frozen law with logpdf or logpmf; found"),
        (3.0, NORMAL, "target must be a frozen law with logpdf or logpmf, or a target of the library; found 3.0"),
    ],
)
def test_what_is_no_law_is_refused(target, of, said):
    with pytest.raises(IncompatibleError, match=said):
        amc.importance_sampling(target, of, 3)


def test_weights_are_finite_where_densities_are_not_normalised():
    target = types.SimpleNamespace(logpdf=lambda x: 800.0 - x)
    weight = amc.importance_sampling(target, proposal([0.0, 0.0, 0.0]), 3).sample_stats["weight"].to_numpy()[0]
    np.testing.assert_allclose(weight, np.exp([0.0, -1.0, -2.0]) / np.exp([0.0, -1.0, -2.0]).sum(), rtol=1e-12)


def test_the_lengths_that_do_not_fit_are_told():
    with pytest.raises(IncompatibleError, match=r"draws vectors of length 2, .* has 1 coordinates"):
        amc.importance_sampling(normal_mean(n=10), stats.multivariate_normal([0.0, 0.0]), 5)
