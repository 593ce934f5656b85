"""Transition matrices entry by entry: a proposal times a probability to accept it, and the rest on the diagonal."""

import math
import types

import numpy as np
import pytest

import approxmcmc as amc
from approxmcmc import bounds
from approxmcmc.acceptance.laws.probability import acceptance_probability
from approxmcmc.bounds.distance import cells_of_states
from approxmcmc.bounds.finite import grid_of_points
from approxmcmc.errors import IncompatibleError, InvalidInputError
from approxmcmc.samplers.auxiliary_variable.distribution import _pairs
from approxmcmc.samplers.metropolis_hastings import distribution as of_decisions
from tests.models import logistic, normal_mean
from tests.unit.samplers.test_gibbs import with_a_nan
from tests.unit.targets.test_bayesian_network import weather

GRID = np.linspace(-0.6, 1.4, 4)
N = 6


def target():
    """Return six data under a prior that is strong and off centre."""
    return normal_mean(N)


def terms_and_prior(model, grid):
    terms = np.array([[-0.5 * (x - theta) ** 2 for x in model.data[0]] for theta in grid])
    return terms, np.array([-2.0 * (theta - 1.0) ** 2 for theta in grid])


def walk_by_hand(grid, scale):
    h = np.array([[math.exp(-0.5 * ((b - a) / scale) ** 2) for b in grid] for a in grid])
    return h / max(row.sum() for row in h)


TESTS = {
    "exact": (amc.ExactTest(), "closed form"),
    "barker's rule": (amc.ExactTest("barker"), "closed form"),
    "always": (amc.acceptance.AlwaysAccept(), "closed form"),
    "all data, warm": (amc.acceptance.MinibatchBarker(1.0, N, temperature=2.0), "closed form"),
    "sequential": (amc.SequentialTTest(0.2, 2), "enumerate"),
    "warm": (amc.acceptance.MinibatchBarker(0.5, 2, temperature=2.0), "enumerate"),
    "gaussian": (amc.SequentialTTest(0.2, 2), "gaussian"),
}


@pytest.mark.thorough
@pytest.mark.parametrize("name", TESTS)
def test_every_entry_is_a_proposal_that_is_accepted(name, monkeypatch):
    """Pair by pair, of terms and prior; a few pairs at a time change nothing."""
    test, method = TESTS[name]
    more = {"method": method} if method == "gaussian" else {}
    sampler = amc.MetropolisHastings(amc.RandomWalk(0.5), test)
    matrix = bounds.transition_matrix(target(), sampler, GRID, **more)
    terms, prior = terms_and_prior(target(), GRID)
    h, exact = walk_by_hand(GRID, 0.5), np.zeros((4, 4))
    accepted = np.full((4, 4), np.nan)
    for i in range(4):
        for j in set(range(4)) - {i}:
            found, used = acceptance_probability(test, (terms[j] - terms[i])[None], prior[[j]] - prior[i], **more)
            assert used == method
            accepted[i, j] = found[0]
            exact[i, j] = h[i, j] * found[0]
        exact[i, i] = 1.0 - exact[i].sum()
    np.testing.assert_allclose(matrix, exact, atol=1e-9)
    np.testing.assert_allclose(matrix["decision"], accepted, atol=1e-9)
    heuristic = method == "gaussian"
    assert (matrix.attrs["method"], matrix.attrs["n_decisions"]) == (method, 1)
    assert matrix.attrs["label"] == ("heuristic" if heuristic else "rigorous")
    assert matrix.attrs["acceptance_error"] == pytest.approx(math.nan if heuristic else 0.0, nan_ok=True)
    for most in (1, 3 * N):
        monkeypatch.setattr(of_decisions, "ENTRIES_AT_ONCE", most)
        again = bounds.transition_matrix(target(), sampler, GRID, **more)
        np.testing.assert_allclose(again, matrix, atol=1e-14)
        assert again.attrs == matrix.attrs or heuristic


def test_scales_of_terms_that_all_states_share_most_of(rng):
    """Common parts of 10^8 drop out before anything is squared; states that nearly agree differ by no less than 0."""
    small = rng.normal(size=(4, 9))
    terms = np.tile(np.round(small, 6) + np.round(1e8 * rng.normal(size=9)), (2, 1))
    found = of_decisions._scales(terms)
    exact = [[math.sqrt(9.0) * np.std(b - a, ddof=1) for b in terms] for a in terms]
    np.testing.assert_allclose(found, exact, rtol=1e-6, atol=1e-6)
    for _ in range(20):
        near = rng.normal(size=(5, 7))
        assert np.isfinite(of_decisions._scales(np.concatenate([near, near + 1e-9 * rng.normal(size=(5, 7))]))).all()


