"""SliceSampler: what it refuses, and what it counts."""

import math
import types

import numpy as np
import pytest

import approxmcmc as amc
from approxmcmc.contracts import COUNT_NAMES
from approxmcmc.contracts.records import DECISIONS, EVALUATIONS, OUT_OF_REACH, TOUCHED
from approxmcmc.errors import IncompatibleError, InvalidInputError
from approxmcmc.samplers.slice import step as slices
from tests.models import logistic
from tests.planting import plain
from tests.unit.targets.test_mrf import mixed


@pytest.mark.parametrize(
    "test",
    [
        amc.acceptance.PoissonTest(),
        amc.acceptance.DelayedAcceptance(amc.ExactTest()),
        amc.acceptance.MinibatchBarker(),
        amc.ExactTest("barker"),
        amc.acceptance.AlwaysAccept(),
        amc.acceptance.AnnealedEpsilon((0.1, 0.0), steps=(3,), test=amc.SequentialTTest(batch_size=4)),
        3,
    ],
    ids=repr,
)
def test_tests_that_do_more_than_compare_are_refused(test):
    with pytest.raises(IncompatibleError, match="test must compare the log ratio with the threshold"):
        amc.samplers.SliceSampler(amc.samplers.Slice(0.1), test)


def test_other_roles_are_refused():
    with pytest.raises(IncompatibleError, match="move must be a Slice"):
        amc.samplers.SliceSampler(amc.RandomWalk(0.1))
    with pytest.raises(IncompatibleError, match="has discrete states; use Gibbs"):
        amc.samplers.SliceSampler(amc.samplers.Slice(0.1)).build(mixed())
    with pytest.raises(IncompatibleError, match="the target has 3 parameters, 2 widths were given"):
        amc.samplers.SliceSampler(amc.samplers.Slice([0.1, 0.2])).build(logistic())
    for width in (0.0, [1.0, -1.0], [[1.0]], np.inf):
        with pytest.raises(InvalidInputError, match="width must be a positive number or a vector of them"):
            amc.samplers.Slice(width)
    with pytest.raises(InvalidInputError, match='directions must be "sphere" or "coordinates"'):
        amc.samplers.Slice(0.1, directions="axes")


def half_line(theta):
    """Return the log density of N(0, 1) on theta_0 > 0."""
    return -0.5 * (theta**2).sum() if theta[0] > 0.0 else -np.inf


@pytest.mark.parametrize(
    ("log_prior", "looks", "answer", "counted"),
    [
        (-1.5, 0, 1, {TOUCHED: 3, EVALUATIONS: 3}),
        (-math.inf, 0, 0, {TOUCHED: 3, EVALUATIONS: 3, DECISIONS: 1}),
        (math.inf, 0, -1, {TOUCHED: 3, EVALUATIONS: 3, DECISIONS: 1}),
        (math.nan, 0, -1, {TOUCHED: 3, EVALUATIONS: 3, DECISIONS: 1}),
        (math.nan, 4, 0, {TOUCHED: 3 + 7, EVALUATIONS: 3 + 4 * (3 + 7), DECISIONS: 1, OUT_OF_REACH: 1}),
    ],
)
def test_a_point_is_inside_by_its_prior_and_the_test(log_prior, looks, answer, counted, monkeypatch):
    asked, count = [], np.zeros(len(COUNT_NAMES), np.int64)
    monkeypatch.setattr(slices, "place_on_line", lambda line, theta, t, out: out.fill(theta[0] + t))

    def decide(streams, clock, evidence, threshold, log_rest, test, count, value):
        asked.append((threshold, log_rest))
        return 1, 0.0

    parts = {"clock": None, "test": None, "proposal": None, "prior_rows": 3, "evaluations_to_reject": lambda: looks}
    state = types.SimpleNamespace(
        evidence=types.SimpleNamespace(n_obs=7),
        theta=np.ones(1),
        proposed=np.zeros(1),
        log_prior=[-2.0],
        log_prior_of=lambda at: log_prior + at[0] - 1.5,
        **parts,
    )
    assert plain(slices.make_is_inside(decide))(None, state, 0.5, -0.7, count, None) == answer
    assert asked == [(-0.7, 0.5)] * (answer == 1) and state.proposed.tolist() == [1.5]
    assert {k: n for k, n in enumerate(count.tolist()) if n} == counted


@pytest.mark.parametrize(("test", "audit_every"), [(amc.SequentialTTest(0.2, 20), None), (amc.ExactTest(), "auto")])
def test_no_audits_where_none_were_asked_for_or_needed(test, audit_every):
    assert (
        amc.samplers.SliceSampler(amc.samplers.Slice(0.5), test).build(logistic(), audit_every=audit_every).audits
        is None
    )


class TestChains:
    @pytest.mark.thorough
    def test_every_comparison_can_be_audited(self):
        sampler = amc.samplers.SliceSampler(amc.samplers.Slice(0.5), amc.SequentialTTest(0.2, 20))
        settings = {"draws": 60, "tune": 0, "chains": 1, "random_seed": 1, "progressbar": False}
        stats = amc.sample(logistic(), sampler, audit_every=1, **settings).sample_stats
        np.testing.assert_array_equal(stats["decisions_audited"], stats["decisions_made"])
        assert (stats["acceptance_rate"] == 1.0).all()
        assert 0 < int(stats["wrong_decisions"].sum()) < 0.3 * int(stats["decisions_made"].sum())

    @pytest.mark.thorough
    def test_audits_by_time_look_at_its_draws(self):
        sampler = amc.samplers.SliceSampler(amc.samplers.Slice(0.5), amc.SequentialTTest(0.05, 100))
        settings = {"draws": 60, "tune": 0, "chains": 1, "random_seed": 1, "progressbar": False}
        stats = amc.sample(logistic(), sampler, **settings).sample_stats
        assert np.isfinite(stats["audited_log_ratio"]).any()

    @pytest.mark.thorough
    def test_points_outside_the_support_are_outside_the_slice(self):
        target = logistic(prior=half_line)
        settings = {"draws": 200, "tune": 0, "chains": 1, "random_seed": 1, "progressbar": False}
        trace = amc.sample(
            target, amc.samplers.SliceSampler(amc.samplers.Slice(5.0)), initvals=np.array([0.3, 0.0, 0.0]), **settings
        )
        assert float(trace.posterior["beta"][..., 0].min()) > 0.0
        touched = trace.sample_stats["datapoints_touched"]
        assert int(touched.sum()) < 300 * int(trace.sample_stats["decisions_made"].sum())
