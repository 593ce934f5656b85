"""The empirical Bernstein test: coverage by enumeration, the textbook's chains, heavy tails decided over and over."""

import math

import numpy as np
import pytest
from scipy import stats

from approxmcmc.acceptance import BernsteinTest, SequentialTTest, bernstein
from approxmcmc.acceptance.bernstein import bound_factors
from approxmcmc.acceptance.laws.recursion import sequential_test_error
from approxmcmc.api import sample
from approxmcmc.contracts import AcceptanceTest, CompiledTermRange
from approxmcmc.engine.terms import moments
from approxmcmc.engine.terms.term_range import constant_range
from approxmcmc.proposals import RandomWalk
from approxmcmc.samplers import MetropolisHastings
from tests import textbook
from tests.decisions import Population, ask, decide_once, evidence_of, log_normal, read_without_drawing, threshold
from tests.models import normal_mean
from tests.planting import plain

# --- one look at a population of zeros and ones: the hypergeometric law says how often the bound fails ----------------


def failure_probability(n_obs: int, ones: int, n: int, factors) -> float:
    """Return P(mean of the population - mean of the sample > a s + b C), the larger of the two sides."""
    spread, reach = factors
    found = np.arange(max(0, n - (n_obs - ones)), min(n, ones) + 1)
    mean = found / n
    s = np.sqrt(np.maximum(mean * (1.0 - mean) * n / (n - 1.0), 0.0))
    weight = stats.hypergeom.pmf(found, n_obs, ones, n)
    low, high = (weight[sign * (ones / n_obs - mean) > spread * s + reach].sum() for sign in (1.0, -1.0))
    return float(max(low, high))


