"""Edges of acceptance tests: what one decision books, settings just inside their limits, factors by the formula."""

import math

import numpy as np
import pytest

from approxmcmc.acceptance import AnnealedEpsilon, BernsteinTest, SequentialTTest
from approxmcmc.acceptance.bernstein import bound_factors, half_width
from approxmcmc.contracts.records import BLANK_VALUES, COUNT_NAMES
from approxmcmc.engine.terms.moments import reset
from approxmcmc.errors import InvalidInputError
from tests.decisions import Population, decide_once, evidence_of, read_without_drawing
from tests.fakes import fake_trace
from tests.planting import plain


class Rows(Population):
    """Terms of one posterior: its log-likelihood can be kept."""

    same_terms = True


class TestAnnealed:
    PART = AnnealedEpsilon((0.1, 0.0), steps=(5,), untested=1, test=SequentialTTest(0.2, 2)).build_test(
        Rows(np.array([1.0, 2.0, 3.0]))
    )

    def in_the_exact_epoch(self, terms, threshold=0.0, kept=None):
        """Return decision, log ratio and what was booked."""
        state, count = self.PART.state_at(8), np.zeros(len(COUNT_NAMES), np.int64)
        if kept is not None:
            state.log_likelihood[0] = kept
        evidence = evidence_of(np.asarray(terms))
        found = plain(self.PART.decide)(None, evidence, threshold, 0.25, state, count, BLANK_VALUES.copy())
        return *found, {name: int(n) for name, n in zip(COUNT_NAMES, count, strict=True) if n}

    def test_a_decision_on_all_data_is_one_and_reads_them_once(self):
        """Twice at the first: the log-likelihood at the current state is not known yet."""
        booked = {"datapoints_touched": 3, "likelihood_evaluations": 6, "decisions_made": 1, "decision_rounds": 1}
        assert self.in_the_exact_epoch([1.0, 2.0, 3.0]) == (1, 6.25, booked)
        assert self.in_the_exact_epoch([1.0, 2.0, 3.0], kept=0.0)[2] == booked | {"likelihood_evaluations": 3}

    @pytest.mark.parametrize(("kept", "threshold"), [(0.0, -math.inf), (-math.inf, 0.0)])
    def test_data_of_probability_0_are_refused(self, kept, threshold):
        assert self.in_the_exact_epoch([1.0, -math.inf, 3.0], threshold, kept)[:2] == (0, -math.inf)

    def test_an_infinite_density_is_undefined(self):
        assert self.in_the_exact_epoch([1.0, math.inf, 3.0], kept=0.0)[:2] == (-1, 0.0)

    def test_the_last_untested_step_goes_anywhere(self):
        state = self.PART.state_at(0)
        assert state.untested[0] == 1
        form = plain(self.PART.threshold_form)
        assert form(None, evidence_of(np.zeros(3)), 0.0, state) == math.inf

    def test_settings_at_their_limits(self):
        test = AnnealedEpsilon((0.5, 0.5, 0.0), steps=(1, 1), untested=3.0)
        assert test.untested == 3 and test.steps == (1, 1)
        with pytest.raises(InvalidInputError, match="positive"):
            AnnealedEpsilon((0.5, 0.0), steps=(0,))


class TestBernstein:
    @pytest.mark.parametrize("delta", [0.01, 0.3])
    def test_serflings_factor_on_both_sides_of_half_the_data(self, delta):
        """Equation 5 of Bardenet and Maillard (2015) has the better of two factors: they meet about N / 2."""
        looks = np.array([2, 49, 50, 51, 99, 100])
        spread, _ = bound_factors(looks, delta, 2.0, "serfling")
        for j, n in enumerate(looks.tolist()):
            spent = delta / (2.0 * (j + 1) ** 2)
            rho = 1.0 - (n - 1) / 100 if n <= 50 else (1.0 - n / 100) * (1.0 + 1.0 / n)
            assert spread[j] == pytest.approx(math.sqrt(2.0 * rho * math.log(5.0 / spent) / n), rel=1e-12)

    def test_settings_at_their_limits(self):
        assert BernsteinTest(0.1, 2).batch_size == 2
        with pytest.raises(InvalidInputError, match="finite"):
            BernsteinTest(0.1, p=math.inf)
        with pytest.raises(InvalidInputError, match="batch_size"):
            BernsteinTest(0.1, 1)

    def test_terms_of_no_range_are_decided_at_the_first_look(self):
        """All alike, and known to be so: the mean of two is that of all."""
        decision, log_ratio, booked, _ = decide_once(BernsteinTest(0.1, 2), np.full(8, 0.5), 0.0, 0.0)
        assert (decision, log_ratio, booked["datapoints_touched"]) == (1, 4.0, 2)
        assert "range_violations" not in booked

    @pytest.mark.parametrize(("told", "width"), [(0.0, 0.0), (1e-9, math.inf)])
    def test_the_form_decides_at_once_without_a_range_and_never_beyond_it(self, told, width):
        """Terms that are told to be alike, and are so or not."""
        part = BernsteinTest(0.1, 2).build_test(Population(np.full(8, 0.5)))
        evidence, count = evidence_of(0.5 + told * np.arange(8)), np.zeros(len(COUNT_NAMES), np.int64)
        plain(reset)(evidence.moments)
        read_without_drawing(None, evidence, 0, 2, count)
        assert plain(half_width)(evidence, part.make_state(), 0, 2) == width

    def test_a_distance_on_the_boundary_is_read_on(self):
        """Terms of no range that are 0: distance and boundary are both 0."""
        _, _, booked, _ = decide_once(BernsteinTest(0.1, 2), np.zeros(8), 0.0, 0.0)
        assert booked["datapoints_touched"] == 8

    def test_one_violation_is_a_finding_above_a_limit_of_0(self):
        counts = {"range_violations": np.ones((2, 5), int), "decisions_made": np.ones((2, 5), int)}
        trace = fake_trace(np.zeros((2, 5)), stats=counts)
        [finding] = BernsteinTest(0.1).problems(trace["sample_stats"].dataset)
        assert (finding.value, finding.limit) == (10, 0.0)
