"""Exact subsampling: bounds of single terms, costs, choices and refusals."""

import contextlib
import math
import warnings

import numba
import numpy as np
import pytest

import approxmcmc as amc
from approxmcmc.acceptance import thinning, true_bounds
from approxmcmc.api import sample
from approxmcmc.contracts import CompiledDifferenceBound
from approxmcmc.engine.terms.batches import full_terms
from approxmcmc.errors import IncompatibleError, InvalidInputError, SamplingWarning
from approxmcmc.expansion import bounds as residual_bounds
from tests.decisions import WithBound
from tests.models import logistic, normal_loglik, normal_logprior, normal_mean

WALK = amc.RandomWalk(0.1)


def poisson_regression(n=300, bound=lambda eta, y, reach: np.exp(eta + reach), **settings):
    """Return a Poisson regression with a bound of its third derivative on intervals."""
    rng = np.random.default_rng(1)
    X = np.column_stack([np.ones(n), 0.5 * rng.normal(size=(n, 1))])
    settings = {"derivatives_eta": lambda eta, y: (y - np.exp(eta), -np.exp(eta)), **settings}
    y = rng.poisson(np.exp(X @ np.array([0.5, 0.3]))).astype(float)
    return amc.targets.GLMTarget(lambda eta, y: y * eta - np.exp(eta), X, y, third_derivative_bound=bound, **settings)


def robust(n=300):
    """Return a regression with Student-t errors."""
    rng = np.random.default_rng(2)
    X = rng.normal(size=(n, 2))
    return amc.targets.RobustRegression(X, X[:, 0] + rng.standard_t(4, size=n), df=3.0, scale=0.7)


def draw(sampler, target, draws=200, **settings):
    """Return a trace of one chain."""
    settings = {"tune": 0, "chains": 1, "random_seed": 1, "progressbar": False, **settings}
    return sample(target, sampler, draws=draws, **settings)


# --- bounds -----------------------------------


@pytest.mark.parametrize("reach", [0.0, 0.3, 2.0, 20.0])
def test_the_derivatives_of_a_logit_on_an_interval(reach):
    eta = np.array([-9.0, -2.0, -1.4, -0.5, 0.0, 0.7, 1.3169578969248166, 3.0, 12.0])
    grid = eta[:, None] + reach * np.linspace(-1.0, 1.0, 20_001)
    m = 1.0 / (1.0 + np.exp(-grid))
    largest = np.abs(m * (1.0 - m) * (1.0 - 2.0 * m)).max(axis=1)
    likelihood = logistic(10).likelihood
    bend = likelihood.derivative_within(2, eta, (np.zeros(9),), np.full(9, reach))
    np.testing.assert_allclose(bend, (m * (1.0 - m)).max(axis=1), rtol=1e-6, atol=1e-12)
    found = likelihood.derivative_within(3, eta, (np.zeros(9),), np.full(9, reach))
    np.testing.assert_allclose(found, largest, rtol=1e-6, atol=1e-12)
    assert (found >= largest - 1e-15).all()


@pytest.mark.thorough
def test_the_derivatives_of_a_student_term_are_bounded_tightly():
    likelihood = robust().likelihood
    eta = np.linspace(-8.0, 8.0, 400_001)
    first, second = np.array([likelihood.derivatives(e, 0.0) for e in eta[::50]]).T
    _, bend = np.vectorize(likelihood.derivatives)(eta, 0.0)
    third = np.abs(np.diff(bend) / np.diff(eta)).max()
    assert np.abs(first).max() == pytest.approx(likelihood.slope_bound, rel=1e-4)
    assert np.abs(second).max() == pytest.approx(likelihood.second_derivative_bound, rel=1e-4)
    assert third == pytest.approx(likelihood.third_derivative_bound, rel=1e-4)


