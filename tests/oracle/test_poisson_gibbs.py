"""Poisson-Gibbs and PoissonMH: their transition matrix by sums over all counts, and chains against the textbook."""

import itertools
import math

import numpy as np
import pytest
from scipy.stats import poisson

import approxmcmc as amc
from approxmcmc.acceptance.thinning import ROWS
from approxmcmc.contracts import COUNT_NAMES, VALUE_NAMES
from approxmcmc.engine.streams import seed_sequences, streams
from approxmcmc.engine.terms.alias_table import alias_table
from approxmcmc.errors import InvalidInputError
from approxmcmc.samplers.gibbs import poisson_counts
from tests.planting import plant

SEED, SWEEPS, MOST = 20140621, 80, 24  # counts of more than 24, at means below 1.5, have probability 1e-20


def small():
    """Return three sites in a ring of pairs, with a field on one of them."""
    rng = np.random.default_rng(2)
    pairs, ones = np.array([[0, 1], [1, 2], [2, 0]]), np.array([[1]])
    return amc.targets.BinaryMRF(3, [pairs, ones], [0.4 * rng.normal(size=(3, 2, 2)), 0.3 * rng.normal(size=(1, 2))])


def terms_of(target):
    """Return for each site its terms, as functions of the state, from the tables alone, in the target's order.

    Terms of a site come group by group; within a group first those with the site as first argument, then as second, ...
    """
    found = []
    for site in range(target.n_states.size):
        terms = []
        for sites, tables in target.groups:
            for axis in range(sites.shape[1]):
                terms += [(sites[f], tables[f], axis) for f in np.flatnonzero(sites[:, axis] == site)]
        found.append(terms)
    return found


def values_at(term, x, n_states):
    """Return phi(k) of one term at all states of its site: its logs there, less the least of them."""
    sites, table, axis = term
    place = [x[s] for s in sites]
    logs = np.array([table[(*place[:axis], k, *place[axis + 1 :])] for k in range(n_states)])
    return logs - logs.min()


def largest_change(term):
    """Return the most that a term can change with its site."""
    _, table, axis = term
    return float(np.ptp(np.moveaxis(table, axis, -1), axis=-1).max())


def update_matrix(target, site, rate, metropolised, *, wrong=None):
    """Return the transition matrix of one site's update, states in lexicographic order, summed over all counts.

    `wrong` names a planted bug: "current" keeps terms regardless of the current state, "fewer" forgets the added counts
    in the draw of the state, "largest" takes half of a term's largest change.
    """
    terms = terms_of(target)[site]
    changes = np.array([largest_change(term) for term in terms]) * (0.5 if wrong == "largest" else 1.0)
    total = changes.sum()
    added = (total**2 if rate is None else rate) * changes / total
    states = list(itertools.product((0, 1), repeat=target.n_states.size))
    matrix = np.zeros((len(states), len(states)))
    for row, x in enumerate(states):
        phi = np.array([values_at(term, x, 2) for term in terms])
        means = np.minimum(added[:, None] + phi, (added + changes)[:, None])
        here = added if wrong == "current" else means[:, x[site]]
        log_ratio = np.log(means[:, 1] / means[:, 0])
        if wrong == "fewer":
            log_ratio = np.log((phi[:, 1] + 1e-3) / (phi[:, 0] + 1e-3))
        sums, chances = np.zeros(1), np.ones(1)
        for mean, step in zip(here, log_ratio, strict=True):
            n = np.arange(MOST + 1)
            sums = (sums[:, None] + n * step).ravel()
            chances = (chances[:, None] * poisson.pmf(n, mean)).ravel()
            keep = chances > 1e-18
            sums, chances = sums[keep], chances[keep]
        if metropolised:
            away = float(chances @ np.minimum(1.0, np.exp(sums if x[site] == 0 else -sums)))
            at_one = away if x[site] == 0 else 1.0 - away
        else:
            at_one = float(chances @ (1.0 / (1.0 + np.exp(-sums))))
        for k, chance in enumerate((1.0 - at_one, at_one)):
            matrix[row, states.index((*x[:site], k, *x[site + 1 :]))] += chance
    return matrix