@pytest.mark.parametrize("bound", ["bernstein", "serfling"])
@pytest.mark.parametrize("delta", [0.9, 0.2, 0.01])
def test_the_bound_covers_populations_of_zeros_and_ones(bound, delta):
    worst = 0.0
    for n_obs in (20, 200, 2000):
        for n in {2, n_obs // 20 + 2, n_obs // 3, n_obs // 2 + 1, n_obs - 1}:
            factors = [factor[0] for factor in bound_factors(np.array([n, n_obs]), delta, bound=bound)]
            for ones in {1, 2, 5, n_obs // 10, n_obs // 2, n_obs - 1}:
                worst = max(worst, failure_probability(n_obs, ones, n, factors))
    assert worst <= delta / 2.0  # the first look may spend half of delta


def test_without_the_range_it_would_not_cover():
    """A sample that misses a single one has s = 0."""
    spread, _ = bound_factors(np.array([100, 2000]), 0.01)
    assert failure_probability(2000, 5, 100, (spread[0], 0.0)) > 0.7


# --- chains draw for draw ----------------------------------


def textbook_bernstein(delta, batch_size, growth, reach):
    """Decide by the bound, written out; `reach` returns C given the differences, as the library receives it."""

    def decide(rng, order, differences, mu_0):
        n_obs, n, look = len(differences), 0, 0
        while True:
            stop = min(n + round(batch_size * growth**look), n_obs)
            for place in range(n, stop):
                other = place + int(rng.random() * (n_obs - place))
                order[[place, other]] = order[[other, place]]
            n, look = stop, look + 1
            seen = differences[order[:n]]
            if n == n_obs:
                return seen.mean() > mu_0, n
            level = math.log(3.0 * 2.0 * look**2 / delta)
            c_n = seen.std(ddof=1) * math.sqrt(2.0 * level / n) + 3.0 * reach(differences) * level / n
            if abs(seen.mean() - mu_0) > c_n:
                return seen.mean() > mu_0, n

    return decide


def differs() -> bool:
    """Run chain and textbook on far-off starts, where decisions are clear; return whether a draw or a read differs."""
    target, reach = normal_mean(400), 4.0
    test = BernsteinTest(0.3, 20, 1.5, range=reach)
    settings = {"draws": 120, "tune": 0, "chains": 1, "random_seed": 5, "initvals": np.array([3.0])}
    trace = sample(target, MetropolisHastings(RandomWalk(0.15), test), progressbar=False, **settings)
    (x,) = target.data
    draws, read = textbook.chain(
        lambda theta: -0.5 * (x - theta[0]) ** 2,
        lambda theta: -2.0 * (theta[0] - 1.0) ** 2,
        textbook.random_walk(0.15),
        np.array([3.0]),
        n_obs=400,
        steps=120,
        seed=5,
        test=textbook_bernstein(0.3, 20, 1.5, lambda differences: reach),
    )
    assert 10 < (read < 400).sum() < 115  # early stops and full reads are compared
    same = np.allclose(trace.posterior["mu"].values[0], draws[:, 0], rtol=0.0, atol=1e-12)
    return not (same and np.array_equal(trace.sample_stats["datapoints_touched"].values[0], read))


@pytest.mark.filterwarnings("ignore::approxmcmc.errors.SamplingWarning")
def test_chains_equal_the_textbook():
    assert not differs()


# --- heavy tails, one population at a time ----------------------------------

N_OBS, REPEATS, DELTA = 2000, 2000, 0.05
RARE = np.where(np.arange(N_OBS) < 2, 1.0, 0.0)


@pytest.mark.needs_jit
@pytest.mark.parametrize(("log_sd", "mu_std", "excess"), [(1.5, 1.0, 3.0), (2.0, 1.0, 5.0)])
def test_log_normal_terms(log_sd, mu_std, excess):
    """The t-test errs several times as often as the recursion says for normal terms; the Bernstein test does not.

    A rate of 2000 decisions has a standard error of at most 0.011: the t-test's 0.13 and 0.24 are 8 and more of them
    above `excess` times the nominal 0.016; two-sided chance of failing at an unchanged test is below 1e-9.
    """
    terms = log_normal(N_OBS, log_sd)
    mu_0 = threshold(terms, mu_std)
    accepted = ask(SequentialTTest(0.01, 100), terms, mu_0, REPEATS, 1).accepted
    nominal = float(sequential_test_error(mu_std, epsilon=0.01, batch_size=100, n_obs=N_OBS)["error"])
    assert 1.0 - accepted.mean() > excess * nominal
    for bound in ("bernstein", "serfling"):
        accepted = ask(BernsteinTest(DELTA, 100, bound=bound), terms, mu_0, REPEATS, 2).accepted
        assert 1.0 - accepted.mean() <= DELTA


@pytest.mark.needs_jit
def test_where_the_answer_is_clear_the_bernstein_test_reads_less():
    terms = log_normal(N_OBS, 1.5)
    for mu_std in (-60.0, 60.0):
        accepted, _, read = ask(BernsteinTest(DELTA, 100), terms, threshold(terms, mu_std), 500, 3)
        assert (accepted == (mu_std > 0.0)).all()
        assert read.mean() < 0.6 * N_OBS


@pytest.mark.needs_jit
def test_a_sample_that_misses_all_that_matters():
    """Two of 2000 terms carry the mean: the t-test and the observed range are wrong nearly always, C is not."""
    mu_0 = threshold(RARE, 0.7)
    rates = {}
    for name, test in (
        ("t", SequentialTTest(0.01, 100)),
        ("observed", BernsteinTest(DELTA, 100, range="observed")),
        ("target", BernsteinTest(DELTA, 100)),
    ):
        accepted = ask(test, RARE, mu_0, REPEATS, 4).accepted
        rates[name] = 1.0 - accepted.mean()
    assert rates["t"] > 0.5
    assert rates["observed"] > 0.5
    assert rates["target"] <= DELTA


def without_range(state):
    return state._replace(range_factor=0.0 * state.range_factor)


def with_standard_error(state):
    return without_range(state)._replace(spread_factor=1.0 / np.sqrt(state.looks))


class Broken(AcceptanceTest):
    """A test whose state is changed before the chain sees it."""

    def __init__(self, test, change):
        self.test, self.change = test, change

    def build_test(self, target):
        part = self.test.build_test(target)
        return part._replace(make_state=lambda: self.change(part.make_state()))


BUGS = {
    "range forgotten": (without_range, RARE, 0.7),
    "standard error in place of the bound": (with_standard_error, log_normal(N_OBS, 2.0), 1.0),
}


@pytest.mark.needs_jit
@pytest.mark.slow
@pytest.mark.parametrize("bug", BUGS)
def test_planted_bugs_exceed_delta(bug):
    change, terms, mu_std = BUGS[bug]
    broken = Broken(BernsteinTest(DELTA, 100), change)
    accepted = ask(broken, terms, threshold(terms, mu_std), REPEATS, 5).accepted
    assert 1.0 - accepted.mean() > 2.0 * DELTA


# --- one decision, by hand ----------------------------------

TERMS = np.array([1.0, 2.0, 1.5, 4.5])  # 1 and 2 have mean 1.5, s = sqrt(1/2) and lie 1 apart; all four have mean 2.25


def booked(looks, read, **more):
    """Return what a decision of so many looks counts."""
    counts = {"decisions_made": 1, "decision_rounds": looks, "datapoints_touched": read}
    return counts | {"likelihood_evaluations": 2 * read} | more


def bound(reach):
    """Return c_1 after two of the terms, at delta = 0.9: half of it is spent at the first look."""
    level = math.log(3.0 / 0.45)
    return math.sqrt(0.5) * math.sqrt(2.0 * level / 2.0) + 3.0 * reach * level / 2.0


@pytest.mark.parametrize(("given", "reach"), [(3.0, 3.0), (1.0, 1.0), ("observed", 1.0), ("target", 3.5)])
def test_one_decision_and_what_it_counts(given, reach):
    """It stops where the first mean is further from mu_0 than the bound; Lambda is -0.5 + 4 lbar.

    All terms together have the range 3.5, so the last look refutes a smaller number.
    """
    test = BernsteinTest(0.9, 2, 1.0, range=given)
    refuted = {"range_violations": 1} if isinstance(given, float) else {}
    for side, early in ((-1.0, 1), (1.0, 0)):
        mu_0 = 1.5 + side * bound(reach) * (1.0 + 1e-6)
        assert decide_once(test, TERMS, 4.0 * mu_0 - 0.5, -0.5) == (early, 5.5, booked(1, 2), {})
        mu_0 = 1.5 + side * bound(reach) * (1.0 - 1e-6)
        assert decide_once(test, TERMS, 4.0 * mu_0 - 0.5, -0.5) == (early, 8.5, booked(2, 4, **refuted), {})
    assert decide_once(test, TERMS, 4.0 * 2.25, 0.0)[0] == 0  # a tie is rejected


def test_terms_further_apart_than_they_may_be_are_all_read():
    terms = np.append(TERMS, [2.0, 2.0])
    found = decide_once(BernsteinTest(0.9, 2, 1.0, range=0.5), terms, 100.0, 0.0)
    assert found == (0, pytest.approx(13.0), booked(3, 6, range_violations=1), {})


@pytest.mark.parametrize("reach", [math.nan, -0.5, -math.inf, math.inf])
def test_a_range_that_says_nothing_reads_all(reach, monkeypatch):
    monkeypatch.setattr(
        Population, "compile_term_range", lambda self: CompiledTermRange(constant_range(), np.array([reach]))
    )
    assert decide_once(BernsteinTest(0.9, 2, 1.0), TERMS, 100.0, 0.0) == (0, 9.0, booked(2, 4), {})


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (3.0, bound(3.0)),
        (1.0, bound(1.0)),
        (0.9, math.inf),
        (-0.5, math.inf),
        ("observed", bound(1.0)),
        (math.nan, math.inf),
    ],
)
def test_the_half_width_of_a_look(given, expected):
    """The distance at which a look decides, infinite where the terms break their range or it says nothing."""
    state = BernsteinTest(0.9, 2, 1.0, range=3.0 if given != "observed" else given).build_test(Population(TERMS))
    state = state.make_state()
    if given != "observed":
        state = state._replace(numbers=np.array([given]))
    evidence = evidence_of(TERMS)
    plain(moments.reset)(evidence.moments)
    read_without_drawing(None, evidence, 0, 2, np.zeros(64, np.int64))
    assert plain(bernstein.half_width)(evidence, state, 0, 2) == pytest.approx(expected)