def half_line(where):
    """Return a mean with a flat prior on theta > 0, or whose data are impossible for theta < 0."""

    def loglik(theta, data, i):
        return -math.inf if where == "terms" and theta[0] < 0.0 else -0.5 * (data[0][i] - theta[0]) ** 2

    def logprior(theta):
        return -math.inf if where == "prior" and theta[0] < 0.0 else 0.0

    return amc.FunctionTarget(loglik, logprior, data=np.linspace(-1.0, 1.5, 5), n_obs=5, dim=1, initial_point=[0.5])


@pytest.mark.parametrize(
    ("where", "test", "method"),
    [
        ("prior", amc.ExactTest(), "auto"),
        ("terms", amc.ExactTest(), "auto"),
        ("prior", amc.SequentialTTest(0.2, 2), "enumerate"),
        ("prior", amc.SequentialTTest(0.2, 2), "gaussian"),
    ],
)
def test_from_where_no_chain_is_everything_possible_is_accepted(where, test, method):
    grid = np.array([-0.4, -0.2, 0.1, 0.6])
    sampler = amc.MetropolisHastings(amc.RandomWalk(0.5), test)
    matrix = bounds.transition_matrix(half_line(where), sampler, grid, method=method).to_numpy()
    h = walk_by_hand(grid, 0.5)
    np.testing.assert_allclose(matrix[:2, 2:], h[:2, 2:], rtol=1e-12)
    assert not matrix[2:, :2].any() and not (matrix[:2, :2] - np.diag(matrix.diagonal()[:2])).any()
    inside = bounds.transition_matrix(half_line("nowhere"), sampler, grid, method=method).to_numpy()
    off = ~np.eye(2, dtype=bool)
    np.testing.assert_allclose(matrix[2:, 2:][off], inside[2:, 2:][off], rtol=1e-12)


def test_a_datum_that_is_impossible_somewhere_has_no_law_of_batches():
    sampler = amc.MetropolisHastings(amc.RandomWalk(0.5), amc.SequentialTTest(0.2, 2))
    with pytest.raises(IncompatibleError, match="positive probability, found 0"):
        bounds.transition_matrix(half_line("terms"), sampler, [-0.4, 0.1, 0.6])


# --- proposals ---


@pytest.mark.parametrize(
    ("scale", "covariance"),
    [
        (0.3, [[0.09, 0.0], [0.0, 0.09]]),
        ([0.1, 0.2], [[0.01, 0.0], [0.0, 0.04]]),
        ([[1.0, 0.5], [0.5, 2.0]], [[1.0, 0.5], [0.5, 2.0]]),
    ],
)
def test_a_walk_on_a_grid_is_its_normal_density(scale, covariance, rng):
    model, grid = logistic(20, 2), rng.normal(size=(5, 2))
    walk = amc.RandomWalk(scale if np.ndim(scale) == 0 else np.array(scale))
    steps = [[b - a for b in grid] for a in grid]
    density = np.array([[math.exp(-0.5 * d @ np.linalg.solve(covariance, d)) for d in row] for row in steps])
    density /= density.sum(axis=1).max()
    np.fill_diagonal(density, 0.0)
    np.testing.assert_allclose(walk.probabilities(model, grid), density, rtol=1e-10, atol=1e-300)


@pytest.mark.parametrize(
    ("grid", "shape"),
    [(np.zeros((1, 1)), "(1, 1)"), (np.zeros((2049, 1)), "(2049, 1)"), (np.zeros((3, 2)), "(3, 2)"), (0.5, "()")],
)
def test_a_grid_has_two_points_to_2048_of_the_right_dim(grid, shape):
    with pytest.raises(InvalidInputError) as error:
        grid_of_points(target(), grid)
    assert f"(n, 1) with 2 to 2048 points, found {shape}" in str(error.value)


