"""Populations and densities at the edge: a single datum, data of probability 0, infinite densities, temperatures.

Each test here failed before the library knew of its case.
"""

import math

import numpy as np
import pytest

import approxmcmc as amc
from approxmcmc.bounds import couplings, estimate_delta, transition_matrix
from approxmcmc.bounds.finite import stationary_distribution
from approxmcmc.design.pairs import collect_pairs
from approxmcmc.diagnostics import importance_estimates
from approxmcmc.diagnostics.compare import compare_samplers
from approxmcmc.diagnostics.estimands import evaluate, evaluate_reference
from approxmcmc.errors import GoldStandardError, IncompatibleError, InvalidInputError, SamplingWarning
from approxmcmc.samplers.gibbs.replication import realised_conditional
from studies.tools.discrete import empirical_conditional
from tests.fakes import fake_trace
from tests.models import logistic, normal_loglik

pytestmark = pytest.mark.recompiles  # corners of many pairings, each a chain of its own

QUIET = {"chains": 1, "random_seed": 20140621, "progressbar": False}


def chain(target, sampler, **settings):
    """Return a short trace without tuning."""
    return amc.sample(target, sampler, **{"draws": 60, "tune": 0, **QUIET, **settings})


def uniform_loglik(theta, data, i):
    """Return log of the uniform density on (0, theta)."""
    return -math.log(theta[0]) if data[0][i] < theta[0] else -math.inf


def on_the_positive(theta):
    """Return a flat log prior on (0, 3)."""
    return 0.0 if 0.0 < theta[0] < 3.0 else -math.inf


def uniform_model(n=300):
    """Return the posterior of the end of a uniform law: a proposal below the largest datum has likelihood 0."""
    x = (np.arange(n) + 0.5) / n
    return amc.FunctionTarget(uniform_loglik, on_the_positive, data=x, n_obs=n, dim=1, initial_point=np.array([1.05]))


class TestSingleDatum:
    """N = 1: every test reads the datum, and decides as `ExactTest` does."""

    TESTS = (
        amc.SequentialTTest(0.1, batch_size=500),
        amc.acceptance.BernsteinTest(0.1, batch_size=500),
        amc.acceptance.AnnealedEpsilon((0.1, 0.0), (20,), amc.SequentialTTest(batch_size=50, growth=2.0)),
    )

    @pytest.mark.thorough
    @pytest.mark.parametrize("test", TESTS, ids=lambda test: type(test).__name__)
    def test_tests_decide_exactly(self, test):
        """Same proposals, same uniforms, same draws."""
        target, walk = logistic(1, 1), amc.RandomWalk(1.0)
        found, exact = (chain(target, amc.MetropolisHastings(walk, one)) for one in (test, amc.ExactTest()))
        assert found.posterior.equals(exact.posterior)
        assert (found.sample_stats["datapoints_touched"] == 1).all()

    def test_design_and_choice(self):
        """A pilot of pairs with a single term has scale 0; its design reads all data, and an exact test is chosen."""
        target = logistic(1, 1)
        assert (collect_pairs(target, amc.RandomWalk(1.0), n_pairs=20, tune=5, random_seed=1).tau == 0.0).all()
        assert (
            amc.design.design_test(target, proposal=amc.RandomWalk(1.0), n_pairs=20, random_seed=1).data_fraction > 0.99
        )
        assert isinstance(amc.choose_sampler(target, random_seed=1).sampler.test, amc.ExactTest)


