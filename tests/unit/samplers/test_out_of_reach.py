"""Which proposals are out of reach: the bisection on the way to them, look by look."""

import math

import numpy as np
import pytest

from approxmcmc.samplers.metropolis_hastings.program import BISECTIONS, OUT_OF_REACH, looks_to_reject


def looked_at(log_density, proposed=3.0):
    """Return the answer and where it looked, as shares of the way from theta = 1."""
    looks = []

    def at(theta):
        looks.append((theta[0] - 1.0) / 2.0)
        return log_density(looks[-1])

    answer = looks_to_reject(at, np.ones(1), np.array([proposed]))
    assert answer in (0, len(looks))
    return answer > 0, looks


def test_out_of_reach_is_where_a_density_is_no_double_any_more():
    """exp(-745) is the smallest positive one."""
    assert math.exp(-OUT_OF_REACH) > 0.0 == math.exp(-OUT_OF_REACH - 1.0)


@pytest.mark.parametrize("nothing", [math.nan, math.inf])
def test_a_way_that_ends_without_a_fall_is_bisected(nothing):
    answer, looks = looked_at(lambda s: -5.0 if s <= 0.3 else nothing)
    assert not answer and looks[:5] == [0.0, 1.0, 0.5, 0.25, 0.375] and len(looks) == 1 + BISECTIONS
    assert looks[-1] == pytest.approx(0.3, abs=1e-12)


@pytest.mark.parametrize(("depth", "answer"), [(OUT_OF_REACH + 1e-6, True), (OUT_OF_REACH, False)])
def test_a_fall_before_the_end_puts_it_out_of_reach(depth, answer):
    def fallen(s):
        return -5.0 if s == 0.0 else math.nan if s > 0.2 else -5.0 - depth

    found, looks = looked_at(fallen)
    assert found is answer and looks[:5] == [0.0, 1.0, 0.5, 0.25, 0.125]


def test_a_place_with_a_density_is_in_reach_at_once():
    assert looked_at(lambda s: -5.0) == (False, [0.0, 1.0])
    assert looked_at(lambda s: -5.0, math.nan) == (False, [])
    assert looked_at(lambda s: -5.0 - 2.0 * OUT_OF_REACH * s) == (True, [0.0, 1.0])
