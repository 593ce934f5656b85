"""The sequential t-test on populations small enough to enumerate."""

import math

import numpy as np
import pytest

from approxmcmc.acceptance import SequentialTTest, sequential_t
from approxmcmc.acceptance.laws.probability import threshold_at
from approxmcmc.engine.terms import moments
from approxmcmc.errors import InvalidInputError
from tests.decisions import decide_once, evidence_of, in_all_orders, read_without_drawing
from tests.models import normal_mean
from tests.planting import plain

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
    rest = np.array([-16.5])
    law = SequentialTTest(0.0, 2, tol=100.0).enumerated_probability(TERMS[None], rest, "metropolis")
    assert law == pytest.approx(math.exp(-0.5))  # of all terms; two of them would say other things


def test_a_strict_early_boundary_reads_on():
    """At mu_0 = 2.5 the pairs have t = -2.83 (1 and 2), 1.62 (3 and 10) and less; the critical value of .2 is 1.376.

    A boundary of shape 0 is sqrt(2) times as high after half of the terms, 1.946, so that 3 and 10 read on.
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


def booked(looks, read, **more):
    """Return what a decision of so many looks counts."""
    counts = {"decisions_made": 1, "decision_rounds": looks, "datapoints_touched": read}
    return counts | {"likelihood_evaluations": 2 * read} | more


def test_one_decision_and_what_it_writes():
    """Two looks of two terms: 1 and 2 have mean 1.5, s_l = sqrt(1/2) and s = 0.354, and deviate by 0.5 = s_l / sqrt(2).

    Lambda is -0.5 + 4 lbar, threshold and c enter by their difference alone.
    """
    test = SequentialTTest(0.2, 2)  # critical value 1.376: mu_0 must be 0.487 away from 1.5
    early, ratio = booked(1, 2), {"max_term_ratio": pytest.approx(0.5)}
    assert decide_once(test, TERMS, 4.0 * 1.0 - 0.5, -0.5) == (1, 5.5, early, ratio)
    assert decide_once(test, TERMS, 4.0 * 2.0 - 0.5, -0.5) == (0, 5.5, early, ratio)
    assert decide_once(test, TERMS, 4.0 * 1.1 - 0.5, -0.5) == (1, 15.5, booked(2, 4), {})
    loose = SequentialTTest(1e-9, 2, tol=1.5)
    assert decide_once(loose, TERMS, 4.0 * 1.2, 0.0) == (1, 6.0, booked(1, 2, tolerance_stops=1), ratio)
    tight = SequentialTTest(1e-9, 2, tol=0.9)
    close = np.array([1.0, 1.5, 3.0, 10.0])  # N s = sqrt(2) / 2
    assert decide_once(tight, close, 4.0 * 1.0, 0.0)[:3] == (1, 5.0, booked(1, 2, tolerance_stops=1))


@pytest.mark.thorough
@pytest.mark.parametrize(("tol", "rule"), [(0.0, "barker"), (0.9, "metropolis")])
def test_enumeration_is_the_mean_of_the_decisions_over_orders_and_u(tol, rule):
    """A sum over 50 u's errs by 0.01 at most for each end of an interval of those that accept."""
    test, terms, u = SequentialTTest(0.2, 2, tol=tol), np.array([0.1, -0.2, 0.3, 0.9]), (np.arange(50) + 0.5) / 50
    accepted = [d for t in threshold_at(u, rule) for d, _, _ in in_all_orders(test, terms, t, -0.8)]
    [found] = test.enumerated_probability(terms[None], np.array([-0.8]), rule)
    assert found == pytest.approx(np.mean(accepted), abs=0.01)
    [exact] = SequentialTTest(0.0, 2).enumerated_probability(terms[None], np.array([-0.8]), rule)
    assert abs(found - exact) > 0.02  # it errs: the agreement says something


