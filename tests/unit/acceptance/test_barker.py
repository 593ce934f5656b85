"""Settings, costs, records and audits of the minibatch Barker test; the mixture that goes with it."""

import json
import math

import numpy as np
import pytest
from scipy import stats

import approxmcmc as amc
from approxmcmc.acceptance import ExactTest, MinibatchBarker
from approxmcmc.acceptance.barker_decision import log_ratio_variance
from approxmcmc.api import sample
from approxmcmc.contracts import Component
from approxmcmc.engine.terms import moments
from approxmcmc.engine.terms.batches import full_terms
from approxmcmc.errors import InvalidInputError, SamplingWarning
from approxmcmc.proposals import RandomWalk
from approxmcmc.samplers import MetropolisHastings
from approxmcmc.targets import FunctionTarget, GaussianMixture
from tests.models import logistic, normal_mean
from tests.pinned import pin
from tests.planting import plain
from tests.unit.test_counts import run_counted

SEED = 20140621
# Written down from a compiled run; plain Python draws the same.
PINNED = ("55664f6e9e151341", [-1.148427369413495, -0.09646941346247818, 0.9628622724750933])


def draw(test, target=None, scale=0.2, **settings):
    arguments = {"draws": 60, "tune": 20, "chains": 2, "random_seed": SEED, "progressbar": False} | settings
    return sample(target or logistic(), MetropolisHastings(RandomWalk(scale), test), **arguments)


class TestSettings:
    def test_round_trip_through_a_dict(self):
        test = MinibatchBarker(0.25, 50, temperature=10.0, correction="nnls", max_error=0.5)
        assert Component.from_dict(json.loads(json.dumps(test.to_dict()))) == test
        assert test != MinibatchBarker()

    @pytest.mark.parametrize(
        ("settings", "match"),
        [
            ({"target_variance": 0.0}, "target_variance must lie between 0.01 and 2.25, found 0.0"),
            ({"target_variance": 3.0}, "found 3.0"),
            ({"target_variance": float("nan")}, "found nan"),
            ({"batch_size": 1}, "batch_size must be an integer >= 2, found 1"),
            ({"batch_size": 10.0}, "found 10.0"),
            ({"temperature": 0.0}, "temperature must be positive"),
            ({"temperature": math.inf}, "found inf"),
            ({"correction": "lasso"}, "correction must be one of"),
            ({"max_error": 0.0}, "max_error must be positive, or None, found 0.0"),
        ],
    )
    def test_out_of_range_is_refused_when_made(self, settings, match):
        with pytest.raises(InvalidInputError, match=match):
            MinibatchBarker(**settings)

    @pytest.mark.thorough
    @pytest.mark.parametrize("variance", [0.01, 0.81, 1.0, 2.25])
    def test_the_ends_of_the_range_are_in_it(self, variance):
        part = MinibatchBarker(variance, correction="minimax").build_test(logistic())
        assert part.make_state().correction_error < 2e-3

    def test_public_names(self):
        assert amc.acceptance.MinibatchBarker is MinibatchBarker
        assert amc.acceptance.correction_distribution().sup_error < 1e-7
        assert amc.acceptance.minibatch_barker_error_bound([0.0, 1.0, 2.0], 100) > 0.5
        assert amc.acceptance.minibatch_barker_error_bound([0.0, 1.0], 100) > 0.5

    @pytest.mark.parametrize(
        ("terms", "size"), [([1.0, 1.0], 10), ([1.0], 10), ([1.0, math.nan], 10), ([0.0, 1.0], 0), ([[0.0, 1.0]], 10)]
    )
    def test_the_error_bound_needs_terms_that_differ(self, terms, size):
        with pytest.raises(InvalidInputError, match="minibatch_barker_error_bound"):
            amc.acceptance.minibatch_barker_error_bound(terms, size)


