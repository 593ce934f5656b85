"""The minibatch Barker test against Barker's acceptance probability, by simulation; see the README beside this file."""

import math

import numpy as np
import pytest
from scipy import stats
from scipy.special import expit

from approxmcmc.acceptance import MinibatchBarker
from approxmcmc.acceptance.laws.correction import correction_distribution
from approxmcmc.api import sample
from approxmcmc.proposals import RandomWalk
from approxmcmc.reference.grid import grid_reference
from approxmcmc.samplers import MetropolisHastings
from approxmcmc.targets import GaussianMixture
from tests.decisions import Population, repeat

pytestmark = [
    pytest.mark.statistical,
    pytest.mark.needs_jit,
    pytest.mark.filterwarnings("ignore::approxmcmc.errors.SamplingWarning"),
]

# --- normal noise + correction = logistic -----------------------------------------------------------------------------

KS_DRAWS, KS_LEVEL, KS_DISTANCE, KS_FALSE_PASS = 60_000, 1e-6, 0.02, 1e-3


def ks_fails(draws) -> bool:
    """Return whether the draws are further from the logistic law than happens with probability 1e-6.

    Dvoretzky, Kiefer and Wolfowitz: P(sup |F_n - F| > d) <= 2 exp(-2 n d^2).
    """
    return stats.kstest(draws, "logistic").statistic > math.sqrt(math.log(2.0 / KS_LEVEL) / (2.0 * len(draws)))


def noisy(rng, s: float, test) -> np.ndarray:
    """Return draws of N(0, s^2) plus the normal noise and the correction that the test's state describes."""
    spread = math.sqrt(max(test.target_variance - s * s, 0.0))
    correction = rng.choice(test.atoms, KS_DRAWS, p=test.weights / test.weights.sum())
    return s * rng.standard_normal(KS_DRAWS) + spread * rng.standard_normal(KS_DRAWS) + correction


def test_there_are_draws_enough_for_the_power_that_is_stated():
    needed = math.sqrt(math.log(2.0 / KS_LEVEL) / 2.0) + math.sqrt(math.log(2.0 / KS_FALSE_PASS) / 2.0)
    assert (needed / KS_DISTANCE) ** 2 < KS_DRAWS


@pytest.mark.parametrize("s", [0.0, 0.3, 0.99])
@pytest.mark.parametrize("target_variance", [1.0, 0.81])
def test_normal_noise_and_correction_add_up_to_a_logistic_law(s, target_variance, rng):
    """false_fail 1e-6; a law whose distribution function is off by 0.02 passes with probability 1e-3."""
    test = MinibatchBarker(target_variance).build_test(Population(np.zeros(1000))).make_state()
    assert not ks_fails(noisy(rng, s * math.sqrt(target_variance), test))


PLANTED_NOISE = {
    "atoms one place off": lambda test: test._replace(atoms=np.roll(test.atoms, 1)),
    "normal part of the whole variance": lambda test: test._replace(target_variance=test.target_variance + 0.99**2),
    "correction made for another variance": lambda test: test._replace(
        atoms=correction_distribution(1.3).atoms, weights=correction_distribution(1.3).weights),
}  # fmt: skip


@pytest.mark.parametrize("bug", PLANTED_NOISE)
def test_noise_that_is_not_logistic_is_seen(bug, rng):
    test = MinibatchBarker().build_test(Population(np.zeros(1000))).make_state()
    assert ks_fails(noisy(rng, 0.99, PLANTED_NOISE[bug](test)))


# --- acceptance frequency ---------------------------------------------------------------------------------------------

DELTAS, SPREADS = (-3.0, -1.0, 0.0, 0.5, 1.0, 3.0), (0.01, 0.1, 0.3, 0.9)
REPEATS = 20_000
# 24 cells at two-sided 1.2e-7 each: false_fail 6e-6. The standard error of a frequency is at most 0.0035: an acceptance
# probability off by 0.03 is missed with probability below 1e-3.
Z = 5.3
POPULATION, BATCH_SIZE = 10_000, 100
NORMAL_TERMS = stats.norm.ppf((np.arange(POPULATION) + 0.5) / POPULATION)


def cells():
    """Yield (Delta, terms): the estimate from one batch has standard deviation s."""
    for s in SPREADS:
        spread = s * math.sqrt(BATCH_SIZE / (1.0 - BATCH_SIZE / POPULATION)) / POPULATION
        for delta in DELTAS:
            yield delta, spread * NORMAL_TERMS


def misses(decide) -> int:
    """Count cells where the frequency of acceptance is further than 5.3 standard errors from the logistic function."""
    wrong = 0
    for k, (delta, terms) in enumerate(cells()):
        probability = expit(delta)
        error = math.sqrt(probability * (1.0 - probability) / REPEATS)
        wrong += abs(decide(delta, terms, k).mean() - probability) > Z * error
    return wrong


def test_acceptance_frequency_is_the_logistic_function(seed):
    test = MinibatchBarker(batch_size=BATCH_SIZE)
    assert misses(lambda delta, terms, k: repeat(test, terms, delta, REPEATS, [seed, k]).accepted) == 0


def test_the_shortcut_at_five_standard_deviations_is_seen(seed):
    """Pitfall P11: accept or reject outright when |mean| > 5 sd. At s = 0.1, Delta = 0.5 it accepts 0.80, not 0.62."""
    test = MinibatchBarker(batch_size=BATCH_SIZE)

    def shortcut(delta, terms, k):
        rng = np.random.default_rng([seed, k])
        estimates = delta + np.std(terms) * POPULATION / math.sqrt(BATCH_SIZE) * rng.standard_normal(REPEATS)
        decisions = repeat(test, terms, delta, REPEATS, [seed, k]).accepted
        clear = np.abs(estimates) > 5.0 * np.std(terms) * POPULATION / math.sqrt(BATCH_SIZE)
        return np.where(clear, estimates > 0.0, decisions)

    assert misses(shortcut) >= 8  # cells with s <= 0.1 and Delta not 0


