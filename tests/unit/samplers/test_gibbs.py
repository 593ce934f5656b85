"""Gibbs: what it counts and records, what it starts from, and which pairings it refuses."""

import math
import re
import types

import numpy as np
import pytest

import approxmcmc as amc
from approxmcmc.contracts import COUNT_NAMES, VALUE_NAMES, Component, Variables
from approxmcmc.contracts.records import AUDIT_COUNTS, DECISIONS, EVALUATIONS, ROUNDS, TOUCHED
from approxmcmc.engine.streams import seed_sequences, streams
from approxmcmc.errors import IncompatibleError, InvalidInputError, NotFiniteError
from approxmcmc.samplers.gibbs.poisson_counts import draw_given_counts, flip_given_counts, weigh_states
from approxmcmc.samplers.gibbs.step import draw_by_states, make_draw_by_terms, make_step, one_after_the_other
from approxmcmc.sampling.chain import FAILED, MOVED, STAYED
from approxmcmc.targets.discrete.factor_graph import FactorGraph, FactorGroup
from tests.models import logistic
from tests.planting import plain
from tests.unit.targets.test_bayesian_network import weather
from tests.unit.targets.test_mrf import mixed

N_SITES, PAIRS = 6, 10
TEST = amc.SequentialTTest(0.1, 4)


def field():
    return amc.targets.BinaryMRF.random_triples(N_SITES, 0.3, 0)


def run(target, sampler, *, draws=20, tune=3, chains=2, seed=1, **options):
    return amc.sample(
        target, sampler, draws=draws, tune=tune, chains=chains, random_seed=seed, progressbar=False, **options
    )


def stats(trace) -> dict:
    return {name: values.to_numpy() for name, values in trace["sample_stats"].data_vars.items()}


def test_draws_are_integer_states_with_the_names_of_the_target():
    x = run(field(), amc.Gibbs()).posterior["x"]
    assert x.dims == ("chain", "draw", "site") and x.dtype == np.int64 and set(np.unique(x)) <= {0, 1}
    network = run(weather().given(rain=1), amc.Gibbs())
    assert set(network.posterior.data_vars) == {"sky", "road"} and network.posterior["road"].dtype == np.int64
    assert int(network.observed_data["rain"]) == 1


@pytest.mark.thorough
@pytest.mark.parametrize("thin", [1, 3])
def test_costs_of_reading_all_terms(thin):
    for sampler in (amc.Gibbs(conditional="terms"), amc.Gibbs(amc.SequentialTTest(0.0, 4))):
        found = stats(run(field(), sampler, thin=thin, audit_every=None))
        assert (found["decisions_made"] == N_SITES * thin).all()
        assert (found["datapoints_touched"] == N_SITES * PAIRS * thin).all()
        assert (found["likelihood_evaluations"] == 2 * N_SITES * PAIRS * thin).all()


def test_costs_of_fields_are_those_of_the_flips():
    trace = run(field(), amc.Gibbs(), initvals=np.zeros(N_SITES), tune=0)
    found, x = stats(trace), trace.posterior["x"].to_numpy()
    flips = np.abs(np.diff(x, axis=1, prepend=0)).sum(axis=2)  # a site is visited once a sweep, so each flip shows
    assert (found["likelihood_evaluations"] == 2 * PAIRS * flips).all() and flips.sum() > 0
    assert (found["datapoints_touched"] == N_SITES * PAIRS).all()
    assert (found["decision_rounds"] == N_SITES).all()


def test_a_site_of_several_states_is_one_decision():
    found = stats(run(weather(), amc.Gibbs(), thin=2))
    assert (found["decisions_made"] == 6).all() and (found["decision_rounds"] == 6).all()


@pytest.mark.parametrize(("batch_size", "every"), [(2, 100), (5, 50), (10, 50)])
def test_audits_of_all_terms_are_a_twentieth_of_what_the_first_looks_read(batch_size, every):
    """Ten terms a site: once in 20 x 10 / 2 decisions; and never more than once in 50."""
    program = amc.Gibbs(amc.SequentialTTest(0.1, batch_size)).build(field(), audit_every="auto")
    assert program.attrs["audit_every"] == every