class TestInfiniteDensities:
    """+inf is no density: a chain that moved there would never come back, and says so instead."""

    @staticmethod
    def infinite_loglik(theta, data, i):
        return math.inf if theta[0] > 0.5 else -0.5 * (data[0][i] - theta[0]) ** 2

    @staticmethod
    def infinite_logprior(theta):
        return math.inf if theta[0] > 0.5 else 0.0

    @pytest.mark.parametrize(
        "test", [amc.ExactTest(), amc.acceptance.AnnealedEpsilon((0.0,), ())], ids=("exact", "annealed")
    )
    def test_likelihood(self, test):
        """The exact sum is refused, as the sequential tests refuse its terms."""
        target = amc.FunctionTarget(self.infinite_loglik, lambda theta: 0.0, data=np.zeros(20), n_obs=20, dim=1)
        with pytest.warns(SamplingWarning, match="log-likelihood of datum 0 .* is NaN or .inf"):
            trace = chain(target, amc.MetropolisHastings(amc.RandomWalk(1.0), test), initvals=np.zeros(1))
        assert trace.posterior["theta"].max() <= 0.5

    def test_prior(self):
        """Also where no test is asked about it."""
        target = amc.FunctionTarget(normal_loglik, self.infinite_logprior, data=np.zeros(20), n_obs=20, dim=1)
        with pytest.warns(SamplingWarning, match=r"log prior is \+inf"):
            chain(target, amc.MetropolisHastings(amc.RandomWalk(1.0), amc.ExactTest()), initvals=np.zeros(1))

    def test_prior_of_a_noisy_sampler(self):
        """The family has a loop of its own."""

        def estimate(rng, theta, proposed, data):
            return 0.5 * (theta[0] ** 2 - proposed[0] ** 2)

        target = amc.targets.EstimatedRatio(estimate, self.infinite_logprior, dim=1)
        with pytest.warns(SamplingWarning, match=r"log prior is \+inf"):
            chain(target, amc.samplers.NoisyMetropolisHastings(amc.RandomWalk(1.0)), initvals=np.zeros(1))

    def test_prior_of_firefly(self):
        """The joint density has the prior's infinity."""
        plain = logistic(30, 1)
        target = amc.targets.LogisticRegression(plain.X, plain.y, prior=self.infinite_logprior)
        sampler = amc.Firefly(amc.RandomWalk(2.0), "untuned")
        with pytest.warns(SamplingWarning, match=r"log prior is \+inf"):
            chain(target, sampler, initvals=np.array([-0.5]), draws=200)


