"""Laws of acceptance tests at their edges: what is added to a bound, ends of ranges, and ties."""

import math

import numpy as np
import pytest
from scipy.special import expit, ndtr

from approxmcmc.acceptance.laws.barker_law import bound_from_moments, minibatch_barker_error_bound
from approxmcmc.acceptance.laws.correction import correction_distribution
from approxmcmc.acceptance.laws.early_stops import epsilon_for_type_one_error, type_one_error
from approxmcmc.acceptance.laws.recursion import probability_above, sequential_test_error
from approxmcmc.engine.terms.moments import merge, reset
from approxmcmc.errors import InvalidInputError
from tests.planting import plain

TERMS = np.random.default_rng(0).normal(size=50)


def test_the_error_of_the_correction_is_added_to_the_bound():
    """6.4 E|X|^3 + 2 E|X| of the standardised terms, over sqrt(b)."""
    X = np.abs(TERMS - TERMS.mean()) / TERMS.std()
    bare = (6.4 * (X**3).mean() + 2.0 * X.mean()) / 10.0
    assert minibatch_barker_error_bound(TERMS, 100, correction_error=0.25) == pytest.approx(bare + 0.25)


def test_the_bound_of_running_moments_adds_it_as_well():
    """6.4 sqrt(kurtosis) + 2, over sqrt(n)."""
    moments = np.zeros(16)
    plain(reset)(moments)
    plain(merge)(moments, TERMS, len(TERMS))
    kurtosis = ((TERMS - TERMS.mean()) ** 4).mean() / TERMS.var() ** 2
    expected = (6.4 * math.sqrt(kurtosis) + 2.0) / math.sqrt(50.0) + 0.25
    assert plain(bound_from_moments)(moments, 0.25) == pytest.approx(expected, rel=1e-10)


@pytest.mark.parametrize("terms", [[], [1.0], [[1.0, 2.0]], [1.0, math.inf], [1.0, math.nan], [2.0, 2.0]], ids=str)
def test_terms_that_have_no_spread_are_refused(terms):
    with pytest.raises(InvalidInputError, match="two or more finite numbers"):
        minibatch_barker_error_bound(terms, 100)


@pytest.mark.parametrize("rate", [-0.5, -1e-9, 1.5, math.nan])
def test_a_rate_that_is_no_probability_is_refused(rate):
    with pytest.raises(InvalidInputError, match="between 0 and 1"):
        epsilon_for_type_one_error(rate, batch_size=50, n_obs=500)


@pytest.mark.parametrize("rate", [0.01, 0.2])
def test_the_epsilon_of_a_rate_has_that_rate(rate):
    settings = {"batch_size": 50, "n_obs": 500}
    epsilon = epsilon_for_type_one_error(rate, **settings)
    assert type_one_error(epsilon=epsilon, **settings) == pytest.approx(rate, abs=1e-7)


def test_at_a_tie_the_probability_to_decide_above_is_the_error():
    """Both are the share of early stops on one side, and above it they add up to 1."""
    settings = {"epsilon": 0.05, "batch_size": 50, "n_obs": 500}
    at = np.array([-1.0, 0.0, 1.0])
    above, error = probability_above(at, **settings), np.asarray(sequential_test_error(at, **settings)["error"])
    assert above[1] == pytest.approx(error[1]) and above[0] == pytest.approx(error[0])
    assert above[0] + above[2] == pytest.approx(1.0)


@pytest.mark.parametrize("points", [2, 1])
def test_a_ridge_of_fewer_than_three_points_is_refused(points):
    with pytest.raises(InvalidInputError, match="points at least 3"):
        correction_distribution(1.0, method="ridge", points=points)


def test_the_narrowest_noise_and_three_points_are_taken():
    assert correction_distribution(0.1, method="nnls").sigma == 0.1
    assert len(correction_distribution(1.0, method="ridge", points=3).atoms) <= 3


@pytest.mark.parametrize("sigma", [0.5, 1.0, 1.3])
def test_the_ridge_by_its_equation(sigma):
    """(M'M + lambda I)^-1 M'v on 101 points of [-20, 20]; negative weights are 0, and the others add up to 1."""
    found = correction_distribution(sigma, method="ridge", regularisation=10.0, points=101)
    grid = np.linspace(-20.0, 20.0, 101)
    M = ndtr((grid[:, None] - grid) / sigma)
    weights = np.maximum(np.linalg.solve(M.T @ M + 10.0 * np.eye(101), M.T @ expit(grid)), 0.0)
    keep = weights > 1e-12
    np.testing.assert_allclose(found.atoms, grid[keep], atol=1e-12)
    np.testing.assert_allclose(found.weights, weights[keep] / weights[keep].sum(), rtol=1e-9)
