"""How often the minibatch Barker test accepts: enumeration against its decisions, and the Gaussian regime."""

import numpy as np
import pytest
from scipy.special import expit
from scipy.stats import norm

from approxmcmc.acceptance import MinibatchBarker
from approxmcmc.acceptance.laws.correction import correction_distribution
from tests.decisions import in_all_orders

TERMS = np.array([[0.0, 0.1, 0.35, 0.5, 0.2], [0.3, 0.0, 0.2, 0.4, -0.3]])
LOG_REST = np.array([0.4, -1.1])


@pytest.mark.thorough
@pytest.mark.parametrize(("batch_size", "target_variance"), [(2, 1.0), (3, 0.2), (5, 1.0)])
def test_enumeration_is_the_mean_of_the_decisions_over_all_orders(batch_size, target_variance):
    test = MinibatchBarker(target_variance, batch_size)
    asked = [list(in_all_orders(test, terms, 0.0, rest)) for terms, rest in zip(TERMS, LOG_REST, strict=True)]
    expected = [np.mean([expit(log_odds) for _, log_odds, _ in decisions]) for decisions in asked]
    np.testing.assert_allclose(test.enumerated_probability(TERMS, LOG_REST, "barker"), expected, rtol=1e-12)
    read = {n for decisions in asked for _, _, n in decisions}
    assert read == {2: {2, 4}, 3: {3, 5}, 5: {5}}[batch_size]  # some stop early, some late


def test_in_the_gaussian_regime_the_noise_is_made_up_to_the_correction():
    """At any look Delta* + X_nc has variance sigma^2; the last that leaves something unread is at 40 of 50 data."""
    log_ratio, largest = np.array([-0.7, 0.0, 1.3]), np.sqrt(0.5 / (50 / 40 - 1.0))
    test, correction = MinibatchBarker(0.5, 20), correction_distribution(np.sqrt(0.5))
    smoothed = norm.cdf((log_ratio[:, None] + correction.atoms) / np.sqrt(0.5)) @ correction.weights
    for tau, expected in ((largest * (1.0 - 1e-9), smoothed), (largest * (1.0 + 1e-9), expit(log_ratio))):
        found = test.gaussian_probability(log_ratio, np.full(3, tau), 50, "barker")
        np.testing.assert_allclose(found, expected, rtol=1e-12)
    assert np.abs(smoothed - expit(log_ratio)).max() > 1e-9  # the two can be distinguished