def test_grids_that_are_allowed():
    assert grid_of_points(target(), [0.0, 1.0]).tolist() == [[0.0], [1.0]]
    assert grid_of_points(target(), np.zeros((2048, 1))).shape == (2048, 1)
    with pytest.raises(InvalidInputError, match=r"shape \(n, 2\)"):
        grid_of_points(logistic(20, 2), [0.0, 1.0])
    assert grid_of_points(logistic(20, 2), np.eye(2)).tolist() == [[1.0, 0.0], [0.0, 1.0]]
    field = amc.targets.BinaryMRF.random_triples
    states = grid_of_points(field(11, 0.1, 0), None)
    assert states.shape == (2048, 11) and states[[0, 1, -1]].sum(axis=1).tolist() == [0.0, 1.0, 11.0]
    with pytest.raises(InvalidInputError, match=r"4\.1e\+03 states, a matrix holds at most 2048"):
        grid_of_points(field(12, 0.1, 0), None)


SPINS = amc.targets.Ising(np.array([[1, 1, 1], [1, -1, 1]]), prior_bounds=(-0.4, 0.8))


@pytest.mark.parametrize(
    ("model", "sampler", "more", "message"),
    [
        (target(), amc.MetropolisHastings(amc.RandomWalk(0.1), amc.ExactTest()), {"site": 0}, "`site` is for Gibbs"),
        (target(), amc.Exchange(amc.RandomWalk(0.1)), {}, "Exchange needs a doubly intractable"),
        (target(), amc.samplers.NoisyLangevin(0.1), {}, "the transition probabilities of NoisyLangevin.* are unknown"),
        (SPINS, amc.MetropolisHastings(amc.RandomWalk(0.1), amc.acceptance.AlwaysAccept()), {}, "nothing to subsample"),
        (target(), amc.MetropolisHastings(amc.Langevin(0.1), amc.ExactTest()), {}, "must be RandomWalk on a grid"),
        (target(), amc.Gibbs(), {}, "Gibbs needs a discrete target"),
    ],
)
def test_what_has_no_matrix_says_why(model, sampler, more, message):
    with pytest.raises((InvalidInputError, IncompatibleError), match=message):
        bounds.transition_matrix(model, sampler, GRID, **more)


@pytest.mark.parametrize(("count", "method"), [(1, "enumerate"), (2, "enumerate"), (3, "lattice")])
def test_exchange_says_what_its_matrix_may_lack(count, method):
    matrix = bounds.transition_matrix(SPINS, amc.Exchange(amc.RandomWalk(0.3), count), np.linspace(-0.4, 0.8, 5))
    assert matrix.attrs["method"] == method
    assert matrix.attrs["acceptance_error"] == (math.sqrt(3) / 8192 if count == 3 else 0.0)
    np.testing.assert_allclose(matrix.sum("next_state"), 1.0, rtol=1e-14)


# --- Gibbs ---


def test_sweeps_of_sites_with_several_values_are_products_of_their_conditionals():
    """Sites of 2, 2 and 3 values; a random scan draws as many sites, one after the other, each of them at random."""
    network = weather()
    points = grid_of_points(network, None)
    kernels, where = [], {tuple(point): row for row, point in enumerate(points)}
    decision = np.full((len(points), len(points)), np.nan)
    for site, n_values in enumerate(network.n_states):
        kernel = np.zeros(decision.shape)
        for row, point in enumerate(points):
            law = network.conditional(point[None], site)[0]
            for value in range(n_values):
                moved = point.copy()
                moved[site] = value
                kernel[row, where[tuple(moved)]] = law[value]
                if value != point[site] and law[value] > 0.0:
                    decision[row, where[tuple(moved)]] = law[value]
        kernels.append(kernel)
        one = bounds.transition_matrix(network, amc.Gibbs(), site=site)
        np.testing.assert_allclose(one, kernel, atol=1e-14)
        assert one.attrs["n_decisions"] == 1 and one.attrs["method"] == "closed form"
    sweep = bounds.transition_matrix(network, amc.Gibbs())
    np.testing.assert_allclose(sweep, np.linalg.multi_dot(kernels), atol=1e-14)
    np.testing.assert_allclose(sweep["decision"], decision, atol=1e-14)
    random = bounds.transition_matrix(network, amc.Gibbs(scan="random"))
    n = len(kernels)
    np.testing.assert_allclose(random, np.linalg.matrix_power(sum(kernels) / n, n), atol=1e-14)
    assert sweep.attrs["n_decisions"] == random.attrs["n_decisions"] == n
    assert sweep.attrs["acceptance_error"] == 0.0


