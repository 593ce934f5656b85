"""Gibbs against a textbook implementation, draw for draw, against its own transition matrix, and with planted bugs."""

import functools
import itertools
import math

import numpy as np
import pytest
from scipy import stats

import approxmcmc as amc
from approxmcmc.acceptance import exact
from approxmcmc.acceptance.rules import log_uniform, logit_uniform
from approxmcmc.contracts import Population
from approxmcmc.engine.streams import seed_sequences, streams
from approxmcmc.engine.terms import order as data_order
from approxmcmc.engine.terms.order import draw_next, shuffle_rows
from approxmcmc.samplers.gibbs.state import evidence_in_blocks, evidence_on
from approxmcmc.samplers.gibbs.step import draw_by_terms, one_after_the_other
from approxmcmc.sampling.chain import is_chosen_for_audit
from tests import textbook
from tests.data_order import draw_with_replacement
from tests.planting import plain, plant

N, SWEEPS, SEED = 6, 60, 20140621


def field():
    return amc.targets.BinaryMRF.random_triples(N, 0.5, 0)


def textbook_gibbs(tables, decide):
    """Return the states after each sweep and the pairs read, from triples in lexicographic order and plain NumPy."""
    sequences, _ = seed_sequences(SEED, 1)
    own = streams(sequences[0])
    triples = list(itertools.combinations(range(N), 3))
    # Pairs of a site: those where it comes first in its triple, then second, then third.
    pairs = [
        [(t, axis) for axis in range(3) for t, triple in enumerate(triples) if triple[axis] == i] for i in range(N)
    ]
    x, order = np.zeros(N, dtype=int), np.arange((N - 1) * (N - 2) // 2)
    draws, read = [], []
    for _ in range(SWEEPS):
        read.append(0)
        for i in range(N):
            differences = []
            for t, axis in pairs[i]:
                at = [list(x[list(triples[t])]) for _ in range(2)]
                at[0][axis], at[1][axis] = 0, 1
                differences.append(tables[(t, *at[1])] - tables[(t, *at[0])])
            log_u = -own.uniform.standard_exponential()
            threshold = log_u - np.log1p(-np.exp(log_u))
            x[i], n = decide(own.order, order, np.array(differences), threshold / len(differences))
            read[-1] += n
        draws.append(x.copy())
    return np.array(draws), np.array(read)


def swap_with_a_later_one(rng, items, place):
    """Exchange ``items[place]`` and a random one of ``items[place:]``."""
    other = place + int(rng.random() * (len(items) - place))
    items[[place, other]] = items[[other, place]]


class SequentialTInBlocks:
    """Decide by the sequential t-test on blocks of each site's shuffled terms, shuffled again after `PERIOD` decisions.

    The sites are visited in turn. The order of the blocks is kept between decisions.
    """

    def __init__(self, epsilon, batch_size):
        self.epsilon, self.batch_size, self.decisions = epsilon, batch_size, 0

    def __call__(self, rng, order, differences, mu_0):
        n = len(differences)
        if self.decisions == 0:
            self.rows = [rng.permutation(n) for _ in range(N)]
            self.blocks = np.arange(-(-n // self.batch_size))
        sweep, site = divmod(self.decisions, N)
        self.decisions += 1
        if sweep > 0 and sweep % PERIOD == 0:
            for place in range(n - 1):
                swap_with_a_later_one(rng, self.rows[site], place)
        blocks = np.split(self.rows[site], range(self.batch_size, n, self.batch_size))
        read, opened = [], 0
        for stop in (*range(self.batch_size, n, self.batch_size), n):
            while len(read) < stop:
                swap_with_a_later_one(rng, self.blocks, opened)
                read.extend(blocks[self.blocks[opened]])
                opened += 1
            seen = differences[read[:stop]]
            t = (seen.mean() - mu_0) / (seen.std(ddof=1) / np.sqrt(stop) * np.sqrt(1.0 - stop / n)) if stop < n else 0.0
            if stop < n and stats.t.sf(abs(t), stop - 1) < self.epsilon:
                return t > 0.0, stop
        return seen.mean() > mu_0, n


IN_BLOCKS = amc.Gibbs(amc.SequentialTTest(0.1, 4, order="blocks"))
PERIOD = 7  # decisions on a site between two shuffles of its terms
CASES = {
    "fields": (amc.Gibbs(), lambda: textbook.exact),
    "terms": (amc.Gibbs(conditional="terms"), lambda: textbook.exact),
    "sequential": (amc.Gibbs(amc.SequentialTTest(0.1, 4)), lambda: textbook.sequential_t(0.1, 4)),
    "blocks": (IN_BLOCKS, lambda: SequentialTInBlocks(0.1, 4)),
}


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    """Cut the ten terms of a site into blocks of 4, 4 and 2, and shuffle them often."""
    monkeypatch.setattr(data_order, "LEAST_BLOCK", 4)
    monkeypatch.setattr(data_order, "RESHUFFLE_EVERY", PERIOD)


def differs(case: str) -> bool:
    sampler, make_decide = CASES[case]
    decide = make_decide()
    trace = amc.sample(
        field(), sampler, draws=SWEEPS, tune=0, chains=1, random_seed=SEED, initvals=np.zeros(N), audit_every=3,
        progressbar=False,
    )  # fmt: skip
    draws, read = textbook_gibbs(field().groups[0].log_tables, decide)
    same_read = np.array_equal(trace.sample_stats["datapoints_touched"].values[0], read)
    return not (np.array_equal(trace.posterior["x"].values[0], draws) and same_read)


@pytest.mark.parametrize(
    "case", [pytest.param(case, marks=pytest.mark.core if case == "sequential" else ()) for case in CASES]
)
def test_chains_equal_the_textbook(case):
    assert not differs(case)


def read_the_first_site(state, site):
    """Look at the terms of site 0, whatever the site."""
    evidence = plain(evidence_on)(state, site)
    state.sites.base[0] = state.sites.first[0]
    return evidence


def read_the_first_site_in_blocks(state, site):
    """Look at the table of site 0's terms for the state of site `site`."""
    evidence = plain(evidence_in_blocks)(state, site)
    state.sites.base[0] = state.sites.first[0]
    return evidence


def keep_terms_of_other_states(state, site):
    """Take terms as known that were read before other sites changed."""
    n_read = state.evidence.order.kept.copy()
    evidence = plain(evidence_in_blocks)(state, site)
    state.evidence.order.kept[:] = n_read
    return evidence


def move_nothing(rng, rows, n_obs):
    """Draw the numbers of a shuffle, and leave the rows where they are."""
    rng.random(n_obs - 1)


def leave_the_other_state(streams, state, site, count, value):
    """Keep the site at 1 in x'."""
    status = plain(DRAW)(streams, state, site, count, value)
    state.proposed[site] = 1.0
    return status


def never_the_last(rng, place, n_sites):
    return min(place, n_sites - 2)


def audit_by_the_uniforms(streams, clock):
    return clock.audit_probability > 0.0 and streams.uniform.random() < clock.audit_probability


def keep_the_first(test, total):
    """Keep the sum of the first site for all."""
    if math.isnan(test.log_likelihood[0]):
        test.log_likelihood[0] = total


def turn_round(rng, evidence, threshold, log_rest, test, count, value):
    answer, log_odds = plain(exact.decide)(rng, evidence, threshold, log_rest, test, count, value)
    return 1 - answer, log_odds


DRAW = draw_by_terms(logit_uniform, CASES["sequential"][0].test.build_test(Population(10)))
BUGS = {
    "all sites read the terms of the first": ({evidence_on: read_the_first_site}, "sequential"),
    "the other state is left behind": ({DRAW: leave_the_other_state}, "sequential"),
    "the audit draws from the chain's stream": ({is_chosen_for_audit: audit_by_the_uniforms}, "sequential"),
    "the last site is never visited": ({one_after_the_other: never_the_last}, "fields"),
    "the cached sum is that of another site": ({exact.keep_log_likelihood: keep_the_first}, "terms"),
    "answers are turned round": ({exact.decide: turn_round}, "terms"),
    "a threshold of Metropolis": ({logit_uniform: log_uniform}, "terms"),
    "subsets with replacement": ({draw_next: draw_with_replacement}, "sequential"),
    "blocks of all sites are those of the first": ({evidence_in_blocks: read_the_first_site_in_blocks}, "blocks"),
    "terms are kept when other sites change": ({evidence_in_blocks: keep_terms_of_other_states}, "blocks"),
    "a shuffle moves nothing": ({shuffle_rows: move_nothing}, "blocks"),
}


@pytest.mark.thorough
@pytest.mark.parametrize("case", CASES)
def test_the_plain_chain_without_a_bug_equals_the_textbook(case, monkeypatch):
    plant(monkeypatch, {})
    assert not differs(case)


@pytest.mark.thorough
@pytest.mark.parametrize("bug", BUGS)
def test_planted_bugs_are_seen(bug, monkeypatch):
    wrong, case = BUGS[bug]
    plant(monkeypatch, wrong)
    assert differs(case)


def test_fields_without_third_order_are_seen(monkeypatch):
    right = amc.targets.BinaryMRF.fields
    monkeypatch.setattr(amc.targets.BinaryMRF, "fields", lambda self: (*right(self)[:2], 0.0 * right(self)[2]))
    assert differs("fields")


# --- the exact sweep on all states ---


def sweep_matrix(target) -> np.ndarray:
    """Return the transition matrix of one systematic sweep over binary sites, from the target's conditionals."""
    n = target.n_states.size
    states = np.array(list(itertools.product((0, 1), repeat=n)))
    place = 2 ** np.arange(n - 1, -1, -1)
    sweep = np.eye(len(states))
    for site in range(n):
        one = target.conditional(states, site)[:, 1]
        step = np.zeros_like(sweep)
        for value, probability in ((0, 1.0 - one), (1, one)):
            moved = states.copy()
            moved[:, site] = value
            step[np.arange(len(states)), moved @ place] = probability
        sweep = sweep @ step
    return sweep


def dobrushin(matrix: np.ndarray) -> float:
    return max(0.5 * np.abs(row - matrix).sum(axis=1).max() for row in matrix)


@pytest.mark.parametrize(
    ("target", "eta"),
    [
        (functools.partial(amc.targets.alarm_network), {1: 0.855439, 2: 0.635970, 5: 0.209621}),
        (functools.partial(amc.targets.BinaryMRF.random_triples, 8, 0.3, 0), {1: 0.976161, 2: 0.510798}),
        (functools.partial(amc.targets.BinaryMRF.random_triples, 8, 0.1, 0), {1: 0.627177, 2: 0.083085}),
        (functools.partial(amc.targets.BinaryMRF.random_triples, 6, 0.3, 0), {1: 0.898325, 2: 0.384982}),
    ],
    ids=["alarm", "D=8, s=.3", "D=8, s=.1", "D=6, s=.3"],
)
def test_contraction_of_exact_sweeps(target, eta):
    target = target()
    sweep = sweep_matrix(target)
    law = np.exp(target.log_joint - target.log_normalizer()).ravel()
    np.testing.assert_allclose(law @ sweep, law, atol=1e-12)
    for k, expected in eta.items():
        assert dobrushin(np.linalg.matrix_power(sweep, k)) == pytest.approx(expected, abs=1e-6)
    if target.n_states.size == 5:
        assert sorted(np.abs(np.linalg.eigvals(sweep)))[-2] == pytest.approx(0.687525, abs=1e-6)


@pytest.mark.needs_jit
@pytest.mark.parametrize("sampler", [amc.Gibbs(), amc.Gibbs(amc.SequentialTTest(0.0, 3))], ids=["exact", "epsilon=0"])
def test_transition_frequencies_are_those_of_the_matrix(sampler):
    # Chi-square of 8 states x 8 after 40000 sweeps: false-fail rate 5e-7. One conditional off by 0.03 near 1/2 adds
    # 40000 * 0.03^2 / 0.25 = 144 to its 56: false-pass rate 3e-3.
    target = amc.targets.BinaryMRF(3, [[0, 1, 2]] * 4, np.random.default_rng(2).normal(0.0, 0.2, (4, 2, 2, 2)))
    x = amc.sample(
        target, sampler, draws=40_000, tune=0, chains=1, random_seed=SEED, audit_every=None, progressbar=False
    )
    number = x.posterior["x"].values[0] @ [4, 2, 1]
    counts = np.zeros((8, 8))
    np.add.at(counts, (number[:-1], number[1:]), 1)
    expected = counts.sum(axis=1, keepdims=True) * sweep_matrix(target)
    chi_square = ((counts - expected) ** 2 / expected).sum()
    from scipy.stats import chi2

    assert expected.min() > 5 and chi_square < chi2.isf(5e-7, 8 * 7)


# --- what the sequential test realises ---


@pytest.mark.needs_jit
@pytest.mark.slow
@pytest.mark.parametrize(
    ("epsilon", "realised", "fraction"),
    [(0.01, 0.8945, 0.760), (0.05, 0.8683, 0.575), (0.10, 0.8335, 0.440), (0.15, 0.7988, 0.343), (0.20, 0.7660, 0.270),
     (0.25, 0.7363, 0.216)],
)  # fmt: skip
def test_recursion_gives_the_reference_curve(epsilon, realised, fraction):
    """The conditional .9, and the data read averaged over log odds L ~ N(0, tau^2), tau = sqrt(2 * 4851) * 0.02."""
    test = {"epsilon": epsilon, "batch_size": 500, "n_obs": 4851, "rule": "barker"}
    tau = math.sqrt(2 * 4851) * 0.02
    at_nine = amc.acceptance.acceptance_probability_error(math.log(9.0), tau, **test)
    assert 0.9 + float(at_nine["error"]) == pytest.approx(realised, abs=1e-4)
    grid = np.linspace(-4.0, 4.0, 81)
    weights = np.exp(-0.5 * grid**2)
    fractions = amc.acceptance.acceptance_probability_error(tau * grid, tau, **test)["data_fraction"].values
    assert fractions @ weights / weights.sum() == pytest.approx(fraction, abs=1.5e-3)
