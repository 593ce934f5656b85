"""Bounds: what is refused, what is labelled, and what a random walk on R^d may not claim."""

import math
import types

import numpy as np
import pytest
import xarray as xr

import approxmcmc as amc
from approxmcmc import bounds
from approxmcmc.acceptance.laws.probability import acceptance_probability, scales
from approxmcmc.acceptance.laws.recursion import acceptance_probability_error
from approxmcmc.bounds import check, delta
from approxmcmc.bounds.chains import measured_distance
from approxmcmc.bounds.check import BOUNDS, verdict_of
from approxmcmc.bounds.coupling import coupling_bound, geometric_majorant
from approxmcmc.bounds.delta import _judged
from approxmcmc.bounds.distance import (
    Distance,
    cells_of_states,
    frequencies,
    marginal_distances,
    total_variation_interval,
)
from approxmcmc.bounds.finite import LABELS, checked_matrix, grid_of_points, stationary_law
from approxmcmc.bounds.statements import NAMES, _ratio
from approxmcmc.contracts import Decision
from approxmcmc.contracts.records import TOUCHED
from approxmcmc.errors import IncompatibleError, InvalidInputError
from approxmcmc.plots.bound import _floor
from approxmcmc.samplers.metropolis_hastings import law
from approxmcmc.samplers.metropolis_hastings.law import _scales, ratio_and_scale
from approxmcmc.samplers.noisy.matrix import _pairs
from approxmcmc.targets.all_rows import AllRows
from tests.models import logistic, normal_mean
from tests.unit.samplers.test_gibbs import with_a_nan

T = np.array([[0.9, 0.1], [0.2, 0.8]])
field = amc.targets.BinaryMRF.random_triples


@pytest.mark.parametrize(
    ("matrix", "message"),
    [
        ([[0.9, 0.2], [0.2, 0.8]], "row 0 sums to 1.1"),
        ([[1.1, -0.1], [0.2, 0.8]], "negative"),
        ([[0.5, 0.5]], "square"),
        ([[np.nan, 1.0], [0.5, 0.5]], "NaN"),
        (np.eye(2), "reducible: 2 sets of states"),
        (np.eye(9), r"9 sets of states are never left \(they begin with \[0\], \[1\], \[2\]\)"),
    ],
)
def test_matrices_that_are_none_are_refused(matrix, message):
    with pytest.raises(InvalidInputError, match=message):
        bounds.exact(matrix, T)
    with pytest.raises(InvalidInputError):
        bounds.exact(T, matrix)


def test_matrices_of_different_states_are_refused():
    with pytest.raises(InvalidInputError, match="same states"):
        bounds.exact(T, np.full((3, 3), 1 / 3))


@pytest.mark.parametrize("n_points", [2, 64, 65, 150])
def test_modes_far_apart_keep_their_probabilities(n_points):
    """Two modes e^35 apart: a linear solve gives them shares that err by 0.4."""
    x = np.linspace(-1.5, 1.5, n_points)
    log_density = -35.0 * (x**2 - 1.0) ** 2 - 0.3 * (x > 0.0)
    up = np.diag(0.5 * np.exp(np.minimum(np.diff(log_density), 0.0)), 1)[:-1]
    down = np.diag(0.5 * np.exp(np.minimum(-np.diff(log_density), 0.0)), -1)[1:]
    matrix = np.zeros((n_points, n_points))
    matrix[:-1] += up
    matrix[1:] += down
    np.fill_diagonal(matrix, 1.0 - matrix.sum(axis=1))
    law = np.exp(log_density) / np.exp(log_density).sum()
    np.testing.assert_allclose(stationary_law(matrix), law, rtol=1e-11)


@pytest.mark.parametrize("scan", ["systematic", "random"])
def test_states_where_no_value_is_possible_leave_the_others_their_law(scan):
    """B follows from A = 0: in (0, 1, .) neither value of C is possible, and no chain comes there."""
    tables = {"A": [0.7, 0.3], "B": [[1.0, 0.0], [0.4, 0.6]], "C": [[[0.8, 0.2], [0.5, 0.5]], [[0.5, 0.5], [1.0, 0.0]]]}
    network = amc.targets.BayesianNetwork(tables, {"B": ("A",), "C": ("A", "B")})
    matrix = bounds.transition_matrix(network, amc.Gibbs(amc.ExactTest(), scan=scan))
    law = np.exp(network.log_joint.ravel())
    found = bounds.exact(matrix, matrix)
    np.testing.assert_allclose(found["stationary"], law / law.sum(), atol=1e-14)
    assert (found["stationary"].values[law == 0.0] == 0.0).all()


def test_a_site_whose_test_may_not_see_what_is_impossible_is_refused():
    target = with_a_nan(copies=2)
    target.groups[0].log_tables[0, 1, 1] = -math.inf
    with pytest.raises(IncompatibleError, match="positive probability, found 0"):
        bounds.transition_matrix(target, amc.Gibbs(amc.SequentialTTest(0.2, 2)))
    every, exact = (
        bounds.transition_matrix(target, amc.Gibbs(test)) for test in (amc.SequentialTTest(0.0, 2), amc.ExactTest())
    )
    np.testing.assert_allclose(every, exact, atol=1e-15)


def test_states_that_rounding_cuts_off_are_refused():
    matrix = np.array([[0.5, 0.0, 0.5], [0.0, 1.0, 1e-200], [1e-200, 1.0, 0.0]])  # from 1 to 0 with 1e-400
    with pytest.raises(InvalidInputError, match=r"state 1.*underflows"):
        stationary_law(matrix)