class TestImpossibleData:
    """A datum of probability 0 decides alone; who does not read it, errs."""

    TABLES = ({"a": [0.5, 0.5], "b": [[1.0, 0.0], [0.4, 0.6]], "c": [[0.3, 0.7], [0.8, 0.2]]}, {"b": ["a"], "c": ["b"]})

    @pytest.mark.parametrize("scan", ["systematic", "random"])
    def test_lp_of_gibbs_with_zeros_in_tables(self, scan):
        """lp is the log density of the kept states, also where the other state of a site is impossible."""
        network = amc.targets.BayesianNetwork(*self.TABLES)
        trace = chain(network, amc.Gibbs(scan=scan), draws=200)
        states = np.stack([trace.posterior[name].values[0] for name in "abc"], axis=1)
        assert len(np.unique(states, axis=0)) == 6
        np.testing.assert_allclose(trace.sample_stats["lp"].values[0], network.log_density(states), atol=1e-12)

    def test_impossible_evidence_is_refused(self):
        """Nothing can be conditioned on an event of probability 0."""
        network = amc.targets.BayesianNetwork(*self.TABLES, {"a": 0, "b": 1})
        assert network.log_evidence() == -math.inf
        with pytest.raises(InvalidInputError, match="its probability is 0"):
            network.probability({"c": 1})

    def test_transition_matrix_of_an_approximate_test_is_refused(self):
        """A sequential test may miss the zero, so the chain visits impossible states: no entry is simply 0."""
        network = amc.targets.BayesianNetwork(*self.TABLES)
        exact = transition_matrix(network, amc.MetropolisHastings(amc.proposals.SingleSite(), amc.ExactTest())).values
        law = np.exp(network.log_joint.ravel() - network.log_normalizer())
        np.testing.assert_allclose(stationary_distribution(exact), law, atol=1e-12)
        with pytest.raises(IncompatibleError, match="must have positive probability"):
            transition_matrix(network, amc.MetropolisHastings(amc.proposals.SingleSite(), amc.SequentialTTest(0.3, 2)))

    def test_transition_matrix_of_an_approximate_gibbs_is_refused(self):
        """So with a conditional that one of three tables makes certain."""
        tables = {"a": [0.5, 0.5], "b": [[1.0, 0.0], [0.4, 0.6]], "c": [[0.3, 0.7], [0.8, 0.2]]}
        network = amc.targets.BayesianNetwork(tables, {"b": ["a"], "c": ["a"]}, {"b": 1, "c": 1})
        exact = transition_matrix(network, amc.Gibbs(amc.SequentialTTest(0.0, 2))).values
        np.testing.assert_allclose(exact, [[0.0, 1.0], [0.0, 1.0]], atol=1e-15)
        with pytest.raises(IncompatibleError, match="must have positive probability"):
            transition_matrix(network, amc.Gibbs(amc.SequentialTTest(0.3, 2)))

    def test_pilot_pairs(self):
        """Scale inf where a datum rejects, 0 where the prior does; a design then reads all data."""
        target, walk = uniform_model(), amc.RandomWalk(0.1)
        pairs = collect_pairs(target, walk, n_pairs=40, tune=5, initvals=np.array([1.05]), random_seed=1)
        largest = target.data[0].max()
        impossible = (pairs.proposed[:, 0] <= largest) & (pairs.proposed[:, 0] > 0.0)
        assert impossible.any() and (pairs.log_ratio[impossible] == -np.inf).all()
        np.testing.assert_array_equal(np.isinf(pairs.tau), impossible)
        designed = amc.design.design_test(
            target, proposal=walk, n_pairs=40, tune=5, initvals=np.array([1.05]), random_seed=1
        )
        assert designed.test.epsilon == 0.0 and designed.data_fraction > 0.99
        with pytest.raises(InvalidInputError, match="use ExactTest"):
            amc.design.plan_annealing(
                target, proposal=walk, n_pairs=40, tune=5, initvals=np.array([1.05]), random_seed=1
            )

    def test_pilot_pairs_of_a_gradient_outside_the_support(self):
        """The gradient of the prior is undefined there, which the chain does not mind; neither does the pilot."""

        def add_gradient(theta, data, i, out):
            out[0] += data[0][i] - theta[0]

        target = amc.FunctionTarget(
            normal_loglik,
            lambda theta: 0.0 if abs(theta[0]) < 0.3 else -math.inf,
            data=np.linspace(-1.0, 1.0, 20),
            n_obs=20,
            dim=1,
            grad_loglik=add_gradient,
        )
        pairs = collect_pairs(target, amc.Langevin(0.5), n_pairs=30, tune=0, initvals=np.zeros(1), random_seed=1)
        outside = np.abs(pairs.proposed[:, 0]) >= 0.3
        assert outside.any() and not outside.all()
        assert (pairs.log_ratio[outside] == -np.inf).all() and np.isfinite(pairs.log_ratio[~outside]).all()
        assert (pairs.tau[outside] == 0.0).all()

    def test_estimate_delta_sees_what_a_test_misses(self):
        """300 terms, one of probability 0: the first look of 20 misses it in 14 of 15 decisions, and accepts."""
        target = uniform_model()
        sampler = amc.MetropolisHastings(amc.RandomWalk(1e-4), amc.SequentialTTest(0.2, 20))
        states = np.full((8, 1), np.nextafter(target.data[0].max(), 2.0))
        found = estimate_delta(
            target, sampler, n_pairs=8, replications=60, states=states, initvals=np.array([1.05]), tune=0,
            random_seed=1, progressbar=False,
        )  # fmt: skip
        impossible = found["log_ratio"].values == -np.inf
        assert impossible.any()
        found = found.isel(pair=impossible)
        assert (found["exact"] == 0.0).all() and np.isnan(found["error_model"]).all()
        missed = 1.0 - 20 / 300
        assert (abs(found["realised"] - missed) < 5.0 * math.sqrt(missed * (1.0 - missed) / 60)).all()
        assert (found["error_bound"] >= found["realised"]).all()
        with pytest.raises(InvalidInputError, match="datum 299 has probability 0"):
            estimate_delta(
                target, sampler, n_pairs=1, replications=5, states=[[0.997]], initvals=np.array([1.05]), tune=0,
                random_seed=1, progressbar=False,
            )  # fmt: skip


class TestOnAllData:
    """A decision on all data is exact, whatever the terms."""

    @pytest.mark.thorough
    @pytest.mark.parametrize("test", [amc.SequentialTTest(0.0, 5), amc.SequentialTTest(0.1, 40)], ids=("never", "one"))
    def test_heavy_tails_are_no_reason_to_warn(self, test):
        """A chain whose tests read everything warns of no tails; one that stops early on the same terms does."""
        rng = np.random.default_rng(0)
        target = amc.targets.LogisticRegression(rng.standard_cauchy(size=(40, 1)), rng.integers(0, 2, 40))
        walk = amc.RandomWalk(0.1)
        trace = chain(target, amc.MetropolisHastings(walk, test))
        assert (trace.sample_stats["max_term_ratio"] == 0.0).all()
        with pytest.warns(SamplingWarning, match="heavy-tailed"):
            chain(target, amc.MetropolisHastings(walk, amc.SequentialTTest(0.3, 5)))


