"""Where a look decides: ties, terms without spread, ranges of 0, bounds that are just attained."""

import itertools
import math

import numpy as np
import pytest

from approxmcmc.acceptance import BernsteinTest, MinibatchBarker, SequentialTTest
from approxmcmc.engine.terms import moments
from approxmcmc.engine.terms.term_table import table_of_terms, write_pair
from tests.decisions import Population, decide_once, evidence_of
from tests.planting import plain

EQUAL = np.full(6, 0.5)
BY_BOUNDS = [SequentialTTest(0.2, 2), BernsteinTest(0.5, 2, 1.0), BernsteinTest(0.5, 2, 1.0, range="observed")]


@pytest.mark.parametrize("test", BY_BOUNDS, ids=repr)
@pytest.mark.parametrize(("threshold", "answer", "read"), [(2.75, 1, 2), (3.0, 0, 6), (3.25, 0, 2)])
def test_terms_without_spread_decide_at_once_but_for_a_tie(test, threshold, answer, read):
    """Also where their range is known to be 0: the bound is 0 there, and nothing lies further apart."""
    found = decide_once(test, EQUAL, threshold, 0.0)
    booked = {"decisions_made": 1, "decision_rounds": read // 2, "datapoints_touched": read}
    assert found == (answer, 3.0, booked | {"likelihood_evaluations": 2 * read}, {})


def threshold_form(test, terms, seed=0):
    """Return the number with which log u, or logit u, is compared, over the terms in the order of this seed."""
    part, table = test.build_test(Population(EQUAL)), table_of_terms(len(terms), 1)
    write_pair(table, np.zeros(1), np.ones(1), terms)
    return plain(part.threshold_form)(np.random.default_rng(seed), table, 0.25, part.make_state())


@pytest.mark.parametrize("test", [*BY_BOUNDS, MinibatchBarker(batch_size=2)], ids=repr)
class TestTheThresholdForm:
    def test_terms_without_spread_are_known_at_once(self, test):
        tells_all = 0.25 + 3.0 if test.rule == "metropolis" else 3.25
        assert threshold_form(test, EQUAL) == pytest.approx(tells_all, abs=0.1 * (test.rule == "barker"))

    @pytest.mark.parametrize(("term", "expected"), [(-math.inf, -math.inf), (math.nan, math.nan)])
    def test_terms_that_are_no_numbers(self, test, term, expected):
        """Data of probability 0 are refused by every u; else there is no answer."""
        np.testing.assert_equal(threshold_form(test, np.full(6, term)), expected)


class TestRanges:
    def test_terms_may_lie_as_far_apart_as_they_are_said_to(self):
        """But for rounding, of which there is more than 1e-16 and less than 1e-6."""
        terms = np.array([0.0, 1.0, 0.0, 1.0, 0.0, 1.0])
        for largest, violations in ((1.0, 0), (1.0 - 1e-10, 0), (1.0 - 1e-8, 1), (0.5, 1)):
            *_, counts, _ = decide_once(BernsteinTest(0.9, 2, 1.0, range=largest), terms, 0.0, 0.0)
            assert (counts.get("range_violations", 0), counts["datapoints_touched"]) == (violations, 6)


def test_a_tolerance_that_is_just_attained_is_enough():
    """N s after two of six terms: by the tolerance it stops, however little is known of the sign."""
    terms = np.array([-0.1, 0.2, 5.0, -5.0, 0.3, -0.2])
    seen = evidence_of(terms).moments
    plain(moments.reset)(seen)
    plain(moments.merge)(seen, terms[:2].copy(), 2)
    attained = 6 * plain(moments.standard_error)(seen, 2, 6)
    for tol, stops, read in ((attained, 1, 2), (np.nextafter(attained, 0.0), 0, 6)):
        *_, counts, _ = decide_once(SequentialTTest(1e-4, 2, tol=tol), terms, 0.0, 0.0)
        assert (counts.get("tolerance_stops", 0), counts["datapoints_touched"]) == (stops, read)


def test_by_its_tolerance_the_threshold_form_knows_the_mean_of_what_was_read():
    """The first two of six terms that lie close together: N s is at most 0.13, and no sign is clear at 1e-4."""
    terms = 0.1 + 0.01 * np.arange(6.0)
    pairs = {round(0.25 + 3.0 * (a + b), 9) for a, b in itertools.combinations(terms, 2)}
    found = {round(threshold_form(SequentialTTest(1e-4, 2, tol=0.5), terms, seed), 9) for seed in range(20)}
    assert found <= pairs and len(found) > 3


def test_the_heaviest_term_is_measured_in_units_of_the_spread():
    """Of 0, 0 and 0.3 the last lies 0.2 from the mean; s_l sqrt(3) is 0.3."""
    *_, values = decide_once(SequentialTTest(0.5, 3), np.array([0.0, 0.0, 0.3, 0.5, 0.2, -0.1]), 0.0, 0.0)
    assert values == {"max_term_ratio": pytest.approx(2.0 / 3.0)}