def test_a_site_by_poisson_counts_is_one_decision():
    found = stats(run(field(), amc.samplers.PoissonGibbs(3.0)))
    assert (found["decisions_made"] == N_SITES).all() and (found["decision_rounds"] == N_SITES).all()


def test_costs_of_sites_with_different_numbers_of_terms():
    trace = run(mixed(), amc.Gibbs())
    assert (stats(trace)["datapoints_touched"] == 13).all()
    assert trace.posterior.attrs["n_obs"] == pytest.approx(13 / 6)
    assert run(field(), amc.Gibbs()).sample_stats.attrs["n_obs"] == PAIRS
    states = run(weather(), amc.Gibbs())
    assert (stats(states)["datapoints_touched"] == 6).all()  # sky in 3 tables, rain in 2, road in 1
    assert (stats(states)["likelihood_evaluations"] == 3 * 3 + 2 * 2 + 1 * 4).all()


def test_rounds_and_reads_of_a_sequential_test():
    found = stats(run(field(), amc.Gibbs(TEST), draws=50))
    assert (found["datapoints_touched"] < N_SITES * PAIRS).any()
    assert (found["likelihood_evaluations"] == 2 * found["datapoints_touched"]).all()
    assert (found["decision_rounds"] >= N_SITES).all() and (found["decision_rounds"] <= 3 * N_SITES).all()


@pytest.mark.thorough
def test_audits_of_all_decisions():
    found = stats(run(field(), amc.Gibbs(TEST), audit_every=1, draws=100))
    assert (found["decisions_audited"] == N_SITES).all()
    assert 0 < found["wrong_decisions"].sum() < found["decisions_audited"].sum() / 4
    assert (found["wrong_accepts"] <= found["wrong_decisions"]).all()
    never = stats(run(field(), amc.Gibbs(amc.SequentialTTest(0.0, 4)), audit_every=1))
    assert not never["wrong_decisions"].any()


FORMS = {"fields": amc.Gibbs(), "terms": amc.Gibbs(conditional="terms"), "random": amc.Gibbs(scan="random")}
TARGETS = {"triples": field(), "mixed": mixed(), "states": weather()}


@pytest.mark.thorough
@pytest.mark.parametrize("sampler", FORMS.values(), ids=FORMS)
@pytest.mark.parametrize("target", TARGETS.values(), ids=TARGETS)
def test_lp_is_the_log_density(sampler, target):
    trace = run(target, sampler)
    states = np.concatenate([np.atleast_3d(values.to_numpy()) for values in trace.posterior.values()], axis=2)
    np.testing.assert_allclose(trace.sample_stats["lp"], target.log_density(states), atol=1e-10)


@pytest.mark.thorough
def test_records_follow_the_test():
    assert {"accepted", "acceptance_rate", "decisions_audited", "max_term_ratio"}.isdisjoint(
        stats(run(field(), amc.Gibbs()))
    )
    sequential = stats(run(field(), amc.Gibbs(TEST)))
    assert {"decisions_audited", "max_term_ratio"} <= sequential.keys() and "lp" not in sequential
    barker = stats(run(field(), amc.Gibbs(amc.acceptance.MinibatchBarker(batch_size=4)), audit_every=2))
    assert {"log_ratio_variance", "audit_acceptance_error"} <= barker.keys()
    assert barker["decisions_made"].sum() == 2 * 20 * N_SITES


def test_a_random_scan_may_leave_sites_out():
    trace = run(field(), amc.Gibbs(scan="random"), draws=200)
    assert (stats(trace)["decisions_made"] == N_SITES).all()
    still = run(amc.targets.BinaryMRF(2, [[0, 1]], np.zeros((1, 2, 2))), amc.Gibbs(scan="random"), draws=400, chains=1)
    same = np.diff(still.posterior["x"].to_numpy()[0], axis=0) == 0
    # Of two fair sites one is left out in half of the sweeps: a site stays with probability 5/8, not 1/2.
    assert same.mean() == pytest.approx(0.625, abs=5 * 0.5 / np.sqrt(400))