def test_the_half_width_of_a_look():
    """G s at a look that decides, 0 where the tolerance stops, infinite where nothing does before the end."""
    evidence, count = evidence_of(TERMS), np.zeros(64, np.int64)
    half_width, reset = plain(sequential_t.half_width), plain(moments.reset)
    reset(evidence.moments)
    read_without_drawing(None, evidence, 0, 2, count)
    s = math.sqrt(0.5) / math.sqrt(2.0) * math.sqrt(0.5)
    for settings, expected in [
        ({"epsilon": 0.2}, 1.3763819 * s),
        ({"epsilon": 0.2, "tol": 4.0 * s - 1e-9}, 1.3763819 * s),
        ({"epsilon": 0.2, "tol": 4.0 * s}, 0.0),
        ({"epsilon": 0.0, "tol": 100.0}, math.inf),
    ]:
        state = SequentialTTest(batch_size=2, **settings).state_for(4)
        assert half_width(evidence, state, 0, 2) == pytest.approx(expected)
    equal = evidence_of(np.full(4, 2.0))
    reset(equal.moments)
    read_without_drawing(None, equal, 0, 2, count)
    assert half_width(equal, SequentialTTest(0.0, 2).state_for(4), 0, 2) == math.inf  # not inf * 0


def test_settings_and_what_follows_from_them():
    assert SequentialTTest() == SequentialTTest(0.01, 500, 1.0, 0.0, 0.5, "auto")
    for tol in (-1e-9, math.inf, math.nan):
        with pytest.raises(InvalidInputError, match="tol must be finite and at least 0"):
            SequentialTTest(tol=tol)
    assert (
        SequentialTTest(0.0).reads_all(2000)
        and not SequentialTTest(1e-9).reads_all(2000)
        and SequentialTTest().only_compares
    )
    state = SequentialTTest(0.1, 2, tol=0.3).state_for(5)
    assert (state.looks.tolist(), state.critical[-1], state.tol) == ([2, 4, 5], 0.0, 0.3)
    plain, tolerant = (SequentialTTest(tol=tol).build_test(normal_mean(20)).records for tol in (0.0, 0.5))
    assert plain == ("max_term_ratio", "audited_mu_std") and tolerant == (*plain, "tolerance_stops")


def test_the_looks_of_a_given_error_are_those_that_were_asked_for():
    settings = {"batch_size": 500, "growth": 1.0, "boundary_shape": 0.5}
    usual = SequentialTTest.from_type_one_error(0.1, n_obs=1200)
    assert usual == SequentialTTest.from_type_one_error(0.1, n_obs=1200, **settings)
    assert usual == SequentialTTest(usual.epsilon, **settings)


def test_where_the_law_is_known():
    exact_law, tolerant = SequentialTTest(0.1, 2), SequentialTTest(0.1, 2, tol=0.5)
    assert exact_law.why_law_unknown("gaussian") == exact_law.why_law_unknown("enumerate") == ""
    assert tolerant.why_law_unknown("enumerate") == ""
    assert "does not cover stops by tolerance" in tolerant.why_law_unknown("gaussian")
    assert tolerant.decision_law(np.zeros(1), 4) is None and exact_law.decision_law(np.zeros(1), 4) is not None


def test_enumerated_acceptance_of_several_pairs():
    pairs, c = np.array([[0.1, -0.2, 0.3, -0.4], [1.0, 0.5, 0.2, 0.1]]), np.array([0.05, -2.5])
    all_data = SequentialTTest(0.0, 2).enumerated_probability(pairs, c, "metropolis")
    np.testing.assert_allclose(all_data, np.exp(np.minimum(pairs.sum(axis=1) + c, 0.0)))
    early = SequentialTTest(0.3, 2)
    one_by_one = [early.enumerated_probability(pairs[[k]], c[[k]], "metropolis")[0] for k in range(2)]
    np.testing.assert_array_equal(early.enumerated_probability(pairs, c, "metropolis"), one_by_one)
    assert (abs(np.array(one_by_one) - all_data) > 1e-3).all()
