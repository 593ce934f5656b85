"""Single draws of Gibbs samplers, with the random numbers written out, against inversion and the tables."""

import math
import types

import numpy as np
import pytest

import approxmcmc as amc
from approxmcmc.contracts import COUNT_NAMES, VALUE_NAMES, Variables
from approxmcmc.contracts.records import AUDIT_COUNTS, DECISIONS, EVALUATIONS, ROUNDS, TOUCHED
from approxmcmc.engine.streams import seed_sequences, streams
from approxmcmc.errors import IncompatibleError
from approxmcmc.samplers.chain import FAILED, MOVED, STAYED
from approxmcmc.samplers.gibbs.poisson_counts import draw_given_counts, flip_given_counts, weigh_states
from approxmcmc.samplers.gibbs.step import draw_by_states, make_draw_by_terms, make_sweep, one_after_the_other
from approxmcmc.targets.discrete.factor_graph import FactorGraph, FactorGroup
from tests.planting import plain

U = (1.0, 0.999, 0.8, 0.6, 0.5, 0.3, 0.1, 1e-3)  # 1: the exponential law may give a 0
LOG_WEIGHTS = {
    "plain": [0.0, 1.0, -0.5],
    "far from 0": [800.0, 801.0, 799.5],
    "far below": [-900.0, -900.5, -899.0],
    "far apart": [0.0, 1500.0, 1.0],
    "impossible": [-math.inf, 0.0, -1.0],
    "the last one": [-math.inf, -math.inf, 0.3],
    "one state": [0.2],
}


def by_inversion(log_weights, u):
    """Return the state that u gives: the last where u < its probability, the one before where u < that of both, ..."""
    weights = np.exp(np.array(log_weights) - max(log_weights))
    above = np.cumsum(weights[::-1]) / weights.sum()
    return len(weights) - 1 - int(np.searchsorted(above[:-1], u, side="right"))


def random_numbers(u=None, direction=None):
    """Return streams that know the next uniform as an exponential, and the next direction."""
    uniform = types.SimpleNamespace(standard_exponential=lambda: -math.log(u))
    return types.SimpleNamespace(uniform=uniform, proposal=types.SimpleNamespace(random=lambda: direction))


def new_records():
    return np.zeros(len(COUNT_NAMES), np.int64), np.zeros(len(VALUE_NAMES))


def one_site(log_weights, copies=1, others=1):
    """Return a site of `copies` terms that add up to these, and another, whose terms are 0; they are not connected."""
    n_states = len(log_weights)
    tables = np.array([log_weights] * copies + [np.zeros(n_states)] * others) / copies
    sites = np.array([[0]] * copies + [[1]] * others)
    return FactorGraph([n_states] * 2, [FactorGroup(sites, tables)], Variables({"x": (2,)}, dtype="int64"))


@pytest.mark.recompiles
@pytest.mark.parametrize("log_weights", [w for w in LOG_WEIGHTS.values() if len(w) > 2])
def test_a_state_is_drawn_by_inversion_from_the_top(log_weights):
    program = amc.Gibbs().build(one_site(log_weights, copies=2))
    for before, u in ((before, u) for before in range(3) for u in U if log_weights[before] > -math.inf):
        state, (count, value) = program.new_state(np.array([float(before), 0.0])), new_records()
        state.log_density[0] = log_weights[before]
        status = plain(draw_by_states)(random_numbers(u), state, 0, count, value)
        chosen = by_inversion(log_weights, u)
        assert state.theta.tolist() == [chosen, 0.0] and status == (MOVED if chosen != before else STAYED)
        assert state.log_density[0] == pytest.approx(log_weights[chosen], abs=1e-9)
        assert count[[TOUCHED, EVALUATIONS, DECISIONS, ROUNDS]].tolist() == [2, 6, 1, 1]


def counted(log_weights, before):
    """Return the state of a site whose counts have these weights."""
    state = types.SimpleNamespace(theta=np.array([float(before)]), log_weights=np.array(log_weights))
    state.sites = types.SimpleNamespace(n_states=np.array([len(log_weights)]))
    return state


