"""The noisy family: settings, refusals, counts, failures, population, pseudo-likelihood, stochastic approximation."""

import math
import types

import numpy as np
import pytest

import approxmcmc as amc
from approxmcmc.contracts import COUNT_NAMES, VALUE_NAMES, CompiledProposal, Component
from approxmcmc.engine.compiler.compile import compiled
from approxmcmc.engine.streams import seed_sequences, streams
from approxmcmc.errors import (
    CompilationError,
    IncompatibleError,
    InvalidInputError,
    NotFiniteError,
    SamplingWarning,
)
from approxmcmc.samplers.auxiliary_variable import program
from approxmcmc.samplers.auxiliary_variable.langevin import prior_gradient
from approxmcmc.samplers.auxiliary_variable.step import follow
from tests.intractable import Family, five_values, ising_4x4
from tests.models import normal_mean
from tests.planting import plain

SAMPLERS = {
    "exchange": amc.Exchange(amc.RandomWalk(0.3)),
    "noisy": amc.Exchange(amc.RandomWalk(0.3), 4),
    "population": amc.Exchange(amc.proposals.AdaptiveDirection(spread=0.2)),
    "Langevin": amc.samplers.NoisyLangevin(0.05, 4),
    "MALA": amc.samplers.MALAExchange(0.05, False, 4),
    "refreshed": amc.samplers.MALAExchange(0.05, False, 4, refresh=True),
    "noisy MALA": amc.samplers.MALAExchange(0.05, True, 4),
}


def run(sampler, target=None, **options):
    settings = {"draws": 12, "tune": 3, "chains": 1, "random_seed": 3, "progressbar": False}
    return amc.sample(five_values() if target is None else target, sampler, **{**settings, **options})


def test_components_survive_a_round_trip():
    others = (
        amc.samplers.PseudoMarginal(amc.RandomWalk(1.0), refresh=True),
        amc.samplers.NoisyMetropolisHastings(amc.RandomWalk(1.0)),
    )
    shaped = amc.samplers.NoisyLangevin(0.1, 3, np.eye(2), amc.targets.AuxiliaryChain(100, "both"))
    for sampler in (*SAMPLERS.values(), *others, shaped):
        assert Component.from_dict(sampler.to_dict()) == sampler


@pytest.mark.parametrize(
    "make",
    [
        lambda: amc.Exchange(amc.RandomWalk(1.0), 0),
        lambda: amc.Exchange(amc.RandomWalk(1.0), 1.5),
        lambda: amc.samplers.NoisyLangevin(0.0),
        lambda: amc.samplers.NoisyLangevin(math.nan),
        lambda: amc.samplers.NoisyLangevin(0.1, True),
        lambda: amc.samplers.NoisyLangevin(0.1, cov=[[1.0, 2.0], [2.0, 1.0]]),
        lambda: amc.samplers.NoisyLangevin(0.1, cov=[[1.0, 0.5], [0.0, 1.0]]),
        lambda: amc.samplers.NoisyLangevin(0.1, cov=[[1.0, 0.0], [0.0, -0.5]]),
        lambda: amc.samplers.NoisyLangevin(0.1, cov=np.ones((2, 3))),
        lambda: amc.samplers.MALAExchange(0.1, target_acceptance=1.0),
        lambda: amc.samplers.MALAExchange(0.1, target_acceptance=0.0),
        lambda: amc.proposals.AdaptiveDirection(gamma=-1.0),
        lambda: amc.proposals.AdaptiveDirection(n_members=2),
        lambda: amc.design.robbins_monro(five_values(), gain=0.0),
        lambda: amc.design.robbins_monro(five_values(), n_steps=0),
        lambda: amc.targets.EstimatedRatio(estimate_ratio, log_prior, dim=2, initial_point=[0.0]),
    ],
    ids=[str(k) for k in range(16)],
)
def test_bad_settings_are_refused(make):
    with pytest.raises(InvalidInputError):
        make()


def estimate(rng, theta, data):
    return -0.5 * theta[0] ** 2 + 0.1 * rng.standard_normal()


