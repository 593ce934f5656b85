"""Transition matrices entry by entry: a proposal times a probability to accept it, and the rest on the diagonal."""

import math

import numpy as np
import pytest

import approxmcmc as amc
from approxmcmc import bounds
from approxmcmc.acceptance.laws.probability import acceptance_probability
from approxmcmc.bounds.finite import grid_of_points
from approxmcmc.errors import IncompatibleError, InvalidInputError
from approxmcmc.samplers.metropolis_hastings import law as of_decisions
from tests.models import logistic, normal_mean
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