BOUNDED = {
    "plain": lambda: logistic(300, 3),
    "student": robust,
    "first order": lambda: amc.ControlVariate(logistic(300, 3), order=1),
    "second order": lambda: amc.ControlVariate(logistic(300, 3)),
    "averaged": lambda: amc.ControlVariate(logistic(300, 3), at="pilot", averaged=True),
    "influential": lambda: amc.ControlVariate(logistic(300, 3), always_read=[0, 7], at="mode"),
    "strata": lambda: amc.ControlVariate(logistic(300, 3), always_read=[0, 7], at="mode", order=0),
    "Poisson": lambda: amc.ControlVariate(poisson_regression(), always_read=[3], at="mode"),
}


@pytest.mark.thorough
@pytest.mark.parametrize("name", BOUNDED)
def test_no_term_changes_by_more_than_its_bound(name, rng):
    """Near and far, up to where the reach ends; and the bound is not void."""
    target = BOUNDED[name]()
    compiled, bound = target.compile(), target.compile_difference_bound()
    assert bound.rates.shape == (target.n_obs,)
    cov = getattr(target, "laplace", None)
    cholesky = 0.1 * np.eye(target.variables.size) if cov is None else cov.cholesky
    center, shares, finite = getattr(target, "center", target.initial_point()), [], 0
    for spread in (0.05, 0.3, 1.0, 1.0, 2.0, 3.0):
        for _ in range(10):
            theta, proposed = (center + spread * cholesky @ rng.standard_normal(len(center)) for _ in range(2))
            reach = bound.reach(theta, proposed, bound.numbers)
            assert reach == bound.reach(proposed, theta, bound.numbers)
            if reach < math.inf:
                terms = [full_terms(compiled.log_terms, t, compiled.data, target.n_obs) for t in (theta, proposed)]
                shares.append((np.abs(terms[1] - terms[0]) - thinning.ROUNDING) / (bound.rates * reach))
                finite += 1
    assert finite > 30
    assert 0.03 < np.max(shares) <= 1.0


def test_a_cubic_term_attains_its_bound():
    """f = eta^3 / 6 in one dimension: the residual is delta^3 / 6, and the bound its sum over both states."""
    X = np.linspace(0.5, 2.0, 9)[:, None]
    target = amc.targets.GLMTarget(
        lambda eta, y: eta**3 / 6.0 - 2.0 * eta**2,
        X,
        np.zeros(9),
        derivatives_eta=lambda eta, y: (eta**2 / 2.0 - 4.0 * eta, eta - 4.0),
        third_derivative_bound=1.0,
    )
    expanded = amc.ControlVariate(target, at=np.zeros(1))
    compiled, bound = expanded.compile(), expanded.compile_difference_bound()
    theta, proposed = np.array([0.2]), np.array([-0.3])
    terms = [full_terms(compiled.log_terms, t, compiled.data, 9) for t in (theta, proposed)]
    largest = bound.rates * bound.reach(theta, proposed, bound.numbers)
    differences = np.abs(terms[1] - terms[0])
    assert np.all(differences <= largest)
    np.testing.assert_allclose(differences, largest, rtol=2.0 * np.finfo(np.float32).eps)  # rates are rounded up


def reads_in_units_that_fit(X, order, monkeypatch):
    """Return the mean reads of a decision, as the pilot has them, over those in the units of the pilot."""
    y = (np.random.default_rng(6).random(len(X)) < 1.0 / (1.0 + np.exp(-X[:, 3]))).astype(float)
    found = []
    for units in (residual_bounds.sharper_units, lambda ways, cholesky: cholesky):
        monkeypatch.setattr(residual_bounds, "sharper_units", units)
        bound = amc.ControlVariate(amc.targets.LogisticRegression(X, y), order=order).compile_difference_bound()
        found.append(bound.reaches.mean() * bound.rates.sum())
    monkeypatch.undo()
    return found[0] / found[1]


