"""The loop over draws, and a decision with its audit, around parts that are written out."""

import math
import types
from typing import Any, NamedTuple

import numpy as np
import pytest

from approxmcmc.contracts import COUNT_NAMES
from approxmcmc.contracts.records import (
    ACCEPTANCE_RATE,
    ACCEPTED,
    AUDITS,
    BLANK_VALUES,
    LP,
    MU_STD,
    SECONDS,
    TOUCHED,
    WRONG,
    WRONG_ACCEPTS,
)
from approxmcmc.engine.terms.batches import CERTAIN, IMPOSSIBLE, UNDEFINED
from approxmcmc.engine.terms.evidence import merge_all_differences
from approxmcmc.samplers import decision as audited
from approxmcmc.samplers.decision import decide_on_all_data
from approxmcmc.sampling import chain
from approxmcmc.sampling.chain import (
    FAILED,
    MOVED,
    STAYED,
    Clock,
    CompiledChain,
    Loop,
    is_chosen_for_audit,
    is_tuning,
    make_chain,
    new_clock,
)
from tests.decisions import evidence_of
from tests.planting import plain


def test_the_memory_of_a_chain_is_what_it_alone_may_write_to():
    class Parts(NamedTuple):
        theta: np.ndarray
        same: np.ndarray
        data: np.ndarray
        read_only: np.ndarray
        fixed: np.ndarray
        scale: float

    theta, data, read_only, fixed = np.arange(3.0), np.zeros(5), np.zeros(4), np.ones(2)
    read_only.flags.writeable = False
    loop = Loop(None, Parts(np.zeros(3), np.zeros(3), data, np.zeros(4), np.ones(2), 0.1))
    found = loop.memory(Parts(theta, theta[:], data, read_only, fixed, 0.5), [fixed])
    assert list(found) == ["theta", "scale"] and found["theta"] is theta and found["scale"] == 0.5


class State(NamedTuple):
    """The attributes of a state that the loop uses."""

    theta: np.ndarray
    proposed: np.ndarray
    log_density: np.ndarray
    clock: Clock


def step(streams, state, count, value):
    """Move by one, and stay at every third place; fail at 8."""
    state.theta[0] += 1.0
    state.log_density[0] = -state.theta[0]
    count[TOUCHED] += 10
    value[ACCEPTANCE_RATE] = state.theta[0] / 10.0
    return FAILED if state.theta[0] == 8.0 else int(state.theta[0] % 3.0 > 0.0)