def test_starts():
    with pytest.raises(InvalidInputError, match="log density -inf"):
        run(field(), amc.Gibbs(), initvals=np.full(N_SITES, 0.5))
    with pytest.raises(InvalidInputError, match="log density -inf"):
        run(weather(), amc.Gibbs(), initvals={"sky": 3, "rain": 0, "road": 0})
    assert run(weather(), amc.Gibbs(), initvals={"sky": 2, "rain": 0, "road": 0}).posterior.sizes["draw"] == 20


def test_impossible_states_are_never_drawn():
    tables = {"cause": [0.5, 0.5, 0.0], "effect": [[1.0, 0.0], [0.3, 0.7], [0.5, 0.5]]}
    trace = run(amc.targets.BayesianNetwork(tables, {"effect": ["cause"]}, {"effect": 1}), amc.Gibbs(), draws=50)
    assert (trace.posterior["cause"] == 1).all()


def with_a_nan(n_states: int = 2, copies: int = 1):
    """Return three sites in pairs, `copies` of each pair; a term of sites 0 and 1 is NaN where both are in state 1."""
    pairs = np.array([[0, 1], [1, 2], [0, 2]] * copies)
    tables = np.random.default_rng(3).normal(0.0, 0.1, (len(pairs), *[n_states] * 2))
    tables[0, 1, 1] = np.nan
    return FactorGraph([n_states] * 3, [FactorGroup(pairs, tables)], Variables({"x": (3,)}, dtype="int64"))


NAN_CASES = {
    "terms": (with_a_nan(), amc.Gibbs()),
    "random scan": (with_a_nan(), amc.Gibbs(scan="random")),
    "sequential": (with_a_nan(), amc.Gibbs(amc.SequentialTTest(0.1, 2))),
    "barker": (with_a_nan(), amc.Gibbs(amc.acceptance.MinibatchBarker(batch_size=2))),
    "bernstein": (with_a_nan(), amc.Gibbs(amc.acceptance.BernsteinTest(0.1, 2, range=1.0))),
    "states": (with_a_nan(3), amc.Gibbs()),
}


@pytest.mark.parametrize("case", NAN_CASES)
def test_a_term_that_is_nan_ends_the_chain(case):
    """It is met once the other site of its pair is in state 1, which is so in half of the sweeps, or a third."""
    target, sampler = NAN_CASES[case]
    chain = sampler.build(target, audit_every=None).start(np.zeros(3), streams(seed_sequences(1, 1)[0][0]), 0)
    draws = np.empty((100, 3))
    counts, values = np.empty((100, len(COUNT_NAMES)), np.int64), np.empty((100, len(VALUE_NAMES)))
    made = chain.advance(100, 1, draws, counts, values)
    assert made < 100 and np.isin(draws[:made], np.arange(target.n_states[0])).all()
    assert re.fullmatch(r"term \d of site [01] is NaN or \+inf at x = \[1, 1, \d\]", chain.explain_failure())


def test_a_nan_before_the_first_draw_is_reported():
    with pytest.raises(NotFiniteError, match=r"chain 0: term 0 of site 0 is NaN or \+inf at x = \[1, 1, 0\]"):
        run(with_a_nan(), amc.Gibbs(), initvals=np.array([0, 1, 0]), tune=0, chains=1)
    twice = with_a_nan(copies=2)
    twice.groups[0].log_tables[3] = twice.groups[0].log_tables[0]
    with pytest.raises(NotFiniteError, match=r"chain 0: term 0 and 1 more of site 0 is NaN"):
        run(twice, amc.Gibbs(), initvals=np.array([0, 1, 0]), tune=0, chains=1)


def test_audits_that_meet_a_nan_are_not_booked():
    """A test that reads 2 of 60 terms seldom sees the NaN; the audit of a decision on site 0 always does."""
    target = with_a_nan(copies=30)
    target.groups[0].log_tables[0, 1, :] = np.nan
    chain = amc.Gibbs(amc.SequentialTTest(0.5, 2)).build(target, audit_every=1).start(
        np.zeros(3), streams(seed_sequences(1, 1)[0][0]), 0
    )  # fmt: skip
    counts, values = np.empty((100, len(COUNT_NAMES)), np.int64), np.empty((100, len(VALUE_NAMES)))
    made = chain.advance(100, 1, np.empty((100, 3)), counts, values)
    audited = counts[:made, COUNT_NAMES.index("decisions_audited")]
    assert made > 0 and (audited >= 1).all() and (audited <= 2).all()