@pytest.mark.thorough
@pytest.mark.parametrize("test", [MinibatchBarker(batch_size=10), MinibatchBarker(0.5, 7)], ids=repr)
def test_every_evaluation_is_booked(test):
    counts, seen, n = run_counted(test)
    assert counts["likelihood_evaluations"].tolist() == [len(calls) for calls in seen]
    assert counts["datapoints_touched"].tolist() == [len(set(calls[:, 0])) for calls in seen]
    assert (counts["decisions_made"] == 1).all()
    assert len(set(counts["datapoints_touched"])) > 3
    np.testing.assert_array_equal(counts["decision_rounds"], np.ceil(counts["datapoints_touched"] / test.batch_size))
    audited, seen_audited, _ = run_counted(test, audit_every=1)
    for name in ("likelihood_evaluations", "datapoints_touched", "decisions_made", "decision_rounds", "accepted"):
        np.testing.assert_array_equal(counts[name], audited[name])
    # 64 replications of the minibatch cost one pass over the data.
    assert [len(calls) for calls in seen_audited] == [len(calls) + 2 * n for calls in seen]


class TestTheLaw:
    def test_which_setting_a_method_does_not_describe(self):
        plain_test, bounded, cold = MinibatchBarker(), MinibatchBarker(max_error=0.1), MinibatchBarker(temperature=2.0)
        assert plain_test.why_law_unknown("enumerate") == plain_test.why_law_unknown("") == ""
        assert cold.why_law_unknown("enumerate") == ""
        assert "max_error" in bounded.why_law_unknown("enumerate")
        assert all("Gaussian regime" in test.why_law_unknown("") for test in (bounded, cold))

    @pytest.mark.parametrize(("n", "variance"), [(5, 0.0), (4, 6.25 * 2.0 / 4 / 5)])
    def test_the_variance_of_an_estimate_from_n_of_five(self, n, variance):
        """S^2 = (N / K)^2 M_2 / (n (n - 1)) (1 - n / N), with M_2 = 6 and K = 2."""
        seen = np.zeros(7)
        seen[moments.M2] = 6.0
        assert plain(log_ratio_variance)(seen, n, 5, 2.0) == pytest.approx(variance, rel=1e-14)


class TestRecords:
    @pytest.mark.recompiles
    @pytest.mark.needs_jit
    def test_variance_skewness_and_acceptance_probability(self):
        trace = draw(MinibatchBarker(0.5, 30), draws=300, audit_every=5)
        stats_ = trace.sample_stats
        assert 0.0 < stats_["log_ratio_variance"].max() < 0.5
        whole = stats_["datapoints_touched"] == trace.posterior.attrs["n_obs"]
        assert (stats_["log_ratio_variance"].where(whole, 0.0) == 0.0).all()
        assert (stats_["skewness_ratio"].where(whole, 0.0) == 0.0).all()
        ratio = abs(stats_["term_skewness"]) / np.sqrt(stats_["datapoints_touched"])
        np.testing.assert_allclose(stats_["skewness_ratio"].where(~whole, ratio), ratio, rtol=1e-12)
        assert ((stats_["acceptance_rate"] > 0.0) & (stats_["acceptance_rate"] < 1.0)).all()
        audited = stats_["decisions_audited"] == 1
        assert (np.isfinite(stats_["audit_acceptance_error"]) == audited).all()
        assert (abs(stats_["audit_acceptance_error"].where(audited, 0.0)) < 0.3).all()
        assert "audited_mu_std" not in stats_ and "lp" not in stats_
        for name in ("log_ratio_variance", "term_skewness", "skewness_ratio", "audit_acceptance_error"):
            assert stats_[name].attrs["long_name"]

    def test_other_tests_have_no_such_columns(self):
        assert "log_ratio_variance" not in draw(ExactTest("barker")).sample_stats

    @pytest.mark.needs_jit
    def test_the_acceptance_probability_is_that_of_the_decision(self):
        """Over many steps, as many accepts as the recorded probabilities add up to: 5 standard errors, 6e-7."""
        s = draw(MinibatchBarker(batch_size=30), draws=2000, audit_every=None).sample_stats
        p, accepted = s["acceptance_rate"].values, s["accepted"].values
        assert abs((accepted - p).sum()) < 5.0 * math.sqrt((p * (1.0 - p)).sum())