class TestTheLoop:
    def run(self, monkeypatch, n_draws, thin):
        state = State(np.zeros(1), np.full(1, 5.0), np.full(1, math.nan), new_clock(3))
        ticks = iter(range(0, 10**6, 500))  # 500 ns from one look at the clock to the next
        monkeypatch.setattr(chain, "nanoseconds", lambda: next(ticks))
        loop = Loop(plain(make_chain(step)), state)
        one = CompiledChain(loop, None, state, explain=str)
        draws, counts, values = (
            np.zeros((9, 1)),
            np.full((9, len(COUNT_NAMES)), 7),
            np.full((9, len(BLANK_VALUES)), 7.0),
        )
        return one, one.advance(n_draws * thin, thin, draws, counts, values), draws, counts, values

    def test_a_draw_is_the_last_of_its_steps_and_its_record_their_sum(self, monkeypatch):
        one, made, draws, counts, values = self.run(monkeypatch, 3, 2)
        assert made == 6 and one.state.clock.steps.tolist() == [6] and one.proposed.tolist() == [5.0]
        assert draws[:, 0].tolist() == [2.0, 4.0, 6.0] + [0.0] * 6
        expected = BLANK_VALUES.copy()
        for draw, (accepted, rate) in enumerate([(1, 0.15), (1, 0.35), (0, 0.55)]):
            assert {k: n for k, n in enumerate(counts[draw]) if n} == {TOUCHED: 20} | (
                {ACCEPTED: 1} if accepted else {}
            )
            expected[[ACCEPTANCE_RATE, LP, SECONDS]] = rate, -draws[draw, 0], 5e-7
            np.testing.assert_allclose(values[draw], expected, rtol=1e-12)
        assert (counts[3:] == 7).all() and (values[3:] == 7.0).all()

    def test_a_failure_ends_it_at_the_last_whole_draw(self, monkeypatch):
        one, made, draws, *_ = self.run(monkeypatch, 9, 3)
        assert made == 7 and draws[:, 0].tolist() == [3.0, 6.0] + [0.0] * 7
        assert one.state.clock.steps.tolist() == [7]

    @pytest.mark.parametrize("pieces", [(6,), (1, 5), (2, 4), (3, 3), (5, 1), (1, 1, 1, 1, 1, 1)])
    def test_a_draw_that_spans_calls_is_that_of_one_call(self, monkeypatch, pieces):
        """Bit by bit: its counts, the sum of its acceptance rates, and its seconds of 500 ns a call."""
        one, _, *whole = self.run(monkeypatch, 2, 3)
        one, _, *cut = self.run(monkeypatch, 0, 3)
        rows, begun, calls = 0, 0, np.zeros(2)
        for steps in pieces:
            assert one.advance(steps, 3, *(table[rows:] for table in cut)) == steps
            calls[np.unique([(begun + step) // 3 for step in range(steps)])] += 1
            begun += steps
            rows = begun // 3
        np.testing.assert_allclose(cut[2][:2, SECONDS], 5e-7 * calls, rtol=1e-12)
        cut[2][:2, SECONDS] = whole[2][:2, SECONDS]
        for ours, theirs in zip(cut, whole, strict=True):
            np.testing.assert_array_equal(ours, theirs)

    def test_a_clock_knows_the_steps_that_tune(self):
        clock = new_clock(3)
        assert (clock.n_tune, clock.audit_probability) == (3, 0.0)
        for n, tunes in ((0, True), (2, True), (3, False)):
            clock.steps[0] = n
            assert plain(is_tuning)(clock) == tunes


def decided(monkeypatch, answer, exact, *, probability=0.5, draw=0.4, is_audited=True):
    """Return answer, counts, seconds and what was asked of a decision and its audit, 250 ns long."""
    asked: list[Any] = []
    ticks = iter((1000, 1250))
    streams = types.SimpleNamespace(order="order", audit=types.SimpleNamespace(random=lambda: draw))

    def decide(*arguments):
        asked.append(arguments[:5])
        return answer, -0.5

    def audit(*arguments):
        asked.append(arguments[1:5])
        return exact

    monkeypatch.setattr(audited, "nanoseconds", lambda: next(ticks))
    decision = plain(audited._make_decision(decide, audit, is_audited))
    count, value = np.zeros(len(COUNT_NAMES), np.int64), np.zeros(len(BLANK_VALUES))
    found = decision(streams, new_clock(0, probability), "evidence", 0.2, 0.3, "state", count, value)
    assert found == (answer, -0.5) and asked[0] == ("order", "evidence", 0.2, 0.3, "state")
    assert asked[1:] in ([], [("evidence", 0.2, 0.3, "state")])
    return {k: n for k, n in enumerate(count.tolist()) if n}, value[SECONDS], len(asked) - 1


class TestTheAuditedDecision:
    @pytest.mark.parametrize(
        ("answer", "exact", "counted"),
        [
            (1, 1, {AUDITS: 1}),
            (0, 0, {AUDITS: 1}),
            (1, 0, {AUDITS: 1, WRONG: 1, WRONG_ACCEPTS: 1}),
            (0, 1, {AUDITS: 1, WRONG: 1}),
            (1, -1, {}),
        ],
    )
    def test_what_is_booked(self, answer, exact, counted, monkeypatch):
        """An audit's seconds are not the chain's."""
        assert decided(monkeypatch, answer, exact) == (counted, pytest.approx(-2.5e-7, rel=1e-12), 1)

    @pytest.mark.parametrize(
        "settings", [{"is_audited": False}, {"probability": 0.0, "draw": 0.0}, {"draw": 0.5}, {"answer": -1}]
    )
    def test_there_is_none_where_none_is_chosen_or_no_answer_was_found(self, settings, monkeypatch):
        assert decided(monkeypatch, **({"answer": 1, "exact": 0} | settings)) == ({}, 0.0, 0)

    @pytest.mark.parametrize(("threshold", "answer"), [(11.4, 1), (11.5, 0), (11.6, 0)])
    def test_the_decision_on_all_data(self, threshold, answer):
        """Lambda = -0.5 + 12, and mu_std = (Lambda - threshold) / (sqrt(N) s_l), s_l^2 = 14 / 3."""
        value = BLANK_VALUES.copy()
        terms = np.array([1.0, 2.0, 3.0, 6.0])
        assert plain(decide_on_all_data)(None, evidence_of(terms), threshold, -0.5, None, value) == answer
        assert value[MU_STD] == pytest.approx((11.5 - threshold) / (2.0 * math.sqrt(14.0 / 3.0)), abs=1e-12)

    def test_equal_terms_have_no_standardised_distance(self):
        value = BLANK_VALUES.copy()
        assert plain(decide_on_all_data)(None, evidence_of(np.full(4, 2.0)), 7.0, 0.0, None, value) == 1
        assert math.isnan(value[MU_STD])

    @pytest.mark.parametrize(("outcome", "answer"), [(UNDEFINED, -1), (IMPOSSIBLE, 0), (CERTAIN, 1)])
    def test_a_term_that_is_no_number_answers_at_once(self, outcome, answer):
        decide, value = plain(decide_on_all_data, {merge_all_differences: lambda _: outcome}), BLANK_VALUES.copy()
        assert decide(None, None, 0.0, 0.0, None, value) == answer


def test_steps_return_what_is_recorded_as_accepted():
    assert (STAYED, MOVED) == (0, 1)


@pytest.mark.parametrize(("probability", "drawn"), [(0.0, 0), (0.3, 1)])
def test_a_run_without_audits_draws_no_number_for_them(probability, drawn):
    made = []
    streams = types.SimpleNamespace(audit=types.SimpleNamespace(random=lambda: made.append(0) or 0.2))
    assert plain(is_chosen_for_audit)(streams, new_clock(0, probability)) == (probability > 0.0)
    assert len(made) == drawn


def test_a_start_evaluates_nothing_and_tuning_settles_on_nothing_unless_told():
    chain = CompiledChain(None, None, None, explain=str)
    assert (chain.start_evaluations, chain.adapted(), chain.auditor, chain.fixed) == (0, {}, None, ())


def test_terms_that_differ_by_little_have_a_standardised_distance():
    """Lambda = 1.2, and s_l^2 = 0.14 / 3."""
    value = BLANK_VALUES.copy()
    terms = np.array([0.1, 0.2, 0.3, 0.6])
    assert plain(decide_on_all_data)(None, evidence_of(terms), 1.0, 0.0, None, value) == 1
    assert value[MU_STD] == pytest.approx(0.2 / (2.0 * math.sqrt(0.14 / 3.0)))