@pytest.mark.parametrize("log_weights", LOG_WEIGHTS.values(), ids=LOG_WEIGHTS)
def test_given_counts_a_state_is_drawn_by_inversion_from_the_top(log_weights):
    draw = plain(draw_given_counts, {weigh_states: lambda *_: None})
    for before, u in ((before, u) for before in range(len(log_weights)) for u in U):
        state, (count, value) = counted(log_weights, before), new_records()
        status = draw(random_numbers(u), state, 0, count, value)
        chosen = by_inversion(log_weights, u)
        assert state.theta[0] == chosen and status == (MOVED if chosen != before else STAYED)
        assert count[[DECISIONS, ROUNDS]].tolist() == [1, 1]


@pytest.mark.parametrize(("direction", "other"), [(0.1, 2), (0.6, 0)])
@pytest.mark.parametrize("u", [0.1, 0.9])
def test_given_counts_one_of_the_other_states_is_proposed(direction, other, u):
    """From state 1 of three: the next one, or the one after that; taken where u is less than the ratio of weights."""
    log_weights = [math.log(0.5), 0.0, math.log(0.4)]
    state, (count, value) = counted(log_weights, 1), new_records()
    flip = plain(flip_given_counts, {weigh_states: lambda *_: None})
    status = flip(random_numbers(u, direction), state, 0, count, value)
    assert (state.theta[0], status) == ((other, MOVED) if u == 0.1 else (1, STAYED))


def test_a_site_of_one_state_proposes_nothing():
    """It draws no direction, which a random scan would feel."""
    numbers, state, (count, value) = random_numbers(0.5), counted([0.3], 0), new_records()
    numbers.proposal = None
    flip = plain(flip_given_counts, {weigh_states: lambda *_: None})
    assert flip(numbers, state, 0, count, value) == STAYED and state.theta[0] == 0.0


@pytest.mark.parametrize(
    ("statuses", "status", "visited"),
    [
        ([STAYED, STAYED, STAYED], STAYED, 3),
        ([MOVED, STAYED, STAYED], MOVED, 3),
        ([STAYED, STAYED, MOVED], MOVED, 3),
        ([MOVED, FAILED, STAYED], FAILED, 2),
    ],
)
def test_a_sweep_has_moved_where_a_site_has(statuses, status, visited):
    sites, begun = [], []

    def draw(streams, state, site, count, value):
        sites.append(site)
        return statuses[site]

    sweep = plain(make_sweep(begun.append, one_after_the_other, draw))
    state = types.SimpleNamespace(theta=np.zeros(3))
    assert sweep(types.SimpleNamespace(proposal=None), state, None, None) == status
    assert sites == list(range(visited)) and begun == [state]


@pytest.mark.recompiles
@pytest.mark.parametrize(
    ("at_zero", "decision", "status"),
    [(0.5, 1, MOVED), (0.5, 0, STAYED), (0.5, -1, FAILED), (math.inf, 1, FAILED), (math.nan, 1, FAILED)],
)
@pytest.mark.parametrize("before", [0.0, 1.0])
def test_a_sum_of_terms_that_is_no_number_fails_and_leaves_the_site_as_it_was(at_zero, decision, status, before):
    program = amc.Gibbs(conditional="terms").build(one_site([0.5, 0.25]))
    state, kept, (count, value) = program.new_state(np.array([before, 0.0])), [], new_records()
    state.evidence.data[2][0] = at_zero
    draw = plain(
        make_draw_by_terms(lambda rng: -1.0, lambda *_: (decision, 2.0), lambda test, total: kept.append(total), True)
    )
    state.log_density[0] = 1.0
    answer = draw(types.SimpleNamespace(uniform=None), state, 0, count, value)
    moved = status != FAILED and decision != before
    assert answer == (FAILED if status == FAILED else MOVED if moved else STAYED)
    assert state.theta[0] == state.proposed[0] == (before if status == FAILED else decision)
    assert state.log_density[0] == 1.0 + (2.0 * (decision - before) if moved else 0.0)
    np.testing.assert_array_equal(kept, [at_zero])
    assert count[EVALUATIONS] == 1


