"""The sequential t-test on populations small enough to enumerate."""

import math

import numpy as np
import pytest

from approxmcmc.acceptance import SequentialTTest, sequential_t
from tests.decisions import in_all_orders
from tests.models import normal_mean

TERMS = np.array([1.0, 2.0, 3.0, 10.0])


def outcomes(epsilon: float, mu_0: float, terms: np.ndarray = TERMS, **settings) -> tuple[float, float]:
    """Return P(accept) and E(data read) over all orders of the terms, by the library's own decision function."""
    test = SequentialTTest(epsilon=epsilon, batch_size=2, **settings)
    accepted, _, read = zip(*in_all_orders(test, terms, len(terms) * mu_0, 0.0), strict=True)
    return float(np.mean(accepted)), float(np.mean(read))


@pytest.mark.parametrize(
    ("mu_0", "epsilon", "accept", "read"),
    [(2.5, 0.2, 5 / 6, 10 / 3), (2.5, 0.3, 5 / 6, 8 / 3), (3.9, 0.1, 2 / 3, 10 / 3)],
)
def test_all_24_orders_of_four_terms(mu_0, epsilon, accept, read):
    assert outcomes(epsilon, mu_0) == pytest.approx((accept, read), abs=1e-15)


def test_the_tolerance_stops_where_the_log_ratio_is_known():
    """After two of four terms a and b, N s = sqrt(2) abs(a - b): tol = 3 stops for the pairs 12, 13 and 23 alone.

    Of these only 23, mean 2.5, is above mu_0 = 2.2; the other half of the orders reads all, mean 4.
    """
    assert outcomes(1e-9, 2.2, tol=3.0) == pytest.approx((4 / 6, 3.0), abs=1e-15)
    assert outcomes(1e-9, 2.2, tol=2.0 * math.sqrt(2.0)) == pytest.approx((4 / 6, 3.0), abs=1e-15)  # at most, not below
    assert outcomes(1e-9, 2.2, tol=1.5) == pytest.approx((5 / 6, 20 / 6), abs=1e-15)  # 12 and 23
    assert outcomes(1e-9, 2.2, tol=0.0) == (1.0, 4.0)
    assert outcomes(0.0, 2.2, tol=100.0) == (1.0, 4.0)  # epsilon = 0 is exact whatever tol


def test_a_strict_early_boundary_reads_on():
    """At mu_0 = 2.5 the pairs have t = -2.83 (1 and 2), 1.62 (3 and 10) and less; the critical value of .2 is 1.376.

    A boundary of shape 0 asks for sqrt(2) times as much after half of the terms, 1.946, so that 3 and 10 read on.
    """
    assert outcomes(0.2, 2.5, boundary_shape=0.0) == pytest.approx((5 / 6, 22 / 6), abs=1e-15)
    assert outcomes(0.2, 2.5, boundary_shape=0.3) == pytest.approx((5 / 6, 20 / 6), abs=1e-15)  # 1.581


def test_equal_terms_decide_at_the_first_look():
    """s = 0: the mean differs from mu_0, and no further datum could change that of equal terms."""
    equal = np.full(4, 2.0)
    assert outcomes(0.1, 1.0, equal) == (1.0, 2.0)
    assert outcomes(0.1, 2.0, equal) == (0.0, 4.0)  # mean = mu_0: read on, and reject as the exact test does
    assert outcomes(0.0, 1.0, equal) == (1.0, 4.0)  # epsilon = 0 never stops early


def test_epsilon_one_half_stops_at_the_first_look():
    assert outcomes(0.5, 2.6)[1] == 2.0


def test_a_batch_larger_than_the_population_is_one_look():
    part = SequentialTTest(epsilon=0.1, batch_size=500).build_test(normal_mean(20))
    np.testing.assert_array_equal(part.make_state().looks, [20])


def test_decide_is_the_bound_function():
    """The enumeration above runs the very function that chains run."""
    assert SequentialTTest().build_test(normal_mean(20)).decide is sequential_t.decide
