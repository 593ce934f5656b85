"""Audits of single steps whose terms, priors and proposal ratios are written out: what is judged, and what is not."""

import math
import types

import numpy as np
import pytest

from approxmcmc.contracts import COUNT_NAMES, VALUE_NAMES
from approxmcmc.engine.terms.term_table import table_of_terms
from approxmcmc.samplers.audits import Judge, WalkedSteps, of_a_walk
from approxmcmc.samplers.audits import TestedSteps as AuditsOfATest  # pytest takes a class Test... for tests
from approxmcmc.samplers.replication import by_decision, by_threshold_form
from tests.planting import plain

HERE, THERE = np.array([0.5]), np.array([2.0])


class Steps:
    """Audits of the one step from HERE to THERE, over four orders; `asked` is what the test was asked."""

    def __init__(self, terms, *, prior_here=0.0, prior_there=0.0, log_q_ratio=0.0, temperature=1.0, answers=0.0):
        self.asked, n_obs = [], len(terms)
        compiled = types.SimpleNamespace(
            n_obs=n_obs, log_prior=lambda theta: prior_here if theta[0] == HERE[0] else prior_there
        )
        rows = types.SimpleNamespace(compiled=compiled, differences=lambda here, there: (np.array(terms), -7.0))
        state = types.SimpleNamespace(
            theta=np.zeros(1), proposed=np.zeros(1), log_prior=np.zeros(1), log_q_ratio=np.zeros(1),
            proposal="tuned", test="state at the end",
        )  # fmt: skip

        def step(streams, state, thin, draws, counts, values):
            assert (state.theta == HERE).all() and state.log_prior[0] == math.inf
            assert thin == 1 and draws.shape == (1, 1)
            assert counts.shape[1:] == (len(COUNT_NAMES),) and values.shape[1:] == (len(VALUE_NAMES),)
            state.proposed[:], state.log_q_ratio[0] = THERE, log_q_ratio
            return int(not math.isnan(log_q_ratio))

        def replicate(rng, table, log_rest, state, thresholds, apart):
            self.asked.append((table.data[0].tolist(), log_rest, state, apart))
            return np.full(thresholds.size, answers)

        test = types.SimpleNamespace(
            threshold_form="one", state_at=lambda number: f"state at {number}", records=("audited_mu_std",)
        )
        judge = Judge("metropolis", temperature, replicate, table_of_terms(n_obs, 1))
        self.audit = AuditsOfATest(rows, test, judge, step, lambda proposal: None, state, np.random.default_rng(0))

    def look(self):
        return self.audit.look(HERE, 3, orders=4)


def test_a_step_is_judged_by_prior_proposal_and_terms():
    """Lambda = log prior ratio + log q ratio + sum of terms; the change of energy has no q."""
    steps = Steps([0.5, -1.0, 0.25, 0.0], prior_here=-2.0, prior_there=-3.0, log_q_ratio=0.125, answers=-0.5)
    found = steps.look()
    assert (found.log_ratio, found.energy_change) == (-1.125, -1.25)
    assert found.proposed.tolist() == THERE.tolist() and found.log_likelihood == -7.0
    assert found.terms.tolist() == [0.5, -1.0, 0.25, 0.0] and found.log_ratios.tolist() == [-0.5] * 4
    assert steps.asked == [([0.5, -1.0, 0.25, 0.0], -0.875, "state at 3", 1)]
    assert steps.audit(HERE, 3)["audited_acceptance"] == pytest.approx(math.exp(-1.125))


def test_a_temperature_divides_the_terms_and_the_test_does_it_by_itself():
    steps = Steps([2.0, -6.0], log_q_ratio=0.125, temperature=4.0)
    assert steps.look().log_ratio == 0.125 - 1.0
    assert steps.asked[0][0] == [2.0, -6.0]


@pytest.mark.parametrize("log_q_ratio", [0.0, math.inf])
def test_a_step_out_of_the_support_is_one_that_nobody_accepts(log_q_ratio):
    """No datum is read; not even a gradient that is undefined there matters."""
    steps = Steps([1.0, 1.0], prior_there=-math.inf, log_q_ratio=log_q_ratio)
    found = steps.look()
    assert found.log_ratio == found.energy_change == -math.inf and found.log_ratios.tolist() == [-math.inf] * 4
    assert found.terms.tolist() == [0.0, 0.0] and math.isnan(found.log_likelihood) and steps.asked == []
    audit = steps.audit(HERE, 3)
    assert audit["audited_acceptance"] == audit["audit_acceptance_error"] == 0.0 and not audit["wrong_decisions"]


