"""Costs in the trace equal what an instrumented likelihood counts, step by step."""

import numpy as np
import pytest

from approxmcmc.acceptance import AlwaysAccept, ExactTest, SequentialTTest
from approxmcmc.api import sample
from approxmcmc.contracts import COUNT_NAMES, VALUE_NAMES
from approxmcmc.engine.streams import seed_sequences, streams
from approxmcmc.proposals import RandomWalk
from approxmcmc.samplers import MetropolisHastings
from tests.models import logistic, normal_logprior, normal_mean


def counted_target(n=90):
    """Return a target, and the array among its data into which the likelihood writes every call, compiled or plain."""
    log = np.zeros((8000, 2))  # rows: (datum, theta); row 0 holds the number of calls

    def loglik(theta, data, i):
        x, log = data
        log[0, 0] += 1
        call = int(log[0, 0])
        log[call, 0], log[call, 1] = i, theta[0]
        return -0.5 * (x[i] - theta[0]) ** 2

    from approxmcmc.targets import FunctionTarget

    target = FunctionTarget(loglik, normal_logprior, data=(normal_mean(n).data[0], log), n_obs=n, dim=1)
    log = target.data[1]
    log[:] = 0.0  # as when the target was made: a target refuses data that were changed since
    return target, log


def run_counted(test, *, steps=40, audit_every=None):
    """Advance one chain a step at a time; return the records and, per step, the data evaluated at each theta."""
    n = 90
    target, log = counted_target(n)
    program = MetropolisHastings(RandomWalk(0.2), test).build(target, audit_every=audit_every)
    chain = program.start(np.array([0.3]), streams(seed_sequences(3, 1)[0][0]), 0)
    log[:] = 0.0
    seen = []
    counts, values = np.empty((steps, len(COUNT_NAMES)), np.int64), np.empty((steps, len(VALUE_NAMES)))
    draws = np.empty((steps, 1))
    for step in range(steps):
        chain.advance(1, 1, draws[step : step + 1], counts[step : step + 1], values[step : step + 1])
        calls = int(log[0, 0])
        seen.append(log[1 : calls + 1].copy())
        log[:] = 0.0
    return dict(zip(COUNT_NAMES, counts.T, strict=True)), seen, n


@pytest.mark.recompiles
@pytest.mark.parametrize("test", [ExactTest(), SequentialTTest(0.2, 10), SequentialTTest(0.2, 10, 1.5)], ids=repr)
def test_every_evaluation_is_booked(test):
    counts, seen, n = run_counted(test)
    assert counts["likelihood_evaluations"].tolist() == [len(calls) for calls in seen]
    assert counts["datapoints_touched"].tolist() == [len(set(calls[:, 0])) for calls in seen]
    assert (counts["decisions_made"] == 1).all()
    if isinstance(test, SequentialTTest):
        assert len(set(counts["datapoints_touched"])) > 3  # some stop early, some late
        assert counts["datapoints_touched"].min() >= 10
        assert counts["datapoints_touched"].max() <= n


@pytest.mark.recompiles
@pytest.mark.parametrize(
    "test", [ExactTest(), SequentialTTest(0.2, 10), SequentialTTest(0.2, 10, order="blocks")], ids=repr
)
def test_what_a_run_evaluates_is_booked_under_starts_tuning_or_draws(test):
    """An exact chain evaluates all terms where it starts, one that reads in blocks compares its copy with the data."""
    target, log = counted_target()
    sampler, settings = MetropolisHastings(RandomWalk(0.2), test), {"audit_every": None, "progressbar": False}
    log[:] = 0.0
    trace = sample(target, sampler, draws=8, tune=4, chains=2, random_seed=3, **settings)
    attrs = trace.sample_stats.attrs
    booked = int(trace.sample_stats["likelihood_evaluations"].sum()) + sum(attrs["tuning_likelihood_evaluations"])
    assert booked + attrs["setup_likelihood_evaluations"] == int(log[0, 0])


@pytest.mark.recompiles
def test_always_accept_reads_nothing_and_decides_nothing():
    counts, seen, _ = run_counted(AlwaysAccept())
    assert sum(len(calls) for calls in seen) == 0
    assert counts["decisions_made"].sum() == counts["datapoints_touched"].sum() == 0
    assert (counts["accepted"] == 1).all()


@pytest.mark.recompiles
def test_audits_are_booked_apart():
    test = SequentialTTest(0.2, 10)
    plain, seen, n = run_counted(test)
    audited, seen_audited, _ = run_counted(test, audit_every=1)
    for name in ("likelihood_evaluations", "datapoints_touched", "decisions_made", "decision_rounds"):
        np.testing.assert_array_equal(plain[name], audited[name])
    assert (audited["decisions_audited"] == 1).all()
    assert [len(calls) for calls in seen_audited] == [len(calls) + 2 * n for calls in seen]


@pytest.mark.recompiles
def test_rounds_are_looks():
    counts, _, _ = run_counted(SequentialTTest(0.2, 10))
    np.testing.assert_array_equal(counts["decision_rounds"], np.ceil(counts["datapoints_touched"] / 10))


@pytest.mark.needs_jit
@pytest.mark.filterwarnings("ignore::approxmcmc.errors.SamplingWarning")
def test_audits_are_off_the_clock():
    """An audit here reads 400 times the data of a step; a draw's seconds must not show it, the run's seconds must.

    Wide limits, since a machine may be busy: unpaused clocks would differ by two orders of magnitude.
    """
    target = logistic(n=20_000)
    sampler = MetropolisHastings(RandomWalk(0.01), SequentialTTest(0.5, 100))
    settings = {"draws": 300, "tune": 0, "chains": 1, "random_seed": 3, "initvals": np.zeros(3), "progressbar": False}

    def seconds(audit_every):
        trace = sample(target, sampler, audit_every=audit_every, **settings)
        on_the_clock = float(trace.sample_stats["perf_counter_diff"].median())
        return on_the_clock, trace.posterior.attrs["sampling_time"] / 300

    plain, audited = seconds(None), seconds(1)
    assert audited[0] < 10 * plain[0]
    assert audited[1] > 10 * audited[0]
