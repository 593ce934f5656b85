"""The gradient of a prior by differences, in the middle and at the edges of its support."""

import math

import numpy as np
import pytest

from approxmcmc.samplers.noisy.estimated_drift import prior_gradient
from tests.planting import plain


def log_prior(theta):
    """Return an exponential law of rate 3, a triangle on [0, 1], and a point at 5."""
    if theta[0] < 0.0 or not 0.0 <= theta[1] <= 1.0 or theta[2] != 5.0:
        return -math.inf
    return -3.0 * theta[0] + 2.0 * theta[1]


@pytest.mark.parametrize("first", [0.0, 1e-9, 0.7, 1e6])
@pytest.mark.parametrize("second", [0.0, 0.4, 1.0])
def test_differences_are_one_sided_at_the_edge_of_the_support(first, second):
    theta, shifted, out = np.array([first, second, 5.0]), np.empty(3), np.empty(3)
    plain(prior_gradient)(log_prior, theta, shifted, out)
    np.testing.assert_allclose(out, [-3.0, 2.0, 0.0], rtol=1e-4)
    assert shifted.tolist() == theta.tolist()
