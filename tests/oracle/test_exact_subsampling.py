"""Exact subsampling: stationary laws by enumeration of all Poisson counts, and the library's chains draw for draw."""

import itertools
import math

import numpy as np
import pytest
from scipy import optimize, stats

import approxmcmc as amc
from approxmcmc.acceptance import delayed, poisson, thinning
from approxmcmc.api import sample
from approxmcmc.engine.streams import seed_sequences, streams
from approxmcmc.engine.terms.alias_table import alias_table
from approxmcmc.engine.terms.batches import full_terms
from approxmcmc.engine.terms.row_classes import draw_rows_by_class, row_classes
from tests.models import logistic
from tests.planting import plain

# --- a posterior of three data on five states; the bounds are symmetric and not tight -------------------------------

RNG = np.random.default_rng(0)
STATES, DATA, COUNTS = 5, 3, 20
TERMS, LOG_PRIOR = RNG.normal(scale=0.2, size=(STATES, DATA)), RNG.normal(size=STATES)
PROPOSAL = RNG.dirichlet(np.ones(STATES), size=STATES)  # no symmetry
POSTERIOR = np.exp(LOG_PRIOR + TERMS.sum(axis=1)) / np.exp(LOG_PRIOR + TERMS.sum(axis=1)).sum()
SPREAD = np.abs(TERMS[:, None] - TERMS).max(axis=(0, 1))  # the c_i
REACH = 1.0 + 0.3 * np.abs(np.arange(STATES)[:, None] - np.arange(STATES))  # M

RATES = {"poisson": (poisson.poisson_rate, 0.0), "tuna 0": (poisson.tuna_rate, 0.0), "tuna": (poisson.tuna_rate, 0.2)}
RATES |= {"factorized": (delayed.veto_rate, 0.0)}


def log_rest(x, y):
    """Return the log ratio of priors and proposals."""
    return LOG_PRIOR[y] - LOG_PRIOR[x] + np.log(PROPOSAL[y, x] / PROPOSAL[x, y])


def count_rates(rate, chi, x, y, spread=SPREAD):
    """Return the means of the counts there and back; shape (data,) each."""
    return rates_there_and_back(rate, chi, TERMS[y] - TERMS[x], spread * REACH[x, y])


def rates_there_and_back(rate, chi, differences, bound):
    """Return the same for these differences and bounds; a difference beyond its bound is cut there."""
    w, differences = 1.0 + 2.0 * chi * bound.sum(), np.clip(differences, -bound, bound)
    pairs = list(zip(bound, differences, strict=True))
    return tuple(np.array([plain(rate)(b, sign * d, w) for b, d in pairs]) for sign in (1.0, -1.0))


def probability_given(counts, here, back, rest):
    """Return min(1, e^c prod (back / here)^s) for each row of counts; of a rate 0 no count is drawn."""
    ratio = np.divide(back, here, out=np.ones(DATA), where=here > 0.0)
    return np.minimum(1.0, np.exp(rest) * (ratio**counts).prod(axis=1))


def acceptance(rate, chi, x, y, rest, spread=SPREAD):
    """Return the probability to accept: a sum over all counts, whose tail is below 1e-14."""
    return acceptance_of(*count_rates(rate, chi, x, y, spread), rest)


def acceptance_of(here, back, rest, most=COUNTS):
    """Return the same for counts with these means there and back, below `most`."""
    counts = np.array(list(itertools.product(range(most), repeat=DATA)))
    weights = stats.poisson.pmf(counts, here).prod(axis=1)
    assert abs(weights.sum() - 1.0) < 1e-13
    return float(weights @ probability_given(counts, here, back, rest))


def transition_matrix(accept):
    """Return the matrix of a chain that accepts a move from x to y with probability ``accept(x, y)``."""
    matrix = np.array(
        [[PROPOSAL[x, y] * accept(x, y) if x != y else 0.0 for y in range(STATES)] for x in range(STATES)]
    )
    return matrix + np.diag(1.0 - matrix.sum(axis=1))