class TestPopulation:
    """Members of a population start where the prior is positive: few proposals would bring one in from outside."""

    def test_bounded_prior(self):
        """A uniform prior much narrower than the spread of the members."""
        lattice = np.where(np.indices((3, 3)).sum(axis=0) % 2, 1, -1)
        target = amc.targets.Ising(lattice, prior_bounds=(0.0, 0.05))
        sampler = amc.Exchange(amc.proposals.AdaptiveDirection(0.5, 0.01, n_members=6, spread=1.0))
        theta = chain(target, sampler, draws=300).posterior["theta"].values
        assert theta.min() >= 0.0 and theta.max() <= 0.05 and len(np.unique(theta[0, :6])) > 3


class TestAnnealedEpsilon:
    """A test whose law changes from decision to decision."""

    def test_estimate_delta_is_refused(self):
        """There is no one error to estimate; it used to fail on a setting that the test does not have."""
        sampler = amc.MetropolisHastings(amc.RandomWalk(0.5), amc.acceptance.AnnealedEpsilon())
        with pytest.raises(IncompatibleError, match="one epsilon at a time"):
            estimate_delta(logistic(40, 1), sampler, n_pairs=2, replications=5, progressbar=False)


class TestTemperature:
    """A temperature divides the whole log-likelihood, or nothing at all."""

    TEST = amc.acceptance.MinibatchBarker(batch_size=50, temperature=10.0)

    def test_control_variates_are_refused(self):
        """Their terms are residuals: the expansion, which is part of the prior, would not be tempered."""
        target = amc.ControlVariate(logistic(60, 1))
        with pytest.raises(IncompatibleError, match="temperature=10"):
            self.TEST.build_test(target)
        amc.acceptance.MinibatchBarker(batch_size=50).build_test(target)

    def test_transition_matrix(self):
        """A batch of all data is Barker's rule on the tempered density."""
        target, grid = logistic(40, 1), np.linspace(-4.0, 4.0, 41)
        matrix = transition_matrix(target, amc.MetropolisHastings(amc.RandomWalk(0.8), self.TEST), grid).values
        log_likelihood = [target.y @ (target.X[:, 0] * b) - np.logaddexp(0.0, target.X[:, 0] * b).sum() for b in grid]
        law = np.exp(np.array(log_likelihood) / 10.0 - 0.5 * grid**2)
        np.testing.assert_allclose(stationary_distribution(matrix), law / law.sum(), atol=1e-12)

    def test_couplings_are_refused(self):
        """They follow the chain of the posterior itself."""
        with pytest.raises(IncompatibleError, match="targets a tempered posterior"):
            couplings(logistic(40, 1), amc.MetropolisHastings(amc.RandomWalk(0.8), self.TEST), lag=5)

    def test_realised_conditional(self):
        """The exact conditional that is compared with the realised one is the tempered one."""
        field = amc.targets.BinaryMRF.random_triples(7, scale=2.0, random_seed=0)
        context, site = np.array([[0, 1, 1, 0, 1, 0, 1]]), 3
        found = realised_conditional(field, self.TEST, context, [site], replications=400, random_seed=1)
        plain = field.conditional(context, site)[0]
        wanted = plain[1] ** 0.1 / (plain**0.1).sum()
        assert abs(float(found["exact"][0]) - wanted) < 1e-12
        assert abs(float(found["realised"][0]) - wanted) < 5 * math.sqrt(wanted * (1 - wanted) / 400)  # all terms read
        for certain in (0.0, 1.0, math.nan):
            with pytest.raises(InvalidInputError, match="strictly between 0 and 1"):
                realised_conditional(field, self.TEST, context, [site], probability=certain)


