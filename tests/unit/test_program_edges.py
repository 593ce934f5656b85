"""The program of Metropolis-Hastings: schedules, what a start costs, audits that tune nothing, and what it explains."""

import math
import types

import numpy as np
import pytest

import approxmcmc as amc
from approxmcmc.contracts.records import AUDIT_COUNTS
from approxmcmc.engine.streams import seed_sequences, streams
from approxmcmc.engine.terms.order import BLOCKS_FROM
from approxmcmc.samplers.metropolis_hastings.program import (
    MetropolisHastingsProgram,
    Schedule,
    data_schedule,
    tuned_state,
)
from tests.models import logistic

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


@pytest.mark.recompiles
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


@pytest.mark.recompiles
@pytest.mark.parametrize("test", [amc.ExactTest(), TTEST, amc.AlwaysAccept()], ids=lambda test: type(test).__name__)
def test_records_are_those_of_the_test(test):
    program = amc.MetropolisHastings(WALK, test).build(logistic(), audit_every=7)
    audited, asks = isinstance(test, amc.SequentialTTest), not isinstance(test, amc.AlwaysAccept)
    assert program.audit_probability == (1.0 / 7.0 if audited else 0.0)
    assert program.attrs.get("audit_every") == (7 if audited else None)
    assert {name in program.count_names for name in AUDIT_COUNTS} == {audited}
    assert ("out_of_reach" in program.count_names) == asks
    assert ("lp" in program.value_names) == isinstance(test, amc.ExactTest)


@pytest.mark.recompiles
def test_audits_tune_nothing():
    """Twenty of them leave the tuned size, and begin at any number of draws, even one."""
    sampler = amc.MetropolisHastings(amc.RandomWalk(0.2, target_acceptance=0.4), TTEST)
    auditor = sampler.build(logistic()).auditor_of({"scale_factor": 1.5}, np.zeros((1, 3)), np.random.default_rng(0))
    before = repr(auditor.state.proposal)
    assert all(auditor(np.zeros(3), number) is not None for number in range(20))
    assert repr(auditor.state.proposal) == before


@pytest.mark.recompiles
def test_audits_propose_as_a_tested_step_does():
    """A step that nobody tests need not know its q ratio; audits do, however long the untested part of the chain."""
    test = amc.AnnealedEpsilon((0.1, 0.0), (1000,), TTEST, untested=10**6)
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