def test_refusals():
    with pytest.raises(IncompatibleError, match="discrete target"):
        amc.Gibbs().build(logistic(n=20))
    cycle = [(i, (i + 1) % 16) for i in range(16)]
    uneven = amc.targets.BinaryMRF(
        16, [[list(range(16))], np.tile(cycle, (200, 1))], [np.zeros((1, *[2] * 16)), np.zeros((3200, 2, 2))]
    )
    with pytest.raises(IncompatibleError, match=r"reads blocks .* are much larger .* give the test order=\"rows\""):
        amc.Gibbs(amc.SequentialTTest(0.1, 4, order="blocks")).build(uneven)
    with pytest.raises(IncompatibleError, match="between two states"):
        amc.Gibbs(TEST).build(weather())
    with pytest.raises(IncompatibleError, match="at least 2 terms"):
        amc.Gibbs(TEST).build(amc.targets.alarm_network())
    with pytest.raises(IncompatibleError, match="ignores the terms"):
        amc.Gibbs(amc.acceptance.AlwaysAccept()).build(field())
    with pytest.raises(IncompatibleError, match="acceptance test"):
        amc.Gibbs(amc.RandomWalk(1.0))
    with pytest.raises(InvalidInputError, match="scan"):
        amc.Gibbs(scan="diagonal")
    with pytest.raises(InvalidInputError, match="conditional"):
        amc.Gibbs(conditional="fast")
    with pytest.raises(IncompatibleError, match="discrete states"):
        amc.MetropolisHastings(amc.RandomWalk(1.0), amc.ExactTest()).build(field())
    with pytest.raises(IncompatibleError, match="discrete target"):
        amc.proposals.SingleSite().build_proposal(logistic(n=20))


def test_settings_survive_a_dict():
    sampler = amc.Gibbs(amc.SequentialTTest(0.05, 20), scan="random", conditional="terms")
    assert Component.from_dict(sampler.to_dict()) == sampler


@pytest.mark.thorough
def test_cost_summary_reads_gibbs_traces():
    row = amc.cost_summary(run(field(), amc.Gibbs(TEST), draws=50, audit_every=1)).loc["all"]
    assert 0.4 < row["data_fraction"] < 1.0 and row["decisions_audited"] == 2 * 50 * N_SITES
    assert amc.cost_summary(run(field(), amc.Gibbs())).loc["all", "data_fraction"] == 1.0


def test_realised_conditional_refuses_what_it_cannot_do():
    contexts = np.zeros((2, N_SITES))
    with pytest.raises(IncompatibleError, match="exact"):
        amc.samplers.realised_conditional(field(), amc.ExactTest(), contexts, [0, 1])
    with pytest.raises(InvalidInputError, match="contexts"):
        amc.samplers.realised_conditional(field(), TEST, contexts, [0])


def test_realised_conditional_without_error():
    contexts = np.array([[0, 1, 1, 0, 0, 1], [1, 1, 0, 0, 1, 0]])
    found = amc.samplers.realised_conditional(
        field(), amc.SequentialTTest(0.0, 4), contexts, [2, 5], replications=300, random_seed=1
    )
    exact = [field().conditional(contexts[k : k + 1], site)[0, 1] for k, site in enumerate((2, 5))]
    np.testing.assert_allclose(found["exact"], exact, atol=1e-12)
    assert (np.abs(found["realised"] - found["exact"]) < 5 * 0.5 / np.sqrt(300)).all()
    assert (found["data_fraction"] == 1.0).all()


@pytest.mark.thorough
def test_the_odds_of_every_context_are_shifted_to_one_probability():
    """Exact decisions realise it: 500 of them, five standard errors."""
    contexts = np.array([[0, 1, 1, 0, 0, 1], [1, 1, 0, 0, 1, 0]])
    found = amc.samplers.realised_conditional(
        field(), amc.SequentialTTest(0.0, 4), contexts, [2, 5], replications=500, probability=0.2, random_seed=1
    )
    np.testing.assert_allclose(found["exact"], 0.2, rtol=1e-12)
    np.testing.assert_allclose(found["log_odds"], np.log(0.25), rtol=1e-12)
    assert (np.abs(found["realised"] - 0.2) < 5 * 0.4 / np.sqrt(500)).all()