class TestDraws:
    @pytest.mark.needs_jit
    def test_audits_never_shift_a_chain(self):
        test = MinibatchBarker(batch_size=20)
        plain, audited = draw(test, audit_every=None), draw(test, audit_every=1)
        np.testing.assert_array_equal(plain.posterior["beta"], audited.posterior["beta"])
        np.testing.assert_array_equal(
            plain.sample_stats["datapoints_touched"], audited.sample_stats["datapoints_touched"]
        )

    @pytest.mark.thorough
    def test_the_temperature_of_the_test_is_that_of_the_target(self):
        """MinibatchBarker(temperature=K) on a target equals K = 1 on the tempered target."""
        x = GaussianMixture.simulated(2000).x
        one = draw(MinibatchBarker(temperature=20.0), GaussianMixture(x), audit_every=4)
        other = draw(MinibatchBarker(), GaussianMixture(x, temperature=20.0), audit_every=4)
        np.testing.assert_array_equal(one.posterior["theta1"], other.posterior["theta1"])
        np.testing.assert_allclose(
            one.sample_stats["audit_acceptance_error"], other.sample_stats["audit_acceptance_error"], atol=1e-9
        )

    @pytest.mark.thorough
    def test_they_are_the_same_with_and_without_compilation(self):
        trace = draw(MinibatchBarker(0.5, batch_size=25), chains=1, audit_every=10)
        assert pin(trace.posterior["beta"][0], trace.sample_stats["datapoints_touched"][0]) == PINNED

    @pytest.mark.thorough
    def test_a_datum_of_probability_zero_decides(self):
        def loglik(theta, data, i):
            (x,) = data
            return -math.inf if x[i] > theta[0] else -theta[0] * 0.01  # x uniform below theta

        def logprior(theta):
            return 0.0

        x = np.random.default_rng(0).random(200)
        target = FunctionTarget(loglik, logprior, data=x, n_obs=200, dim=1, initial_point=[2.0])
        trace = draw(MinibatchBarker(batch_size=50), target, scale=1.0, draws=400, initvals=np.array([2.0]), tune=0)
        # A batch that misses the largest datum may let theta slip below it, but not below a batch's worth of them.
        assert trace.posterior["theta"].min() > np.quantile(x, 0.8)


class TestWarnings:
    @pytest.mark.thorough
    def test_skewed_terms_are_reported(self):
        def loglik(theta, data, i):
            (x,) = data
            return theta[0] - x[i] * math.exp(theta[0])  # exponential waiting times with rate exp(theta)

        def logprior(theta):
            return 0.0

        x = np.random.default_rng(1).exponential(size=3000)
        target = FunctionTarget(loglik, logprior, data=x, n_obs=3000, dim=1)
        with pytest.warns(SamplingWarning, match=r"\|skewness\| / sqrt\(n\)"):
            draw(MinibatchBarker(batch_size=50), target, scale=0.02, draws=100)

    @pytest.mark.thorough
    def test_normal_terms_are_not(self, recwarn):
        trace = draw(MinibatchBarker(batch_size=100), normal_mean(2000), scale=0.01, draws=200)
        assert "skewed terms" not in trace["posterior"].attrs["problems"]


class TestMoments:
    def test_skewness_and_kurtosis_agree_with_scipy_whatever_the_batches(self, rng):
        values = rng.gamma(2.0, size=1000) + 1e5
        state = np.empty(moments.SIZE)
        moments.reset(state)
        for batch in np.split(values, [1, 2, 300, 301, 800]):
            moments.merge(state, batch.copy(), len(batch))
        assert moments.skewness(state) == pytest.approx(stats.skew(values), rel=1e-7)
        assert moments.kurtosis(state) == pytest.approx(stats.kurtosis(values, fisher=False), rel=1e-7)

    def test_equal_values_have_neither(self):
        state = np.empty(moments.SIZE)
        moments.reset(state)
        moments.merge(state, np.full(5, 3.0), 5)
        assert moments.skewness(state) == moments.kurtosis(state) == 0.0


