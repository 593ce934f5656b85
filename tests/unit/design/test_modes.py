"""Modes that all chains would miss together: found from far starts or told; and no alarm where there is one mode."""

import json
import math
import warnings

import numpy as np
import pytest

import approxmcmc as amc
from approxmcmc.contracts import Variables
from approxmcmc.design.candidates import Pairing
from approxmcmc.design.modes import (
    STEPS,
    OtherMode,
    Search,
    _level,
    _reaches,
    as_record,
    far_starts,
    search_modes,
    spread_starts,
)
from approxmcmc.design.target_profile import TargetProfile
from approxmcmc.numerics import Laplace
from approxmcmc.numerics.landscape import Climb, Landscape, _uphill
from approxmcmc.proposals import RandomWalk
from approxmcmc.targets.symmetries import symmetry_between

pytestmark = pytest.mark.recompiles
SEEDS = 20


def no_data(theta, data, i):
    return 0.0


def of_prior(log_prior, dim):
    return amc.FunctionTarget(no_data, log_prior, data=np.zeros(1), n_obs=1, dim=dim)


def two_normals(distance, weight=0.5, centre=0.0, dim=1):
    """Return a target with two normal modes of unit scale, the first of which has this weight."""
    log_odds = math.log(weight) - math.log1p(-weight)

    def log_prior(theta):
        one = log_odds - 0.5 * (theta[0] - centre + 0.5 * distance) ** 2
        other = -0.5 * (theta[0] - centre - 0.5 * distance) ** 2
        top = max(one, other)
        rest = 0.0
        for j in range(1, theta.shape[0]):
            rest -= 0.5 * theta[j] ** 2
        return rest + top + math.log(math.exp(one - top) + math.exp(other - top))

    return of_prior(log_prior, dim)


def searched(target, law, seed):
    """Return the search around a law for a walk in its metric, as `choose_sampler` makes it."""
    walk = RandomWalk(2.38 / math.sqrt(law.mode.size), preconditioner=law)
    setting = Pairing(target, amc.MetropolisHastings(walk, amc.ExactTest()), law)
    return search_modes(target, setting, law, TargetProfile(target, seed))


def law_at(mode, dim=1):
    centre = np.zeros(dim)
    centre[0] = mode
    return Laplace(centre, np.eye(dim))


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("distance", "weight", "centre", "dim"),
    [(8.0, 0.5, 0.0, 1), (15.0, 0.5, 0.0, 3), (100.0, 0.5, 0.0, 3), (15.0, 0.9, 0.0, 3), (20.0, 0.99, 0.0, 1)],
)
def test_two_modes_are_found_with_every_seed(distance, weight, centre, dim):
    """The law is that of the first mode. The other one has (1 - weight) / weight times its mass."""
    target, law = two_normals(distance, weight, centre, dim), law_at(centre - 0.5 * distance, dim)
    for seed in range(SEEDS):
        found = searched(target, law, seed)
        [other] = found.others
        assert other.distance == pytest.approx(distance, abs=0.3) and found.failure == ""
        assert other.log_mass == pytest.approx(math.log((1.0 - weight) / weight), abs=0.02)
        assert (other.symmetry == "the sign of theta flipped") is (weight == 0.5)
        if distance > 10.0:  # at 8 sd a walk may cross within its 150 steps
            assert not other.is_left and np.abs(other.starts[:, 0] - 0.5 * distance).max() < 6.0


@pytest.mark.thorough
@pytest.mark.parametrize(("distance", "fewest", "most"), [(10.0, 38, 40), (20.0, 22, 30), (40.0, 4, 12)])
def test_how_often_a_mode_to_one_side_of_all_centres_is_found(distance, fewest, most):
    """The initial point lies in the known mode; a jitter of 1 as in PyMC never leaves it.

    Of seeds 0 to 39, those of 39, 26 and 8 find the other mode, as docs/choosing.md says; the bounds allow for the
    rounding of other processors.
    """
    target, law = two_normals(distance, centre=0.5 * distance, dim=3), law_at(0.0, 3)
    found = sum(len(searched(target, law, seed).others) for seed in range(40))
    assert fewest <= found <= most