@pytest.mark.thorough
@pytest.mark.parametrize(("order", "share"), [(1, 0.8), (2, 0.5)])
def test_units_that_fit_the_rows_leave_fewer_reads(order, share, monkeypatch):
    """A category of 8 rows in 2000 that all have the response 1: wide, with large bounds; else as many as before."""
    X = np.random.default_rng(5).normal(size=(2000, 4))
    assert reads_in_units_that_fit(X, order, monkeypatch) == pytest.approx(1.0, abs=0.1)
    X[:, 3] = 10.0 * (np.arange(2000) < 8)
    assert reads_in_units_that_fit(X, order, monkeypatch) < share


def test_beyond_the_pilots_reach_nothing_is_bounded():
    target = amc.ControlVariate(logistic(300, 3))
    bound, far = target.compile_difference_bound(), np.full(3, 50.0)
    assert bound.reach(target.center, far, bound.numbers) == math.inf


@pytest.mark.parametrize(
    ("target", "match"),
    [
        (normal_mean, "difference_bound="),
        (poisson_regression, "slope_bound="),
        (lambda: amc.ControlVariate(poisson_regression(bound=None)), "third_derivative_bound="),
        (lambda: amc.ControlVariate(poisson_regression(derivatives_eta=None)), "derivatives_eta="),
        (lambda: amc.ControlVariate(poisson_regression(), order=1), "second_derivative_bound="),
        (
            lambda: amc.ControlVariate(normal_mean(200)),
            "regression of the library, or a GLMTarget with exact derivatives",
        ),
    ],
)
@pytest.mark.parametrize(
    "test",
    [amc.acceptance.PoissonTest(), amc.acceptance.DelayedAcceptance(amc.acceptance.TunaTest(0.1))],
    ids=["poisson", "tuna"],
)
def test_a_target_without_bounds_is_refused_and_told_what_to_give(target, match, test):
    with pytest.raises(IncompatibleError, match=match):
        amc.MetropolisHastings(WALK, test).build(target())


def test_bounds_of_the_users_are_checked():
    with pytest.raises(InvalidInputError, match="finite bound"):
        poisson_regression(bound=lambda eta, y, reach: np.full(2, np.nan))
    x = np.arange(4.0)
    parts = {"data": x, "n_obs": 4, "dim": 1}
    functions = lambda theta, data, i: theta[0] * data[0][i], lambda theta: -0.5 * theta[0] ** 2
    with pytest.raises(InvalidInputError, match="rates of difference_bound must be positive"):
        amc.FunctionTarget(*functions, difference_bound=(x, lambda a, b: abs(a[0] - b[0])), **parts)
    crooked = amc.FunctionTarget(*functions, difference_bound=(x + 1.0, lambda a, b: abs(a[0])), **parts)
    with pytest.raises(InvalidInputError, match="symmetric"):
        crooked.compile_difference_bound()
    right = amc.FunctionTarget(*functions, difference_bound=(x + 0.1, lambda a, b: abs(a[0] - b[0])), **parts)
    assert right.compile_difference_bound().rates.tolist() == (x + 0.1).tolist()


def linear(bound, term_range=None):
    """Return four terms theta x_i with bounds of the user's."""
    functions = lambda theta, data, i: theta[0] * data[0][i], lambda theta: -0.5 * theta[0] ** 2
    x = np.arange(4.0)
    return amc.FunctionTarget(*functions, data=x, n_obs=4, dim=1, difference_bound=bound, term_range=term_range)


