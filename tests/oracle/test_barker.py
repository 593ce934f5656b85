"""The minibatch Barker test against the textbook, against enumeration, and against its exact partner."""

import itertools
import math

import numpy as np
import pytest
from scipy.special import expit
from scipy.stats import norm

from approxmcmc.acceptance import ExactTest, MinibatchBarker, barker_decision as barker
from approxmcmc.acceptance.laws.barker_law import bound_from_moments, minibatch_barker_error_bound
from approxmcmc.acceptance.laws.correction import correction_distribution
from approxmcmc.api import sample
from approxmcmc.engine.streams import seed_sequences, streams
from approxmcmc.engine.terms import moments
from approxmcmc.engine.terms.batches import full_terms
from approxmcmc.proposals import RandomWalk
from approxmcmc.samplers import MetropolisHastings
from approxmcmc.targets import GaussianMixture
from tests.decisions import Population, in_all_orders, repeat
from tests.models import normal_mean
from tests.oracle.test_textbook import Scaling, scaling
from tests.planting import plain, plant
from tests.textbook import minibatch_barker_probability, random_walk

pytestmark = pytest.mark.filterwarnings("ignore::approxmcmc.errors.SamplingWarning")

SEED, STEPS = 20140621, 150


# --- the whole chain, draw for draw -----------------------------------------------------------------------------------

CASES = {
    "random walk": (RandomWalk(0.15), random_walk(0.15), {"batch_size": 10}),
    "asymmetric": (Scaling(), scaling(0.2), {"batch_size": 10, "target_variance": 0.5}),
    "ragged": (RandomWalk(0.15), random_walk(0.15), {"batch_size": 37, "target_variance": 0.1}),
    "tempered": (RandomWalk(0.5), random_walk(0.5), {"batch_size": 8, "temperature": 5.0}),
}


def textbook_chain(propose, *, batch_size, target_variance=1.0, temperature=1.0):
    """Return draws and data read of the minibatch Barker chain on `normal_mean`, in plain NumPy."""
    target = normal_mean()
    (x,) = target.data
    own = streams(seed_sequences(SEED, 1)[0][0])
    order, theta = np.arange(len(x)), np.array([0.4])
    draws, read = [], []
    for _ in range(STEPS):
        proposed, log_q_ratio = propose(own.proposal, theta)
        u = np.exp(-own.uniform.standard_exponential())
        log_rest = -2.0 * (proposed[0] - 1.0) ** 2 + 2.0 * (theta[0] - 1.0) ** 2 + log_q_ratio
        differences = -0.5 * (x - proposed[0]) ** 2 + 0.5 * (x - theta[0]) ** 2
        n, probability = 0, None
        while probability is None:
            stop = min(n + batch_size, len(x))
            for place in range(n, stop):
                other = place + int(own.order.random() * (len(x) - place))
                order[[place, other]] = order[[other, place]]
            n = stop
            probability = minibatch_barker_probability(
                differences[order[:n]], len(x), log_rest, target_variance=target_variance, temperature=temperature
            )
        theta = proposed if u < probability else theta
        draws.append(theta[0])
        read.append(n)
    return np.array(draws), np.array(read)


def differs(case: str) -> bool:
    proposal, propose, settings = CASES[case]
    trace = sample(
        normal_mean(), MetropolisHastings(proposal, MinibatchBarker(**settings)), draws=STEPS, tune=0, chains=1,
        random_seed=SEED, initvals=np.array([0.4]), audit_every=3, progressbar=False,
    )  # fmt: skip
    draws, read = textbook_chain(propose, **settings)
    same_draws = np.allclose(trace.posterior["mu"].values[0], draws, rtol=0.0, atol=1e-12)
    return not (same_draws and np.array_equal(trace.sample_stats["datapoints_touched"].values[0], read))


MARKS = {
    "asymmetric": [pytest.mark.recompiles, pytest.mark.thorough],
    "ragged": [pytest.mark.thorough],
    "tempered": [pytest.mark.thorough],
}


@pytest.mark.parametrize("case", [pytest.param(case, marks=MARKS.get(case, ())) for case in CASES])
def test_chains_equal_the_textbook(case):
    assert not differs(case)


@pytest.mark.thorough
def test_the_cases_stop_early_and_late():
    _, read = textbook_chain(random_walk(0.15), batch_size=37, target_variance=0.1)
    assert {37, 74, 100} == set(read.tolist())


