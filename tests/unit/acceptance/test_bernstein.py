"""Settings, ranges, records and refusals of the empirical Bernstein test."""

import json
import math

import numpy as np
import pytest

import approxmcmc as amc
from approxmcmc.acceptance import BernsteinTest
from approxmcmc.acceptance.bernstein import bound_factors, half_width
from approxmcmc.acceptance.laws.looks import look_sizes
from approxmcmc.api import sample
from approxmcmc.contracts import BoundedTermsTarget, Component
from approxmcmc.contracts.records import COUNT_NAMES
from approxmcmc.engine.terms.batches import full_terms
from approxmcmc.engine.terms.moments import reset
from approxmcmc.errors import IncompatibleError, InvalidInputError, SamplingWarning
from approxmcmc.proposals import RandomWalk
from approxmcmc.samplers import Gibbs, MetropolisHastings
from approxmcmc.surrogate import ControlVariate
from approxmcmc.targets import FunctionTarget, GLMTarget
from tests.decisions import Population, decide_once, evidence_of, read_without_drawing
from tests.fakes import fake_trace
from tests.models import logistic, normal_loglik, normal_logprior, normal_mean
from tests.planting import plain
from tests.unit.test_counts import run_counted

SEED = 20140621


def draw(test, target=None, scale=0.2, **settings):
    arguments = {"draws": 60, "tune": 20, "chains": 1, "random_seed": SEED, "progressbar": False} | settings
    return sample(target or logistic(), MetropolisHastings(RandomWalk(scale), test), **arguments)


class TestSettings:
    def test_round_trip_through_a_dict(self):
        for test in (BernsteinTest(), BernsteinTest(0.1, 50, 1.5, range=2.5, p=3.0, bound="serfling", order="rows")):
            assert Component.from_dict(json.loads(json.dumps(test.to_dict()))) == test
        assert amc.acceptance.BernsteinTest is BernsteinTest

    @pytest.mark.parametrize(
        ("settings", "match"),
        [
            ({"delta": -0.1}, "delta must be at least 0"),
            ({"delta": 1.0}, "found 1.0"),
            ({"delta": math.nan}, "found nan"),
            ({"batch_size": 1}, "batch_size.* found 1"),
            ({"growth": 0.5}, "growth"),
            ({"p": 1.0}, "p must be finite and over 1"),
            ({"bound": "hoeffding"}, "bound must be one of"),
            ({"range": 0.0}, "'target', 'observed' or a positive number, found 0.0"),
            ({"range": "guess"}, "found 'guess'"),
            ({"range": True}, "found True"),
            ({"order": "sorted"}, "order must be one of"),
        ],
    )
    def test_out_of_range_is_refused_when_made(self, settings, match):
        with pytest.raises(InvalidInputError, match=match):
            BernsteinTest(**settings)


class TestFactors:
    LOOKS = look_sizes(10_000, 500, 2.0)

    @pytest.mark.parametrize("p", [1.1, 2.0, 5.0])
    def test_the_levels_add_up_to_no_more_than_delta(self, p):
        _, reach = bound_factors(look_sizes(100_000, 2), 0.1, p)
        levels = 3.0 * np.exp(-reach * look_sizes(100_000, 2) / 3.0)
        assert 0.5 * 0.1 < levels.sum() <= 0.1

    def test_the_first_look_by_hand(self):
        spread, reach = bound_factors(self.LOOKS, 0.05)  # delta_1 = 0.05 / 2, log(3 / 0.025) = 4.7875
        assert spread[0] == pytest.approx(math.sqrt(2.0 * 4.787492 / 500.0), rel=1e-6)
        assert reach[0] == pytest.approx(3.0 * 4.787492 / 500.0, rel=1e-6)
        spread, reach = bound_factors(self.LOOKS, 0.05, bound="serfling")  # log(5 / 0.025) = 5.2983
        assert spread[0] == pytest.approx(math.sqrt(2.0 * (1.0 - 499.0 / 10_000.0) * 5.298317 / 500.0), rel=1e-6)
        assert reach[0] == pytest.approx((7.0 / 3.0 + 3.0 / math.sqrt(2.0)) * 5.298317 / 500.0, rel=1e-6)

    def test_delta_zero_never_stops(self):
        assert np.isinf(bound_factors(self.LOOKS, 0.0)).all()


