"""Where the annealed test passes from one stage to the next, which settings make one, and schedules by hand."""

import math

import numpy as np
import pytest

from approxmcmc.acceptance import AnnealedEpsilon, SequentialTTest
from approxmcmc.acceptance.annealing_rule import Ingredients, annealing_schedule, pooled_risk
from approxmcmc.contracts import COUNT_NAMES
from approxmcmc.contracts.records import BLANK_VALUES
from approxmcmc.engine.terms.term_table import table_of_terms, write_pair
from approxmcmc.errors import InvalidInputError
from tests.decisions import Population, evidence_of
from tests.planting import plain


class Rows(Population):
    """Terms of one posterior: its log-likelihood can be kept."""

    same_terms = True


TERMS = np.array([1.0, 2.0, 3.0])
PART = AnnealedEpsilon((0.1, 0.0), steps=(5,), untested=3, test=SequentialTTest(0.2, 2)).build_test(Rows(TERMS))
EXACT = 8  # the first step of the exact epoch


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
