"""The step of Metropolis-Hastings around parts that are written out: what it asks, answers, moves and counts."""

import math
import types
from typing import Any

import numpy as np
import pytest

from approxmcmc.contracts import COUNT_NAMES
from approxmcmc.contracts.records import (
    ACCEPTANCE_RATE,
    AUDITS,
    BLANK_VALUES,
    DECISIONS,
    DRAW_WEIGHT,
    EVALUATIONS,
    OUT_OF_REACH,
    TOUCHED,
)
from approxmcmc.samplers.chain import FAILED, new_clock
from approxmcmc.samplers.metropolis_hastings import step as module
from tests.planting import plain

PRIOR = {TOUCHED: 3, EVALUATIONS: 3}  # of the rows that the prior reads


class Made:
    """One step from theta = 1 to 5, or to 6 where it is not tested; log p(theta) = -2, log L(theta) = -10."""

    def __init__(
        self,
        monkeypatch,
        answer=(1, -0.1),
        *,
        log_prior=-1.5,
        log_q_ratio=0.25,
        tested=True,
        uses_ratio=True,
        reach=False,
        audits=False,
        n_tune=0,
    ):
        self.asked, self.settled, self.told, self.adapted, self.tested = [], [], [], [], tested
        monkeypatch.setattr(module, "settle", lambda order, accepted: self.settled.append(accepted))
        monkeypatch.setattr(module, "is_out_of_reach", lambda state, count: reach)
        monkeypatch.setattr(module, "is_chosen_for_audit", lambda streams, clock: True)

        def proposing(place, ratio):
            def propose(rng, proposal, theta, proposed, count):
                proposed[0] = place
                return ratio

            return propose

        def decide(streams, clock, evidence, threshold, log_rest, test, count, value):
            self.asked.append((evidence.name, threshold, log_rest, test))
            return answer

        step = module.make_step(
            proposing(5.0, log_q_ratio),
            proposing(6.0, log_q_ratio),
            lambda test: tested,
            lambda proposal, accepted: self.told.append((proposal, accepted)),
            lambda proposal, rate, step: self.adapted.append((proposal, rate, step)),
            lambda proposal: 0.3,
            decide,
            lambda rng: -0.7,
            lambda log_ratio: math.exp(min(log_ratio, 0.0)),
            lambda test: -10.0,
            uses_ratio,
            audits,
        )
        self.state = module.MetropolisHastingsState(
            *(np.full(1, start) for start in (1.0, math.nan, math.nan, math.nan, -2.0, math.nan)),
            clock=new_clock(n_tune),
            log_prior_of=lambda proposed: log_prior,
            prior_rows=3,
            evidence=Evidence(),
            proposal="proposal",
            test="test",
        )
        counts, self.value = np.zeros(len(COUNT_NAMES), np.int64), BLANK_VALUES.copy()
        streams: Any = Evidence()
        self.status = plain(step)(streams, self.state, counts, self.value)
        self.counts = {k: n for k, n in enumerate(counts.tolist()) if n}

    def says(self, status, theta, log_prior, rate):
        """Return whether it moved there, and what the record says."""
        density = self.state.log_density[0], self.value[ACCEPTANCE_RATE], self.value[DRAW_WEIGHT]
        return (
            (self.status, self.state.theta[0], self.state.log_prior[0]) == (status, theta, log_prior)
            and self.settled == [status == 1]
            and self.told == ([("proposal", status == 1)] if self.tested else [])
            and density == pytest.approx((log_prior - 10.0, rate, 0.3))
        )


class Evidence:
    """Stands in for evidence and streams."""

    name, order, uniform, proposal = "evidence", "order", None, None


def test_it_moves_where_the_test_accepts(monkeypatch):
    made = Made(monkeypatch)
    assert made.asked == [("evidence", -0.7, 0.75, "test")]  # log_rest = -1.5 + 2 + 0.25
    assert made.says(1, 5.0, -1.5, math.exp(-0.1)) and made.counts == PRIOR and made.adapted == []
    assert made.state.log_q_ratio[0] == 0.25