def imbalance(rate, metropolised, **bug):
    """Return the largest violation of detailed balance over sites and pairs of states."""
    target, worst = small(), 0.0
    law = np.exp(target.log_joint - target.log_normalizer()).ravel()
    for site in range(3):
        flow = law[:, None] * update_matrix(target, site, rate, metropolised, **bug)
        worst = max(worst, np.abs(flow - flow.T).max())
    return worst


@pytest.mark.parametrize("metropolised", [False, True])
@pytest.mark.parametrize("rate", [None, 0.3, 2.0])
def test_every_update_balances_the_law(rate, metropolised):
    assert imbalance(rate, metropolised) < 1e-11


@pytest.mark.parametrize("metropolised", [False, True])
def test_the_stationary_law_of_a_sweep_is_exact(metropolised):
    target = small()
    law = np.exp(target.log_joint - target.log_normalizer()).ravel()
    sweep = np.linalg.multi_dot([update_matrix(target, site, 1.0, metropolised) for site in range(3)])
    np.testing.assert_allclose(law @ sweep, law, atol=1e-11)
    np.testing.assert_allclose(sweep.sum(axis=1), 1.0, atol=1e-11)


@pytest.mark.parametrize("wrong", ["current", "fewer", "largest"])
def test_planted_bugs_break_the_balance(wrong):
    assert imbalance(1.0, False, wrong=wrong) > 1e-3


def alias_draw(rng, weights):
    """Draw a row by the alias method, with two uniforms; the table is built as Vose (1991) does."""
    keep, _, other, _ = alias_table(weights)[row := int(rng.random() * len(weights))]
    return row if rng.random() < keep else int(other)


def textbook(target, rate, metropolised):
    """Return the states after each sweep, and the terms read, in plain NumPy."""
    own, x = streams(seed_sequences(SEED, 1)[0][0]), np.zeros(target.n_states.size, dtype=int)
    draws, reads = [], []
    for _ in range(SWEEPS):
        reads.append(0)
        for site, terms in enumerate(terms_of(target)):
            n_states = int(target.n_states[site])
            changes = np.array([largest_change(term) for term in terms])
            extra = changes.sum() ** 2 if rate is None else rate
            log_weights, now, end = np.zeros(n_states), 0.0, changes.sum() + extra
            while now < end:
                batch = 0
                while batch < ROWS:
                    now += own.order.standard_exponential()
                    if now >= end:
                        break
                    batch += 1
                for row in [alias_draw(own.order, changes) for _ in range(batch)]:
                    reads[-1] += 1
                    added, phi = extra * changes[row] / changes.sum(), values_at(terms[row], x, n_states)
                    if own.order.random() * (added + changes[row]) < added + phi[x[site]]:
                        log_weights += np.log(added + phi)
            if metropolised:
                other = (x[site] + 1 + int(own.proposal.random() * (n_states - 1))) % n_states
                accepted = -own.uniform.standard_exponential() < log_weights[other] - log_weights[x[site]]
                x[site] = other if accepted else x[site]
                continue
            weights = np.exp(log_weights - log_weights.max())
            rest = np.exp(-own.uniform.standard_exponential()) * weights.sum()
            above = np.cumsum(weights[::-1])[::-1]
            x[site] = max(
                k
                for k in range(n_states)
                if k == 0
                or (k == n_states - 1 and rest < weights[k])
                or (k < n_states - 1 and above[k + 1] <= rest < above[k])
            )
        draws.append(x.copy())
    return np.array(draws), np.array(reads)


def colours():
    """Return a network whose variables have two and three states, without zeros."""
    a, b = np.array([0.3, 0.7]), np.array([[0.2, 0.5, 0.3], [0.6, 0.1, 0.3]])
    c = np.array([[0.5, 0.5], [0.3, 0.7], [0.9, 0.1]])
    return amc.targets.BayesianNetwork({"a": a, "b": b, "c": c}, parents={"b": ["a"], "c": ["b"]})


