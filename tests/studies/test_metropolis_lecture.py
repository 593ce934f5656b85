"""What the lecture's study computes, against closed forms and enumeration."""

import math

import numpy as np
import pytest

import approxmcmc as amc
from studies.metropolis_lecture import best_scale, single_site_acceptance, walk_rates


@pytest.mark.parametrize("scale", [0.3, 2.4, 30.0])
def test_acceptance_in_one_dimension_is_an_arctangent(scale):
    """E 2 Phi(-s |z| / 2) = (2 / pi) arctan(2 / s)."""
    assert walk_rates(scale, 1)[0] == pytest.approx(2.0 / math.pi * math.atan(2.0 / scale), rel=1e-6)


def test_rates_in_four_dimensions_are_those_of_draws(rng):
    """400 000 independent steps; |z| < 5 fails by chance once in 10^6, and an error of 2 % is seen."""
    scale, n = 1.2, 400_000
    x, z = rng.standard_normal((2, n, 4))
    accepted = np.exp(np.minimum(0.0, -scale * (x * z).sum(axis=1) - 0.5 * scale**2 * (z**2).sum(axis=1)))
    jump = scale**2 * (z**2).sum(axis=1) * accepted
    for found, true in zip((accepted, jump), walk_rates(scale, 4), strict=True):
        assert abs(found.mean() - true) < 5.0 * found.std() / math.sqrt(n)
        assert abs(found.mean() - 1.02 * true) > 5.0 * found.std() / math.sqrt(n)


def test_the_best_rate_falls_from_44_to_23_per_cent():
    rates = [walk_rates(best_scale(dim), dim)[0] for dim in (1, 2, 10, 100)]
    assert rates[0] == pytest.approx(0.44, abs=0.005) and rates[-1] == pytest.approx(0.234, abs=0.005)
    assert (np.diff(rates) < 0.0).all()


def test_gibbs_is_metropolis_hastings_that_always_accepts():
    network = amc.targets.alarm_network()
    joint = np.exp(network.log_joint - network.log_normalizer())
    gibbs, flips = (single_site_acceptance(joint, proposal) for proposal in ("conditional", "flip"))
    assert gibbs.size == flips.size == 5 * 2**5
    np.testing.assert_allclose(gibbs, 1.0, rtol=1e-12)
    assert flips.min() < 1e-3 and flips.mean() < 0.6