def test_the_factor_of_mitrophanov_covers_the_contractions():
    """sum_k min(1, C rho^k) with eta_0 = 1, also where C < 1 holds from the first step on."""
    for C in (0.01, 0.3, 1.0, 2.0, 7.0):
        for rho in (0.0, 0.1, 0.5, 0.9):
            summed = 1.0 + sum(min(1.0, C * rho**k) for k in range(1, 1000))
            assert summed <= bounds.mitrophanov_factor(C, rho) * (1.0 + 1e-12)


def test_a_chain_with_transient_states_has_a_stationary_law():
    absorbing = np.array([[0.5, 0.5, 0.0], [0.0, 0.9, 0.1], [0.0, 0.2, 0.8]])
    np.testing.assert_allclose(bounds.exact(absorbing, absorbing)["stationary"], [0.0, 2 / 3, 1 / 3], atol=1e-15)


def test_equal_matrices_have_bounds_of_zero():
    found = bounds.exact(T, T)
    assert float(found["tv"]) == float(found["b1"]) == 0.0
    assert math.isnan(float(found["looseness_b1"]))
    matrix = bounds.transition_matrix(field(4, 0.6, 0), amc.Gibbs())
    assert float(bounds.exact(matrix, matrix)["delta_max"]) == 0.0


def test_given_constants_make_one_bound_heuristic():
    found = bounds.exact(T, [[0.88, 0.12], [0.2, 0.8]], constants=(2.0, 0.7))
    assert [found[f"label_{name}"].item() for name in NAMES] == ["rigorous"] * 4 + ["heuristic"]
    assert float(found["b5"]) == pytest.approx(0.02 * bounds.mitrophanov_factor(2.0, 0.7))


def test_a_periodic_chain_has_no_bound():
    flip = np.array([[0.0, 1.0], [1.0, 0.0]])
    found = bounds.exact(flip, T)
    assert {found[f"label_{name}"].item() for name in NAMES} == {"not applicable"}
    assert all(math.isnan(float(found[name])) for name in NAMES)


def test_every_bound_carries_a_label_and_a_looseness():
    found = bounds.exact(T, [[0.5, 0.5], [0.2, 0.8]], delta_max=0.5, n_decisions=3)
    named = [name for name in found.data_vars if str(name).startswith("b")]
    assert len(named) == 9
    for name in named:
        assert found[f"label_{name}"].item() in LABELS
        assert float(found[f"looseness_{name}"]) == pytest.approx(float(found[name] / found["tv"]))
        assert found[name].attrs["long_name"]
        assert (float(found[name]) >= 1.0) == (found[f"label_{name}"].item() == "vacuous")
    assert float(found["b1_delta_max"]) == pytest.approx(3 * 0.5 / 0.3)


def test_proposals_on_a_grid_are_symmetric_and_mass_off_the_grid_is_lost():
    target, grid = logistic(50, 2), np.random.default_rng(0).normal(size=(20, 2))
    chance = amc.RandomWalk(np.array([[1.0, 0.5], [0.5, 2.0]])).probabilities(target, grid)
    np.testing.assert_allclose(chance, chance.T)
    assert chance.sum(axis=1).max() <= 1.0 and not chance.diagonal().any()
    step = grid[1] - grid[0]
    ratio = math.exp(-0.5 * step @ np.linalg.inv([[1.0, 0.5], [0.5, 2.0]]) @ step)
    other = grid[2] - grid[0]
    assert chance[0, 1] / chance[0, 2] == pytest.approx(
        ratio / math.exp(-0.5 * other @ np.linalg.inv([[1.0, 0.5], [0.5, 2.0]]) @ other)
    )


def test_a_site_is_proposed_and_then_another_of_its_values():
    """Half for each of two sites, of two and of three values; one of them is decided about, and no other pair."""
    network = amc.targets.BayesianNetwork({"A": [0.7, 0.3], "B": [[0.5, 0.3, 0.2], [0.2, 0.3, 0.5]]}, {"B": ("A",)})
    chance = amc.proposals.SingleSite().probabilities(network, grid_of_points(network, None))
    assert chance[0].tolist() == [0.0, 0.25, 0.25, 0.5, 0.0, 0.0]
    np.testing.assert_allclose(chance.sum(axis=1), 1.0, rtol=1e-15)
    matrix = bounds.transition_matrix(network, amc.MetropolisHastings(amc.proposals.SingleSite(), amc.ExactTest()))
    np.testing.assert_array_equal(np.isnan(matrix["decision"]), chance == 0.0)


def test_a_sweep_of_one_site_draws_from_its_law():
    matrix = bounds.transition_matrix(amc.targets.BayesianNetwork({"A": [0.7, 0.3]}, {}), amc.Gibbs())
    np.testing.assert_allclose(matrix, [[0.7, 0.3], [0.7, 0.3]], rtol=1e-15)
    assert matrix.attrs["n_decisions"] == 1


def test_a_sweep_of_two_sites_draws_one_after_the_other():
    network = amc.targets.BayesianNetwork({"A": [0.7, 0.3], "B": [[0.9, 0.1], [0.2, 0.8]]}, {"B": ("A",)})
    sweep, first, second = (bounds.transition_matrix(network, amc.Gibbs(), site=site) for site in (None, 0, 1))
    np.testing.assert_allclose(sweep, first.values @ second.values, rtol=1e-14)
    np.testing.assert_allclose(first.values[0], [0.63 / 0.69, 0.0, 0.06 / 0.69, 0.0], rtol=1e-14)
    assert np.isnan(np.diagonal(sweep["decision"])).all()