def stationary(matrix):
    """Return the stationary law of a transition matrix."""
    system = np.vstack([matrix.T - np.eye(len(matrix)), np.ones(len(matrix))])
    return np.linalg.lstsq(system, np.append(np.zeros(len(matrix)), 1.0), rcond=None)[0]


def assert_exact(matrix, posterior=POSTERIOR):
    """Detailed balance, and the stationary law."""
    flow = posterior[:, None] * matrix
    np.testing.assert_allclose(flow, flow.T, rtol=0, atol=1e-13)
    np.testing.assert_allclose(stationary(matrix), posterior, rtol=0, atol=1e-11)


def in_two_stages(x, y, second):
    """Return the probability of delayed acceptance: of log_rest first, then of `second` on the terms alone."""
    return min(1.0, np.exp(log_rest(x, y))) * second


@pytest.mark.parametrize("name", RATES)
def test_the_stationary_law_is_the_posterior(name):
    rate, chi = RATES[name]
    assert_exact(transition_matrix(lambda x, y: acceptance(rate, chi, x, y, log_rest(x, y))))


@pytest.mark.thorough
@pytest.mark.parametrize("name", RATES)
def test_delayed_acceptance_keeps_it(name):
    rate, chi = RATES[name]
    assert_exact(transition_matrix(lambda x, y: in_two_stages(x, y, acceptance(rate, chi, x, y, 0.0))))


def test_delayed_acceptance_on_all_data_keeps_it():
    whole = (TERMS.sum(axis=1) - TERMS.sum(axis=1)[:, None]).clip(max=0.0)
    assert_exact(transition_matrix(lambda x, y: in_two_stages(x, y, np.exp(whole[x, y]))))


def test_the_factorised_test_is_a_product_of_vetoes():
    for x, y in itertools.permutations(range(STATES), 2):
        vetoes = np.minimum(1.0, np.exp(TERMS[y] - TERMS[x])).prod()
        expected = min(1.0, np.exp(log_rest(x, y))) * vetoes
        assert acceptance(delayed.veto_rate, 0.0, x, y, log_rest(x, y)) == pytest.approx(expected, abs=1e-13)


def test_an_exact_sum_for_some_pairs_keeps_it():
    """Which rule decides depends on the reach alone, the same both ways."""

    def accept(x, y):
        if REACH[x, y] > 1.5:
            return min(1.0, np.exp(log_rest(x, y) + (TERMS[y] - TERMS[x]).sum()))
        return acceptance(poisson.poisson_rate, 0.0, x, y, log_rest(x, y))

    assert_exact(transition_matrix(accept))


@pytest.mark.thorough
def test_more_reads_bring_the_acceptance_of_all_data():
    """TunaMH: the loss falls with chi; the Poisson test loses less than TunaMH with chi = 0 at equal reads."""
    pairs = list(itertools.permutations(range(STATES), 2))
    whole = [min(1.0, np.exp(log_rest(x, y) + (TERMS[y] - TERMS[x]).sum())) for x, y in pairs]
    loss = [
        np.mean([w - acceptance(rate, chi, x, y, log_rest(x, y)) for w, (x, y) in zip(whole, pairs, strict=True)])
        for rate, chi in ((poisson.tuna_rate, 0.0), (poisson.poisson_rate, 0.0), (poisson.tuna_rate, 0.2))
    ]
    assert loss[0] > loss[1] > loss[2] > 0.0


# --- planted bugs ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", RATES)
def test_a_bound_that_is_too_small_is_seen(name):
    rate, chi = RATES[name]
    matrix = transition_matrix(lambda x, y: acceptance(rate, chi, x, y, log_rest(x, y), 0.4 * SPREAD / REACH.max()))
    assert np.abs(stationary(matrix) - POSTERIOR).max() > 1e-3


@pytest.mark.thorough
@pytest.mark.parametrize("name", RATES)
def test_a_forgotten_surrogate_is_seen(name):
    rate, chi = RATES[name]
    matrix = transition_matrix(lambda x, y: acceptance(rate, chi, x, y, 0.0))
    assert np.abs(stationary(matrix) - POSTERIOR).max() > 1e-2