def test_a_mode_without_mass_is_left_out_and_told():
    target, law = two_normals(12.0, 1.0 - 1e-5), law_at(-6.0)
    for seed in range(5):
        found = searched(target, law, seed)
        assert not found.others and found.left_out == pytest.approx(math.log(1e-5), abs=0.02)


def banana(theta):
    return -0.5 * theta[0] ** 2 / 100.0 - 0.5 * (theta[1] + 0.03 * theta[0] ** 2 - 3.0) ** 2


def funnel(theta):
    total = -0.5 * theta[0] ** 2 / 9.0
    for j in range(1, theta.shape[0]):
        total -= 0.5 * theta[0] + 0.5 * theta[j] ** 2 * math.exp(-theta[0])
    return total


def skewed(theta):
    return 0.3 * theta[0] - math.exp(theta[0]) + 2.0 * theta[1] - math.exp(theta[1])


def heavy_tails(theta):
    return -math.log1p(theta[0] ** 2) - math.log1p(theta[1] ** 2)


def ridge(theta):
    return -5000.0 * (theta[0] + theta[1]) ** 2 - 5e-5 * (theta[0] - theta[1]) ** 2


def ring(theta):
    return -2.0 * (math.hypot(theta[0], theta[1]) - 5.0) ** 2


def plateau(theta):
    return -((theta[0] / 5.0) ** 8) - (theta[1] / 5.0) ** 8


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("log_prior", "mode", "sd"),
    [
        (banana, [0.0, 3.0], [10.0, 4.0]),
        (funnel, [0.0, 0.0, 0.0, 0.0], [3.0, 1.0, 1.0, 1.0]),
        (skewed, [-1.2, 0.7], [1.8, 0.7]),
        (heavy_tails, [0.0, 0.0], [1.0, 1.0]),
        (ridge, [0.0, 0.0], [70.0, 70.0]),
        (ring, [0.0, 0.0], [3.6, 3.6]),
        (plateau, [0.0, 0.0], [2.9, 2.9]),
    ],
)
def test_one_mode_of_an_odd_shape_raises_no_alarm(log_prior, mode, sd):
    target, law = of_prior(log_prior, len(mode)), Laplace(np.array(mode), np.diag(np.square(sd)))
    for seed in range(5):
        found = searched(target, law, seed)
        assert not found.others and found.failure == "" and found.unfinished < found.searches


def test_modes_that_the_sampler_moves_between_are_one():
    """Two modes 5 sd apart, with a valley of 2.4 nats, under the law of both: a walk crosses it."""
    target, law = two_normals(5.0), Laplace(np.zeros(1), np.array([[7.25]]))
    for seed in range(5):
        assert not searched(target, law, seed).apart


@pytest.mark.parametrize(("distance", "reaches"), [(2.5, 1.2), (2.5, 2.5), (8.0, 2.9), (8.0, 8.0)])
def test_a_chain_that_stays_in_a_near_mode_has_not_reached_the_known_one(distance, reaches):
    """All states at `reaches`: at most half of the way, and at most 3 standard deviations, from the known mode."""
    landscape = Landscape(two_normals(distance), law_at(0.0), None, is_closed=True)
    top, end = (Climb(np.array([phi]), 0.0, True, None) for phi in (0.0, distance))
    states = np.full((STEPS, 1), reaches)
    assert _reaches(landscape, top, end, states) is (reaches < distance)


def test_the_level_of_climbs_ignores_draws_outside_the_support():
    """The law is 20 times as wide as the support; a level of -inf would call every end of a climb finished."""

    def between_walls(theta):
        return 3.0 * theta[0] if abs(theta[0]) < 0.5 else -math.inf

    law = Laplace(np.zeros(1), np.eye(1) * 100.0)
    landscape = Landscape(of_prior(between_walls, 1), law, None, is_closed=True)
    for seed in range(5):
        assert -1.5 < _level(landscape, law, np.random.default_rng(seed)) < 1.5


def test_far_starts_mirror_each_other():
    target, law = two_normals(6.0, dim=3), law_at(-3.0, 3)
    landscape = Landscape(target, law, None, is_closed=True)
    starts = [landscape.theta(start) for start in far_starts(target, landscape, np.random.default_rng(1))]
    assert len(starts) == 12
    centres = [(one + other) / 2.0 for one, other in zip(starts[::2], starts[1::2], strict=True)]
    np.testing.assert_allclose(centres, [np.zeros(3)] * 4 + [law.mode] * 2, atol=1e-12)
    assert np.abs(starts[0]).max() <= 1.0 < np.abs(starts[4]).max() <= 10.0


