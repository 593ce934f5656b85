"""One decision by hand: what a test answers, counts and writes on a few terms, and where a term is no number."""

import math

import numpy as np
import pytest

from approxmcmc.acceptance import BernsteinTest, MinibatchBarker, SequentialTTest
from approxmcmc.acceptance.delayed import DelayedState, make_decide
from approxmcmc.acceptance.thinning import ThinningState, make_decide as thinned
from approxmcmc.contracts import COUNT_NAMES
from approxmcmc.contracts.records import AUDIT_ERROR, BLANK_VALUES, EXPECTED_READS, SKEWNESS, SKEWNESS_RATIO
from approxmcmc.engine.terms.batches import CERTAIN, IMPOSSIBLE, UNDEFINED
from approxmcmc.engine.terms.evidence import merge_differences
from approxmcmc.engine.terms.order import read_differences
from tests.decisions import Population, decide_once, evidence_of, read_without_drawing
from tests.planting import plain

UNKNOWN = pytest.approx(math.nan, nan_ok=True)  # the log ratio where a density is undefined

TERMS = np.array([0.0, 0.0, 0.3, 0.5, 0.2, -0.1])
NO_NUMBERS = [(UNDEFINED, -1, UNKNOWN), (IMPOSSIBLE, 0, -math.inf), (CERTAIN, 1, math.inf)]
BY_LOOKS = [SequentialTTest(0.2, 2), BernsteinTest(0.9, 2, 1.0), MinibatchBarker(batch_size=2)]


def booked(looks, read, **more):
    """Return what a decision of so many looks counts."""
    counts = {"decisions_made": 1, "decision_rounds": looks, "datapoints_touched": read}
    return counts | {"likelihood_evaluations": 2 * read} | more


@pytest.mark.parametrize("test", BY_LOOKS, ids=lambda test: type(test).__name__)
@pytest.mark.parametrize(("outcome", "answer", "log_ratio"), NO_NUMBERS)
def test_a_term_that_is_no_number_answers_at_once(test, outcome, answer, log_ratio):
    found = decide_once(test, TERMS, 0.0, 0.0, outcome=outcome)
    assert found == (answer, log_ratio, {"decisions_made": 1, "decision_rounds": 1}, {})