def test_what_has_no_matrix_is_refused_and_says_why():
    walk = amc.MetropolisHastings(amc.RandomWalk(0.1), amc.ExactTest())
    with pytest.raises(InvalidInputError, match="grid of points"):
        bounds.transition_matrix(logistic(), walk)
    with pytest.raises(InvalidInputError, match="not available"):
        bounds.transition_matrix(field(20, 0.1, 0), amc.Gibbs())
    with pytest.raises(InvalidInputError, match="shape"):
        bounds.transition_matrix(logistic(), walk, np.zeros((5, 2)))
    with pytest.raises(IncompatibleError, match="real numbers"):
        bounds.transition_matrix(field(5, 0.1, 0), walk)
    adapting = amc.MetropolisHastings(amc.RandomWalk(0.1, target_acceptance=0.3), amc.ExactTest())
    with pytest.raises(IncompatibleError, match="must not adapt"):
        bounds.transition_matrix(normal_mean(), adapting, np.linspace(-1, 1, 5))
    other = amc.MetropolisHastings(amc.RandomWalk(0.1), amc.acceptance.BernsteinTest())
    with pytest.raises(IncompatibleError, match="closed form"):
        bounds.transition_matrix(normal_mean(1000), other, np.linspace(-1, 1, 5))


def test_epsilon_zero_is_the_exact_matrix():
    target = field(5, 0.3, 0)
    for sampler in (amc.Gibbs, lambda test: amc.MetropolisHastings(amc.proposals.SingleSite(), test)):
        exact, zero = (
            bounds.transition_matrix(target, sampler(test)) for test in (amc.ExactTest(), amc.SequentialTTest(0.0, 3))
        )
        np.testing.assert_allclose(zero, exact, atol=1e-13)


LATTICE = amc.targets.Ising(np.array([[1, 1, 1], [1, -1, 1], [1, 1, 1]]), prior_bounds=(-0.4, 0.8))
GRID = np.linspace(-0.4, 0.8, 13)


@pytest.mark.parametrize(("count", "label"), [(1, "rigorous"), (2, "rigorous"), (3, "one-sided"), (50, "one-sided")])
def test_the_label_of_a_lattice_says_that_it_is_one_sided(count, label):
    matrix = bounds.transition_matrix(LATTICE, amc.Exchange(amc.RandomWalk(0.3), count), GRID)
    assert matrix.attrs["label"] == label
    assert (matrix.attrs["acceptance_error"] > 0.0) == (label == "one-sided")
    exact = bounds.transition_matrix(LATTICE, amc.MetropolisHastings(amc.RandomWalk(0.3), amc.ExactTest()), GRID)
    assert (exact.attrs["method"], exact.attrs["label"]) == ("closed form", "rigorous")
    assert bounds.exact(exact, matrix).attrs["label_matrices"] == label
    assert bounds.exact(exact.to_numpy(), matrix).attrs["label_matrices"] == "as given"


def test_a_check_of_noisy_exchange_calls_the_truth_of_a_lattice_heuristic():
    walk = amc.RandomWalk(0.3)
    check = amc.check_bound(
        LATTICE, {n: amc.Exchange(walk, n) for n in (1, 2, 5, 400)}, knob="n_auxiliary", grid=GRID, progressbar=False
    )
    labels = check["label"].to_dataframe()["label"].unstack()
    assert check["label_tv"].values.tolist() == ["rigorous", "rigorous", "heuristic", "heuristic"]
    assert labels.loc[400, "b4"] == "heuristic" and labels.loc[400, "b3"] == "rigorous"
    assert set(labels.loc[2]) <= {"rigorous", "vacuous"}
    assert check["label_delta_max"].values.tolist() == ["rigorous"] * 4
    assert "FAIL" not in check["verdict"].values
    assert bounds.check_table(check).columns[0] == "n_auxiliary"
    drawn = amc.plot_bound(check, backend="none")
    assert {"bound", "distance", "interval"} <= set(drawn.viz.children)


def test_what_has_no_law_on_a_doubly_intractable_target_is_refused():
    walk = amc.RandomWalk(0.3)
    with pytest.raises(IncompatibleError, match='use auxiliary="exact"'):
        bounds.transition_matrix(LATTICE, amc.Exchange(walk, auxiliary=amc.Auxiliary(10, "observed")), GRID)
    with pytest.raises(IncompatibleError, match="nothing to subsample"):
        bounds.transition_matrix(LATTICE, amc.MetropolisHastings(walk, amc.SequentialTTest(0.1, 2)), GRID)
    with pytest.raises(IncompatibleError, match="give grid="):
        amc.check_bound(LATTICE, {1: amc.Exchange(walk)}, knob="n_auxiliary")


# --- any knob ---


@pytest.mark.parametrize(
    ("knob", "sampler"),
    [
        ("batch_size", lambda n: amc.Gibbs(amc.SequentialTTest(0.2, n))),
        ("batch_size", lambda n: amc.MetropolisHastings(amc.proposals.SingleSite(), amc.SequentialTTest(0.2, n))),
        ("target_variance", lambda n: amc.Gibbs(amc.acceptance.MinibatchBarker(0.2 * n, batch_size=2))),
        (
            "target_variance",
            lambda n: amc.MetropolisHastings(amc.proposals.SingleSite(), amc.acceptance.MinibatchBarker(0.2 * n, 2)),
        ),
    ],
    ids=["batch, gibbs", "batch, metropolis", "variance, gibbs", "variance, metropolis"],
)
def test_any_knob_can_be_checked(knob, sampler):
    """The check says of each sampler what `exact` says of its matrix and of its exact limit."""
    target, rule = field(4, 0.6, 0), "barker" if knob == "target_variance" else "metropolis"
    settings = {n: sampler(n) for n in (2, 3, 4)}
    check = amc.check_bound(target, settings, knob=knob, draws=0, progressbar=False)
    one = settings[2]
    exact = amc.Gibbs() if isinstance(one, amc.Gibbs) else amc.MetropolisHastings(one.proposal, amc.ExactTest(rule))
    T = bounds.transition_matrix(target, exact)
    for value, each in settings.items():
        found = bounds.exact(T, bounds.transition_matrix(target, each))
        for name in ("tv", "delta", "delta_max"):
            assert float(check[name].sel({knob: value})) == float(found[name])
        assert float(check["value"].sel({knob: value, "bound": "b3"})) == float(found["b3"])
        np.testing.assert_array_equal(check["eta"], found["eta"])
    assert float(check["tv"].max()) > 1e-4
    assert check.attrs["knob"] == knob