class TestRanges:
    @pytest.mark.parametrize("kind", ["plain", "control variate"])
    def test_the_targets_bound_holds(self, kind, rng):
        plain = logistic(200, 3)
        target = plain if kind == "plain" else ControlVariate(plain)
        assert isinstance(target, BoundedTermsTarget)
        compiled, (kernel, numbers) = target.compile(), target.compile_term_range()
        ratios = []
        for _ in range(30):
            theta, proposed = rng.normal(size=3), rng.normal(size=3)
            terms = [full_terms(compiled.log_terms, point, compiled.data, 200) for point in (theta, proposed)]
            ratios.append(np.ptp(terms[1] - terms[0]) / kernel(theta, proposed, numbers))
        assert 0.02 < max(ratios) <= 1.0  # holds, and is not void

    def test_a_linear_model_of_the_users(self):
        def loglik_eta(eta, y):
            return -abs(y - eta)  # slope at most 1

        X = np.array([[3.0, 4.0], [0.0, 1.0]])
        target = GLMTarget(loglik_eta, X, np.zeros(2), slope_bound=1.0)
        kernel, numbers = target.compile_term_range()
        assert kernel(np.zeros(2), np.array([0.6, 0.8]), numbers) == pytest.approx(10.0)  # 2 x 5 x 1
        with pytest.raises(InvalidInputError, match="slope_bound must be positive"):
            GLMTarget(loglik_eta, X, np.zeros(2), slope_bound=-1.0)
        with pytest.raises(IncompatibleError, match="does not bound its terms"):
            GLMTarget(loglik_eta, X, np.zeros(2)).compile_term_range()

    @pytest.mark.thorough
    def test_a_model_of_the_users(self):
        def term_range(theta, proposed):
            return 6.0 * abs(proposed[0] - theta[0])

        x = normal_mean().data[0]
        target = FunctionTarget(normal_loglik, normal_logprior, data=x, n_obs=100, dim=1, term_range=term_range)
        trace = draw(BernsteinTest(0.1, 20), target)
        assert int(trace.sample_stats["range_violations"].sum()) == 0
        assert np.ptp(x) < 6.0

    @pytest.mark.parametrize(
        ("target", "match"),
        [
            (normal_mean(), "FunctionTarget does not bound its terms"),
            (lambda: ControlVariate(normal_mean(1000)), "takes a regression of the library, or a GLMTarget with"),
        ],
    )
    def test_a_target_that_bounds_nothing_is_refused(self, target, match):
        target = target() if callable(target) else target
        with pytest.raises(IncompatibleError, match=match):
            MetropolisHastings(RandomWalk(0.1), BernsteinTest()).build(target)

    def test_gibbs_needs_a_number(self):
        field = amc.targets.BinaryMRF.random_triples(6, scale=0.1, random_seed=0)
        with pytest.raises(IncompatibleError, match="range=<number>"):
            Gibbs(BernsteinTest(0.1, 4)).build(field)
        Gibbs(BernsteinTest(0.1, 4, range=4.0)).build(field)


@pytest.mark.thorough
def test_a_range_that_is_false_where_the_chain_goes_is_counted_and_told():
    def term_range(theta, proposed):
        step = abs(proposed[0] - theta[0])
        return 0.1 * step if 0.05 < theta[0] < 0.3 else 10.0 * step  # no pair of the check starts there

    (x,) = normal_mean().data
    target = FunctionTarget(normal_loglik, normal_logprior, data=x, n_obs=100, dim=1, term_range=term_range)
    with pytest.warns(SamplingWarning, match="lay further apart than the range"):
        trace = draw(BernsteinTest(0.05, 20), target, initvals=np.array([0.15]))
    assert (trace.sample_stats["range_violations"] > 0).mean() > 0.3
    assert "range of the terms" in trace["posterior"].attrs["problems"]