def test_a_term_that_is_nan_has_no_realised_conditional():
    test = amc.SequentialTTest(0.1, 2)
    with pytest.raises(NotFiniteError, match=r"a term of site 1 is NaN at x = \[1.0, 0.0, 1.0\]"):
        amc.samplers.realised_conditional(with_a_nan(), test, [[1, 0, 1]], [1], replications=3, random_seed=1)


@pytest.mark.parametrize("target", [field(), weather()], ids=["binary", "several states"])
def test_metropolis_hastings_over_states(target):
    trace = run(
        target, amc.MetropolisHastings(amc.proposals.SingleSite(), amc.ExactTest()), draws=200, tune=0, chains=1
    )
    states = np.concatenate([np.atleast_3d(values.to_numpy()) for values in trace.posterior.values()], axis=2)[0]
    assert ((states >= 0) & (states < target.n_states)).all()
    assert (np.abs(np.diff(states, axis=0)) > 0).sum(axis=1).max() == 1
    np.testing.assert_allclose(trace.sample_stats["lp"].values[0], target.log_density(states), atol=1e-10)
    assert trace.sample_stats.attrs["n_obs"] == target.n_obs  # all factors: a decision compares whole states
    with pytest.raises(InvalidInputError, match="log density -inf"):
        run(
            target,
            amc.MetropolisHastings(amc.proposals.SingleSite(), amc.ExactTest()),
            initvals=np.full(states.shape[1], 7.0),
        )


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

    sweep = plain(make_step(begun.append, one_after_the_other, draw))
    state = types.SimpleNamespace(theta=np.zeros(3))
    assert sweep(types.SimpleNamespace(proposal=None), state, None, None) == status
    assert sites == list(range(visited)) and begun == [state]


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


def test_poisson_counts_evaluate_what_they_touch_at_all_states():
    target = one_site([0.0, 0.7, -0.4], copies=3)
    chain = amc.samplers.PoissonGibbs(5.0).build(target).start(np.zeros(2), streams(seed_sequences(5, 1)[0][0]), 0)
    draws, counts = np.empty((30, 2)), np.empty((30, len(COUNT_NAMES)), np.int64)
    chain.advance(30, 1, draws, counts, np.empty((30, len(VALUE_NAMES))))
    assert (counts[:, EVALUATIONS] == 3 * counts[:, TOUCHED]).all() and counts[:, TOUCHED].sum() > 30
    # The second site has a term that never changes: it is drawn uniformly, and nothing is read for it.
    assert set(draws[:, 1]) == {0.0, 1.0, 2.0}
    assert amc.samplers.PoissonGibbs(5.0).expected_reads(target) == pytest.approx(5.0 + 1.1)


def test_counts_need_tables_without_zeros():
    with pytest.raises(IncompatibleError, match=r"PoissonGibbs needs bounded terms, .* probability 0; use Gibbs"):
        amc.samplers.PoissonGibbs().build(one_site([0.0, -math.inf]))


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


def test_a_site_of_three_states_visits_all():
    chain = amc.Gibbs().build(one_site([0.0, 0.7, -0.4])).start(np.zeros(2), streams(seed_sequences(5, 1)[0][0]), 0)
    draws = np.empty((40, 2))
    chain.advance(40, 1, draws, np.empty((40, len(COUNT_NAMES)), np.int64), np.empty((40, len(VALUE_NAMES))))
    assert set(draws[:, 0]) == {0.0, 1.0, 2.0}


def test_an_infinite_term_is_named():
    program = amc.Gibbs(conditional="terms").build(one_site([0.5, math.inf]))
    said = program.explain_failure(program.new_state(np.zeros(2)))
    assert said == "term 0 of site 0 is NaN or +inf at x = [1, 0]"


pytestmark = pytest.mark.filterwarnings("ignore::approxmcmc.errors.SamplingWarning")


FIELD = amc.targets.BinaryMRF.random_triples(5, scale=0.5, random_seed=0)