def test_starts_of_a_normal_prior_are_its_draws():
    X = np.random.default_rng(0).normal(size=(50, 2))
    target = amc.targets.RobustRegression(X, X[:, 0], prior_scale=0.01)
    landscape = Landscape(target, amc.laplace(target), None, is_closed=True)
    starts = [landscape.theta(start) for start in far_starts(target, landscape, np.random.default_rng(1))]
    assert np.abs(starts[6]).max() < 0.05 < np.abs(starts[4]).max()


def test_a_search_depends_on_its_seed_alone():
    target, law = two_normals(12.0, 0.7), law_at(-6.0)
    one, same = searched(target, law, 3), searched(target, law, 3)
    np.testing.assert_array_equal(one.others[0].starts, same.others[0].starts)
    assert one.passes == same.passes


def test_a_search_that_fails_says_so(monkeypatch):
    def fails(*_):
        raise amc.errors.NotFiniteError("no density here")

    target = two_normals(12.0)
    monkeypatch.setattr(Landscape, "climb", fails)
    found = searched(target, law_at(-6.0), 1)
    assert not found.others and found.searches == 0 and found.failure == "no density here"


# --- climbs ---


def landscape_of(log_prior, dim):
    return Landscape(of_prior(log_prior, dim), law_at(0.0, dim), None, is_closed=True)


def normal_of_three_scales(theta):
    return -0.5 * (theta[0] ** 2 + 4.0 * theta[1] ** 2 + 0.25 * theta[2] ** 2 + theta[0] * theta[1])


def student_tails(theta):
    return -2.5 * math.log1p(0.25 * (theta[0] ** 2 + theta[1] ** 2 + theta[2] ** 2))


def behind_a_wall(theta):
    return -0.5 * (theta[0] ** 2 + theta[1] ** 2 + theta[2] ** 2) if theta[0] > 0.5 else -math.inf


@pytest.mark.parametrize(
    ("log_prior", "distance", "most"),
    [(normal_of_three_scales, distance, 16) for distance in (0.1, 5.0, 500.0)]
    + [(student_tails, distance, 20) for distance in (0.1, 5.0, 40.0)],
)
def test_a_climb_reaches_the_mode_in_few_gradients(log_prior, distance, most):
    for seed in range(10):
        landscape = landscape_of(log_prior, 3)
        away = np.random.default_rng(seed).normal(size=3)
        taken = []
        evaluate = landscape.value_and_slope
        landscape.value_and_slope = lambda phi, evaluate=evaluate, taken=taken: taken.append(phi) or evaluate(phi)
        end = landscape.climb(distance * away / np.linalg.norm(away), -1.0)
        assert end.is_flat and np.abs(end.phi).max() < 0.1 and len(taken) <= most
        assert landscape.value(end.crossing) >= -1.0


@pytest.mark.parametrize("start", [-60.0, -6.0, -0.2, 0.2, 6.0, 60.0])
def test_a_climb_stays_on_its_side_of_a_valley(start):
    landscape = Landscape(two_normals(16.0), law_at(0.0), None, is_closed=True)
    assert landscape.climb(np.array([start])).phi[0] == pytest.approx(math.copysign(8.0, start), abs=0.1)


def test_a_climb_ends_at_a_wall_and_is_not_flat_there():
    landscape = landscape_of(behind_a_wall, 3)
    end = landscape.climb(np.array([3.0, 1.0, 1.0]))
    assert not end.is_flat and np.isfinite(end.value) and end.phi[0] > 0.5
    nowhere = landscape.climb(np.array([-3.0, 1.0, 1.0]))
    assert nowhere.value == -math.inf and not nowhere.is_flat and nowhere.crossing is None