@pytest.mark.parametrize(
    ("make", "rate", "metropolised"),
    [
        (small, None, False),
        pytest.param(small, 3.0, True, marks=pytest.mark.recompiles),
        pytest.param(colours, None, False, marks=pytest.mark.recompiles),
        pytest.param(colours, 3.0, True, marks=pytest.mark.recompiles),
    ],
)
def test_chains_equal_the_textbook(make, rate, metropolised):
    target = make()
    expected, reads = textbook(target, rate, metropolised)
    sampler = amc.samplers.PoissonGibbs(rate, metropolised)
    program = sampler.build(target)
    chain = program.start(np.zeros(target.n_states.size), streams(seed_sequences(SEED, 1)[0][0]), 0)
    draws, counts = np.empty(expected.shape), np.empty((SWEEPS, len(COUNT_NAMES)), np.int64)
    values = np.empty((SWEEPS, len(VALUE_NAMES)))
    chain.advance(SWEEPS, 1, draws, counts, values)
    np.testing.assert_array_equal(draws, expected)
    np.testing.assert_array_equal(counts[:, COUNT_NAMES.index("datapoints_touched")], reads)
    predicted = sampler.expected_reads(target)
    assert values[:, VALUE_NAMES.index("expected_reads")] == pytest.approx(predicted)
    assert abs(reads.sum() - SWEEPS * predicted) < 5.0 * (SWEEPS * predicted) ** 0.5
    assert len(np.unique(draws, axis=0)) > 5


@pytest.mark.recompiles
def test_counts_that_are_drawn_without_the_current_state_are_seen(monkeypatch):
    def forgetful(streams, state, site, count, value):
        before, state.theta[site] = state.theta[site], 0.0
        weigh(streams, state, site, count, value)
        state.theta[site] = before

    weigh = getattr(poisson_counts.weigh_states, "py_func", poisson_counts.weigh_states)
    expected, _ = textbook(small(), 3.0, False)
    plant(monkeypatch, {poisson_counts.weigh_states: forgetful})
    settings = {"draws": SWEEPS, "tune": 0, "chains": 1, "random_seed": SEED, "progressbar": False}
    trace = amc.sample(small(), amc.samplers.PoissonGibbs(3.0), initvals=np.zeros(3), **settings)
    assert (trace.posterior["x"].values[0] != expected).any()


@pytest.mark.recompiles
@pytest.mark.parametrize(
    "test", [amc.acceptance.PoissonTest(), amc.acceptance.TunaTest(0.1), amc.acceptance.FactorizedTest()]
)
def test_exact_subsampling_knows_the_bounds_of_factors(test):
    target = small()
    bound = target.compile_difference_bound()
    states = np.array(list(itertools.product((0.0, 1.0), repeat=3)))
    logs = np.array([[table[tuple(x[sites].astype(int))] for group in target.groups
                      for sites, table in zip(*group, strict=True)] for x in states])  # fmt: skip
    largest = np.abs(logs[:, None] - logs[None]).max(axis=(0, 1))
    np.testing.assert_allclose(bound.rates, largest, atol=2e-13)
    sampler = amc.MetropolisHastings(amc.proposals.SingleSite(), test)
    trace = amc.sample(target, sampler, draws=300, tune=0, chains=1, random_seed=1, progressbar=False)
    assert int(trace.sample_stats["range_violations"].sum()) == 0


@pytest.mark.parametrize("rate", [0.0, -1.0, math.inf, math.nan])
def test_a_rate_must_be_positive(rate):
    with pytest.raises(InvalidInputError, match="PoissonGibbs: rate must be"):
        amc.samplers.PoissonGibbs(rate)


@pytest.mark.parametrize("rate", [None, 3.0])
def test_sites_whose_terms_never_change_read_nothing(rate):
    """Their number of terms is that of every site: 10 of the triples of 6 variables."""
    attrs = (
        amc.samplers.PoissonGibbs(rate).build(amc.targets.BinaryMRF.random_triples(6, scale=0.0, random_seed=0)).attrs
    )
    assert attrs["setup_expected_reads"] == 0.0 and repr(attrs["n_obs"]) == "10"