class TestFalseBoundsAreRefused:
    """Where a test relies on them, by what terms do at pairs of states; bounds that are attained pass."""

    @pytest.mark.parametrize(
        "test", [amc.acceptance.PoissonTest(), amc.acceptance.TunaTest(0.1), amc.acceptance.FactorizedTest()], ids=repr
    )
    def test_of_single_terms(self, test):
        rates = np.array([0.1, 1.0, 2.0, 3.0])
        amc.MetropolisHastings(WALK, test).build(linear((rates, lambda a, b: abs(a[0] - b[0]))))
        for false in (lambda a, b: 1e-9 * abs(a[0] - b[0]), lambda a, b: min(abs(a[0] - b[0]), 3.0)):
            with pytest.raises(InvalidInputError, match=r"false: between theta .* the term of datum 3 changes by"):
                amc.MetropolisHastings(WALK, test).build(linear((rates, false)))
        amc.MetropolisHastings(WALK, amc.ExactTest()).build(linear((rates, lambda a, b: 1e-9)))  # relies on nothing

    def test_of_the_range_of_the_terms(self):
        bound = np.ones(4), lambda a, b: np.inf
        test = amc.acceptance.BernsteinTest(0.1, 2)
        amc.MetropolisHastings(WALK, test).build(linear(bound, lambda a, b: 3.0 * abs(a[0] - b[0])))
        with pytest.raises(InvalidInputError, match=r"false: between theta .* two terms differ by .* at most"):
            amc.MetropolisHastings(WALK, test).build(linear(bound, lambda a, b: 2.0 * abs(a[0] - b[0])))

    def test_of_an_expansion_by_a_response_that_was_not_looked_at(self):
        """Eight responses are looked at when the target is made; a ninth has terms a hundred times as curved."""
        times = numba.njit(lambda y: 100.0 if y == 7.5 else 1.0)
        target = amc.targets.GLMTarget(
            lambda eta, y: -times(y) * np.log1p(np.exp(eta)), np.ones((50, 1)), 0.5 * np.arange(50),
            derivatives_eta=lambda eta, y: (
                -times(y) / (1.0 + np.exp(-eta)), -times(y) / (2.0 + np.exp(-eta) + np.exp(eta))
            ),
            third_derivative_bound=0.1,
        )  # fmt: skip
        with pytest.raises(InvalidInputError, match=r"the bound of the terms of ControlVariate.* datum 15 "):
            amc.MetropolisHastings(WALK, amc.acceptance.PoissonTest()).build(amc.ControlVariate(target))

    @pytest.mark.thorough
    @pytest.mark.filterwarnings("ignore::RuntimeWarning")  # steps of the search for the mode that are too long
    @pytest.mark.parametrize("always_read", [None, "auto"])
    def test_of_an_expansion_beyond_the_predictors_that_were_looked_at(self, always_read):
        """A bound of Poisson terms is checked up to eta = 6 when the target is made; the data lie at 7 to 9.

        The posterior is so narrow that the expansion has no bound a hundredth away from its centre.
        """
        X = np.column_stack([np.full(300, 4.0), np.random.default_rng(0).normal(size=300)])
        responses = np.random.default_rng(1).poisson(np.exp(X @ [2.0, 0.3])).astype(float)
        for bound, is_true in ((lambda eta, y, reach: np.exp(eta + reach), True), (410.0, False)):
            target = amc.targets.GLMTarget(
                lambda eta, y: y * eta - np.exp(eta), X, responses,
                derivatives_eta=lambda eta, y: (y - np.exp(eta), -np.exp(eta)), third_derivative_bound=bound,
            )  # fmt: skip
            refused = pytest.raises(InvalidInputError, match="the bound of the terms")
            with contextlib.nullcontext() if is_true else refused:
                amc.MetropolisHastings(WALK, amc.acceptance.PoissonTest()).build(
                    amc.ControlVariate(target, always_read=always_read)
                )


# --- costs -------------------------------------


