"""Thresholds and probabilities of the two rules, and the one decision with its rule for undefined densities."""

import math
import types

import pytest
from scipy.special import expit

from approxmcmc.acceptance.metropolis import ACCEPT, REJECT, UNDECIDED, decision_on, log_ratio_of
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


INF = math.inf


@pytest.mark.parametrize("rest", [0.5, INF, -INF, math.nan])
@pytest.mark.parametrize("here", [-2.0, -INF, math.nan])
def test_a_proposal_of_density_zero_is_rejected_whatever_the_rest(rest, here):
    assert plain(log_ratio_of)(rest, here, -INF) == -INF
    assert plain(decision_on)(-0.7, -INF) == REJECT


@pytest.mark.parametrize(
    ("rest", "here", "there"),
    [
        *((rest, here, INF) for rest in (0.5, INF, -INF) for here in (-2.0, -INF)),
        (math.nan, -2.0, -1.0),
        (0.5, math.nan, -1.0),
        (0.5, -2.0, math.nan),
        (-INF, -INF, -1.0),
    ],
)
def test_an_undefined_ratio_is_neither_accepted_nor_rejected(rest, here, there):
    """A comparison with NaN is False: it would reject without a word."""
    assert math.isnan(plain(log_ratio_of)(rest, here, there))
    assert plain(decision_on)(-0.7, math.nan) == UNDECIDED


@pytest.mark.parametrize(("here", "answer"), [(-1.3, ACCEPT), (-0.7, REJECT), (-INF, ACCEPT)])
def test_a_defined_ratio_is_compared_with_the_threshold(here, answer):
    """From a state of density 0 any other state is accepted; a ratio equal to the threshold is not."""
    log_ratio = plain(log_ratio_of)(0.25, here, -1.65)
    assert log_ratio == 0.25 + (-1.65 - here)
    assert plain(decision_on)(-0.7, log_ratio) == answer


def test_a_ratio_equal_to_the_threshold_is_rejected():
    assert plain(decision_on)(-0.7, -0.7) == REJECT
