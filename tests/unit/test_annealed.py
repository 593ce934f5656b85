"""What the annealed test does before, in and after its epochs, and how its epochs are planned, in single cases."""

import dataclasses
import math

import numpy as np
import pytest
import xarray as xr

from approxmcmc.acceptance import AnnealedEpsilon, SequentialTTest
from approxmcmc.acceptance.annealing_rule import Ingredients, annealing_schedule
from approxmcmc.contracts import COUNT_NAMES
from approxmcmc.contracts.records import BLANK_VALUES
from tests.decisions import Population, evidence_of
from tests.planting import plain


class Rows(Population):
    """Terms of one posterior: its log-likelihood can be kept."""

    same_terms = True


TERMS = np.array([1.0, 2.0, 3.0])
PART = AnnealedEpsilon((0.1, 0.0), steps=(5,), untested=3, test=SequentialTTest(0.2, 2)).build_test(Rows(TERMS))
EXACT = 8  # the first step of the exact epoch
# Of no bias at 0.01: every epoch is of that epsilon.
KNOWN = Ingredients(np.array([0.0, 0.01]), np.zeros(2), np.array([9.0, 12.6]), np.array([1.0, 0.64]))


def test_findings_are_about_what_was_tested(monkeypatch):
    """Of two chains whose first three draws of seven went untested, and of a run that was over before."""
    monkeypatch.setattr(SequentialTTest, "problems", lambda self, stats: [stats.sizes["draw"]])
    epsilon = np.full((2, 7), 0.1)
    epsilon[:, :3] = math.nan
    stats = xr.Dataset({"epsilon": (("chain", "draw"), epsilon)})
    test = AnnealedEpsilon((0.1, 0.0), steps=(5,), untested=3, test=SequentialTTest(0.2, 2))
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
    assert exact_decision(np.array([1.0, math.nan, 3.0]), 0.0) == (-1, 0.0)


def test_epochs_of_one_epsilon_are_one():
    """Budgets of 10, 20 and 40 at a cost of 0.64 a step: 16 + 16 + 31 steps."""
    planned = annealing_schedule(KNOWN, max_doublings=3)
    assert (planned.epsilons, planned.steps) == ((0.01, 0.0), (63,))


def test_what_follows_the_ingredients_is_named():
    with pytest.raises(TypeError, match="positional"):
        annealing_schedule(KNOWN, SequentialTTest())