@pytest.mark.thorough
def test_reads_are_counted_and_predicted():
    """Reads are evaluations at two states; their mean is what is expected, within 5 standard errors of Poisson laws."""
    target = amc.ControlVariate(logistic(2000, 3))
    proposal = amc.proposals.PreconditionedCrankNicolson(0.0, target.laplace)
    trace = draw(amc.MetropolisHastings(proposal, amc.acceptance.PoissonTest()), target, 1000)
    stats = trace.sample_stats
    read, expected = stats["datapoints_touched"].values, stats["expected_reads"].values
    assert (stats["likelihood_evaluations"].values[expected < 2000] == 2 * read[expected < 2000]).all()
    assert (expected < 2000).mean() > 0.95
    thinned = expected < 2000
    assert abs(read[thinned].sum() - expected[thinned].sum()) < 5.0 * math.sqrt(expected[thinned].sum())
    assert stats.attrs["setup_expected_reads"] == pytest.approx(amc.acceptance.PoissonTest().expected_reads(target))
    assert 0.3 < stats.attrs["setup_expected_reads"] / np.median(expected) < 5.0
    assert 0 < expected[thinned].max() <= thinning.LARGEST_SHARE * 2000


def test_tuna_is_expected_to_read_more_by_a_square():
    """C M + chi (C M)^2 rows at each pair of the pilot's, C M = 5, 10 and 30; 120 are more than a fifth, all 300."""
    bound = CompiledDifferenceBound(None, np.empty(0), np.full(20, 0.5), np.array([0.5, 1.0, 3.0]))
    assert amc.acceptance.TunaTest(0.1).expected_reads(WithBound(bound, 300)) == pytest.approx(
        (7.5 + 20.0 + 300.0) / 3.0
    )
    assert amc.acceptance.TunaTest().expected_reads(WithBound(bound, 300)) == pytest.approx((5.0 + 10.0 + 30.0) / 3.0)


@pytest.mark.thorough
def test_without_bounds_in_reach_it_is_the_exact_test(monkeypatch):
    """Draw for draw; terms at theta are added up once, and kept."""
    target = amc.ControlVariate(logistic(300, 3))
    bound = target.compile_difference_bound()
    nowhere = bound._replace(numbers=np.where(np.arange(bound.numbers.size) == 3, -1.0, bound.numbers))
    monkeypatch.setattr(type(target), "compile_difference_bound", lambda self: nowhere)
    exact, ours = (
        draw(amc.MetropolisHastings(WALK, test), target) for test in (amc.ExactTest(), amc.acceptance.PoissonTest())
    )
    np.testing.assert_array_equal(ours.posterior["beta"], exact.posterior["beta"])
    assert (ours.sample_stats["datapoints_touched"] == 300).all()
    assert ours.sample_stats["likelihood_evaluations"].sum() == 300 * 201


@pytest.mark.parametrize(
    ("bounds", "message"),
    [
        ({"slope_bound": 0.9}, "slope_bound is not a bound of derivative 1"),
        ({"second_derivative_bound": 0.2}, "second_derivative_bound is not a bound of derivative 2"),
        ({"third_derivative_bound": 1e-9}, "third_derivative_bound is not a bound of derivative 3"),
        ({"third_derivative_bound": lambda eta, y, reach: 0.001 * np.exp(-reach)}, "of derivative 3"),
        ({"slope_bound": 1.0, "second_derivative_bound": 0.25, "third_derivative_bound": 0.0963}, None),
        ({"third_derivative_bound": lambda eta, y, reach: 0.0963 + 0.0 * eta}, None),
    ],
)
def test_a_bound_that_differences_break_is_refused(bounds, message):
    """Of a logistic term they are 1, 1/4 and 1 / (6 sqrt(3)) = .0962; differences over steps of 1/2 see most of it."""
    given = np.zeros((4, 1)), np.array([0.0, 1.0, 0.0, 1.0])
    refused = pytest.raises(InvalidInputError, match=message) if message else contextlib.nullcontext()
    with refused:
        amc.targets.GLMTarget(lambda eta, y: y * eta - np.logaddexp(0.0, eta), *given, **bounds)