log_ratio_variance, acceptance_log_odds = (
    plain(barker.log_ratio_variance),
    plain(barker.acceptance_log_odds),
)


def forget_temperature_of_the_mean(seen, n, n_obs, log_rest, test):
    scaled = seen.copy()
    scaled[moments.MEAN] *= test.temperature
    return acceptance_log_odds(scaled, n, n_obs, log_rest, test)


def add_whole_target_variance(seen, n, n_obs, log_rest, test):
    variance = log_ratio_variance(seen, n, n_obs, test.temperature)
    test = test._replace(target_variance=test.target_variance + variance)
    return acceptance_log_odds(seen, n, n_obs, log_rest, test)


def leave_out_the_correction(seen, n, n_obs, log_rest, test):
    return acceptance_log_odds(seen, n, n_obs, log_rest, test._replace(atoms=0.0 * test.atoms))


BUGS = {
    "variance of the sum, not of the mean": (
        {barker.log_ratio_variance: lambda seen, n, *rest: n * log_ratio_variance(seen, n, *rest)}, "random walk"),
    "correction factor dropped": (
        {barker.log_ratio_variance: lambda seen, n, n_obs, temperature: (
            log_ratio_variance(seen, n, n_obs, temperature) / (1.0 - n / n_obs) if n < n_obs else 0.0)}, "random walk"),
    "temperature forgotten in the variance": (
        {barker.log_ratio_variance: lambda seen, n, n_obs, _: log_ratio_variance(seen, n, n_obs, 1.0)}, "tempered"),
    "temperature forgotten in the mean": ({barker.acceptance_log_odds: forget_temperature_of_the_mean}, "tempered"),
    "prior and proposal ratio dropped": (
        {barker.acceptance_log_odds: lambda seen, n, n_obs, _, test: (
            acceptance_log_odds(seen, n, n_obs, 0.0, test))}, "asymmetric"),
    "whole of the target variance added": ({barker.acceptance_log_odds: add_whole_target_variance}, "random walk"),
    "correction left out": ({barker.acceptance_log_odds: leave_out_the_correction}, "random walk"),
    "no logistic noise at the end of the data": (
        {barker.acceptance_log_odds: lambda seen, n, n_obs, *rest: (
            (1e9 if n == n_obs else 1.0) * acceptance_log_odds(seen, n, n_obs, *rest))}, "ragged"),
}  # fmt: skip


@pytest.mark.thorough
@pytest.mark.parametrize("bug", BUGS)
def test_planted_bugs_are_seen(bug, monkeypatch):
    wrong, case = BUGS[bug]
    plant(monkeypatch, wrong)
    assert differs(case)


# --- one decision -----------------------------------------------------------------------------------------------------


def outcomes(test, terms, log_rest):
    """Return the mean acceptance probability and mean data read over all orders of the terms."""
    decisions, log_odds, read = map(np.array, zip(*in_all_orders(test, terms, 0.3, log_rest), strict=True))
    np.testing.assert_array_equal(decisions, log_odds > 0.3)
    return float(expit(log_odds).mean()), float(read.mean())


@pytest.mark.thorough
@pytest.mark.parametrize("log_rest", [-1.5, 0.0, 2.0])
def test_all_orders_of_five_terms(log_rest):
    """Batches of two end raggedly at five."""
    terms = np.array([0.1, -0.2, 0.35, 0.6, -0.9])
    expected, read = [], []
    for order in itertools.permutations(terms):
        for n in (2, 4, 5):
            probability = minibatch_barker_probability(np.array(order[:n]), 5, log_rest)
            if probability is not None:
                break
        expected.append(probability)
        read.append(n)
    got = outcomes(MinibatchBarker(batch_size=2), terms, log_rest)
    assert got == pytest.approx((np.mean(expected), np.mean(read)), abs=1e-12)
    assert 2.0 < got[1] < 5.0


def averaged_over_noise(delta: float, s: float, target_variance: float = 1.0) -> float:
    """Return the integral of A(Delta*, s^2) over Delta* ~ N(Delta, s^2), by the library's own function."""
    test = MinibatchBarker(target_variance).build_test(Population(np.zeros(1000))).make_state()
    state = np.zeros(moments.SIZE)
    n, n_obs = 100, 1000
    # Moments whose variance of the estimate is s^2.
    state[moments.N], state[moments.M2] = n, s * s * n * (n - 1) / (n_obs * n_obs * (1.0 - n / n_obs))
    total = 0.0
    grid = np.linspace(-9.0, 9.0, 721)
    for z, weight in zip(grid, norm.pdf(grid) * (grid[1] - grid[0]), strict=True):
        state[moments.MEAN] = (delta + s * z) / n_obs
        total += weight * expit(barker.acceptance_log_odds(state, n, n_obs, 0.0, test))
    return total