@pytest.mark.recompiles
def test_poisson_counts_evaluate_what_they_touch_at_all_states():
    target = one_site([0.0, 0.7, -0.4], copies=3)
    chain = amc.PoissonGibbs(5.0).build(target).start(np.zeros(2), streams(seed_sequences(5, 1)[0][0]), 0)
    draws, counts = np.empty((30, 2)), np.empty((30, len(COUNT_NAMES)), np.int64)
    chain.advance(30, 1, draws, counts, np.empty((30, len(VALUE_NAMES))))
    assert (counts[:, EVALUATIONS] == 3 * counts[:, TOUCHED]).all() and counts[:, TOUCHED].sum() > 30
    # The second site has a term that never changes: it is drawn uniformly, and nothing is read for it.
    assert set(draws[:, 1]) == {0.0, 1.0, 2.0}
    assert amc.PoissonGibbs(5.0).expected_reads(target) == pytest.approx(5.0 + 1.1)


def test_counts_need_tables_without_zeros():
    with pytest.raises(IncompatibleError, match=r"PoissonGibbs needs .* bounded, .* probability 0; use Gibbs"):
        amc.PoissonGibbs().build(one_site([0.0, -math.inf]))


@pytest.mark.recompiles
@pytest.mark.parametrize("every", [None, 0, 7])
@pytest.mark.parametrize("test", [amc.ExactTest(), amc.SequentialTTest(0.1, 2)], ids=lambda test: type(test).__name__)
def test_audits_are_those_of_a_test_that_may_err(test, every):
    program = amc.Gibbs(test).build(one_site([0.5, 0.25], copies=2, others=2), audit_every=every)
    audited = isinstance(test, amc.SequentialTTest)
    assert program.audit_probability == (1.0 / 7.0 if audited and every else 0.0)
    assert program.attrs.get("audit_every") == ((every or 0) if audited else None)
    assert program.attrs.get("data_order") == ("rows" if audited else None)
    assert {name in program.count_names for name in AUDIT_COUNTS} == {audited}
    assert ("lp" in program.value_names) != audited and "accepted" not in program.count_names


@pytest.mark.recompiles
def test_a_failure_that_no_term_explains_names_the_states():
    program = amc.Gibbs(conditional="terms").build(one_site([0.5, 0.25]))
    said = program.explain_failure(program.new_state(np.array([1.0, 0.0])))
    assert said == "the conditional of a site is not defined near x = [1, 0]"


@pytest.mark.parametrize(
    ("target", "said"),
    [
        (one_site([0.0, 1.0, 2.0], copies=2, others=2), "decides between two states, site 0 of .* has 3"),
        (one_site([0.0, 1.0], copies=2), "at least 2 terms per site, site 1 of .* has 1;"),
    ],
)
def test_sites_that_a_test_cannot_decide_are_named(target, said):
    with pytest.raises(IncompatibleError, match=said):
        amc.Gibbs(amc.SequentialTTest(0.1, 2)).build(target)


@pytest.mark.recompiles
def test_a_site_of_three_states_visits_all():
    chain = amc.Gibbs().build(one_site([0.0, 0.7, -0.4])).start(np.zeros(2), streams(seed_sequences(5, 1)[0][0]), 0)
    draws = np.empty((40, 2))
    chain.advance(40, 1, draws, np.empty((40, len(COUNT_NAMES)), np.int64), np.empty((40, len(VALUE_NAMES))))
    assert set(draws[:, 0]) == {0.0, 1.0, 2.0}


@pytest.mark.recompiles
def test_an_infinite_term_is_named():
    program = amc.Gibbs(conditional="terms").build(one_site([0.5, math.inf]))
    said = program.explain_failure(program.new_state(np.zeros(2)))
    assert said == "term 0 of site 0 is NaN or +inf at x = [1, 0]"