@pytest.mark.thorough
@pytest.mark.parametrize(
    "test",
    [amc.acceptance.PoissonTest(), amc.acceptance.DelayedAcceptance(amc.acceptance.PoissonTest())],
    ids=["plain", "delayed"],
)
def test_a_false_bound_is_found_out_decided_on_all_data_and_told(test, monkeypatch):
    monkeypatch.setattr(thinning, "checked_differences", lambda target: target.compile_difference_bound())
    plain = logistic(300, 3)
    target = amc.targets.GLMTarget(lambda eta, y: y * eta - np.logaddexp(0.0, eta), plain.X, plain.y, slope_bound=1.0)
    target.likelihood.slope_bound = 0.1  # which would be refused above, and where the test is built
    with pytest.warns(SamplingWarning, match="a term changed by more than the bound"):
        stats = draw(amc.MetropolisHastings(WALK, test), target).sample_stats
    violated = stats["range_violations"].values > 0
    assert violated.sum() > 10
    violated[:, 2 ** np.arange(8) - 1] = False  # where the chain is checked, too
    assert (stats["datapoints_touched"].values[violated] == 300).all()


@pytest.mark.thorough
@pytest.mark.parametrize(
    "test",
    [
        amc.acceptance.PoissonTest(),
        amc.acceptance.TunaTest(0.1),
        amc.acceptance.FactorizedTest(),
        amc.acceptance.DelayedAcceptance(amc.acceptance.PoissonTest()),
    ],
    ids=repr,
)
@pytest.mark.parametrize("times", [1e-9, 10.0])
def test_a_bound_that_is_false_where_only_the_chain_goes_is_counted_and_told(test, times):
    """A bound of 1e-9 reads no row that could show it: the chain is checked after 1, 2, 4, ... steps."""
    (x,) = normal_mean().data

    def reach(a, b):
        inside = 0.05 < a[0] < 0.3 and 0.05 < b[0] < 0.3  # no pair of the check lies here
        return (times if inside else 10.0) * abs(a[0] - b[0])

    bound = 1.0 + np.abs(x), reach
    target = amc.FunctionTarget(normal_loglik, normal_logprior, data=x, n_obs=100, dim=1, difference_bound=bound)
    warned = pytest.warns(SamplingWarning, match="a term changed by more than the bound")
    with warned if times < 1.0 else contextlib.nullcontext():
        trace = draw(amc.MetropolisHastings(amc.RandomWalk(0.05), test), target, 256, tune=0, initvals=np.array([0.15]))
    stats = trace.sample_stats.sel(chain=0)
    violated = stats["range_violations"].values > 0
    assert set(1 + np.flatnonzero(violated)) <= {1, 2, 4, 8, 16, 32, 64, 128, 256}
    assert (violated.sum() > 3) == (times < 1.0)
    assert ("bounds of the terms" in trace["posterior"].attrs["problems"]) == (times < 1.0)
    assert (stats["likelihood_evaluations"].values[2 ** np.arange(9) - 1] >= 200).all()


@pytest.mark.thorough
def test_delayed_acceptance_reads_nothing_for_what_the_expansion_refuses():
    target = amc.ControlVariate(logistic(500, 3))
    walk = amc.RandomWalk(2.0, preconditioner=target.laplace)
    stats = draw(
        amc.MetropolisHastings(walk, amc.acceptance.DelayedAcceptance(amc.ExactTest())), target, 400
    ).sample_stats
    read, accepted = stats["datapoints_touched"].values, stats["accepted"].values
    assert set(read.ravel()) == {0, 500}
    assert 0.02 < (read > 0).mean() < 0.6
    assert accepted[read > 0].mean() > 0.9  # the expansion has said nearly all
    np.testing.assert_allclose(stats["acceptance_rate"].values[read == 0], 0.0)
    assert np.isfinite(stats["lp"]).all()


# --- choices -----------------------------------


