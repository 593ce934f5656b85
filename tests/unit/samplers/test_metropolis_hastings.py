"""Metropolis-Hastings: its step, by replaced parts, and its program: schedules, cost of a start, what it explains."""

import math
import types
from typing import Any

import numpy as np
import pytest

import approxmcmc as amc
from approxmcmc.acceptance.out_of_reach import BISECTIONS, LARGEST_FALL, evaluations_to_reject
from approxmcmc.contracts import COUNT_NAMES
from approxmcmc.contracts.records import (
    ACCEPTANCE_RATE,
    AUDIT_COUNTS,
    AUDITS,
    BLANK_VALUES,
    DECISIONS,
    DRAW_WEIGHT,
    EVALUATIONS,
    OUT_OF_REACH,
    TOUCHED,
)
from approxmcmc.engine.streams import seed_sequences, streams
from approxmcmc.engine.terms.order import BLOCKS_FROM
from approxmcmc.samplers.metropolis_hastings import step as module
from approxmcmc.samplers.metropolis_hastings.program import (
    MetropolisHastingsProgram,
    Schedule,
    data_schedule,
    tuned_state,
)
from approxmcmc.sampling.chain import FAILED, new_clock
from tests.models import logistic
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
        looks=0,
        audits=False,
        n_tune=0,
    ):
        self.asked, self.settled, self.told, self.adapted, self.tested = [], [], [], [], tested
        monkeypatch.setattr(module, "settle", lambda order, accepted: self.settled.append(accepted))
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
            *(np.full(1, start) for start in (1.0, math.nan, math.nan, -2.0, math.nan)),
            clock=new_clock(n_tune),
            log_prior_of=lambda proposed: log_prior,
            prior_rows=3,
            evaluations_to_reject=lambda: looks,
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

    name, order, uniform, proposal, n_obs = "evidence", "order", None, None, 7


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
    made = Made(monkeypatch, looks=2, **settings)
    read = {TOUCHED: made.counts[TOUCHED], EVALUATIONS: made.counts[EVALUATIONS]}
    assert made.says(0, 1.0, -2.0, 0.0) and made.counts == booked | {OUT_OF_REACH: 1} | read
    assert read == {TOUCHED: 3 + 7, EVALUATIONS: 3 + 2 * (3 + 7)}  # the prior reads 3 rows
    assert len(made.asked) == asked


def test_a_step_that_is_not_tested_moves_freely(monkeypatch):
    made = Made(monkeypatch, tested=False)
    assert made.says(1, 6.0, -1.5, 1.0) and made.asked == []


def test_without_a_ratio_no_prior_is_read(monkeypatch):
    made = Made(monkeypatch, (1, 0.0), uses_ratio=False, log_prior=math.nan)
    assert made.says(1, 5.0, 0.0, 1.0) and made.counts == {}
    assert made.asked == [("evidence", -0.7, 2.25, "test")]
    assert Made(monkeypatch, (-1, 0.0), uses_ratio=False, looks=2).status == FAILED


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


WALK = amc.RandomWalk(0.2)
TTEST = amc.SequentialTTest(0.1, 50)


def own_streams():
    return streams(seed_sequences(5, 1)[0][0])


@pytest.mark.parametrize(
    ("order", "n_obs", "schedule"),
    [
        ("auto", BLOCKS_FROM - 1, "rows"),
        ("auto", BLOCKS_FROM, "blocks"),
        ("rows", 2 * BLOCKS_FROM, "rows"),
        ("blocks", 100, "blocks"),
        ("memory", 2 * BLOCKS_FROM, "memory"),
    ],
)
def test_subsets_are_drawn_in_blocks_where_the_data_are_many(order, n_obs, schedule):
    role = types.SimpleNamespace(order=order, batch_size=10)
    test = types.SimpleNamespace(log_likelihood=None, uses_ratio=True)
    assert data_schedule(role, test, n_obs).name == schedule
    for reads_by_itself in ({"log_likelihood": max}, {"uses_ratio": False}):
        by_itself = types.SimpleNamespace(**(vars(test) | reads_by_itself))
        assert data_schedule(role, by_itself, n_obs) == Schedule("memory")