def estimate_ratio(rng, theta, proposed, data):
    return 0.5 * (theta[0] ** 2 - proposed[0] ** 2) + 0.1 * rng.standard_normal()


def log_prior(theta):
    return 0.0


def likelihood(**options):
    return amc.targets.EstimatedLikelihood(estimate, log_prior, dim=1, **options)


def ratio(**options):
    return amc.targets.EstimatedRatio(estimate_ratio, log_prior, dim=1, **options)


@pytest.mark.parametrize(
    ("sampler", "target", "says"),
    [
        (amc.Exchange(amc.RandomWalk(1.0)), normal_mean, "doubly intractable"),
        (amc.samplers.NoisyLangevin(1.0), normal_mean, "doubly intractable"),
        (amc.MetropolisHastings(amc.proposals.AdaptiveDirection(), amc.ExactTest()), normal_mean, "population"),
        (amc.samplers.PseudoMarginal(amc.proposals.AdaptiveDirection()), likelihood, "population"),
        (amc.samplers.PseudoMarginal(amc.RandomWalk(1.0)), ratio, "EstimatedLikelihood"),
        (amc.samplers.NoisyMetropolisHastings(amc.RandomWalk(1.0)), likelihood, "EstimatedRatio"),
        (amc.samplers.NoisyMetropolisHastings(amc.RandomWalk(1.0)), five_values, "EstimatedRatio"),
        (amc.MetropolisHastings(amc.RandomWalk(1.0), amc.ExactTest()), likelihood, "PseudoMarginal"),
        (amc.samplers.NoisyLangevin(1.0, 2, np.eye(2)), five_values, "1 parameters"),
    ],
)
def test_impossible_pairs_say_what_is_missing(sampler, target, says):
    with pytest.raises(IncompatibleError, match=says):
        run(sampler, target())


def test_a_proposal_is_needed():
    for kind in (amc.Exchange, amc.samplers.PseudoMarginal, amc.samplers.NoisyMetropolisHastings):
        with pytest.raises(IncompatibleError, match="proposal"):
            kind(amc.ExactTest())


def test_estimates_that_do_not_compile_are_explained():
    with pytest.raises(CompilationError, match="plain Python"):
        amc.targets.EstimatedLikelihood(lambda rng, theta, data: rng.nothing(), log_prior, dim=1)


@pytest.mark.needs_jit
def test_estimates_that_only_python_understands_are_explained():
    with pytest.raises(CompilationError, match="does not compile"):
        amc.targets.EstimatedLikelihood(lambda rng, theta, data: float(str(theta[0])), log_prior, dim=1)


# --- counts ---

DRAWS_PER_STEP = {"exchange": 1, "noisy": 4, "population": 1, "Langevin": 4, "MALA": 5, "refreshed": 9, "noisy MALA": 4}


@pytest.mark.parametrize("name", SAMPLERS)
def test_counts_are_those_of_the_algorithm(name):
    trace = run(SAMPLERS[name], tune=0, thin=2, audit_every=1)
    stats, per_step = trace.sample_stats, DRAWS_PER_STEP[name]
    langevin, steps = name == "Langevin", np.full((1, 12), 2)
    draws = per_step * steps
    if name in ("MALA", "noisy MALA"):  # the first G is drawn, later ones are carried
        draws[0, 0] += 4
    np.testing.assert_array_equal(stats["statistic_evaluations"], draws)
    np.testing.assert_array_equal(stats["auxiliary_updates"], 16 * draws)
    np.testing.assert_array_equal(stats["datapoints_touched"], steps)
    np.testing.assert_array_equal(stats["decisions_made"], 0 * steps if langevin else steps)
    np.testing.assert_array_equal(stats["decision_rounds"], stats["decisions_made"])
    np.testing.assert_array_equal(stats["likelihood_evaluations"], 0 * steps if langevin else steps)
    assert trace.posterior.attrs["n_obs"] == 1
    assert ("gradient_evaluations" in stats) == (name in ("Langevin", "MALA", "refreshed", "noisy MALA"))
    if "gradient_evaluations" in stats:
        gradients = steps * (2 if name == "refreshed" else 1)
        gradients[0, 0] += name in ("MALA", "noisy MALA")
        np.testing.assert_array_equal(stats["gradient_evaluations"], gradients)
    if langevin:
        assert "decisions_audited" not in stats and stats["accepted"].all()
    else:
        np.testing.assert_array_equal(stats["decisions_audited"], steps)
        assert (stats["wrong_accepts"] <= stats["wrong_decisions"]).all()