def test_one_sampler_at_epsilons_is_a_dict_of_samplers():
    target, sampler = field(4, 0.6, 0), amc.Gibbs(amc.SequentialTTest(0.1, 2))
    settings = {e: amc.Gibbs(amc.SequentialTTest(e, 2)) for e in (0.0, 0.2)}
    one, many = (
        amc.check_bound(target, *given, draws=0, progressbar=False, random_seed=1, **more).dataset.drop_attrs()
        for given, more in (((sampler,), {"epsilons": [0.0, 0.2]}), ((settings,), {}))
    )
    assert one.identical(many)


def test_settings_that_do_not_belong_together_are_refused():
    target = field(4, 0.6, 0)
    with pytest.raises(IncompatibleError, match=r"the same exact chain, found .*'systematic'.* and .*'random'"):
        amc.check_bound(target, {1: amc.Gibbs(), 2: amc.Gibbs(scan="random")}, knob="scan")
    with pytest.raises(IncompatibleError, match="temperature"):
        amc.check_bound(target, {1: amc.Gibbs(amc.acceptance.MinibatchBarker(1.0, 2, temperature=2.0))}, knob="x")
    with pytest.raises(IncompatibleError, match="no exact twin of NoisyLangevin"):
        amc.check_bound(target, {1: amc.samplers.NoisyLangevin(0.1)}, knob="x")
    with pytest.raises(InvalidInputError, match="leave `epsilons` out"):
        amc.check_bound(target, {1: amc.Gibbs()}, epsilons=[0.1])
    with pytest.raises(InvalidInputError, match="finite numbers"):
        amc.check_bound(target, {"a": amc.Gibbs()}, knob="x")
    with pytest.raises(InvalidInputError, match="at least one sampler"):
        amc.check_bound(target, {}, knob="x")


# --- verdicts ---


def test_verdicts_follow_from_limits():
    distance = Distance(0.2, 0.1, 0.3, 0.05)
    assert verdict_of(distance, 0.3) == "PASS"
    assert verdict_of(distance, 0.25) == verdict_of(distance, 0.1) == "INCONCLUSIVE"
    assert verdict_of(distance, 0.09) == "FAIL"
    assert verdict_of(distance, math.nan) == "no bound"
    assert verdict_of(Distance(*[math.nan] * 4), 0.1) == "INCONCLUSIVE"


def test_a_random_walk_on_the_reals_has_no_bound():
    check = amc.check_bound(
        normal_mean(200), amc.MetropolisHastings(amc.RandomWalk(0.2), amc.SequentialTTest(0.1, 20)),
        epsilons=[0.0, 0.1], n_pairs=5, replications=50, random_seed=1, progressbar=False,
    )  # fmt: skip
    for name in ("b1", "b2", "b3", "b4"):
        assert (check["verdict"].sel(bound=name) == "no bound").all()
        assert (check["label"].sel(bound=name) == "not applicable").all()
        assert check["value"].sel(bound=name).isnull().all()
    assert "posterior" not in check.children  # reference=None: no chain to compare is run, and no NUTS
    assert check["label_delta_max"].values.tolist() == ["rigorous", "heuristic"]
    table = bounds.check_table(check)
    assert len(table) == 2 * len(BOUNDS)
    assert table["label"].isin(LABELS).all()


@pytest.mark.recompiles
@pytest.mark.needs_jit
def test_heuristic_constants_give_a_heuristic_bound():
    target, sampler = normal_mean(200), amc.MetropolisHastings(amc.RandomWalk(0.2), amc.SequentialTTest(0.1, 20))
    coupled = bounds.couplings(target, sampler, lag=20, n_couplings=30, random_seed=1, progressbar=False)
    check = amc.check_bound(
        target, sampler, epsilons=[0.1], coupled=coupled, n_pairs=5, replications=400, random_seed=1,
        progressbar=False,
    )  # fmt: skip
    bound, label = (check[name].sel(bound="b5_delta_max").item() for name in ("value", "label"))
    assert bound == pytest.approx(float(coupled["b5_factor"]) * float(check["delta_max"][0]))
    assert label in ("heuristic", "vacuous")
    assert (check["verdict"].sel(bound=["b1", "b4"]) == "no bound").all()


@pytest.mark.needs_jit
def test_a_small_field_is_checked_against_its_enumerated_law():
    sampler = amc.Gibbs(amc.SequentialTTest(0.1, 2))
    check = amc.check_bound(
        field(5, 0.3, 0), sampler, epsilons=[0.0, 0.2], draws=4000, chains=2, random_seed=1, progressbar=False
    )
    assert check["posterior"].sizes["epsilon"] == 2
    assert (check["distance_lower"] <= check["distance_upper"]).all()
    assert "FAIL" not in check["verdict"].values
    assert check["verdict"].sel(epsilon=0.2, bound="b1").item() == "PASS"
    assert float(check["tv"].sel(epsilon=0.0)) == 0.0


def test_checks_refuse_samplers_without_epsilon():
    with pytest.raises(IncompatibleError, match="varies the epsilon"):
        amc.check_bound(normal_mean(), amc.MetropolisHastings(amc.RandomWalk(0.1), amc.ExactTest()), epsilons=[0.1])
    with pytest.raises(InvalidInputError, match="at least one epsilon"):
        amc.check_bound(field(5, 0.1, 0), amc.Gibbs(amc.SequentialTTest(0.1, 3)), epsilons=[])