class TestBarker:
    """Three of six terms have mean 0.1, M_2 = 0.06 and M_3 = 0.006; s^2 = 36 (0.06 / 2) / 3 (1 - 3 / 6) = 0.18."""

    def test_it_stops_where_the_variance_is_small_and_writes_what_it_saw(self):
        test = MinibatchBarker(batch_size=3)
        _, log_odds, *written = decide_once(test, TERMS, 0.0, 0.4)
        assert log_odds == pytest.approx(0.4 + 6.0 * 0.1, abs=0.05)  # all noise together is nearly logistic
        values = {"log_ratio_variance": 0.18, "term_skewness": 0.5**0.5, "skewness_ratio": 6.0**-0.5}
        assert written == [booked(1, 3), pytest.approx(values)]
        for threshold, answer in ((log_odds - 1e-9, 1), (log_odds, 0), (log_odds + 1e-9, 0)):
            assert decide_once(test, TERMS, threshold, 0.4)[:2] == (answer, log_odds)

    @pytest.mark.thorough
    def test_the_variance_must_be_below_its_target(self):
        for target_variance, read in ((0.18 + 1e-9, 3), (0.18 - 1e-9, 6)):
            assert decide_once(MinibatchBarker(target_variance, 3), TERMS, 0.0, 0.0)[2] == booked(read // 3, read)

    def test_on_all_data_it_is_barkers_rule(self):
        _, log_odds, counts, values = decide_once(MinibatchBarker(batch_size=4, max_error=1e-9), TERMS, 0.0, 0.4)
        assert log_odds == pytest.approx(0.4 + 0.9, rel=1e-14) and counts == booked(2, 6)
        skewness = np.mean((TERMS - 0.15) ** 3) / np.var(TERMS) ** 1.5
        assert values == {"term_skewness": pytest.approx(skewness)}  # and a variance of 0

    def test_the_largest_skewness_of_a_draw_is_kept(self):
        """Of its decisions the second sees symmetric terms."""
        part = MinibatchBarker(batch_size=3).build_test(Population(TERMS))
        decide = plain(part.decide, {read_differences: read_without_drawing})
        count, value = np.zeros(len(COUNT_NAMES), np.int64), BLANK_VALUES.copy()
        for terms in (TERMS, np.array([-0.1, 0.0, 0.1, 0.0, 0.0, 0.0])):
            decide(None, evidence_of(terms), 0.0, 0.0, part.make_state(), count, value)
        assert value[SKEWNESS] == 0.0 and value[SKEWNESS_RATIO] == pytest.approx(6.0**-0.5)

    @pytest.mark.thorough
    @pytest.mark.parametrize("batch_size", [2, 3, 6])
    def test_an_audit_answers_by_all_terms(self, batch_size, rng):
        """And tells what minibatches err by: nothing where they are all data."""
        part, value = MinibatchBarker(0.01, batch_size).build_test(Population(TERMS)), BLANK_VALUES.copy()
        audit = plain(part.audit)
        for threshold, answer in ((1.3 - 1e-9, 1), (1.3 + 1e-9, 0)):
            assert audit(rng, evidence_of(TERMS), threshold, 0.4, part.make_state(), value) == answer
            assert abs(value[AUDIT_ERROR]) < (1e-6 if batch_size == 6 else 0.1)

    @pytest.mark.parametrize(("outcome", "answer", "_"), NO_NUMBERS)
    def test_an_audit_of_a_term_that_is_no_number(self, outcome, answer, _):
        part = MinibatchBarker(batch_size=3).build_test(Population(TERMS))
        audit, value = plain(part.audit, {merge_differences: lambda *_: outcome}), BLANK_VALUES.copy()
        assert audit(None, evidence_of(TERMS), 0.0, 0.0, part.make_state(), value) == answer
        np.testing.assert_array_equal(value, BLANK_VALUES)


class TestPoissonCounts:
    """Rows are dearer than all terms: those at theta are added up once, and kept with the state."""

    @staticmethod
    def decide(terms, threshold, log_rest, *, kept):
        unread = dict.fromkeys(("numbers", "classes", "rows", "rates", "terms"))
        known = np.array([kept])
        state = ThinningState(lambda *_: math.inf, total=6.0, chi=0.0, most_reads=1.2, log_likelihood=known, **unread)
        count, value = np.zeros(len(COUNT_NAMES), np.int64), BLANK_VALUES.copy()
        found = plain(thinned(lambda *_: math.nan))(None, evidence_of(terms), threshold, log_rest, state, count, value)
        counted = {name: int(number) for name, number in zip(COUNT_NAMES, count, strict=True) if number}
        assert value[EXPECTED_READS] == 6
        return *found, counted, state.log_likelihood[0]

    def test_all_terms_are_added_up(self):
        for kept, evaluated in ((math.nan, 12), (0.0, 6)):
            counted = booked(1, 6, likelihood_evaluations=evaluated)
            for threshold, answer, left in ((1.3 - 1e-9, 1, 0.9), (1.3 + 1e-9, 0, 0.0)):
                found = self.decide(TERMS, threshold, 0.4, kept=kept)
                assert found == (answer, pytest.approx(1.3), counted, pytest.approx(left))

    @pytest.mark.parametrize("term", [math.nan, math.inf])
    def test_a_sum_that_is_no_number_is_no_answer(self, term):
        assert self.decide(np.append(TERMS[:5], term), 0.0, 0.0, kept=0.0)[:2] == (-1, UNKNOWN)


@pytest.mark.parametrize(
    ("threshold", "answer", "log_ratio", "expected"),
    [
        (0.3, 1, 0.7, (0, -math.inf)),  # not below log_rest: the second stage is not asked
        (0.2, 1, 0.7, (1, 0.0)),
        (0.2, 0, -0.7, (0, -0.7)),
        (0.2, 0, -math.inf, (0, -math.inf)),
        (0.2, -1, 0.7, (-1, -math.inf)),
    ],
)
def test_delayed_acceptance_asks_the_second_stage_after_the_first(threshold, answer, log_ratio, expected):
    asked, count = [], np.zeros(len(COUNT_NAMES), np.int64)

    def second(*arguments):
        asked.append(arguments[2:5])
        return answer, log_ratio

    decide = plain(make_decide(second, lambda rng: -1.5, lambda ratio: math.exp(min(ratio, 0.0))))
    answered, said = decide(None, None, threshold, 0.3, DelayedState("state"), count, None)
    assert (answered, said) == (expected[0], pytest.approx(expected[1]))
    passed = threshold < 0.3
    assert asked == [(-1.5, 0.0, "state")] * passed  # a threshold of its own, and the terms alone
    assert count.tolist() == [0, 0, int(not passed)] + [0] * (len(COUNT_NAMES) - 3)  # the second stage counts itself
