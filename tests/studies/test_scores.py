"""Verdicts of a page: which setting can be ranked, what would decide the others, and numbers as text."""

import math

import numpy as np
import pandas as pd
import pytest

from approxmcmc.study.report.answer import _draws, decided_by
from approxmcmc.study.report.scores import Scores, gold_times, ranking
from approxmcmc.study.report.wording import estimate, number


def table_of(floor, replicates=8, **risks):
    """Return a table of settings, each with (risk, lower end, upper end)."""
    rows = [(*risk, replicates, floor) for risk in risks.values()]
    columns = ["risk", "risk_lower", "risk_upper", "replicates", "floor"]
    return pd.DataFrame(rows, index=list(risks), columns=columns)


def remedies(table):
    order = ranking(table, None, 1)
    return order.undecided, " ".join(decided_by(Scores("toy", None, table), table, order, 1))


def test_a_setting_is_ranked_by_its_own_risk_against_the_gold_standard():
    """A squared error of .07 is a tenth of the risks from .7 on; the lower end of the interval, .5, does not count."""
    best = (0.2, 0.1, 0.4)
    assert remedies(table_of(0.07, best=best, next=(1.0, 0.5, 2.0))) == ((), "")
    assert ranking(table_of(0.07, best=best, next=(1.0, 0.5, 2.0)), None, 1).worse == ("next",)
    undecided, text = remedies(table_of(0.07, best=best, next=(0.6, 0.5, 0.8)))
    assert undecided == ("next",) and "gold standard with 1.2 times as many draws" in text


@pytest.mark.parametrize(
    "risks",
    [
        {"best": (0.2, 0.1, 0.4), "next": (0.5, 0.3, 1.0)},
        {"best": (-0.1, -0.3, 0.2), "next": (0.5, 0.3, 1.0), "last": (0.6, -0.1, 0.7)},
        {"best": (0.2, 0.1, 0.4), "next": (0.5, -0.1, 0.55)},
        {"best": (0.2, 0.1, 0.4), "next": (0.2, 0.1, 0.4)},
    ],
)
@pytest.mark.parametrize("floor", [0.0, 0.01, 0.06])
def test_what_is_undecided_always_comes_with_a_remedy(risks, floor):
    undecided, text = remedies(table_of(floor, **risks))
    assert not undecided or text


def test_more_gold_draws_do_not_depend_on_the_order_of_the_settings():
    table = table_of(0.06, a=(-0.1, math.nan, math.nan), b=(0.5, 0.3, 0.8))
    assert gold_times(table, ("a", "b")) == gold_times(table, ("b", "a")) == pytest.approx(1.2)
    assert gold_times(table, ("a",)) == 1.0
    assert math.isinf(gold_times(table_of(0.06, a=(-0.1, -0.2, -0.05)), ("a",)))
    assert _draws(math.inf, 1000) == "many more draws"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (9.999, "10.0"),
        (9.996e-8, "1.00×10⁻⁷"),
        (-9.999e-8, "−1.00×10⁻⁷"),
        (0.0009996, "0.00100"),
        (999600.5, "1.00×10⁶"),
        (9.994e-8, "9.99×10⁻⁸"),
        (99940.5, "99,940"),
        (5e-324, "0.50×10⁻³²³"),
        (1e-310, "1.00×10⁻³¹⁰"),
        (np.float32("nan"), ""),
        (np.float32("-inf"), "−∞"),
        (np.float32(0.5), "0.500"),
        (np.int64(1234), "1,234"),
        (None, ""),
    ],
)
def test_a_number_has_three_significant_digits(value, text):
    assert number(value) == text


def test_an_estimate_without_an_interval_rounds_up_to_the_next_power_of_ten():
    assert estimate(9.996e-8, math.nan, math.nan) == ("1.00 ×10⁻⁷", "[no interval]")
    assert estimate(5e-324, 0.0, 1e-323) == ("0.50", "[0.00, 1.00] ×10⁻³²³")
    assert estimate(np.float32(0.5), np.float32("nan"), np.float32("nan")) == ("0.500", "[no interval]")