# --- distances ---


def test_the_interval_of_total_variation_covers_and_sees_the_planted_factor_of_two():
    """Independent draws from a law at known distance; half the distance, and twice it, lie outside."""
    rng = np.random.default_rng(0)
    law, other = np.full(8, 1 / 8), np.array([0.2, 0.2, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1])
    cells = rng.choice(8, size=(8, 20_000), p=other)
    found = total_variation_interval(frequencies(cells, 8), law)
    truth = 0.5 * np.abs(law - other).sum()
    assert found.lower < truth < found.upper
    assert not found.lower < 2 * truth < found.upper
    assert not found.lower < truth / 2 < found.upper
    right = total_variation_interval(frequencies(rng.choice(8, size=(8, 20_000)), 8), law)
    assert right.lower < 1e-3
    assert right.estimate < 3 * right.floor


def test_states_are_numbered_with_the_last_site_fastest():
    states = np.array([[[0, 0, 0], [0, 0, 1], [0, 2, 0], [1, 0, 0]]], dtype=float)
    assert cells_of_states(states, [2, 3, 2]).tolist() == [[0, 1, 4, 6]]


# --- replicated decisions and couplings ---


@pytest.mark.needs_jit
def test_replicated_decisions_carry_labels_and_costs():
    sampler = amc.MetropolisHastings(amc.RandomWalk(0.1), amc.SequentialTTest(0.2, 20))
    settings = {"n_pairs": 6, "replications": 100, "random_seed": 3, "progressbar": False}
    found = bounds.estimate_delta(normal_mean(200), sampler, tune=50, **settings)
    assert found["label_delta_sampled"].item() == "rigorous"
    assert found["label_delta_quantile"].item() == found["label_delta_max"].item() == "heuristic"
    assert float(found["delta_sampled"]) == float(np.abs(found[["error_lower", "error_upper"]].to_array()).max())
    assert 6 * 100 * 20 <= found.attrs["datapoints_touched"] <= 6 * 100 * 200
    again = bounds.estimate_delta(normal_mean(200), sampler, tune=50, **settings)
    assert found["accepted"].equals(again["accepted"])
    independent = bounds.estimate_delta(normal_mean(200), sampler, states=np.zeros((6, 1)), **settings)
    assert independent["label_delta_quantile"].item() == "rigorous"
    assert independent["label_delta_max"].item() == "heuristic"


@pytest.mark.parametrize("law", ["replicated", "traces"])
def test_chains_start_where_the_proposal_says(law):
    """The posterior has no mass where the target would start: without the proposal's start no chain begins."""
    rng = np.random.default_rng(0)
    x = rng.normal(50.0, 1.0, size=50)

    def loglik(theta, data, i):
        return -0.5 * (data[0][i] - theta[0]) ** 2

    def logprior(theta):
        return 0.0 if theta[0] > 40.0 else -math.inf

    target = amc.FunctionTarget(loglik, logprior, data=x, n_obs=50, dim=1)
    sampler = amc.MetropolisHastings(amc.Independence([50.0], cov=[0.2]), amc.SequentialTTest(0.1, 20))
    settings = {"random_seed": 1, "progressbar": False}
    if law == "replicated":
        found = bounds.estimate_delta(target, sampler, n_pairs=2, replications=10, tune=2, **settings)
        assert np.isfinite(found["log_ratio"]).all()
    else:
        reference = {"posterior": xr.Dataset({"theta": (("chain", "draw", "d"), rng.normal(50.0, 0.2, (2, 9, 1)))})}
        found = amc.check_bound(
            target, sampler, epsilons=[0.1], reference=reference, draws=20, tune=2, chains=1, n_pairs=0, **settings
        )
        assert float(found["posterior"]["theta"].min()) > 40.0


def on_the_unit_interval(x):
    """Return the mean of some data, which the prior leaves in (0, 1)."""

    def loglik(theta, data, i):
        return -0.5 * (data[0][i] - theta[0]) ** 2

    def logprior(theta):
        return 0.0 if 0.0 < theta[0] < 1.0 else -math.inf

    return amc.FunctionTarget(loglik, logprior, data=x, n_obs=len(x), dim=1, initial_point=[0.5])


@pytest.mark.parametrize("test", [amc.ExactTest(), amc.SequentialTTest(0.2, 2)], ids=["exact", "enumerated"])
def test_no_matrix_leads_out_of_the_support(test):
    sampler = amc.MetropolisHastings(amc.RandomWalk(0.5), test)
    grid = np.linspace(-0.5, 1.5, 9)
    matrix = bounds.transition_matrix(on_the_unit_interval(np.linspace(0.0, 1.0, 5)), sampler, grid)
    assert matrix.attrs["method"] == ("closed form" if test.reads_all(5) else "enumerate")
    inside = (grid > 0.0) & (grid < 1.0)
    assert not matrix.values[inside][:, ~inside].any() and (matrix.values[~inside][:, inside] > 0.0).all()
    np.testing.assert_allclose(matrix.sum("next_state"), 1.0)
    assert matrix.attrs["acceptance_error"] == 0.0


def test_equal_terms_are_decided_about():
    """tau = 0, and no error: what raises the density is always accepted."""
    sampler = amc.MetropolisHastings(amc.RandomWalk(0.1), amc.SequentialTTest(0.1, 5))
    settings = {"n_pairs": 8, "replications": 10, "random_seed": 1, "progressbar": False}
    found = bounds.estimate_delta(
        on_the_unit_interval(np.full(16, 0.5)), sampler, states=np.full((8, 1), 0.3), **settings
    )
    up = found["log_ratio"].values > 0.0
    assert not found["tau"].values.any() and 2 < up.sum() < 8
    assert (found["accepted"].values[up] == 10).all()