def test_where_the_copy_lies_is_no_part_of_a_samplers_name():
    assert repr(amc.MetropolisHastings(WALK, TTEST, shuffled_copy="disk")) == repr(amc.MetropolisHastings(WALK, TTEST))


@pytest.mark.parametrize(
    ("test", "size", "evaluations", "at_both"),
    [
        (amc.ExactTest(), 0, (300, 300), False),
        (amc.SequentialTTest(0.1, 50, order="rows"), 0, (0, 0), False),
        (amc.SequentialTTest(0.1, 50, order="blocks"), 50, (600, 600), True),
        (amc.SequentialTTest(0.1, 50, order="blocks"), 2, (600, 0), True),
    ],
    ids=["all data", "rows", "a copy for each chain", "a copy for all"],
)
def test_what_a_start_evaluates(test, size, evaluations, at_both):
    """All terms where the test keeps their sum; those of the data and of a shuffled copy, once for each; else none."""
    program = amc.MetropolisHastings(WALK, test).build(logistic(), audit_every=None)
    program.schedule = program.schedule._replace(size=size)  # 150 blocks are enough for all chains
    assert tuple(program.start(np.zeros(3), own_streams(), 0).start_evaluations for _ in range(2)) == evaluations
    assert (program.at_both is not None) == at_both


@pytest.mark.parametrize(
    "test", [amc.ExactTest(), TTEST, amc.acceptance.AlwaysAccept()], ids=lambda test: type(test).__name__
)
def test_records_are_those_of_the_test(test):
    program = amc.MetropolisHastings(WALK, test).build(logistic(), audit_every=7)
    audited, asks = isinstance(test, amc.SequentialTTest), not isinstance(test, amc.acceptance.AlwaysAccept)
    assert program.audit_probability == (1.0 / 7.0 if audited else 0.0)
    assert program.attrs.get("audit_every") == (7 if audited else None)
    assert {name in program.count_names for name in AUDIT_COUNTS} == {audited}
    assert ("out_of_reach" in program.count_names) == asks
    assert ("lp" in program.value_names) == isinstance(test, amc.ExactTest)


@pytest.mark.thorough
def test_audits_tune_nothing():
    """Twenty of them leave the tuned size, and begin at any number of draws, even one."""
    sampler = amc.MetropolisHastings(amc.RandomWalk(0.2, target_acceptance=0.4), TTEST)
    auditor = sampler.build(logistic()).auditor_of({"scale_factor": 1.5}, np.zeros((1, 3)), np.random.default_rng(0))
    before = repr(auditor.state.proposal)
    assert all(auditor(np.zeros(3), number) is not None for number in range(20))
    assert repr(auditor.state.proposal) == before


def test_audits_propose_as_a_tested_step_does():
    """An untested step need not know its q ratio; audits do, however long the untested part of the chain."""
    test = amc.acceptance.AnnealedEpsilon((0.1, 0.0), (1000,), amc.SequentialTTest(batch_size=50), untested=10**6)
    program = amc.MetropolisHastings(WALK, test).build(logistic())
    assert program.auditor_of({}, np.zeros((1, 3)), np.random.default_rng(0)).state.test.untested[0] <= 0


def explained(*, proposed=2.0, log_prior=0.0, log_terms=(0.0, 0.0, 0.0), at="proposed", why=""):
    """Return what a program says of a step from 1 to `proposed`; terms are as given at one of the two, and 0 else."""
    there = proposed if at == "proposed" else 1.0

    def write(theta, data, order, lo, hi, out):
        out[:] = log_terms if theta[0] == there else 0.0

    target = types.SimpleNamespace(log_prior=lambda theta: log_prior, log_terms=write, data=(), n_obs=3)
    given = types.SimpleNamespace(target=target, proposal=types.SimpleNamespace(explain=lambda state: why))
    state = types.SimpleNamespace(theta=np.array([1.0]), proposed=np.array([proposed]), proposal=None)
    return MetropolisHastingsProgram.explain_failure(given, state)