# --- skewed terms: the bias of the growth rule ------------------------------------------------------------------------

EXPONENTIAL_TERMS = stats.expon.ppf((np.arange(200_000) + 0.5) / 200_000)
EXPONENTIAL_TERMS -= EXPONENTIAL_TERMS.mean()
# Methods F.4, 20 000 runs each, standard errors up to 0.0017: terms, tau, batch, (bias at Delta = -2, 0, 2), data read.
BIAS = [
    ("exponential", 5.0, 50, (-0.0029, 0.0020, -0.0024), 51),
    ("exponential", 10.0, 100, (-0.0141, -0.0349, -0.0168), 144),
    ("exponential", 20.0, 100, (-0.0086, -0.0172, -0.0119), 446),
    ("normal", 10.0, 50, (0.0, 0.0, 0.0), 124),
    ("normal", 20.0, 100, (0.0, 0.0, 0.0), 449),
]


@pytest.mark.parametrize(("law", "tau", "batch_size", "expected", "read"), BIAS)
def test_bias_under_skewed_terms(law, tau, batch_size, expected, read, seed):
    """The mean of A - S(Delta) is the table's within 5 standard errors of the two; Delta* has the sd tau / sqrt(b)."""
    terms = EXPONENTIAL_TERMS if law == "exponential" else stats.norm.ppf((np.arange(200_000) + 0.5) / 200_000)
    for delta, bias in zip((-2.0, 0.0, 2.0), expected, strict=True):
        _, probability, touched = repeat(
            MinibatchBarker(batch_size=batch_size), terms * tau / len(terms), delta, REPEATS, [seed, int(delta + 2)]
        )
        found = probability.mean() - expit(delta)
        error = math.hypot(0.0017, probability.std() / math.sqrt(REPEATS))
        assert abs(found - bias) < 5.0 * error
        assert touched.mean() == pytest.approx(read, rel=0.03)


def test_a_smaller_target_variance_remedies_skewness(seed):
    """sigma = 0.5 at three times the data: bias at Delta = 0 about -0.008 instead of -0.035 (methods F.4)."""
    biases, read = [], []
    for target_variance in (1.0, 0.25):
        test = MinibatchBarker(target_variance, batch_size=100)
        _, probability, touched = repeat(test, EXPONENTIAL_TERMS * 10.0 / 200_000, 0.0, REPEATS, seed)
        biases.append(probability.mean() - 0.5)
        read.append(touched.mean())
    assert biases[0] < 3.0 * biases[1] < 0.0
    assert read[1] / read[0] == pytest.approx(3.1, abs=0.3)


# --- audits and chains ------------------------------------------------------------------------------------------------


def test_audits_measure_bias_and_not_noise(seed):
    """Decisions flip at 4 % while the acceptance probability is off by 0.004: flips are noise.

    Some 2000 audits of 64 replications, each with a standard error of 0.012, so the mean square error less its noise is
    known to within 4e-6: the limit 0.0075^2 lies more than 8 of these above 0.0043^2, that of batches of 10 (0.02)
    further still.
    """
    target = GaussianMixture.simulated(5_000, temperature=25.0, random_seed=2)

    def audited(batch_size):
        sampler = MetropolisHastings(RandomWalk(0.5), MinibatchBarker(batch_size=batch_size))
        trace = sample(
            target, sampler, draws=2000, tune=100, chains=2, random_seed=seed, audit_every=2, progressbar=False
        )
        s = trace.sample_stats
        error, noise = s["audit_acceptance_error"].values, s["audit_acceptance_noise"].values
        kept = np.isfinite(error)
        assert kept.sum() == s["decisions_audited"].sum() > 1500
        bias = math.sqrt(max(float((error[kept] ** 2 - noise[kept] ** 2).mean()), 0.0))  # root mean square, less noise
        return float(s["wrong_decisions"].sum() / s["decisions_audited"].sum()), bias

    flips, bias = audited(250)
    assert flips > 0.03
    assert bias < 0.0075
    flips, coarse = audited(10)
    assert coarse > 0.012


def test_chains_draw_from_the_grid_posterior(seed):
    """Start 2000 chains on the exact grid posterior of the mixture, make 30 steps, and compare moments.

    Chains are independent: z-tests at 5 standard errors, 6e-7 each. Batches of 500 keep the test's own bias below what
    2000 chains can see. A forgotten temperature contracts the law threefold.
    """
    target = GaussianMixture.simulated(5_000, temperature=50.0, random_seed=3)
    n = 2000
    gold = grid_reference(target.log_density(), target.variables, target.bounds, n_points=201, chains=1, draws=n,
                          random_seed=seed)  # fmt: skip
    start = np.column_stack([gold.posterior[name].values[0] for name in ("theta1", "theta2")])
    sampler = MetropolisHastings(RandomWalk(0.4), MinibatchBarker(batch_size=500))
    trace = sample(target, sampler, draws=1, tune=0, thin=30, chains=n, initvals=start, random_seed=seed,
                   progressbar=False)  # fmt: skip
    assert 0.1 < trace.sample_stats["accepted"].mean() < 0.5
    for name in ("theta1", "theta2"):
        mean, sd = (float(gold["reference_moments"][name].sel(moment=m)) for m in ("mean", "sd"))
        z = (trace.posterior[name].values[:, 0] - mean) / sd
        spread = (z**2 - 1.0).std(ddof=1) / math.sqrt(n)
        assert abs(z.mean()) < 5.0 / math.sqrt(n)
        assert abs((z**2).mean() - 1.0) < 5.0 * spread