def test_a_proposal_outside_the_support_is_never_decided_wrongly():
    target = on_the_unit_interval(np.linspace(0.0, 1.0, 20))
    sampler = amc.MetropolisHastings(amc.RandomWalk(1e9), amc.SequentialTTest(0.1, 5))
    settings = {"n_pairs": 4, "replications": 10, "random_seed": 1, "progressbar": False}
    found = bounds.estimate_delta(target, sampler, states=np.full((4, 1), 0.5), **settings)
    assert (found["log_ratio"] == -math.inf).all()
    for name in ("exact", "accepted", "error_lower", "error_upper", "delta_sampled"):
        assert not found[name].values.any()


def test_replicated_sites_are_random_and_decided_anew_in_every_run():
    """Forty times one state: all log odds of its four sites, and at one site other decisions with another seed."""
    target, state = field(4, 0.6, 0), np.array([0.0, 1.0, 1.0, 0.0])
    one, other = (
        bounds.estimate_delta(
            target, amc.Gibbs(amc.SequentialTTest(0.2, 2)), states=np.tile(state, (40, 1)), n_pairs=40,
            replications=30, random_seed=seed, progressbar=False,
        )
        for seed in (1, 2)
    )  # fmt: skip
    laws = [target.conditional(state[None], site)[0] for site in range(4)]
    odds = np.round(sorted(math.log(law[1] / law[0]) for law in laws), 9)
    assert len(set(odds)) == 4
    for found in (one, other):
        np.testing.assert_array_equal(np.unique(np.round(found["log_ratio"], 9)), odds)
        assert found.attrs["likelihood_evaluations_exact"] == 2 * 40 * 3  # each site is in three triples
    same = (one["log_ratio"] == other["log_ratio"]).values
    assert same.sum() > 3 and (one["accepted"] != other["accepted"]).values[same].any()


def test_bad_numbers_are_refused():
    sampler = amc.MetropolisHastings(amc.RandomWalk(0.1), amc.SequentialTTest(0.2, 20))
    for wrong in ({"n_pairs": 0}, {"replications": 0.5}, {"confidence": 1.0}, {"share": 0.0}):
        with pytest.raises(InvalidInputError, match=next(iter(wrong))):
            bounds.estimate_delta(normal_mean(), sampler, **wrong)
    with pytest.raises(InvalidInputError, match="lag"):
        bounds.couplings(T, lag=0)
    with pytest.raises(InvalidInputError, match="max_steps must be an integer >= 6"):
        bounds.couplings(T, lag=5, max_steps=5)
    with pytest.raises(InvalidInputError, match=r"initvals must be a state 0 \.\.\. 1, found 2"):
        bounds.couplings(T, lag=1, initvals=2)
    target = amc.targets.LogisticRegression(np.ones((20, 1)), np.arange(20) % 2)
    guided = amc.MetropolisHastings(amc.proposals.StochasticGradientHamiltonian(0.1, batch_size=5), amc.ExactTest())
    with pytest.raises(IncompatibleError, match="coupl"):
        bounds.couplings(target, guided, lag=2)
    with pytest.raises(InvalidInputError, match="mitrophanov"):
        bounds.mitrophanov_factor(1.0, 1.0)


def test_couplings_that_do_not_meet_give_no_constants():
    found = bounds.couplings(
        T * 0.001 + 0.999 * np.eye(2), lag=1, n_couplings=20, max_steps=3, initvals=None, random_seed=0,
        progressbar=False,
    )  # fmt: skip
    assert found.attrs["unmet"] > 0
    assert found.attrs["label"] == found["label_constants"].item() == "not applicable"
    assert math.isnan(float(found["b5_factor"]))


def test_plot_bound_draws_what_exists():
    check = amc.check_bound(
        field(4, 0.3, 0), amc.Gibbs(amc.SequentialTTest(0.1, 2)), epsilons=[0.0, 0.1], draws=0, progressbar=False
    )
    drawn = amc.plot_bound(check, backend="none")
    assert {"bound", "distance", "interval"} <= set(drawn.viz.children)
    with pytest.raises(InvalidInputError, match="a result of check_bound"):
        amc.plot_bound(check["verdict"].to_dataset(name="x"))
    with pytest.raises(InvalidInputError, match="knows the bounds"):
        amc.plot_bound(check, var_names=["b9"], backend="none")


def test_an_interval_that_reaches_zero_does_not_stretch_the_axis():
    """Decades below all that is measured say nothing: such an interval ends a decade below."""
    found = [xr.DataArray([0.0, 0.2]), xr.DataArray([0.05, 0.3]), xr.DataArray([np.nan, 0.4])]
    assert _floor(*found) == pytest.approx(0.005)
    assert _floor(xr.DataArray([0.0])) == 1e-6


FREE = types.SimpleNamespace(n_states=np.full(5, 2), n_obs=10_000)  # all that is asked of a target here


def test_the_scale_of_a_pair_is_that_of_its_terms():
    differences = np.array([[1.0, 2.0, 3.0, 6.0, 8.0], [0.0, 0.0, 0.0, 0.0, 5.0]])
    expected = [math.sqrt(5.0 * 34.0 / 4.0), math.sqrt(5.0 * 20.0 / 4.0)]
    np.testing.assert_allclose(scales(differences), expected, rtol=1e-14)


