"""A test over a fixed order of the data is one threshold on log u: bit for bit the test's own decisions."""

import itertools
import math
from collections import Counter

import numpy as np
import pytest

import approxmcmc as amc
from approxmcmc.acceptance.laws.probability import exact_probability, threshold_at
from approxmcmc.audits.replication import ORDERS, compile_replicate
from approxmcmc.contracts import Population
from approxmcmc.engine.compiler.compile import config
from approxmcmc.engine.terms.term_table import SHUFFLED, Partition, table_of_terms, write_pair

T = amc.SequentialTTest
N = 40
FIRST = np.zeros(1, np.int64)
TESTS = [
    T(0.05, 5),
    T(0.2, 2, growth=1.7),
    T(0.05, 5, tol=2.0),
    T(0.01, 4, growth=2.0, tol=0.5),
    T(0.1, 6, boundary_shape=0.1),
    T(0.5, 7),
    T(0.0, 9),
    T(0.05, N),
    amc.acceptance.BernsteinTest(0.3, 4, growth=1.5, range="observed"),
    amc.acceptance.BernsteinTest(0.9, 4, range=1.0),  # too small a range: it reads on, and all data in the end
    amc.acceptance.BernsteinTest(0.9, 4, range=50.0, bound="serfling"),
    amc.acceptance.MinibatchBarker(1.0, 4),
    amc.acceptance.MinibatchBarker(0.5, 3, temperature=2.0),
]
# Compiled, each kind of test costs seconds; it is the same code.
KINDS = [test for test in TESTS if isinstance(test, T) or config.DISABLE_JIT]


class Both:
    """A test in its threshold form and as it decides, over the terms of a table in the order in which they lie."""

    def __init__(self, test, n_obs=N):
        self.built, self.table = test.build_test(Population(n_obs)), table_of_terms(n_obs, 1)
        self.form = compile_replicate(self.built, self.table)
        self.decision = compile_replicate(self.built._replace(threshold_form=None), self.table)
        self.state = self.built.make_state()

    def log_ratio(self, terms, log_rest, order_seed):
        """Return Lambda^ over the order that a generator of this seed makes."""
        write_pair(self.table, np.zeros(1), np.ones(1), terms)
        rng = np.random.default_rng(order_seed)
        return float(self.form(rng, self.table, log_rest, self.state, np.zeros(1), FIRST)[0])

    def decide(self, terms, log_rest, order_seed, threshold):
        """Return whether the test accepts over the same order: rows are drawn by the same steps of Fisher-Yates."""
        write_pair(self.table, np.zeros(1), np.ones(1), terms)
        self.table.order.places[:] = np.arange(len(terms))
        rng = np.random.default_rng(order_seed)
        found = self.decision(rng, self.table, log_rest, self.state, np.array([threshold]), FIRST)[0]
        assert abs(found) == math.inf
        return found > 0.0


@pytest.mark.thorough
@pytest.mark.parametrize("test", KINDS, ids=repr)
def test_every_decision_is_that_of_the_test(test):
    """Thresholds just above and below Lambda^, where a wrong one would show, and anywhere else."""
    both, rng = Both(test), np.random.default_rng(1)
    early = 0
    for case in range(250 if config.DISABLE_JIT else 1000):
        scale = 10.0 ** rng.uniform(-2.0, 1.0)
        terms = scale * (rng.standard_t(3, size=N) + 0.3 * rng.normal())
        log_rest = rng.normal()
        cut = both.log_ratio(terms, log_rest, case)
        early += abs(cut - log_rest - terms.sum()) > 1e-6 * scale
        for threshold in (cut + 1e-7, cut - 1e-7, cut + scale * rng.normal(), -rng.exponential()):
            assert both.decide(terms, log_rest, case, threshold) == (threshold < cut)
    # Where all data are read, Lambda^ is Lambda. Bernstein's bounds hardly exclude what an earlier look has left.
    assert isinstance(test, amc.acceptance.BernsteinTest) or (early > 0) != test.reads_all(N)


@pytest.mark.parametrize("test", [T(0.05, 5), T(0.1, 4, tol=1.0)], ids=repr)
def test_ties(test):
    """All terms equal: the first look has the mean, and a threshold that is Lambda itself is not below it."""
    both = Both(test)
    for value, log_rest in itertools.product((-0.5, 0.0, 0.25), (0.0, -1.0)):
        terms = np.full(N, value)
        cut = both.log_ratio(terms, log_rest, 0)
        assert cut == log_rest + N * value
        assert [both.decide(terms, log_rest, 0, cut + shift) for shift in (-0.5, 0.0, 0.5)] == [True, False, False]