def kept_given_reads(rate, x, y, reads):
    """Return the probability to accept where exactly `reads` rows are drawn: thinning, written out."""
    here, back = count_rates(rate, 0.0, x, y)
    total = (SPREAD * REACH[x, y]).sum()
    counts = np.array([s for s in itertools.product(range(reads + 1), repeat=DATA) if sum(s) <= reads])
    whole = np.column_stack([counts, reads - counts.sum(axis=1)])
    weights = stats.multinomial.pmf(whole, reads, np.append(here, total - here.sum()) / total)
    return float(weights @ probability_given(counts, here, back, log_rest(x, y)))


@pytest.mark.parametrize(
    "rate", [poisson.poisson_rate, poisson.tuna_rate, delayed.veto_rate], ids=["poisson", "tuna", "factorized"]
)
def test_thinning_makes_independent_poisson_counts(rate):
    total = SPREAD.sum() * REACH[1, 3]
    reads = range(30)
    mixed = stats.poisson.pmf(reads, total) @ [kept_given_reads(rate, 1, 3, n) for n in reads]
    assert mixed == pytest.approx(acceptance(rate, 0.0, 1, 3, log_rest(1, 3)), abs=1e-10)


def test_a_count_that_is_used_until_a_move_is_seen(monkeypatch):
    """The number of rows read stays until a proposal is accepted: the state is (theta, B), and the law of theta off."""
    monkeypatch.setattr(f"{__name__}.REACH", np.full((STATES, STATES), 1.3))  # so that B has one law for all pairs
    law = stats.poisson.pmf(range(14), SPREAD.sum() * 1.3)
    law = law / law.sum()
    matrices = np.array(
        [
            transition_matrix(lambda x, y, n=n: kept_given_reads(poisson.poisson_rate, x, y, n))  # moves, and stays
            for n in range(len(law))
        ]
    )
    fresh = np.tensordot(law, matrices, axes=1)
    assert np.abs(stationary(fresh) - POSTERIOR).max() < 1e-4  # B is cut at 13
    reused = np.zeros((STATES, len(law), STATES, len(law)))
    for n, matrix in enumerate(matrices):
        stays = np.diag(np.diag(matrix))
        reused[:, n, :, n] += stays
        reused[:, n] += (matrix - stays)[:, :, None] * law
    found = stationary(reused.reshape(STATES * len(law), -1)).reshape(STATES, -1).sum(axis=1)
    assert np.abs(found - POSTERIOR).max() > 1e-3


# --- bounds of an expansion -----------------------------------------------------------------------------------------

EXPANSIONS = {"first order": {"order": 1}, "second order": {}, "averaged": {"at": "pilot", "averaged": True}}


def law_of_residuals(settings, factor):
    """Return posterior and stationary law on five places of a chain that decides by residuals and their bounds."""
    rng = np.random.default_rng(1)
    model = amc.targets.LogisticRegression(2.0 * rng.normal(size=(DATA, 2)), np.array([0.0, 1.0, 1.0]))
    target = amc.ControlVariate(model, **settings)
    places = target.center + 0.6 * rng.normal(size=(STATES, 2)) @ target.laplace.cholesky.T
    compiled, bound = target.compile(), target.compile_difference_bound()
    terms = np.array([full_terms(compiled.log_terms, place, compiled.data, DATA) for place in places])
    log_rest = np.array([compiled.log_prior(place) for place in places])

    def accept(x, y):
        largest = factor * bound.rates * bound.reach(places[x], places[y], bound.numbers)
        rest = log_rest[y] - log_rest[x] + np.log(PROPOSAL[y, x] / PROPOSAL[x, y])
        return acceptance_of(
            *rates_there_and_back(poisson.poisson_rate, 0.0, terms[y] - terms[x], largest), rest, most=10
        )

    posterior = np.exp(log_rest + terms.sum(axis=1))
    return posterior / posterior.sum(), transition_matrix(accept)


