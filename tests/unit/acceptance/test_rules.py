"""Thresholds and probabilities of the two rules, number by number."""

import math
import types

import pytest
from scipy.special import expit

from approxmcmc.acceptance.rules import BARKER, METROPOLIS, MIRRORS
from tests.planting import plain


@pytest.mark.parametrize("log_ratio", [-math.inf, -800.0, -1.3, -1e-9, 0.0, 0.4, 800.0, math.inf])
def test_the_probability_that_the_threshold_is_exceeded(log_ratio):
    assert plain(METROPOLIS.probability)(log_ratio) == pytest.approx(math.exp(min(log_ratio, 0.0)), rel=1e-15)
    assert plain(BARKER.probability)(log_ratio) == pytest.approx(float(expit(log_ratio)), rel=1e-14)


@pytest.mark.parametrize("u", [1e-200, 1e-13, 0.3, 0.5, 1.0 - 1e-9])
def test_both_rules_draw_one_u(u):
    rng = types.SimpleNamespace(standard_exponential=lambda: -math.log(u))
    assert plain(METROPOLIS.threshold)(rng) == pytest.approx(math.log(u), rel=1e-15)
    assert plain(BARKER.threshold)(rng) == pytest.approx(math.log(u) - math.log1p(-u), rel=1e-6)


@pytest.mark.parametrize("u", [1e-200, 0.3, 0.5, 0.9])
def test_the_mirror_of_a_threshold_is_that_of_one_minus_u(u):
    assert plain(MIRRORS["metropolis"])(math.log(u)) == pytest.approx(math.log1p(-u), abs=1e-14)
    assert plain(MIRRORS["barker"])(math.log(u / (1.0 - u))) == pytest.approx(math.log((1.0 - u) / u))


def test_the_mirror_of_a_u_of_one_is_the_smallest_double():
    assert plain(MIRRORS["metropolis"])(0.0) == math.log(5e-324)
