"""Noisy Langevin by the textbook: steps on a 2 x 2 lattice enumerated by hand, prior and covariance not of size 1."""

import math

import numpy as np
import pytest
from scipy.stats import norm

import approxmcmc as amc
from approxmcmc import bounds
from approxmcmc.bounds.noisy_langevin import _distance_of_mixtures
from approxmcmc.errors import InvalidInputError

SPINS = np.array([[1, 1], [1, -1]])
SCALE, VARIANCE = 0.6, 0.02
TARGET = amc.targets.Ising(SPINS, prior_scale=SCALE)
GRID = np.linspace(-1.5, 1.5, 601)


def expectation(theta):
    """Return E[s | theta] of 2 x 2 spins with free edges: 2 states of s = 4, 12 of 0 and 2 of -4."""
    weights = {4.0: 2 * math.exp(4 * theta), 0.0: 12.0, -4.0: 2 * math.exp(-4 * theta)}
    return sum(s * w for s, w in weights.items()) / sum(weights.values())


def moments(matrix, row):
    """Return mean and variance of the step from a point of the grid."""
    mean = matrix[row] @ GRID
    return mean, matrix[row] @ GRID**2 - mean**2


@pytest.mark.parametrize("row", [220, 300, 390])
def test_an_ideal_step_moves_along_the_gradient(row):
    """theta + (Sigma / 2) (s(y) - E[s] - theta / scale^2), with variance Sigma."""
    theta, ideal = GRID[row], bounds.langevin_matrix(TARGET, amc.samplers.NoisyLangevin(VARIANCE), GRID, ideal=True)
    gradient = float(TARGET.observed_statistics[0]) - expectation(theta) - theta / SCALE**2
    mean, variance = moments(ideal, row)
    assert mean == pytest.approx(theta + 0.5 * VARIANCE * gradient, abs=1e-9)
    assert variance == pytest.approx(VARIANCE, rel=1e-6)


def test_a_noisy_step_has_the_same_mean_and_the_variance_of_its_draws():
    theta, n = GRID[390], 3
    noisy = bounds.langevin_matrix(TARGET, amc.samplers.NoisyLangevin(VARIANCE, n), GRID)
    ideal = bounds.langevin_matrix(TARGET, amc.samplers.NoisyLangevin(VARIANCE), GRID, ideal=True)
    total = 12.0 + 4.0 * math.cosh(4 * theta)
    spread = 64.0 * math.cosh(4 * theta) / total - expectation(theta) ** 2  # Var(s)
    assert moments(noisy, 390)[0] == pytest.approx(moments(ideal, 390)[0], abs=1e-9)
    assert moments(noisy, 390)[1] == pytest.approx(VARIANCE + 0.25 * VARIANCE**2 * spread / n, rel=1e-6)


def test_the_covariance_scales_the_step():
    plain, scaled = (
        bounds.noisy_langevin_errors(TARGET, amc.samplers.NoisyLangevin(step, cov=cov), GRID[::100])
        for step, cov in ((VARIANCE, None), (VARIANCE / 4.0, np.array([[4.0]])))
    )
    assert scaled.attrs["variance"] == pytest.approx(VARIANCE) and scaled.attrs["largest_statistic"] == 4.0
    np.testing.assert_allclose(scaled["delta"], plain["delta"], rtol=1e-12)
    lemma = bounds.hoeffding_langevin_bound(amc.samplers.NoisyLangevin(VARIANCE).n_auxiliary, VARIANCE, 4.0)
    assert float(plain["lemma_3_3"]) == pytest.approx(lemma, rel=1e-12)


@pytest.mark.parametrize("shift", [0.3, -1.7, 9.5])
def test_the_distance_of_two_normal_laws(shift):
    """d_v(N(m, 1), N(0, 1)) = 2 Phi(|m| / 2) - 1."""
    found = _distance_of_mixtures(np.array([[shift, 50.0]]), np.array([[1.0, 0.0]]))
    assert found[0] == pytest.approx(2.0 * norm.cdf(abs(shift) / 2.0) - 1.0, abs=2e-4)


def test_the_distance_of_a_lopsided_mixture():
    shifts, law = np.array([[-0.5, 2.0]]), np.array([[0.8, 0.2]])
    x = np.linspace(-9.0, 11.0, 200_001)
    mixture = law[0] @ norm.pdf(x - shifts[0][:, None])
    expected = 0.5 * np.abs(mixture - norm.pdf(x)).sum() * (x[1] - x[0])
    assert _distance_of_mixtures(shifts, law)[0] == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize(("variance", "scale"), [(0.02, 2.0), (0.5, 0.6), (1.2, 0.6)])
def test_the_drift_by_its_formula(variance, scale):
    """r = |1 - Sigma / (2 scale^2)|, L = 1 - r + Sigma S + sqrt(2 Sigma / pi)."""
    rate, constant = bounds.langevin_drift(variance, scale, 24.0)
    assert rate == pytest.approx(abs(1.0 - variance / (2.0 * scale * scale)), rel=1e-14)
    assert constant == pytest.approx(1.0 - rate + 24.0 * variance + math.sqrt(2.0 * variance / math.pi), rel=1e-14)
    assert bounds.langevin_drift(variance, scale, 0.0).constant == pytest.approx(constant - 24.0 * variance)


@pytest.mark.parametrize(
    ("variance", "scale", "largest"),
    [(0.0, 1.0, 1.0), (-0.5, 1.0, 1.0), (0.1, 0.0, 1.0), (0.1, -0.5, 1.0), (0.1, 1.0, -0.5)],
)
def test_a_drift_of_what_is_no_step_is_refused(variance, scale, largest):
    with pytest.raises(InvalidInputError, match="langevin_drift needs"):
        bounds.langevin_drift(variance, scale, largest)


@pytest.mark.parametrize("dim", [1, 3])
def test_lemma_3_3_by_its_formula(dim):
    share = dim * VARIANCE * 16.0 / 20.0
    expected = math.sqrt(0.5 * ((1.0 - share) ** -0.5 - 1.0))
    assert bounds.hoeffding_langevin_bound(10, VARIANCE, 4.0, dim=dim) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize(
    "given", [(0.5, 0.1, 1.0, 1), (0, 0.1, 1.0, 1), (1, 0.1, 0.0, 1), (1, 0.1, -0.5, 1), (1, 0.1, 1.0, 0)]
)
def test_lemma_3_3_of_numbers_that_are_none_is_refused(given):
    *numbers, dim = given
    with pytest.raises(InvalidInputError, match=r"hoeffding_langevin_bound(: n_auxiliary must be an integer| needs)"):
        bounds.hoeffding_langevin_bound(*numbers, dim=dim)
