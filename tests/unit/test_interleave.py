"""The interval of a median over rounds, by which tests of speed are judged."""

import itertools

import numpy as np
import pytest

from tests.bench.interleave import CONFIDENCE, median, ratio


@pytest.mark.thorough
@pytest.mark.parametrize("rounds", [7, 9, 11])
def test_the_interval_holds_the_median_as_often_as_it_says(rounds):
    """All 2^n ways in which rounds fall below or above the median of their law, equally likely: no chance is left."""
    missed = 0
    for signs in itertools.product((-1.0, 1.0), repeat=rounds):
        found = median(np.array(signs) * np.arange(1, rounds + 1))
        missed += not found.low < 0.0 < found.high
    assert missed / 2**rounds <= 1.0 - CONFIDENCE


def test_one_slow_round_in_five_excludes_no_goal_and_a_lost_factor_does():
    rng = np.random.default_rng(0)
    base = 1.0 + 0.1 * rng.random(15)
    noisy = {"base": base, "fast": 0.3 * base * np.where(np.arange(15) % 5 == 0, 3.0, 1.0), "slow": 0.4 * base}
    assert ratio(noisy, "fast", "base").low < 1 / 3
    assert not ratio(noisy, "slow", "base").low < 1 / 3