def test_the_ratio_of_a_pair_is_that_of_prior_terms_and_proposal():
    """Terms at a temperature of 2, under the prior N(1, 1/4)."""
    target, here, there = normal_mean(30), 0.3, -0.1
    terms = (0.5 * (target.data[0] - here) ** 2 - 0.5 * (target.data[0] - there) ** 2) / 2.0
    found = ratio_and_scale(AllRows(target), np.array([here]), np.array([there]), 0.7, 2.0)
    prior = 2.0 * (here - 1.0) ** 2 - 2.0 * (there - 1.0) ** 2
    assert found == pytest.approx((prior + 0.7 + terms.sum(), math.sqrt(30.0) * terms.std(ddof=1)), rel=1e-12)


def test_without_draws_or_without_a_reference_the_matrices_say_the_distance():
    trace = xr.DataTree.from_dict({"posterior": xr.Dataset({"theta": (("chain", "draw"), np.zeros((2, 9)))})})
    for given, reference in ((trace, None), (None, trace), (None, None)):
        found = measured_distance(FREE, given, reference, {"tv": 0.3}, False, 0.95)
        assert found["source"] == "stationary distributions of the matrices" and found["distance"].estimate == 0.3
        assert "none" in measured_distance(FREE, given, reference, {"tv": math.nan}, False, 0.95)["source"]


def test_the_scales_of_all_pairs_are_those_of_each():
    terms = np.random.default_rng(1).normal(size=(5, 7)) + 3.0 * np.arange(5)[:, None]
    expected = [scales(terms - here) for here in terms]
    np.testing.assert_allclose(_scales(terms), expected, rtol=1e-12)


def test_visited_states_are_every_so_many_steps_apart(monkeypatch):
    """A chain whose state is the number of its steps, advanced by at most four at a time."""
    chain = types.SimpleNamespace(steps=0.0)

    def advance(n, thin, draws, counts, values):
        assert n * thin <= 4
        draws[:, 0] = chain.steps + thin * np.arange(1, n + 1)
        chain.steps = draws[-1, 0]
        return n

    chain.advance = advance
    monkeypatch.setattr(delta, "MOST_STEPS", 4)
    visited = delta.visited_states(chain, tune=7, n_draws=5, thin=2, dim=1)
    assert visited.tolist() == [[9.0], [11.0], [13.0], [15.0], [17.0]]


def test_decisions_are_those_that_begin_at_the_pair(monkeypatch):
    """Accepted, back again, rejected, accepted, in calls of two steps: three decisions, which read 1 + 3 + 4 data."""
    here, steps = np.zeros(1), iter([(1.0, 1), (0.0, 2), (0.0, 3), (1.0, 4)])

    def advance(n, thin, draws, counts, values):
        for k in range(n):
            draws[k, 0], counts[k, TOUCHED] = next(steps)
        return n

    monkeypatch.setattr(law, "MOST_STEPS", 2)
    assert law._decide(types.SimpleNamespace(advance=advance), here, 3) == (2, 8)


def test_always_accepting_errs_by_what_is_rejected_and_a_t_test_as_the_recursion_says():
    found = delta._probabilities(amc.acceptance.AlwaysAccept(), Decision(-1.0, 2.0, 30, "metropolis", 7, 0))
    assert found == pytest.approx((math.exp(-1.0), 7, 1.0 - math.exp(-1.0)))
    by_recursion = acceptance_probability_error(-1.0, 2.0, epsilon=0.1, batch_size=5, n_obs=30)["error"]
    found = delta._probabilities(amc.SequentialTTest(0.1, 5), Decision(-1.0, 2.0, 30, "metropolis", 7, 0))
    assert found == pytest.approx((math.exp(-1.0), 7, float(by_recursion)))


def test_at_a_temperature_of_two_the_terms_are_halves(rng):
    terms, rest = rng.normal(size=(5, 8)), rng.normal(size=5)
    warm, cold = (amc.acceptance.MinibatchBarker(1.0, 4, temperature=temperature) for temperature in (2.0, 1.0))
    found = [acceptance_probability(test, each, rest) for test, each in ((warm, terms), (cold, 0.5 * terms))]
    np.testing.assert_array_equal(found[0][0], found[1][0])


@pytest.mark.parametrize(
    ("sampler", "n_pairs", "delta_max", "bound"),
    [
        (amc.MetropolisHastings(amc.RandomWalk(0.1), amc.SequentialTTest()), 7, 0.2, 0.6),
        (amc.Gibbs(amc.SequentialTTest(0.1, 5)), 7, 0.2, 3.0),  # five decisions in a sweep
        (amc.MetropolisHastings(amc.RandomWalk(0.1), amc.SequentialTTest()), 0, math.nan, math.nan),
        (amc.MetropolisHastings(amc.RandomWalk(0.1), amc.ExactTest()), 7, 0.0, 0.0),
    ],
    ids=["test", "Gibbs", "no pairs", "exact"],
)
def test_a_bound_from_decisions_is_a_factor_for_each_of_them(sampler, n_pairs, delta_max, bound, monkeypatch):
    monkeypatch.setattr(check, "estimate_delta", lambda *_, n_pairs, **__: {"delta_max": 0.2})
    found = check._from_decisions(FREE, sampler, {"b5_factor": 3.0}, n_pairs, 10, 0, False)
    assert found["delta_max"] == pytest.approx(delta_max, nan_ok=True)
    assert found["values"]["b5_delta_max"] == pytest.approx(bound, nan_ok=True)
    without = check._from_decisions(FREE, sampler, None, n_pairs, 10, 0, False)
    assert math.isnan(without["values"]["b5_delta_max"])