@pytest.mark.parametrize(("method", "used"), [("auto", "enumerate"), ("gaussian", "gaussian")])
def test_the_conditional_of_a_test_is_its_law_at_the_terms(method, used):
    """Site 1 of four, in every state: differences of its terms, with nothing else in the odds."""
    field, test = amc.targets.BinaryMRF.random_triples(4, 0.6, 0), amc.SequentialTTest(0.2, 2)
    matrix = bounds.transition_matrix(field, amc.Gibbs(test), site=1, method=method)
    points, conditionals = grid_of_points(field, None), field.compile_conditionals(fields=False)
    assert matrix.attrs["method"] == used
    for row, point in enumerate(points):
        at = [point.copy(), point.copy()]
        at[0][1], at[1][1] = 0.0, 1.0
        terms = conditionals.terms_at(at[1], 1) - conditionals.terms_at(at[0], 1)
        one, _ = acceptance_probability(test, terms[None], np.zeros(1), method=method, conditional=True)
        for value, chance in ((0, 1.0 - one[0]), (1, one[0])):
            column = int(row + (value - point[1]) * 4)  # two sites follow
            assert float(matrix[row, column]) == pytest.approx(chance, abs=1e-9)


def test_gibbs_needs_all_states():
    field = amc.targets.BinaryMRF.random_triples(4, 0.6, 0)
    with pytest.raises(InvalidInputError, match="leave the grid out"):
        amc.Gibbs().transition_matrix(field, np.zeros((3, 4)))
    assert len(amc.Gibbs().transition_matrix(field, grid_of_points(field, None), site=3).probability) == 16


field = amc.targets.BinaryMRF.random_triples


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


LATTICE_GRID = np.linspace(-0.4, 0.8, 13)


@pytest.mark.parametrize(("count", "label"), [(1, "rigorous"), (2, "rigorous"), (3, "one-sided"), (50, "one-sided")])
def test_the_label_of_a_lattice_says_that_it_is_one_sided(count, label):
    matrix = bounds.transition_matrix(LATTICE, amc.Exchange(amc.RandomWalk(0.3), count), LATTICE_GRID)
    assert matrix.attrs["label"] == label
    assert (matrix.attrs["acceptance_error"] > 0.0) == (label == "one-sided")
    exact = bounds.transition_matrix(
        LATTICE, amc.MetropolisHastings(amc.RandomWalk(0.3), amc.ExactTest()), LATTICE_GRID
    )
    assert (exact.attrs["method"], exact.attrs["label"]) == ("closed form", "rigorous")
    assert bounds.exact(exact, matrix).attrs["label_matrices"] == label
    assert bounds.exact(exact.to_numpy(), matrix).attrs["label_matrices"] == "as given"


@pytest.mark.thorough
def test_what_has_no_law_on_a_doubly_intractable_target_is_refused():
    walk = amc.RandomWalk(0.3)
    with pytest.raises(IncompatibleError, match='use auxiliary="exact"'):
        bounds.transition_matrix(
            LATTICE, amc.Exchange(walk, auxiliary=amc.targets.AuxiliaryChain(10, "observed")), LATTICE_GRID
        )
    with pytest.raises(IncompatibleError, match="nothing to subsample"):
        bounds.transition_matrix(LATTICE, amc.MetropolisHastings(walk, amc.SequentialTTest(0.1, 2)), LATTICE_GRID)
    with pytest.raises(IncompatibleError, match="give grid="):
        amc.check_bound(LATTICE, {1: amc.Exchange(walk)}, knob="n_auxiliary")


def test_states_are_numbered_with_the_last_site_fastest():
    states = np.array([[[0, 0, 0], [0, 0, 1], [0, 2, 0], [1, 0, 0]]], dtype=float)
    assert cells_of_states(states, [2, 3, 2]).tolist() == [[0, 1, 4, 6]]


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


def test_at_a_temperature_of_two_the_terms_are_halves(rng):
    terms, rest = rng.normal(size=(5, 8)), rng.normal(size=5)
    warm, cold = (amc.acceptance.MinibatchBarker(1.0, 4, temperature=temperature) for temperature in (2.0, 1.0))
    found = [acceptance_probability(test, each, rest) for test, each in ((warm, terms), (cold, 0.5 * terms))]
    np.testing.assert_array_equal(found[0][0], found[1][0])


def test_pairs_are_those_that_are_wanted_and_possible_and_differ():
    model = types.SimpleNamespace(points=range(3), log_prior=np.array([0.0, -math.inf, -1.0]))
    assert [each.tolist() for each in _pairs(model, None)] == [[0, 2], [2, 0]]
    wanted = np.array([[True, True, True], [True, True, True], [False, False, True]])
    assert [each.tolist() for each in _pairs(model, wanted)] == [[0], [2]]