@pytest.mark.thorough
@pytest.mark.parametrize("settings", EXPANSIONS.values(), ids=EXPANSIONS)
def test_with_the_bounds_of_an_expansion_the_stationary_law_is_the_posterior(settings):
    posterior, matrix = law_of_residuals(settings, 1.0)
    assert_exact(matrix, posterior)
    posterior, matrix = law_of_residuals(settings, 0.5)  # planted
    assert np.abs(stationary(matrix) - posterior).max() > 1e-4


# --- the alias table ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(3))
def test_the_alias_table_has_the_probabilities_that_it_was_made_for(seed):
    weights = np.random.default_rng(seed).gamma(0.05, size=200) + 1e-13
    table, n = alias_table(weights), len(weights)
    found = np.bincount(table[:, 2].astype(int), (1.0 - table[:, 0]) / n, minlength=n) + table[:, 0] / n
    np.testing.assert_allclose(found, weights / weights.sum(), rtol=1e-9, atol=1e-15)
    np.testing.assert_array_equal(table[:, 1], weights)
    np.testing.assert_array_equal(table[:, 3], weights[table[:, 2].astype(int)])


@pytest.mark.parametrize("seed", range(3))
def test_classes_hold_every_row_once_with_a_bound_that_is_a_little_too_large(seed):
    weights = np.append(np.random.default_rng(seed).gamma(0.05, size=2000) + 1e-13, 0.0)
    found = row_classes(weights)
    assert np.sort(found.rows).tolist() == list(range(len(weights)))
    bounds = np.empty(len(weights))
    bounds[found.rows] = np.repeat(found.bounds, np.diff(found.starts))
    heavy = weights > 1e-12 * weights.max()
    assert np.all(bounds >= weights) and np.all(bounds[heavy] < 2 ** (1 / 8) * 1.0001 * weights[heavy])
    np.testing.assert_allclose(found.total, bounds.sum())
    sums = found.bounds * np.diff(found.starts)  # a class is drawn by its sum, a row of it as any other
    probability, n = found.table[:, 0] / len(sums), len(sums)
    probability += np.bincount(found.table[:, 2].astype(int), (1.0 - found.table[:, 0]) / n, minlength=n)
    np.testing.assert_allclose(probability, sums / sums.sum(), rtol=1e-9, atol=1e-15)


# --- chains draw for draw -------------------------------------------------------------------------------------------


def textbook_counts(rate, chi, rates, reach, terms, most):
    """Decide by Poisson counts, written out: events of a process of rate 1, rows by the alias table, thinning."""
    classes = row_classes(rates)
    total = classes.total

    def decide(rng, theta, proposed, threshold, rest):
        m = reach(theta, proposed)
        w = 1.0 + 2.0 * chi * total * m
        expected, now, log_ratio, reads = 0.5 * (1.0 + w) * total * m, 0.0, rest, 0
        here, there = terms(theta), terms(proposed)
        if not expected <= most:
            return threshold < rest + (there - here).sum(), len(rates)
        while now < expected:
            n = 0
            while n < thinning.ROWS:
                now += rng.standard_exponential()
                if now >= expected:
                    break
                n += 1
            rows, bounds = np.empty(n, dtype=np.int64), np.empty(n)
            plain(draw_rows_by_class)(rng, classes, n, rows, bounds)
            reads += n
            for row, rounded_up in zip(rows, bounds, strict=True):
                bound, d = rounded_up * m, there[row] - here[row]
                thin = plain(rate)(bound, d, w)
                if 0.5 * (1.0 + w) * bound * rng.random() < thin:
                    back = plain(rate)(bound, -d, w)
                    if back == 0.0:
                        return False, reads
                    log_ratio += np.log(back / thin)
        return threshold < log_ratio, reads

    return decide