def test_nothing_is_simulated_outside_the_support():
    trace = run(amc.Exchange(amc.RandomWalk(50.0)), ising_4x4(), audit_every=1, draws=60)
    stats = trace.sample_stats
    assert int(stats["auxiliary_updates"].sum()) == 16 * int(stats["datapoints_touched"].sum()) < 16 * 10
    assert int(stats["decisions_audited"].sum()) == int(stats["decisions_made"].sum()) == 60
    assert np.abs(trace.posterior["theta"] - 0.2).max() <= 0.6


def test_langevin_stays_in_the_support():
    theta = run(amc.samplers.NoisyLangevin(0.1, 8), ising_4x4(), draws=60).posterior["theta"].values
    assert theta.min() >= -0.4 and theta.max() <= 0.8 and len(np.unique(theta)) > 5


def test_a_known_normaliser_gives_the_log_density():
    """Prior N(0, 4), and y = 3 of 0 ... 4 with the weights e^(y theta)."""
    program, thetas = SAMPLERS["exchange"].build(five_values(), audit_every=None), np.array([0.3, -0.2])
    expected = -0.125 * thetas**2 + 3.0 * thetas - np.log(np.exp(thetas[:, None] * np.arange(5.0)).sum(axis=1))
    assert np.diff(program.log_densities(thetas[:, None])) == pytest.approx(np.diff(expected))


def test_a_normaliser_that_is_unknown_is_not_audited():
    hidden = Family(range(5), np.ones(5), observed=3, precision=0.25, knows_normalizer=False)
    trace = run(SAMPLERS["exchange"], hidden, audit_every=1)
    assert "decisions_audited" not in trace.sample_stats
    same = run(SAMPLERS["exchange"], audit_every=1)
    np.testing.assert_array_equal(trace.posterior["theta"], same.posterior["theta"])


@pytest.mark.parametrize(("refresh", "touched", "evaluated"), [(False, 5, 5), (True, 10, 10)])
def test_pseudo_marginal_counts_its_estimates(refresh, touched, evaluated):
    target = likelihood(n_obs=20, n_terms=5, log_likelihood=lambda theta: -0.5 * theta[0] ** 2)
    stats = run(amc.samplers.PseudoMarginal(amc.RandomWalk(1.0), refresh=refresh), target, audit_every=1).sample_stats
    assert (stats["datapoints_touched"] == touched).all() and (stats["likelihood_evaluations"] == evaluated).all()
    assert (stats["decisions_audited"] == 1).all() and stats.attrs["n_obs"] == 20


def test_noisy_metropolis_hastings_counts_its_estimates():
    stats = run(amc.samplers.NoisyMetropolisHastings(amc.RandomWalk(1.0)), ratio(n_obs=8)).sample_stats
    assert (stats["datapoints_touched"] == 8).all() and (stats["likelihood_evaluations"] == 16).all()


@pytest.mark.parametrize(("seconds", "every"), [(1e-4, 50), (4e-4, 100), (2e-3, 1000)])
def test_audits_add_at_most_a_tenth_to_steps_of_a_tenth_of_a_millisecond(seconds, every, monkeypatch):
    """Two log-likelihoods for one step in `every`."""
    clock = iter((7.0, 7.0 + seconds))
    monkeypatch.setattr(program, "time", types.SimpleNamespace(perf_counter=lambda: next(clock)))
    assert program.KnownLikelihood(lambda theta: 0.0).audit_every(np.zeros(1)) == every
    assert 2.0 * seconds / every <= 0.1 * 1e-4


# --- failures ---


@compiled
def nan_after_a_while(rng, theta, state, statistics, count):
    statistics[0] = math.nan if rng.random() < 0.05 else 2.0