def test_an_impossible_datum_rejects_what_was_not_accepted_before():
    both, rng = Both(T(0.2, 5)), np.random.default_rng(2)
    some, seen = 0, 0
    for case in range(100):
        terms = rng.normal(size=N) + 0.5
        terms[0] = -math.inf
        cut = both.log_ratio(terms, 0.0, case)
        some += cut > -math.inf
        seen += cut == -math.inf
        for threshold in (-200.0, -1.0, *((cut - 1e-7, cut + 1e-7) if cut > -math.inf else ())):
            assert both.decide(terms, 0.0, case, threshold) == (threshold < cut)
    assert some > 10 and seen > 10


def test_an_impossible_datum_rejects_also_where_no_look_can_decide():
    """With epsilon = 0 every half-width is infinite; what is read later is possible, and changes nothing."""
    terms = np.ones(N)
    terms[0] = -math.inf
    both = Both(T(0.0, 5))
    assert all(both.log_ratio(terms, 0.0, case) == -math.inf for case in range(20))


def test_a_term_that_is_nan_gives_none():
    terms = np.ones(N)
    terms[3] = math.nan
    assert math.isnan(Both(T(0.0, 5)).log_ratio(terms, 0.0, 0))


def test_windows_are_random_orders_of_all_terms():
    """The orders of one table begin at 4 different places of 6 terms and wrap around, each order equally often."""
    built, table = T(0.5, 2, growth=9.0).build_test(Population(6)), table_of_terms(6, 1)
    replicate, rng = compile_replicate(built, table), np.random.default_rng(3)
    terms = 2.0 ** np.arange(6)
    firsts = []
    for _ in range(2000):
        write_pair(table, np.zeros(1), np.ones(1), terms)
        # Epsilon = 1/2 stops at the first look: Lambda^ is 3 times the sum of the first two terms.
        firsts.append(replicate(rng, table, 0.0, built.make_state(), np.zeros(4), np.arange(4)) / 3.0)
        assert sorted(table.data[0]) == sorted(terms)
    assert table.order.cursor[SHUFFLED] in (5, 6)
    values, counts = np.unique(np.round(np.array(firsts)[:, 3]), return_counts=True)
    assert len(values) == 15  # pairs of 6
    assert abs(counts - 2000 / 15).max() < 5 * math.sqrt(2000 / 15)


def test_windows_of_a_partition_are_random_orders_of_its_blocks():
    """7 rows in blocks of 3: whole blocks of rows that belong together, each order equally often in each window."""
    partition, rng = Partition(np.array([4, 2, 6, 0, 5, 1, 3]), 3), np.random.default_rng(5)
    blocks, orders = [[4, 2, 6], [0, 5, 1], [3]], []
    for _ in range(1200):
        rows, begins = partition.windows(rng, np.arange(7), 4)
        orders.append([tuple(np.roll(rows, -begin)) for begin in begins])
    wanted = {tuple(itertools.chain(*some)) for some in itertools.permutations(blocks)}
    for window in zip(*orders, strict=True):
        counts = Counter(window)
        assert set(counts) == wanted
        assert max(abs(count - 200) for count in counts.values()) < 5.6 * math.sqrt(200 * 5 / 6)  # 2e-8 each


@pytest.mark.thorough
def test_probabilities_are_those_of_the_enumeration():
    """The mean of F(Lambda^) over orders is the test's acceptance probability, known over all orders of 6 terms."""
    test, rng = T(0.2, 2, tol=0.1), np.random.default_rng(4)
    built, table = test.build_test(Population(6)), table_of_terms(6, 1)
    replicate = compile_replicate(built, table)
    terms, log_rest = np.array([0.9, -0.2, -0.5, 0.1, -0.8, 0.3]), -0.1
    found = []
    for _ in range(400):
        write_pair(table, np.zeros(1), np.ones(1), terms)
        ratios = replicate(rng, table, log_rest, built.make_state(), np.zeros(ORDERS), np.arange(ORDERS) % 6)
        found.append(exact_probability(ratios, "metropolis").mean())
    known = test.enumerated_probability(terms[None], np.array([log_rest]), "metropolis")[0]
    assert abs(np.mean(found) - known) < 5 * np.std(found) / 20.0
    assert abs(known - math.exp(log_rest + terms.sum())) > 0.02  # the test errs here: the agreement says something


@pytest.mark.parametrize("rule", ["metropolis", "barker"])
def test_thresholds_have_the_law_of_the_rule(rule):
    u = (np.arange(999) + 0.5) / 999
    np.testing.assert_allclose(exact_probability(threshold_at(u, rule), rule), u, rtol=1e-12)
    assert exact_probability(np.array([0.0, 0.7]), "metropolis").tolist() == [1.0, 1.0]
