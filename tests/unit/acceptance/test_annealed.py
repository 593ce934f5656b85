"""What the annealed test does before, in and after its epochs, and how its epochs are planned, in single cases."""

import dataclasses
import math

import numpy as np
import pytest
import xarray as xr

from approxmcmc.acceptance import AnnealedEpsilon, SequentialTTest
from approxmcmc.acceptance.annealing_rule import Ingredients, annealing_schedule, pooled_risk
from approxmcmc.contracts.records import BLANK_VALUES, COUNT_NAMES
from approxmcmc.engine.terms.term_table import table_of_terms, write_pair
from approxmcmc.errors import InvalidInputError
from tests.decisions import Population, evidence_of
from tests.planting import plain

UNKNOWN = pytest.approx(math.nan, nan_ok=True)  # the log ratio where a density is undefined


class Rows(Population):
    """Terms of one posterior: its log-likelihood can be kept."""

    same_terms = True


TERMS = np.array([1.0, 2.0, 3.0])
PART = AnnealedEpsilon((0.1, 0.0), steps=(5,), untested=3, test=SequentialTTest(batch_size=2)).build_test(Rows(TERMS))
EXACT = 8  # the first step of the exact epoch
# Of no bias at 0.01: every epoch is of that epsilon.
KNOWN = Ingredients(np.array([0.0, 0.01]), np.zeros(2), np.array([9.0, 12.6]), np.array([1.0, 0.64]))


def test_findings_are_about_what_was_tested(monkeypatch):
    """Of two chains whose first three draws of seven went untested, and of a run that was over before."""
    monkeypatch.setattr(SequentialTTest, "problems", lambda self, stats: [stats.sizes["draw"]])
    epsilon = np.full((2, 7), 0.1)
    epsilon[:, :3] = math.nan
    stats = xr.Dataset({"epsilon": (("chain", "draw"), epsilon)})
    test = AnnealedEpsilon((0.1, 0.0), steps=(5,), untested=3, test=SequentialTTest(batch_size=2))
    assert test.problems(stats) == [4] and test.problems(stats.isel(draw=slice(3))) == []
    assert dataclasses.replace(test, untested=0).problems(stats) == [7]


@pytest.mark.parametrize(("step", "untested", "decisions"), [(0, 3, 0), (2, 1, 0), (3, 0, 0), (4, 0, 1), (20, 0, 17)])
def test_a_chain_that_goes_on_knows_how_far_it_is(step, untested, decisions):
    state = PART.state_at(step)
    assert (state.untested[0], state.decisions[0]) == (untested, decisions)


def test_the_first_steps_go_untested():
    state = PART.make_state()
    assert [plain(PART.is_tested)(state) for _ in range(5)] == [False, False, False, True, True]


def exact_decision(terms, threshold):
    """Return decision and log ratio of the exact epoch, whose current log-likelihood is 0."""
    state, count = PART.state_at(EXACT), np.zeros(len(COUNT_NAMES), np.int64)
    return plain(PART.decide)(None, evidence_of(terms), threshold, 0.25, state, count, BLANK_VALUES.copy())


@pytest.mark.parametrize(("threshold", "decision"), [(6.2, 1), (6.25, 0), (6.3, 0)])
def test_the_last_epoch_is_exact(threshold, decision):
    assert exact_decision(TERMS, threshold) == (decision, 6.25)


def test_no_answer_where_the_density_is_undefined():
    assert exact_decision(np.array([1.0, math.nan, 3.0]), 0.0) == (-1, UNKNOWN)


def test_epochs_of_one_epsilon_are_one():
    """Budgets of 10, 20 and 40 at a cost of 0.64 a step: 16 + 16 + 31 steps."""
    planned = annealing_schedule(KNOWN, max_doublings=3)
    assert (planned.epsilons, planned.steps) == ((0.01, 0.0), (63,))


def test_what_follows_the_ingredients_is_named():
    with pytest.raises(TypeError, match="positional"):
        annealing_schedule(KNOWN, SequentialTTest())


class TestSettings:
    @pytest.mark.parametrize(
        ("epsilons", "steps"), [((0.0,), ()), ((0.5, 0.0), (1,)), ((0.1, 0.1, 0.0, 0.0), (1, 2, 3))]
    )
    def test_what_does_not_rise_and_ends_at_zero_is_a_schedule(self, epsilons, steps):
        assert AnnealedEpsilon(epsilons, steps).epsilon_at(100) == 0.0

    @pytest.mark.parametrize("epsilons", [(0.1, -0.1, 0.0), (math.nan, 0.0), (0.1, -0.1), (0.1, math.nan, 0.0)])
    def test_what_is_no_falling_sequence_is_refused(self, epsilons):
        with pytest.raises(InvalidInputError, match="must fall"):
            AnnealedEpsilon(epsilons, steps=(1,) * (len(epsilons) - 1))

    def test_a_whole_number_may_come_as_a_float(self):
        assert isinstance(AnnealedEpsilon(untested=10.0).untested, int)
        with pytest.raises(InvalidInputError, match="untested"):
            AnnealedEpsilon(untested=10.5)

    def test_each_epoch_ends_after_its_steps(self):
        test = AnnealedEpsilon((0.2, 0.1, 0.0), steps=(2, 3), untested=1)
        np.testing.assert_array_equal([test.epsilon_at(k) for k in range(8)], [math.nan, *2 * [0.2], *3 * [0.1], 0, 0])