@pytest.mark.thorough
@pytest.mark.parametrize("s", [0.01, 0.1, 0.3, 0.7, 0.99])
@pytest.mark.parametrize("delta", [-6.0, -1.0, 0.0, 0.5, 1.0, 3.0])
def test_normal_noise_leaves_only_the_error_of_the_correction(delta, s):
    """The closed form averages to the logistic function within 5.4e-8, whatever the share of the minibatch's noise."""
    assert averaged_over_noise(delta, s) == pytest.approx(expit(delta), abs=6e-8)


def test_the_tails_of_the_acceptance_probability_keep_their_digits():
    """logit(A) is odd in Delta*, increasing, and finite as long as a double can hold the tail."""
    test = MinibatchBarker().build_test(Population(np.zeros(1000))).make_state()
    state = np.zeros(moments.SIZE)
    state[moments.N], state[moments.M2] = 100, 0.4 * 100 * 99 / (1e6 * 0.9)
    odds = []
    for estimate in np.linspace(-30.0, 30.0, 121):
        state[moments.MEAN] = estimate / 1000
        odds.append(barker.acceptance_log_odds(state, 100, 1000, 0.0, test))
    np.testing.assert_allclose(odds, -np.array(odds)[::-1], rtol=1e-9, atol=1e-9)
    assert np.all(np.diff(odds) > 0.0) and np.isfinite(odds).all()
    state[moments.MEAN] = 1.0
    assert barker.acceptance_log_odds(state, 100, 1000, 0.0, test) == math.inf
    assert barker.acceptance_log_odds(state, 100, 1000, -2000.0, test) == -math.inf


def test_a_variance_just_below_the_target_is_a_step():
    test = MinibatchBarker().build_test(Population(np.zeros(1000))).make_state()
    state = np.zeros(moments.SIZE)
    state[moments.N], state[moments.M2] = 100, (1.0 - 1e-15) * 100 * 99 / (1e6 * 0.9)
    state[moments.MEAN] = 0.3 / 1000
    correction = correction_distribution(1.0)
    step = correction.weights[correction.atoms > -0.3].sum()
    assert expit(barker.acceptance_log_odds(state, 100, 1000, 0.0, test)) == pytest.approx(step, abs=1e-12)


# --- the exact partner ------------------------------------------------------------------------------------------------


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("proposal", "settings"),
    [
        (RandomWalk(0.2), {"batch_size": 100}),
        (RandomWalk(0.2), {"batch_size": 5000}),
        (RandomWalk(0.2), {"batch_size": 37, "max_error": 0.05}),  # ragged: 37, 74, 100
        pytest.param(Scaling(), {"batch_size": 33, "max_error": 0.05}, marks=pytest.mark.recompiles),
    ],
    ids=["one look", "a batch beyond the data", "ragged", "ragged, asymmetric"],
)
def test_where_all_data_are_read_it_is_the_exact_test(proposal, settings):
    """Prior off the data, N not divisible by the batch: the same draws as ``ExactTest("barker")``.

    A bound of 0.05 on the error of 100 data cannot be met, so all are read.
    """
    arguments = {"draws": 200, "tune": 0, "chains": 2, "random_seed": SEED, "progressbar": False}
    arguments |= {"initvals": np.array([0.4])}
    target = normal_mean()
    exact = sample(target, MetropolisHastings(proposal, ExactTest("barker")), **arguments)
    test = sample(target, MetropolisHastings(proposal, MinibatchBarker(**settings)), **arguments)
    assert (test.sample_stats["datapoints_touched"] == target.n_obs).all()
    assert 0.2 < test.sample_stats["accepted"].mean() < 0.8
    np.testing.assert_array_equal(exact.posterior["mu"], test.posterior["mu"])
    np.testing.assert_allclose(exact.sample_stats["acceptance_rate"], test.sample_stats["acceptance_rate"], rtol=1e-9)


# --- the stationary law -----------------------------------------------------------------------------------------------