@pytest.mark.thorough
def test_a_surrogate_transition_brings_its_own_exact_test():
    """Few reads predicted: Poisson counts; many, or no bounds: all data."""
    sampler = amc.MetropolisHastings(amc.SurrogateTransition())
    assert sampler.test == amc.acceptance.CheapestExactTest()
    few, many = (
        amc.ControlVariate(logistic(3000, 2), always_read="auto"),
        amc.ControlVariate(logistic(60, 6), always_read=[0]),
    )
    unbounded = amc.ControlVariate(poisson_regression(bound=None), always_read=[0], at="mode")
    assert amc.acceptance.PoissonTest().expected_reads(few) < 600
    assert sampler.test.chosen_for(few) == amc.acceptance.PoissonTest()
    for target in (many, unbounded):
        assert sampler.test.chosen_for(target) == amc.ExactTest()
        assert sampler.test.chosen_for(target).reads_all(target.n_obs)
    assert math.isnan(amc.acceptance.PoissonTest().expected_reads(few.target))  # plain: no pilot, no prediction
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        trace = draw(sampler, few)
    assert trace.sample_stats.attrs["setup_exact_test"] == "PoissonTest"
    assert "CheapestExactTest" in trace.sample_stats.attrs["inference_library_settings"]
    assert trace.sample_stats["datapoints_touched"].mean() < 600


@pytest.mark.parametrize(("reads", "few"), [(59.9, True), (60.0, False), (math.nan, False)])
def test_poisson_counts_must_read_less_than_a_fifth(reads, few, monkeypatch):
    monkeypatch.setattr(amc.acceptance.PoissonTest, "expected_reads", lambda self, target: reads)
    assert amc.acceptance.CheapestExactTest().chosen_for(logistic(300)) == (
        amc.acceptance.PoissonTest() if few else amc.ExactTest()
    )


@pytest.mark.parametrize("test", [amc.acceptance.CheapestExactTest(), amc.acceptance.PoissonTest()])
def test_a_random_number_of_reads_has_no_looks(test):
    assert test.looks(100).size == 0


def test_settings_out_of_range_are_refused():
    for chi in (-1.0, math.nan, math.inf):
        with pytest.raises(InvalidInputError, match="chi must be finite and at least 0"):
            amc.acceptance.TunaTest(chi)
    annealed = amc.acceptance.AnnealedEpsilon((0.1, 0.0), steps=(3,), test=amc.SequentialTTest(batch_size=4))
    for second in (amc.acceptance.AlwaysAccept(), annealed, None, WALK):
        with pytest.raises(IncompatibleError, match="second stage must be one test of the ratio"):
            amc.acceptance.DelayedAcceptance(second)


@pytest.mark.parametrize(
    "test",
    [
        amc.acceptance.CheapestExactTest(),
        amc.acceptance.DelayedAcceptance(amc.ExactTest()),
        amc.acceptance.PoissonTest(),
    ],
)
def test_gibbs_is_refused(test):
    field = amc.targets.BinaryMRF.random_triples(6, scale=0.1, random_seed=0)
    with pytest.raises(IncompatibleError, match=type(test).__name__):
        amc.Gibbs(test).build(field)


def test_a_bound_is_checked_once_for_a_trial_and_its_run(monkeypatch):
    """And again where the bound is another: a false one is then refused."""
    looks = []
    evaluate = true_bounds._terms
    monkeypatch.setattr(true_bounds, "_terms", lambda *where: looks.append(1) or evaluate(*where))
    target = amc.ControlVariate(
        amc.targets.LogisticRegression(*amc.datasets.synthetic_logistic(500, 2)), always_read="auto"
    )
    bound = true_bounds.checked_differences(target)
    n_looks = len(looks)
    assert n_looks > 0 and true_bounds.checked_differences(target) is bound and len(looks) == n_looks
    target._bound = bound._replace(rates=1e-9 * bound.rates)
    with pytest.raises(amc.errors.InvalidInputError, match=r"the bound of the terms of .* is false"):
        true_bounds.checked_differences(target)