class TestRuns:
    def test_every_evaluation_is_booked(self):
        counts, seen, n = run_counted(BernsteinTest(0.5, 10, 1.0, range="observed"))
        assert counts["likelihood_evaluations"].tolist() == [len(calls) for calls in seen]
        assert counts["datapoints_touched"].tolist() == [len(set(calls[:, 0])) for calls in seen]
        assert counts["datapoints_touched"].min() < n  # some stop early
        np.testing.assert_array_equal(counts["decision_rounds"], np.ceil(counts["datapoints_touched"] / 10))

    @pytest.mark.recompiles
    @pytest.mark.needs_jit
    @pytest.mark.filterwarnings("ignore::approxmcmc.errors.SamplingWarning")
    def test_a_range_that_is_too_small_is_noticed(self):
        target = logistic()
        trace = draw(BernsteinTest(0.05, 20, range=1e-6), target, audit_every=1)
        stats = trace.sample_stats
        assert (stats["range_violations"] == 1).all()
        assert (stats["datapoints_touched"] == 300).all()
        assert int(stats["wrong_decisions"].sum()) == 0
        assert "range of the terms" in trace["posterior"].attrs["problems"]
        assert "range_violations" not in draw(BernsteinTest(0.05, 20, range="observed"), target).sample_stats

    @pytest.mark.thorough
    def test_too_many_wrong_decisions_are_reported(self):
        """Four of 4000 data carry the mean: the observed range misses them, and 90 % of its decisions are wrong."""
        x = np.zeros(2000)
        x[::500] = 1.0

        def loglik(theta, data, i):
            (x,) = data
            return theta[0] * x[i]

        def logprior(theta):
            return -4.0 * math.exp(theta[0])  # the posterior of a Poisson rate exp(theta) after 4 events

        target = FunctionTarget(loglik, logprior, data=x, n_obs=2000, dim=1, initial_point=[0.0])
        with pytest.warns(SamplingWarning, match=r"more than delta = 0\.05 of BernsteinTest\(range='observed'\)"):
            draw(BernsteinTest(0.05, 100, range="observed"), target, scale=1.0, draws=200, audit_every=1)

    @pytest.mark.thorough
    def test_delta_zero_and_a_batch_of_all_data_are_exact(self):
        exact = draw(amc.ExactTest())
        for test in (BernsteinTest(0.0, 30), BernsteinTest(0.1, 300)):
            trace = draw(test)
            np.testing.assert_array_equal(trace.posterior["beta"], exact.posterior["beta"])
            assert (trace.sample_stats["datapoints_touched"] == 300).all()


class TestDecisions:
    @pytest.mark.parametrize("delta", [0.01, 0.3])
    def test_serflings_factor_on_both_sides_of_half_the_data(self, delta):
        """Equation 5 of Bardenet and Maillard (2015) has the better of two factors: they meet about N / 2."""
        looks = np.array([2, 49, 50, 51, 99, 100])
        spread, _ = bound_factors(looks, delta, 2.0, "serfling")
        for j, n in enumerate(looks.tolist()):
            spent = delta / (2.0 * (j + 1) ** 2)
            rho = 1.0 - (n - 1) / 100 if n <= 50 else (1.0 - n / 100) * (1.0 + 1.0 / n)
            assert spread[j] == pytest.approx(math.sqrt(2.0 * rho * math.log(5.0 / spent) / n), rel=1e-12)

    def test_settings_at_their_limits(self):
        assert BernsteinTest(0.1, 2).batch_size == 2
        with pytest.raises(InvalidInputError, match="finite"):
            BernsteinTest(0.1, p=math.inf)
        with pytest.raises(InvalidInputError, match="batch_size"):
            BernsteinTest(0.1, 1)

    def test_terms_of_no_range_are_decided_at_the_first_look(self):
        """All alike, and known to be so: the mean of two is that of all."""
        decision, log_ratio, booked, _ = decide_once(BernsteinTest(0.1, 2), np.full(8, 0.5), 0.0, 0.0)
        assert (decision, log_ratio, booked["datapoints_touched"]) == (1, 4.0, 2)
        assert "range_violations" not in booked

    @pytest.mark.parametrize(("told", "width"), [(0.0, 0.0), (1e-9, math.inf)])
    def test_the_form_decides_at_once_without_a_range_and_never_beyond_it(self, told, width):
        """Terms that are said to be alike, rightly or wrongly."""
        part = BernsteinTest(0.1, 2).build_test(Population(np.full(8, 0.5)))
        evidence, count = evidence_of(0.5 + told * np.arange(8)), np.zeros(len(COUNT_NAMES), np.int64)
        plain(reset)(evidence.moments)
        read_without_drawing(None, evidence, 0, 2, count)
        assert plain(half_width)(evidence, part.make_state(), 0, 2) == width

    def test_a_distance_on_the_boundary_is_read_on(self):
        """Terms of no range that are 0: distance and boundary are both 0."""
        _, _, booked, _ = decide_once(BernsteinTest(0.1, 2), np.zeros(8), 0.0, 0.0)
        assert booked["datapoints_touched"] == 8

    def test_one_violation_is_a_finding_above_a_limit_of_0(self):
        counts = {"range_violations": np.ones((2, 5), int), "decisions_made": np.ones((2, 5), int)}
        trace = fake_trace(np.zeros((2, 5)), stats=counts)
        [finding] = BernsteinTest(0.1).problems(trace["sample_stats"].dataset)
        assert (finding.value, finding.limit) == (10, 0.0)