def test_a_statistic_that_is_nan_stops_the_chain_and_keeps_its_draws():
    broken = Family(range(5), np.ones(5), observed=3, precision=0.25, simulate=nan_after_a_while)
    with pytest.warns(SamplingWarning, match="estimated log ratio is NaN"):
        trace = run(SAMPLERS["exchange"], broken, draws=500, tune=0)
    assert 0 < trace.posterior.sizes["draw"] < 500 and trace.posterior.attrs["stopped"] == "failure"


def test_an_estimate_that_is_infinite_stops_the_chain():
    target = amc.targets.EstimatedLikelihood(lambda rng, theta, data: math.inf, log_prior, dim=1)
    with pytest.raises(NotFiniteError, match="NaN"):
        run(amc.samplers.PseudoMarginal(amc.RandomWalk(1.0)), target)


# --- tuning, population ---


def test_the_variance_of_a_step_is_that_of_its_size_and_shape():
    program = amc.samplers.NoisyLangevin(0.3, 2, [[2.0]]).build(five_values(), audit_every=None)
    move = program.new_state(np.array([0.3]), np.random.default_rng(1), 0).move
    assert (move.sigma[0, 0], move.lower[0, 0]) == pytest.approx((0.6, 0.6**0.5))
    assert program.attrs["audit_every"] == 0


@pytest.mark.parametrize("wanted", [None, 0.5])
def test_steps_are_tuned_where_a_rate_is_wanted(wanted):
    sampler = amc.samplers.MALAExchange(0.05, False, 2, target_acceptance=wanted)
    own = streams(seed_sequences(1, 1)[0][0])
    chain = sampler.build(five_values(), audit_every=None).start(np.array([0.3]), own, 3)
    chain.advance(3, 1, np.empty((3, 1)), np.empty((3, len(COUNT_NAMES)), np.int64), np.empty((3, len(VALUE_NAMES))))
    assert (chain.state.move.log_factor[0] != 0.0) == (wanted is not None)


def test_steps_are_tuned_and_frozen():
    sampler = amc.samplers.MALAExchange(5.0, False, 2, target_acceptance=0.5)
    tuned = run(sampler, tune=100, draws=20).posterior.attrs["adapted_step_size"]
    again = run(sampler, tune=100, draws=5).posterior.attrs["adapted_step_size"]
    assert tuned == again != 5.0
    assert "adapted_step_size" not in run(amc.samplers.MALAExchange(5.0, False, 2)).posterior.attrs


def test_draws_run_through_the_population():
    proposal = amc.proposals.AdaptiveDirection(gamma=0.5, scale=1e-9, n_members=5, spread=0.3)
    theta = run(amc.Exchange(proposal), draws=10, tune=0, initvals=np.array([0.5])).posterior["theta"].values[0]
    moved = run(amc.Exchange(proposal), draws=5, tune=0, thin=5, initvals=np.array([0.5])).posterior["theta"].values[0]
    assert len(np.unique(theta[:5])) == 5
    assert moved[0] == theta[4] and moved[1] == theta[9]


def test_members_of_a_population_can_be_told_apart():
    trace = run(amc.Exchange(amc.proposals.AdaptiveDirection(n_members=4)), draws=10, chains=2)
    theta, members = trace.posterior["theta"].values, amc.diagnostics.split_population(trace)["theta"].values
    assert members.shape == (8, 2)
    np.testing.assert_array_equal(members[5], theta[1, [1, 5]])
    with pytest.raises(InvalidInputError, match="common factor"):
        amc.diagnostics.split_population(run(amc.Exchange(amc.proposals.AdaptiveDirection(n_members=4)), thin=2))
    with pytest.raises(InvalidInputError, match="population"):
        amc.diagnostics.split_population(run(SAMPLERS["exchange"]))


# --- mode and pseudo-likelihood ---