@pytest.mark.parametrize(
    ("step", "said"),
    [
        ({"proposed": math.nan}, "the gradient of the proposal is NaN or infinite, at theta = [1.]"),
        ({"proposed": math.nan, "why": "the metric is singular"}, "the metric is singular, at theta = [1.]"),
        ({"log_prior": math.nan}, "log prior is NaN at theta = [2.]"),
        ({"log_prior": math.inf}, "log prior is +inf at theta = [2.]"),
        ({"log_terms": (0.0, math.nan, 0.0)}, "log-likelihood of datum 1 is NaN or +inf at theta = [2.]"),
        (
            {"log_terms": (-math.inf, math.inf, math.nan)},
            "log-likelihood of datum 1 and 1 more is NaN or +inf at theta = [2.]",
        ),
        ({"log_terms": (math.nan, 0.0, 0.0), "at": "here"}, "log-likelihood of datum 0 is NaN or +inf at theta = [1.]"),
        ({}, "log ratio of proposal densities is NaN from theta = [1.] to [2.]"),
    ],
)
def test_a_failure_is_explained_by_the_first_thing_that_is_undefined(step, said):
    assert explained(**step) == said


@pytest.mark.parametrize(("adapts", "restores"), [(True, True), (True, False), (False, True), (False, False)])
def test_what_tuning_settled_on_is_restored_where_there_was_tuning(adapts, restores):
    def restore(state, described):
        state.append(described["scale_factor"])

    proposal = types.SimpleNamespace(
        make_state=list, adapt=max if adapts else None, restore=restore if restores else None
    )
    assert tuned_state(proposal, {"scale_factor": 1.5}) == ([1.5] if adapts and restores else [])


def looked_at(log_density, proposed=3.0):
    """Return the answer and where it looked, as shares of the way from theta = 1."""
    looks = []

    def at(theta):
        looks.append((theta[0] - 1.0) / 2.0)
        return log_density(looks[-1])

    answer = evaluations_to_reject(at, np.ones(1), np.array([proposed]))
    assert answer in (0, len(looks))
    return answer > 0, looks


def test_out_of_reach_is_where_a_density_is_no_double_any_more():
    """exp(-745) is the smallest positive one."""
    assert math.exp(-LARGEST_FALL) > 0.0 == math.exp(-LARGEST_FALL - 1.0)


@pytest.mark.parametrize("nothing", [math.nan, math.inf])
def test_a_way_that_ends_without_a_fall_is_bisected(nothing):
    answer, looks = looked_at(lambda s: -5.0 if s <= 0.3 else nothing)
    assert not answer and looks[:5] == [0.0, 1.0, 0.5, 0.25, 0.375] and len(looks) == 1 + BISECTIONS
    assert looks[-1] == pytest.approx(0.3, abs=1e-12)


@pytest.mark.parametrize(("depth", "answer"), [(LARGEST_FALL + 1e-6, True), (LARGEST_FALL, False)])
def test_a_fall_before_the_end_puts_it_out_of_reach(depth, answer):
    def fallen(s):
        return -5.0 if s == 0.0 else math.nan if s > 0.2 else -5.0 - depth

    found, looks = looked_at(fallen)
    assert found is answer and looks[:5] == [0.0, 1.0, 0.5, 0.25, 0.125]


def test_a_place_with_a_density_is_in_reach_at_once():
    assert looked_at(lambda s: -5.0) == (False, [0.0, 1.0])
    assert looked_at(lambda s: -5.0, math.nan) == (False, [])
    assert looked_at(lambda s: -5.0 - 2.0 * LARGEST_FALL * s) == (True, [0.0, 1.0])