def test_from_data_of_probability_zero_every_density_is_better():
    """As where a biased epoch has ended at such data."""
    state, count = PART.state_at(EXACT), np.zeros(len(COUNT_NAMES), np.int64)
    state.log_likelihood[0] = -math.inf
    decide = plain(PART.decide)
    assert decide(None, evidence_of(TERMS), 50.0, 0.25, state, count, BLANK_VALUES.copy()) == (1, math.inf)
    assert state.log_likelihood[0] == 6.0


def threshold_form(step):
    """Return the number with which log u is compared, over the terms in one order."""
    table = table_of_terms(3, 1)
    write_pair(table, np.zeros(1), np.ones(1), TERMS)
    return plain(PART.threshold_form)(np.random.default_rng(0), table, 0.25, PART.state_at(step))


def test_the_threshold_form_is_that_of_the_step():
    """Infinite as long as nothing is tested, then that of two of three terms, at last the log ratio of all."""
    assert [threshold_form(step) for step in (0, 2)] == [math.inf, math.inf]
    assert threshold_form(3) == threshold_form(7)
    assert threshold_form(EXACT) == pytest.approx(6.25)


# --- the rule ---------------------------------------------------------------------------------------------------------


def test_the_pooled_risk_by_hand():
    """(2 * 0.1 + 3 * 0.5) / 5 = 0.34 and (2 * 8 + 3 * 9) / 25 = 1.72, in units of the variance 4 at epsilon = 0.

    The second functional is not biased, and its unit is 1: (2 * 2 + 3 * 1) / 25.
    """
    known = Ingredients(
        np.array([0.1, 0.0, 0.2]),
        np.array([[0.1, 0.0], [0.0, 0.0], [0.5, 0.0]]),
        np.array([[8.0, 2.0], [4.0, 1.0], [9.0, 1.0]]),
        np.ones(3),
    )
    expected = ((0.34**2 + 1.72) / 4.0 + 0.28) / 2.0
    assert pooled_risk(known, [0, 2], [2, 3]) == pytest.approx(expected, rel=1e-14)
    assert pooled_risk(known, [1], [4.0]) == pytest.approx(0.25, rel=1e-14)


def schedule_by_hand(known, budget, doublings):
    """Return epsilon and steps of each epoch by the rule, one functional, epochs not merged."""
    spent, epochs = 0.0, []
    for _ in range(doublings):
        risks = {}
        for epsilon, bias, variance, cost in zip(*known, strict=True):
            if not epochs or epsilon <= epochs[-1][0]:
                here = (epsilon, (budget - spent) / cost, bias, variance)
                n, b, v = np.array([epoch[1:] for epoch in (*epochs, here)]).T
                risks[here] = (n @ b / n.sum()) ** 2 + n @ v / n.sum() ** 2
        best = min(risks, key=risks.get)
        if best[0] == 0.0:
            break
        epochs.append((best[0], round(best[1]), *best[2:]))
        spent, budget = budget, 2.0 * budget
    return [epoch[:2] for epoch in epochs]


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 0, 1)])
@pytest.mark.parametrize(("bias", "epochs_of_each"), [((0.0, 0.02, 0.2), (3, 7)), ((0.0, -0.1, 0.1), (4, 2))])
def test_a_schedule_takes_the_least_risk_at_the_end_of_each_epoch(bias, epochs_of_each, order):
    """Epochs of 0.1 are one, and those of 0.01; 0 at last, in whatever order the ingredients come.

    The first budget is that of ten steps at epsilon = 0. Epsilon does not rise again where biases would cancel.
    """
    parts = np.array([0.0, 0.01, 0.1]), np.array(bias), np.array([9.0, 9.5, 10.0]), np.array([2.0, 1.0, 0.4])
    known = Ingredients(*(part[list(order)] for part in parts))
    epochs = schedule_by_hand(known, 20.0, 60)
    assert tuple(sum(e == epsilon for e, _ in epochs) for epsilon in (0.1, 0.01)) == epochs_of_each
    lengths = {epsilon: sum(n for e, n in epochs if e == epsilon) for epsilon, _ in epochs}
    found = annealing_schedule(known)
    assert found.epsilons == (*lengths, 0.0) and found.steps == tuple(lengths.values())


def test_an_epoch_has_at_least_one_step_and_as_many_as_an_integer_holds():
    """An unbiased epsilon at 0.64 a step: for a budget of 0.3, and for one that doubles 60 times from 10."""
    known = Ingredients(np.array([0.0, 0.01]), np.zeros(2), np.array([9.0, 12.6]), np.array([1.0, 0.64]))
    assert annealing_schedule(known, first_budget=0.3, max_doublings=1).steps == (1,)
    assert annealing_schedule(known).steps == (2**62,)


class TestDecisions:
    PART = AnnealedEpsilon((0.1, 0.0), steps=(5,), untested=1, test=SequentialTTest(batch_size=2)).build_test(
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
        assert self.in_the_exact_epoch([1.0, math.inf, 3.0], kept=0.0)[:2] == (-1, UNKNOWN)

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