@pytest.mark.needs_jit  # the compiled climb
def test_robbins_monro_finds_mode_and_curvature():
    target = five_values()
    fit = amc.design.robbins_monro(target, n_steps=20_000, n_curvature=4000, tol=0.0, random_seed=1)
    grid = np.linspace(-2.0, 4.0, 6001)
    mode = grid[np.argmax(target.log_posterior(grid))]
    law = target.law(mode)
    sd = (0.25 + law @ target.values**2 - (law @ target.values) ** 2) ** -0.5
    # The noise of the mean of 10 000 iterates is about sd / sqrt(10 000); 0.05 sd is 5 of these.
    assert abs(fit.mode[0] - mode) < 0.05 * sd
    # Var of a sample variance, relative: sqrt(2 / 4000) = 0.022 and half of it for its root; 0.06 is 5 of these.
    assert fit.sd[0] == pytest.approx(sd, rel=0.06)
    assert amc.samplers.NoisyLangevin(0.5, cov=fit).cov == pytest.approx(fit.cov)


def test_robbins_monro_refuses_a_degenerate_model():
    @compiled
    def constant(rng, theta, state, statistics, count):
        statistics[0] = 2.0

    stuck = Family(range(5), np.ones(5), observed=3, precision=0.0, simulate=constant)
    with pytest.raises(NotFiniteError, match="degenerate"):
        amc.design.robbins_monro(stuck, n_steps=40, n_curvature=10, random_seed=1)


PATH = np.array([[0, 1, 0, 0], [1, 0, 1, 0], [0, 1, 0, 1], [0, 0, 1, 0]])
LATTICE = np.array([[1, 1, -1], [1, 1, -1], [1, -1, -1]])


def conditional_of_a_spin(theta, i, j):
    def s(y):
        return (y[1:] * y[:-1]).sum() + (y[:, 1:] * y[:, :-1]).sum()

    flipped = LATTICE.copy()
    flipped[i, j] *= -1
    return 1.0 / (1.0 + math.exp(theta * (s(flipped) - s(LATTICE))))


def test_pseudo_likelihood_of_a_lattice_is_the_product_of_its_conditionals():
    target = amc.targets.PseudoLikelihood(amc.targets.Ising(LATTICE, prior_bounds=(-0.4, 0.8)))
    compiled = target.compile()
    out = np.empty(9)
    compiled.log_terms(np.array([0.37]), compiled.data, np.arange(9), 0, 9, out)
    expected = [math.log(conditional_of_a_spin(0.37, i, j)) for i in range(3) for j in range(3)]
    np.testing.assert_allclose(out, expected, rtol=1e-12)
    assert compiled.log_prior(np.array([0.81])) == -math.inf and compiled.log_prior(np.array([0.79])) == 0.0


def test_pseudo_likelihood_of_a_graph_has_its_names():
    graph = amc.targets.ERGM(PATH, statistics=("edges", "two_stars"), prior_scale=2.0)
    target = amc.targets.PseudoLikelihood(graph)
    trace = run(amc.MetropolisHastings(amc.RandomWalk(0.5), amc.ExactTest()), target)
    assert trace.posterior["theta"].dims == ("chain", "draw", "statistic") and target.n_obs == 6
    assert target.content_hash() != graph.content_hash()
    with pytest.raises(IncompatibleError, match="Ising or"):
        amc.targets.PseudoLikelihood(normal_mean())


def test_a_proposal_that_must_be_told_the_answer_is_refused():
    built = CompiledProposal(lambda *_: 0.0, dict, settle=lambda state, accepted: None)
    with pytest.raises(IncompatibleError, match="the velocity of this proposal"):
        follow(built)


def prior_with_edges(theta):
    """Return an exponential law of rate 3, a triangle on [0, 1], and a point at 5."""
    if theta[0] < 0.0 or not 0.0 <= theta[1] <= 1.0 or theta[2] != 5.0:
        return -math.inf
    return -3.0 * theta[0] + 2.0 * theta[1]


@pytest.mark.parametrize("first", [0.0, 1e-9, 0.7, 1e6])
@pytest.mark.parametrize("second", [0.0, 0.4, 1.0])
def test_differences_are_one_sided_at_the_edge_of_the_support(first, second):
    theta, shifted, out = np.array([first, second, 5.0]), np.empty(3), np.empty(3)
    plain(prior_gradient)(prior_with_edges, theta, shifted, out)
    np.testing.assert_allclose(out, [-3.0, 2.0, 0.0], rtol=1e-4)
    assert shifted.tolist() == theta.tolist()
