"""All ways to draw the looks of a test."""

import itertools
import math

import numpy as np
import pytest

from approxmcmc.acceptance.laws.probability import mean_over_orders, number_of_orders, orders


@pytest.mark.parametrize(("looks", "ways"), [([4], 1), ([2, 4], 6), ([1, 3, 6], 60), ([1, 2, 3, 4], 24)])
def test_every_way_to_draw_the_looks_comes_once(looks, ways):
    """Those of all orders of the data, each look sorted."""
    found = list(orders(np.array(looks)))
    assert len(found) == len(set(found)) == ways == round(number_of_orders(np.array(looks)))
    cuts = list(itertools.pairwise([0, *looks]))
    expected = {tuple(tuple(sorted(p[a:b])) for a, b in cuts) for p in itertools.permutations(range(looks[-1]))}
    assert set(found) == expected


def test_the_mean_over_them():
    first = mean_over_orders(np.array([2, 4]), lambda order: np.array([order[0][0], 1.0]))
    assert first.tolist() == [pytest.approx(4 / 6), 1.0]  # the smaller of two of 0 to 3: 0, 0, 0, 1, 1, 2


def test_too_many_to_count_are_infinitely_many():
    assert number_of_orders(np.arange(1, 1001)) == math.inf
    assert number_of_orders(np.array([500, 1000])) == pytest.approx(math.comb(1000, 500))