class TestDiagnostics:
    """Numbers that are all equal, and draws that carry all the weight."""

    def test_constants_have_no_spread(self):
        """The mean of equal numbers may be a rounding off them: no spread, no error, no effective draws follow."""
        reference, run = fake_trace(np.full((4, 500), 0.1)), fake_trace(np.full((3, 20), 0.1))
        (values,) = reference["posterior"].data_vars.values()
        assert values.values.std() > 0.0
        layout = evaluate("f", lambda posterior: posterior["beta"], run).layout
        gold = evaluate_reference("f", lambda posterior: posterior["beta"], reference, layout)
        assert gold.sd.tolist() == [0.0] and gold.mcse.tolist() == [0.0]
        assert np.isnan(compare_samplers({"a": run}, reference).loc["a", "ess_per_second"])

    def test_a_single_weighted_draw_tells_no_error(self):
        """The delta method would say 0."""
        from scipy.stats import norm, uniform

        one = amc.importance_sampling(norm(1.0, 1.0), norm(0.0, 1.5), 1, random_seed=1)
        assert np.isnan(importance_estimates(one)["x"].sel(moment="mcse"))
        half = amc.importance_sampling(uniform(0.0, 0.5), uniform(0.0, 1.0), 20, random_seed=1)
        assert 1 < int((half.sample_stats["weight"] > 0.0).sum()) < 20
        assert importance_estimates(half)["x"].sel(moment="mcse") > 0.0

    def test_a_divergence_beyond_all_numbers_of_draws(self):
        """exp(1000) is no float; of a million draws the mean weight hardly ever reaches 1/2."""
        bound = amc.diagnostics.chatterjee_diaconis_bound(1e6, kl=1000.0, tail=lambda s: 1.0 if s < 1000.0 else 0.0)
        assert bound.attrs["needed"] == math.inf and 0.0 < float(bound["mass_bound"]) < 1e-200

    def test_a_weighted_reference_is_refused(self):
        """Its posterior group holds draws of the proposal."""
        from scipy.stats import norm

        weighted = amc.importance_sampling(norm(1.0, 1.0), norm(0.0, 2.0), 50, random_seed=1)
        with pytest.raises(GoldStandardError, match="carry weights"):
            amc.risk(fake_trace(np.zeros((3, 20)), name="x"), weighted, grid=[10.0])

    @pytest.mark.parametrize(
        "sampler",
        [amc.Gibbs(scan="random"), amc.MetropolisHastings(amc.proposals.SingleSite(), amc.ExactTest())],
        ids=str,
    )
    def test_contexts_that_the_draws_do_not_tell(self, sampler):
        """An exact chain with random scan looked biased by up to 0.07: its contexts were others."""
        field = amc.targets.BinaryMRF.random_triples(5, scale=1.0, random_seed=0)
        with pytest.raises(InvalidInputError, match="systematic scan"):
            empirical_conditional(chain(field, sampler), field.conditional)
        assert empirical_conditional(chain(field, amc.Gibbs()), field.conditional)["n_decisions"].sum() == 5 * 59


class TestImportanceSampling:
    """Targets that name their log density differently; expectations by quadrature."""

    @staticmethod
    def agrees(target, proposal, name, points, log_density):
        trace = amc.importance_sampling(target, proposal, 1500, random_seed=20140621)
        weight = np.exp(log_density - log_density.max())
        mean, mcse = importance_estimates(trace)[name].values.reshape(2)
        return abs(mean - (weight @ points) / weight.sum()) < 5.0 * mcse

    def test_gaussian_mixture(self):
        """Its `log_density` makes a function."""
        from scipy.stats import multivariate_normal

        target = amc.targets.GaussianMixture.simulated(30, random_seed=0)
        axis = np.linspace(-4.0, 4.0, 81)
        points = np.stack(np.meshgrid(axis, axis, indexing="ij"), axis=-1).reshape(-1, 2)
        compiled = target.compile()
        exact = np.logaddexp(
            -0.25 * (target.x - points[:, :1]) ** 2, -0.25 * (target.x - points.sum(axis=1, keepdims=True)) ** 2
        ).sum(axis=1) + np.array([compiled.log_prior(theta) for theta in points])
        proposal = multivariate_normal([0.0, 0.0], np.diag([2.0, 2.0]))
        assert self.agrees(target, proposal, "theta1", points[:, 0], exact)

    @pytest.mark.thorough
    def test_ising(self):
        """Its `log_density` takes one theta, `log_densities` takes many."""
        from scipy.stats import norm

        target = amc.targets.Ising(np.array([[1, 1, -1], [1, 1, -1], [1, -1, -1]]), prior_scale=1.0)
        points = np.linspace(-5.0, 5.0, 401)
        exact = target.log_densities(points[:, None])
        assert self.agrees(target, norm(0.0, 1.0), "theta", points, exact)