CONTEXTS = np.array([[0, 1, 1, 0, 1], [1, 1, 0, 0, 0], [1, 0, 1, 1, 1]])


SITES = [0, 4, 2]


TEST_OF_THREE = amc.SequentialTTest(0.1, 3)


def realised(contexts=CONTEXTS, sites=SITES, test=TEST_OF_THREE, **settings):
    return amc.samplers.realised_conditional(
        FIELD, test, contexts, sites, **{"random_seed": 1, "replications": 20} | settings
    )


def changed(entry):
    """Return the contexts with one entry replaced."""
    contexts = CONTEXTS.astype(float)
    contexts[1, 3] = entry
    return contexts


@pytest.mark.parametrize("entry", [-1, 2, 0.5, -0.5])
def test_a_context_that_is_no_state_is_refused(entry):
    with pytest.raises(InvalidInputError, match=r"0, 1, \.\.\. below n_states .* indices from 0 to 4$"):
        realised(changed(entry))


@pytest.mark.parametrize("site", [-1, 5])
def test_a_site_that_is_none_is_refused(site):
    with pytest.raises(InvalidInputError, match="indices from 0 to 4"):
        realised(sites=[0, site, 2])


@pytest.mark.parametrize(("contexts", "sites"), [(CONTEXTS[0], [0]), (CONTEXTS, [0, 1]), (CONTEXTS[:, :4], SITES)])
def test_shapes_that_do_not_fit_are_refused(contexts, sites):
    with pytest.raises(InvalidInputError, match=r"shape \(n, 5\)"):
        realised(contexts, sites)


@pytest.mark.parametrize("probability", [-0.5, 0.0, 1.0, 1.5])
def test_a_probability_that_is_certain_or_none_is_refused(probability):
    with pytest.raises(InvalidInputError, match="strictly between 0 and 1"):
        realised(probability=probability)


def test_an_exact_test_is_refused():
    with pytest.raises(IncompatibleError, match="must be approximate"):
        realised(test=amc.ExactTest())


@pytest.mark.parametrize(("probability", "share"), [(1e-13, 0.0), (1.0 - 1e-13, 1.0)])
def test_what_is_all_but_certain_is_decided_so_every_time(probability, share):
    found = realised(probability=probability)
    assert found["realised"].values.tolist() == [share] * 3 and found["realised_mcse"].values.tolist() == [0.0] * 3
    np.testing.assert_allclose(found["exact"], probability, rtol=1e-12)


def test_the_log_odds_are_those_of_all_states():
    """By enumeration of the field: log P(x_i = 1 | rest) - log P(x_i = 0 | rest)."""
    found = realised()
    for k, (context, site) in enumerate(zip(CONTEXTS, SITES, strict=True)):
        at = [np.where(np.arange(5) == site, value, context).astype(float) for value in (0, 1)]
        terms = [FIELD.compile_conditionals(fields=False).terms_at(state, site) for state in at]
        log_odds = float(np.diff(FIELD.log_density(np.array(at)))[0])
        assert found["log_odds"][k] == pytest.approx(log_odds, rel=1e-10)
        assert found["exact"][k] == pytest.approx(1.0 / (1.0 + math.exp(-log_odds)), rel=1e-10)
        spread = (terms[1] - terms[0]).std(ddof=1)
        assert found["tau"][k] == pytest.approx(math.sqrt(len(terms[0])) * spread, rel=1e-12)


def test_a_temperature_divides_the_terms():
    cold, hot = (realised(test=amc.acceptance.MinibatchBarker(batch_size=3, temperature=t)) for t in (1.0, 4.0))
    np.testing.assert_allclose(hot["log_odds"], cold["log_odds"] / 4.0, rtol=1e-12)
    np.testing.assert_allclose(hot["tau"], cold["tau"] / 4.0, rtol=1e-12)


def test_the_error_is_that_of_a_share_and_data_are_counted_per_decision():
    found = realised(replications=50)
    p = found["realised"].values
    np.testing.assert_allclose(found["realised_mcse"], np.sqrt(p * (1.0 - p) / 50), rtol=1e-12)
    assert (p > 0.0).any() and ((found["data_fraction"] >= 3.0 / 6.0) & (found["data_fraction"] <= 1.0)).all()