def test_a_step_to_an_impossible_datum_is_judged():
    assert Steps([1.0, -math.inf], answers=-math.inf).look().log_ratio == -math.inf


@pytest.mark.parametrize(
    ("terms", "settings"),
    [
        ([1.0, math.inf], {}),
        ([-math.inf, math.inf], {}),
        ([math.nan, 1.0], {}),
        ([1.0, 1.0], {"prior_there": math.inf}),
        ([1.0, 1.0], {"prior_there": math.nan}),
        ([1.0, 1.0], {"log_q_ratio": math.inf}),
        ([1.0, 1.0], {"log_q_ratio": math.nan}),
        ([1.0, 1.0], {"answers": math.nan}),
    ],
)
def test_what_has_no_log_ratio_is_not_audited(terms, settings):
    assert Steps(terms, **settings).audit(HERE, 3) is None


def test_a_threshold_that_is_just_attained_rejects():
    """As in a chain: theta' is taken where T(u) < Lambda. Both answers are the same, and none is wrong."""
    audit = Steps([0.0, 0.0]).audit
    found = audit.of_the_test(-1.0, np.array([-1.0, -2.0]), np.array([-1.5, -1.5]), 1.0)
    assert (found["wrong_decisions"], found["wrong_accepts"]) == (False, False)
    found = audit.of_the_test(-1.5, np.array([-1.0, -2.0]), np.array([-1.0, -1.0]), 1.0)
    assert (found["wrong_decisions"], found["wrong_accepts"]) == (False, False)


@pytest.mark.parametrize(
    ("log_ratio", "acceptance"),
    [(0.5, 1.0), (0.0, 1.0), (-0.5, math.exp(-0.5)), (-math.inf, 0.0), (math.inf, None), (math.nan, None)],
)
def test_a_walk_is_accepted_by_the_rule_of_metropolis(log_ratio, acceptance):
    found = of_a_walk(log_ratio)
    assert found == acceptance or found["audited_acceptance"] == pytest.approx(acceptance, abs=0.0)
    assert found is None or found["audited_log_ratio"] == found["audited_energy_change"] == log_ratio


def test_walks_begin_at_the_draws():
    """A walk adds z'(draws - mean) in its scale, 2.38 / sqrt(dim (n - 1)): here of two draws, with z = (1, 0)."""
    seen = []
    rows = types.SimpleNamespace(log_ratios=lambda here, there: seen.append(there - here) or np.zeros(len(here)))
    rng = types.SimpleNamespace(standard_normal=lambda n: np.eye(n)[0])
    walks = WalkedSteps(rows, np.array([[3.0, 1.0], [0.0, 0.0]]), rng)
    assert len(walks.of_many(np.array([[5.0, 6.0], [7.0, 8.0]]), np.arange(2))) == 2
    np.testing.assert_allclose(seen[0], np.tile(2.38 / math.sqrt(2.0) * np.array([1.5, 0.5]), (2, 1)))


def test_windows_of_a_table_begin_apart_and_go_round():
    """Six windows of a table of 10 terms, 4 apart; rule, rest and state are handed on."""
    table = table_of_terms(10, 1)

    def form(rng, table, log_rest, test):
        assert (rng, test) == ("rng", "state")
        return table.order.cursor[1] + log_rest

    found = np.empty(6)
    plain(by_threshold_form(form))("rng", table, 0.5, "state", np.zeros(6), 4, found, None, None)
    assert found.tolist() == [0.5, 4.5, 8.5, 2.5, 6.5, 0.5]


def test_decisions_are_infinite_log_ratios():
    """+inf where a test accepts at a threshold, -inf where it rejects, NaN where it has no answer."""
    answers = {-2.0: 1, -1.0: 0, -3.0: -1}

    def decide(rng, table, threshold, log_rest, test, count, value):
        return answers[threshold], 0.0

    found = np.empty(4)
    plain(by_decision(decide))("rng", None, 0.5, "state", np.array([-1.0, -2.0, -3.0, -2.0]), 4, found, None, None)
    np.testing.assert_array_equal(found, [-math.inf, math.inf, math.nan, math.inf])