def test_the_metric_of_a_climb_knows_the_last_step():
    """The secant equation H y = s, which L-BFGS fulfils for its last pair whatever the older ones are."""
    rng = np.random.default_rng(2)
    pairs = []
    for _ in range(4):
        move = rng.normal(size=5)
        pairs.append((move, move + 0.3 * rng.normal(size=5)))
    np.testing.assert_allclose(_uphill(pairs[-1][1], pairs), pairs[-1][0], rtol=1e-12)
    np.testing.assert_array_equal(_uphill(pairs[0][0], []), pairs[0][0])


# --- symmetries ---


def shared(log_density, shapes, one, other):
    variables = Variables(shapes)
    rng = np.random.default_rng(1)
    return symmetry_between(variables, log_density, one, other, np.full(variables.size, 0.1), rng)


def factors(theta):
    """Two factors with loads for three rows each: invariant under the sign of each factor, and their exchange."""
    f, load = theta[:4].reshape(2, 2), theta[4:].reshape(3, 2)
    return -float(np.sum((load @ f - np.arange(6.0).reshape(3, 2)) ** 2) + np.sum(f**4) + np.sum(load**4))


def mixture(theta):
    """Two components with means, and the log odds of the first."""
    m, odds = theta[:2], theta[2]
    y = np.array([-1.0, 0.2, 1.5])
    w = np.array([1.0, np.exp(-odds)])
    return float(np.sum(np.log(np.exp(-0.5 * (y[:, None] - m) ** 2) @ (w / w.sum()))) - 0.1 * np.sum(m**2))


def weights_of_three(theta):
    """Three components with means, and weights by centred logarithms of which the last is left out."""
    m, log_w = theta[:3], np.append(theta[3:], -theta[3:].sum())
    y = np.array([-1.0, 0.2, 1.5, 3.0])
    w = np.exp(log_w)
    return float(np.sum(np.log(np.exp(-0.5 * (y[:, None] - m) ** 2) @ (w / w.sum()))) - 0.1 * np.sum(m**2))


def scaled(theta):
    return -0.5 * float((theta[0] * theta[1] - 3.0) ** 2) - 0.1 * float(theta[0] ** 2 + theta[1] ** 2)


FACTORS = {"f": (2, 2), "load": (3, 2)}
F, LOAD = np.array([[1.0, 2.0], [0.5, -1.0]]), np.array([[0.3, 1.0], [2.0, -1.0], [1.0, 0.7]])


@pytest.mark.parametrize(
    ("log_density", "shapes", "one", "other", "name"),
    [
        (scaled, {"a": (), "b": ()}, [1.5, 2.0], [-1.5, -2.0], "the signs of a and b flipped"),
        (scaled, {"x": (2,)}, [1.5, 2.0], [2.0, 1.5], "the labels 0 and 1 of x exchanged"),
        (
            mixture,
            {"m": (2,), "p": ()},
            [-1.0, 1.2, 0.4],
            [1.2, -1.0, -0.4],
            "the labels 0 and 1 of m exchanged, and the sign of p flipped",
        ),
        (
            weights_of_three,
            {"m": (3,), "w": (2,)},
            [-1.0, 0.2, 3.0, 0.5, -0.7],
            [3.0, -1.0, 0.2, 0.2, 0.5],
            "the labels 0, 1 and 2 of m and w exchanged",
        ),
    ],
)
def test_a_symmetry_is_named_and_maps_one_mode_to_the_other(log_density, shapes, one, other, name):
    one, other = np.array(one), np.array(other)
    found = shared(log_density, shapes, one, other)
    assert found is not None and found.name == name
    np.testing.assert_allclose(found.apply(one), other, atol=1e-12)
    theta = np.random.default_rng(3).normal(size=one.size)
    assert log_density(found.apply(theta)) == pytest.approx(log_density(theta), rel=1e-12)


def test_the_sign_of_one_factor_among_several_is_named():
    one = np.concatenate([F.ravel(), LOAD.ravel()])
    other = np.concatenate([(F * [[-1.0], [1.0]]).ravel(), (LOAD * [-1.0, 1.0]).ravel()])
    found = shared(factors, FACTORS, one, other)
    assert found is not None and found.name == "the signs of f and load flipped at labels 0"