def textbook_chain(target, decide, theta, steps, seed, scale, *, delayed):
    """Return draws and reads of a random walk; with `delayed`, of two stages."""
    compiled, own = target.compile(), streams(seed_sequences(seed, 1)[0][0])
    draws, read = [], []
    for _ in range(steps):
        proposed = theta + scale * np.array([own.proposal.standard_normal() for _ in theta])
        threshold, rest = -own.uniform.standard_exponential(), compiled.log_prior(proposed) - compiled.log_prior(theta)
        accept, reads = False, 0
        if not delayed:
            accept, reads = decide(own.order, theta, proposed, threshold, rest)
        elif threshold < rest:
            accept, reads = decide(own.order, theta, proposed, -own.order.standard_exponential(), 0.0)
        theta = proposed if accept else theta
        draws.append(theta)
        read.append(reads)
    return np.array(draws), np.array(read)


TESTS = {
    "poisson": (amc.acceptance.PoissonTest(), poisson.poisson_rate, 0.0, False),
    "tuna": (amc.acceptance.TunaTest(0.003), poisson.tuna_rate, 0.003, False),
    "factorized": (amc.acceptance.FactorizedTest(), delayed.veto_rate, 0.0, True),
    "delayed poisson": (
        amc.acceptance.DelayedAcceptance(amc.acceptance.PoissonTest()),
        poisson.poisson_rate,
        0.0,
        True,
    ),
}


def largest_move(whitened, power):
    """Return how far sign(t) |t|^power of a coordinate moves between two points of the plane, over all directions."""

    def move(angle):
        one, other = whitened.T @ np.array([np.cos(angle), np.sin(angle)])
        return np.abs(np.sign(other) * np.abs(other) ** power - np.sign(one) * np.abs(one) ** power)

    angles = np.linspace(0.0, np.pi, 200)
    best = angles[np.argmax(move(angles))]
    around = (best - angles[1], best + angles[1])
    return -optimize.minimize_scalar(lambda a: -move(a), bounds=around, method="bounded", options={"xatol": 1e-10}).fun


@pytest.mark.parametrize(
    "name",
    [
        pytest.param("poisson", marks=pytest.mark.core),
        *(pytest.param(k, marks=pytest.mark.recompiles) for k in [*TESTS][1:]),
    ],
)
def test_chains_are_those_of_the_textbook(name):
    """Some decisions are on counts, of none to many rows, some on all data."""
    test, rate, chi, delayed = TESTS[name]
    target = amc.ControlVariate(logistic(400, 2))
    compiled, bound = target.compile(), target.compile_difference_bound()

    def terms(theta):
        X, y, numbers = compiled.data
        eta = X @ theta
        return y * eta - np.logaddexp(0.0, eta) - eta * (numbers[:, 0] + eta * numbers[:, 1])

    whiten = bound.numbers[6:].reshape(2, 2)

    def reach(theta, proposed):
        whitened = whiten @ (np.column_stack([theta, proposed]) - target.center[:, None])
        radii = np.sqrt((whitened**2).sum(axis=0))
        return largest_move(whitened, 3) if radii.max() <= bound.numbers[3] else math.inf

    decide = textbook_counts(rate, chi, bound.rates, reach, terms, thinning.LARGEST_SHARE * 400)
    start, steps = target.center + 0.1, 400
    draws, read = textbook_chain(target, decide, start, steps, 3, 0.2, delayed=delayed)
    sampler = amc.MetropolisHastings(amc.RandomWalk(0.2), test)
    trace = sample(
        target, sampler, draws=steps, tune=0, chains=1, random_seed=3, initvals={"beta": start}, progressbar=False
    )
    np.testing.assert_array_equal(trace.sample_stats["datapoints_touched"][0], read)
    np.testing.assert_allclose(trace.posterior["beta"][0], draws, rtol=0, atol=1e-12)
    on_counts, on_all = int(((read > 0) & (read < 400)).sum()), int((read == 400).sum())
    assert on_counts > 20, (on_counts, on_all)
    assert delayed or on_all > 5, (on_counts, on_all)
    assert 0.1 < trace.sample_stats["accepted"].mean() < 0.9