def lattice_kernel(probability, shape):
    """Return the transition matrix of a walk on a lattice: one of four neighbours, accepted with this probability."""
    states = list(itertools.product(*map(range, shape)))
    index = {state: k for k, state in enumerate(states)}
    matrix = np.zeros((len(states), len(states)))
    for state, k in index.items():
        for axis, step in itertools.product(range(2), (-1, 1)):
            other = tuple(value + step * (a == axis) for a, value in enumerate(state))
            if other in index:
                matrix[k, index[other]] = 0.25 * probability(k, index[other])
    return matrix + np.diag(1.0 - matrix.sum(axis=1))


def stationary(matrix):
    size = len(matrix)
    system = np.vstack([matrix.T - np.eye(size), np.ones(size)])
    return np.linalg.lstsq(system, np.append(np.zeros(size), 1.0), rcond=None)[0]


@pytest.mark.needs_jit
@pytest.mark.parametrize(
    ("batch_size", "prior_weight", "least", "most"),
    [(100, 1.0, 0.0, 0.015), (20, 1.0, 0.035, 0.075), (100, 0.0, 0.05, 1.0)],
    ids=["batches of 100", "batches of 20", "planted: prior ratio dropped"],
)
def test_stationary_law_on_200_data_of_the_mixture(batch_size, prior_weight, least, most, seed):
    """Methods F.5: a lattice over both modes, N = 200, acceptance averaged over 2000 minibatches of each pair.

    The averages' noise (0.004 or less each) keeps the total variation distance from exact Barker's law near 0.004 with
    batches of 100. Batches of 20 show the test's own bias under skewed terms, 0.053 (8000 minibatches); it is 0.024
    with batches of 50, and 0.018 with batches of 20 and a quarter of the target variance.
    """
    target = GaussianMixture.simulated(200, temperature=5.0, random_seed=1)
    kernels = target.compile()
    first, second = np.linspace(-1.8, 2.6, 12), np.linspace(-3.0, 3.0, 13)
    points = np.array(list(itertools.product(first, second)))
    prior = np.array([kernels.log_prior(point) for point in points])
    terms = np.array([full_terms(kernels.log_terms, point, target.data, target.n_obs) for point in points])
    log_density = prior + terms.sum(axis=1)
    posterior = np.exp(log_density - log_density.max())
    posterior /= posterior.sum()
    read = []

    def exact(k, other):
        return expit(log_density[other] - log_density[k])

    def averaged(k, other):
        log_rest = prior_weight * (prior[other] - prior[k])
        test = MinibatchBarker(batch_size=batch_size)
        _, probability, touched = repeat(test, terms[other] - terms[k], log_rest, 2000, [seed, k, other])
        read.append(0.25 * posterior[k] * touched.mean())
        return probability.mean()

    shape = (len(first), len(second))
    np.testing.assert_allclose(stationary(lattice_kernel(exact, shape)), posterior, atol=1e-12)
    law = stationary(lattice_kernel(averaged, shape))
    assert least < 0.5 * np.abs(law - posterior).sum() < most
    assert sum(read) < 120.0  # of 200


# --- the error bound --------------------------------------------------------------------------------------------------


def test_the_bound_of_normal_terms():
    """Methods F.4: 11.81 / sqrt(b), over 1 below b = 140 and 0.1 at 13 900."""
    terms = 3.0 + 5.0 * norm.ppf((np.arange(400_000) + 0.5) / 400_000)
    constant = 6.4 * 2.0 * math.sqrt(2.0 / math.pi) + 2.0 * math.sqrt(2.0 / math.pi)
    assert constant == pytest.approx(11.81, abs=0.005)
    bound = minibatch_barker_error_bound(terms, [1, 139, 13_950], correction_error=5e-8)
    np.testing.assert_allclose(bound, [constant, 1.0017, 0.1], rtol=1e-3)


def test_the_bound_from_running_moments_is_no_smaller(rng):
    two_values = np.arange(300.0) % 5 < 2  # of kurtosis 1.17: the least is 1
    for terms in (rng.normal(size=300), rng.exponential(size=300), rng.standard_t(3, size=300), two_values * 1.0):
        state = np.empty(moments.SIZE)
        moments.reset(state)
        moments.merge(state, terms, 300)
        direct, running = minibatch_barker_error_bound(terms, 300), bound_from_moments(state, 0.0)
        assert direct <= running
        assert running == pytest.approx(
            (6.4 * math.sqrt((((terms - terms.mean()) / terms.std()) ** 4).mean()) + 2.0) / math.sqrt(300)
        )