class TestMixture:
    TARGET = GaussianMixture.simulated(400, temperature=3.0, random_seed=5)

    @pytest.mark.parametrize("theta", [(0.0, 1.0), (1.0, -1.0), (-3.0, 0.2), (40.0, 100.0)])
    def test_terms_are_the_density_of_the_mixture(self, theta):
        kernels = self.TARGET.compile()
        first, second = (stats.norm.logpdf(self.TARGET.x, mean, 2**0.5) for mean in (theta[0], sum(theta)))
        expected = (np.logaddexp(first, second) - math.log(2.0)) / 3.0
        terms = full_terms(kernels.log_terms, np.array(theta), self.TARGET.data, 400)
        np.testing.assert_allclose(terms, expected, rtol=1e-12)

    def test_the_prior_and_the_second_mode(self):
        density = self.TARGET.log_density()
        assert density(np.array([0.2, 0.9])) + 0.05 * 0.2**2 == pytest.approx(
            density(np.array([1.1, -0.9])) + 0.05 * 1.1**2, abs=1e-12
        )
        log_prior = self.TARGET.compile().log_prior
        expected = stats.norm.logpdf(3.0, 0.0, 10**0.5) - stats.norm.logpdf(0.0, 0.0, 10**0.5)
        assert log_prior(np.array([3.0, 0.0])) == pytest.approx(expected, rel=1e-12)

    @pytest.mark.thorough
    def test_nodes_stand_in_for_the_data(self):
        target = GaussianMixture.simulated(30_000, random_seed=6)
        kernels, density = target.compile(), target.log_density()
        exact, nodes = [], []
        for theta in np.array([[0.0, 1.0], [1.0, -1.0], [-2.0, 3.0], [0.3, 0.1]]):
            terms = full_terms(kernels.log_terms, theta, target.data, target.n_obs)
            exact.append(terms.sum() + kernels.log_prior(theta))
            nodes.append(density(theta))
        np.testing.assert_allclose(np.diff(exact), np.diff(nodes), atol=1e-5)
        _, weights = target._nodes()
        assert weights.sum() == pytest.approx(30_000) and weights.min() >= 0.0

    @pytest.mark.recompiles
    @pytest.mark.needs_jit
    @pytest.mark.parametrize("n_obs", [300, 30_000])
    def test_the_pymc_twin_is_the_same_posterior(self, n_obs):
        target = GaussianMixture.simulated(n_obs, temperature=2.0, random_seed=7)
        logp = target.to_pymc().compile_logp(mode="FAST_COMPILE")
        density = target.log_density()
        points = np.array([[0.0, 1.0], [1.0, -1.0], [-1.0, 2.0]])
        twin = [float(logp({"theta1": a, "theta2": b})) for a, b in points]
        np.testing.assert_allclose(np.diff(twin), np.diff([density(point) for point in points]), rtol=1e-7)

    def test_data_and_settings_are_checked_and_hashed(self):
        x = self.TARGET.x
        assert self.TARGET.content_hash() == GaussianMixture(x, temperature=3.0).content_hash()
        assert self.TARGET.content_hash() != GaussianMixture(x, temperature=2.0).content_hash()
        assert self.TARGET.content_hash() != GaussianMixture(x, temperature=3.0, variance=1.0).content_hash()
        for settings in ({"x": x[None]}, {"x": x, "variance": 0.0}, {"x": x, "temperature": -1.0}, {"x": [math.nan]}):
            with pytest.raises(InvalidInputError, match="GaussianMixture"):
                GaussianMixture(**settings)