def test_it_stays_where_the_test_rejects(monkeypatch):
    made = Made(monkeypatch, (0, -0.4), n_tune=1)
    assert made.says(0, 1.0, -2.0, math.exp(-0.4)) and made.counts == PRIOR
    assert made.adapted == [("proposal", pytest.approx(math.exp(-0.4)), 0)]


@pytest.mark.parametrize("audits", [False, True])
@pytest.mark.parametrize(
    "settings",
    [{"log_prior": -math.inf}, {"log_q_ratio": -math.inf}, {"log_prior": -math.inf, "log_q_ratio": math.nan}],
)
def test_outside_the_support_nobody_is_asked(settings, audits, monkeypatch):
    made = Made(monkeypatch, audits=audits, **settings)
    assert made.says(0, 1.0, -2.0, 0.0) and made.asked == []
    assert made.counts == PRIOR | {DECISIONS: 1} | ({AUDITS: 1} if audits else {})


@pytest.mark.parametrize(
    "settings", [{"log_prior": math.inf}, {"log_prior": math.nan}, {"log_q_ratio": math.nan}, {"answer": (-1, 0.0)}]
)
def test_an_undefined_density_ends_the_chain_or_is_out_of_reach(settings, monkeypatch):
    asked = "answer" in settings  # the test counts its own decision
    booked = PRIOR | ({} if asked else {DECISIONS: 1})
    made = Made(monkeypatch, **settings)
    assert made.status == FAILED and made.state.theta[0] == 1.0 and made.counts == booked and made.settled == []
    made = Made(monkeypatch, reach=True, **settings)
    assert made.says(0, 1.0, -2.0, 0.0) and made.counts == booked | {OUT_OF_REACH: 1}
    assert len(made.asked) == asked


def test_a_step_that_is_not_tested_moves_freely(monkeypatch):
    made = Made(monkeypatch, tested=False)
    assert made.says(1, 6.0, -1.5, 1.0) and made.asked == []


def test_without_a_ratio_no_prior_is_read(monkeypatch):
    made = Made(monkeypatch, (1, 0.0), uses_ratio=False, log_prior=math.nan)
    assert made.says(1, 5.0, 0.0, 1.0) and made.counts == {}
    assert made.asked == [("evidence", -0.7, 2.25, "test")]
    assert Made(monkeypatch, (-1, 0.0), uses_ratio=False, reach=True).status == FAILED


def test_what_a_part_leaves_out_has_a_default():
    assert plain(module.weigh_alike)(None) == 0.0 and plain(module.always_tested)(None) is True
    assert math.isnan(plain(module.unknown_log_likelihood)(None))


def test_what_the_parts_bring_is_used(monkeypatch):
    monkeypatch.setattr(module, "make_step", lambda *parts: parts)
    monkeypatch.setattr(module, "make_decision", lambda test: "decision")
    test = {"threshold": "u", "probability": "p", "uses_ratio": True, "is_audited": False}
    own = types.SimpleNamespace(propose="q", move="m", settle="s", adapt="a", weight="w")
    found = module.metropolis_hastings_step(own, types.SimpleNamespace(is_tested="t", log_likelihood="l", **test))
    assert found == ("q", "m", "t", "s", "a", "w", "decision", "u", "p", "l", True, False)
    bare = types.SimpleNamespace(propose="q", move=None, settle=None, adapt=None, weight=None)
    found = module.metropolis_hastings_step(bare, types.SimpleNamespace(is_tested=None, log_likelihood=None, **test))
    defaults = "q", module.always_tested, module.settle_nothing, module.adapt_nothing, module.weigh_alike
    assert found == ("q", *defaults, "decision", "u", "p", module.unknown_log_likelihood, True, False)
