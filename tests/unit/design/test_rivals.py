"""What the sentence about a choice says of the candidates that were not chosen: each branch, and only what is true."""

import math
from types import SimpleNamespace

import pytest

import approxmcmc as amc
from approxmcmc.design import branch_and_bound, choice, prices
from approxmcmc.design.candidates import Candidate, Pairing
from approxmcmc.design.lower_bounds import LowerBound
from approxmcmc.design.prices import CandidateState
from approxmcmc.design.trial import Measured

GOAL = prices.checked_goal(None, None, 0.02)
ONLY_EXACT = prices.checked_goal(None, None, 0.0)


def state(name, price=math.nan, verdict="", *, exact=True, measured=False, counted=False, error=0.0, effective=100.0):
    """Return a candidate that was measured at this price, or whose floor it is."""
    candidate = Candidate(name, exact, lambda known: None, lambda known: LowerBound(0.0, 0.0), is_counted=counted)
    found = Measured(1e-6, 1.0, 1.0, error, 0.0, None, 1.0, effective) if measured else None
    lower_bound = 0.0 if math.isnan(price) else price
    return CandidateState(candidate, lower_bound, False, verdict, price if measured else math.nan, measured=found)


def untried(name, lower_bound, **settings):
    return state(name, lower_bound, f"{branch_and_bound.NOT_TRIED}: chosen reaches the goal in 0.08 s", **settings)


def sentence(*others, goal=GOAL, chosen_at=0.079, counted=False):
    """Return the sentence on a choice whose chosen candidate costs `chosen_at`, made as `choose_sampler` makes it."""
    known = SimpleNamespace(target=amc.targets.LogisticRegression([[1.0], [2.0]], [0, 1]), fits=list)
    known.seconds_to_compile = lambda parts: 12.0
    known.term_work = known.target.term_work
    chosen = state("chosen", chosen_at, measured=True, counted=counted)
    chosen.setting = Pairing(known.target, amc.MetropolisHastings(amc.RandomWalk(1.0), amc.ExactTest()))
    states = [*others, chosen]
    choice._judge(states, chosen, goal)
    return choice._choice(states, chosen, known, goal, None, 0.0, 0.0).sentence.partition(": ")[2].partition("; ")[2]


IMPOSSIBLE = state("impossible", 0.001, "not possible: no gradient")


@pytest.mark.parametrize(
    ("others", "goal", "expected"),
    [
        # The first tutorial: the goal is near, so a candidate with a lower bound is not tried.
        ([untried("influential rows", 0.0081), untried("walk", 2.0)], GOAL,
         "not tried, and possibly faster: influential rows (at least 0.0081)"),
        ([untried("influential rows", 0.2), untried("walk", 2.0)], GOAL, "no other candidate could be faster"),
        ([untried("walk", 0.2), IMPOSSIBLE], GOAL, "no other candidate could be faster"),
        ([state("slow", 0.0, "given up after a few steps: each takes too long")], GOAL,
         "no other candidate could be faster"),
        ([IMPOSSIBLE], GOAL, "no other candidate is possible"),
        ([], GOAL, "no other candidate is possible"),
        ([state("walk", 0.3, measured=True), state("langevin", 0.2, measured=True)], GOAL, "next best: langevin, 0.2"),
        ([state("walk", 0.3, measured=True), untried("influential rows", 0.0081)], GOAL,
         "next best: walk, 0.3; not tried, and possibly faster: influential rows (at least 0.0081)"),
        ([state("t-test", 0.01, measured=True, exact=False, error=0.5)], GOAL,
         "t-test, 0.01, was not taken: predicted error above the allowed 0.02"),
        ([state("t-test", 0.05, measured=True, exact=False, error=0.01), state("walk", 0.3, measured=True)], GOAL,
         "next best: walk, 0.3; t-test, 0.05, was not taken: biased, and faster by less than a factor of two"),
        ([state("sticky", 0.05, measured=True, effective=4.0)], GOAL,
         "sticky, 0.05, was not taken: its trial had only 4 effective draws"),
        ([untried("t-test", 0.01, exact=False), untried("walk", 0.2)], ONLY_EXACT,
         "no other exact candidate could be faster"),
        ([untried("t-test", 0.01, exact=False), IMPOSSIBLE], ONLY_EXACT, "no other exact candidate is possible"),
    ],
)  # fmt: skip
def test_what_is_said_of_the_others_is_true(others, goal, expected):
    assert sentence(*others, goal=goal) == expected


def test_nuts_alone_says_what_the_others_would_compile():
    said = sentence(untried("walk", 2.0), counted=True)
    assert said.startswith("no other candidate could be faster: they would compile") and "(12 s)" in said


@pytest.mark.parametrize("price", [0.0081, 0.078, 0.08, 2.0])
def test_none_is_said_to_be_slower_whose_bound_is_lower(price):
    """The invariant of every branch: without a cost, a bound below that of the chosen one is named."""
    said = sentence(untried("influential rows", price), state("walk", 0.3, measured=True))
    assert ("influential rows" in said) is (price < 0.079)
    assert "no other" not in said