def test_a_bound_is_held_against_the_truth_or_a_distance_that_is_no_noise():
    """0.6 is twice the 0.3 of matrices, three times the 0.2 of draws; an interval from 0 on is nothing to divide by.

    Matrices of a heuristic regime give way to the draws whose interval excludes what they say.
    """
    nothing = dict.fromkeys(("wasserstein", "wasserstein_floor", "delta", "delta_max"), math.nan)
    nothing |= {"label_tv": "", "label_delta_max": "", "labels": {}, "values": {"b1": 0.6}}
    rows = [
        nothing | {"tv": tv, "distance": Distance(0.2, lower, 0.3, 0.05)}
        for tv, lower in ((0.3, 0.1), (math.nan, 0.1), (math.nan, 0.0))
    ]
    rows += [rows[0] | {"tv": tv, "label_tv": "heuristic"} for tv in (0.06, 0.15)]
    found = check._root(rows, [1, 2, 3, 4, 5], "knob")
    np.testing.assert_allclose(found["looseness"].sel(bound="b1"), [2.0, 3.0, math.nan, 3.0, 4.0])


def test_the_errors_of_pairs_have_the_mean_that_they_have():
    """Errors 0.1, 0.3 and 0.2: mean 0.2 with standard deviation 0.1, 1.96 standard errors on either side."""
    table = {"log_ratio": [0.0] * 3, "tau": [1.0] * 3, "exact": [0.4, 0.2, 0.7], "accepted": [50, 50, 50]}
    found = _judged(table | {"error_model": [math.nan] * 3}, 100, 0.95, 0.1, independent=True)
    assert float(found["mean_error"]) == pytest.approx(0.2)
    spread = 0.1 * 1.96 / math.sqrt(3.0)
    np.testing.assert_allclose(found["mean_error_interval"], [0.2 - spread, 0.2 + spread])
    assert found["label_delta_max_model"].item() == "not applicable"
    known = _judged(table | {"error_model": [0.1, math.nan, -0.2]}, 100, 0.95, 0.1, independent=True)
    assert (float(known["delta_max_model"]), known["label_delta_max_model"].item()) == (0.2, "heuristic")
    hoeffding = math.sqrt(math.log(1.0 / 0.05) / (2.0 * 3.0))
    assert float(found["mean_error_upper"]) == pytest.approx(0.2 + hoeffding)


def test_limits_of_two_coordinates_share_the_level():
    rng = np.random.default_rng(1)
    draws, reference = rng.normal(0.5, size=(4, 400, 1)), rng.normal(size=(4, 400, 1))
    one = marginal_distances(draws, reference, 0.95)
    assert 0.0 < one[0].lower < one[0].estimate < one[0].upper < 1.0
    assert marginal_distances(np.tile(draws, 2), np.tile(reference, 2), 0.9) == one


@pytest.mark.parametrize(("times", "last"), [([4, 4], 1), ([3, 3], 1), ([4, 9], 6)])
def test_a_bound_by_couplings_is_followed_until_it_is_zero(times, last):
    found = coupling_bound(times, 3)
    assert found["time"].values[-1] == last and found["tv_bound"].values[-1] == 0.0
    assert found.attrs["label"] == "upper bound in expectation"


@pytest.mark.parametrize(
    ("bound", "truth", "looseness"),
    [(0.3, 0.1, 3.0), (0.3, 0.0, math.inf), (0.0, 0.0, math.nan), (math.nan, 0.0, math.nan)],
)
def test_the_looseness_of_a_bound(bound, truth, looseness):
    assert _ratio(bound, truth) == pytest.approx(looseness, nan_ok=True)


def test_couplings_that_have_all_met_give_constants():
    found = coupling_bound(np.arange(4, 40), 3)
    assert found["label_constants"].item() == "heuristic"
    assert float(found["b5_factor"]) == pytest.approx(
        amc.bounds.mitrophanov_factor(float(found["C"]), float(found["rho"]))
    )
    assert math.isnan(coupling_bound(np.arange(4, 40), 3, max_steps=38)["b5_factor"])


def test_an_interval_of_total_variation_needs_four_batches_and_ends_at_one():
    law, batches = np.array([1.0, 0.0]), np.array([[[1.0, 0.0]], [[0.0, 1.0]]] * 2)
    found = total_variation_interval(batches, law)
    assert found.estimate == 0.5 and found.upper == 1.0
    with pytest.raises(InvalidInputError, match="at least 4 batches"):
        total_variation_interval(batches[:3].reshape(1, 3, 2), law)


def test_only_a_bound_that_falls_has_a_geometric_majorant():
    times = np.arange(5)
    C, rho = geometric_majorant(times, 0.3 * 0.5**times)
    assert (C, rho) == pytest.approx((0.6, 0.5))  # of the norm, twice the distance
    for bound in (np.full(5, 0.3), 0.1 * 1.2**times, np.array([0.5, 0.1, 0.0, 0.0, 0.0])):
        assert np.isnan(geometric_majorant(times, bound)).all()


def test_the_worst_row_is_named():
    with pytest.raises(InvalidInputError, match="row 2"):
        checked_matrix([[0.5, 0.5, 0.0], [0.5, 0.5, 0.3], [0.2, 0.1, 0.1]], "P")


def test_pairs_are_those_that_are_wanted_and_possible_and_differ():
    model = types.SimpleNamespace(points=range(3), log_prior=np.array([0.0, -math.inf, -1.0]))
    assert [each.tolist() for each in _pairs(model, None)] == [[0, 2], [2, 0]]
    wanted = np.array([[True, True, True], [True, True, True], [False, False, True]])
    assert [each.tolist() for each in _pairs(model, wanted)] == [[0], [2]]


def test_a_constant_of_total_variation_is_half_that_of_the_norm():
    factor = amc.bounds.mitrophanov_factor
    for C, rho in ((0.7, 0.9), (3.0, 0.4)):
        assert factor(C, rho, distance="tv") == factor(2.0 * C, rho) > factor(C, rho)