@pytest.mark.parametrize(
    "log_density",
    [
        lambda theta: scaled(theta) + 1e-3 * theta[0],  # a prior that prefers one sign
        lambda theta: scaled(theta) + 1e-3 * theta[0] ** 3,  # the same at the modes' order, not at random points
        lambda theta: math.nan,
    ],
    ids=["linear", "cubic", "undefined"],
)
def test_what_is_nearly_a_symmetry_is_none(log_density):
    assert shared(log_density, {"a": (), "b": ()}, np.array([1.5, 2.0]), np.array([-1.5, -2.0])) is None


def test_modes_that_no_map_connects_have_no_symmetry():
    assert shared(scaled, {"a": (), "b": ()}, np.array([1.5, 2.0]), np.array([-1.5, -4.0])) is None


# --- starts, record, and a whole run ---


def other_mode(n_starts=3):
    return OtherMode(0.0, 0.0, 12.0, "", False, np.full((n_starts, 1), 6.0) + np.arange(n_starts)[:, None])


def test_chains_are_dealt_to_the_modes_in_turn():
    starts = np.zeros((5, 1))
    dealt, chains = spread_starts(starts, (other_mode(), other_mode(1)))
    assert dealt[:, 0].tolist() == [0.0, 6.0, 6.0, 0.0, 7.0] and chains == [[1, 4], [2]]
    untouched, none = spread_starts(starts, (other_mode(0),))
    assert untouched.tolist() == starts.tolist() and none == [[]]
    record = json.loads(as_record(Search(12, 1, 30.0, (other_mode(),)), [[1, 3]]))
    assert record["others"][0]["chains"] == [1, 3] and record["left_out"] is None


@pytest.mark.thorough
@pytest.mark.parametrize("seed", [0, 1])
def test_a_run_on_two_modes_warns_and_one_on_a_concave_density_is_not_searched(seed):
    with pytest.warns(amc.errors.SamplingWarning, match="1 other mode: the same density with the sign of theta"):
        trace = amc.sample(two_normals(60.0), random_seed=seed, progressbar=False)
    attrs = trace.posterior.attrs
    assert "modes" in attrs["problems"].split(", ") and "R-hat" in attrs["problems"]
    assert attrs["thinned_by"] <= 16
    by_chain = np.sign(trace.posterior["theta"].mean(("draw", "theta_dim_0")).values)
    assert sorted(by_chain) == [-1.0, -1.0, 1.0, 1.0]
    table = amc.diagnose(trace).set_index("check")
    assert table.loc["modes", "verdict"] == "warning" and table.loc["R-hat", "advice"] == table.loc["modes", "advice"]


@pytest.mark.thorough
def test_given_starts_are_not_said_to_lie_in_the_modes_that_were_found(tmp_path):
    """All chains start at one point, so R-hat passes; the search still names the other mode."""
    run_of = {"random_seed": 0, "progressbar": False, "draws": 1000, "checkpoint": tmp_path / "run.nc"}
    with pytest.warns(amc.errors.SamplingWarning, match="started at the given initvals: R-hat does not compare"):
        trace = amc.sample(two_normals(60.0), initvals=np.array([30.0]), **run_of)
    [other] = json.loads(trace.posterior.attrs["modes"])["others"]
    assert other["chains"] == [] and trace.posterior.attrs["starts_apart"] == 0.0
    assert (trace.posterior["theta"] > 0.0).all() and "R-hat" not in trace.posterior.attrs["problems"]
    row = amc.diagnose(trace).set_index("check").loc["modes"]
    assert row["verdict"] == "warning" and "where chains" not in row["finding"] and row["where"] == ""


@pytest.mark.thorough
def test_a_target_ess_that_chains_apart_never_reach_ends_the_run():
    with pytest.warns(amc.errors.SamplingWarning, match="hardly leave them"):
        trace = amc.sample(two_normals(60.0), target_ess=100, random_seed=0, progressbar=False)
    assert trace.posterior.attrs["smallest_ess"] < 100


@pytest.mark.thorough
def test_a_concave_log_density_is_a_proof_and_costs_nothing():
    X, y = amc.datasets.synthetic_logistic(300, 2)
    target = amc.targets.LogisticRegression(X, y)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        trace = amc.sample(target, random_seed=1, progressbar=False)
    assert "setup_modes_passes" not in trace.posterior.attrs
    row = amc.diagnose(trace).set_index("check").loc["modes"]
    assert row["verdict"] == "ok" and "concave" in row["finding"]
