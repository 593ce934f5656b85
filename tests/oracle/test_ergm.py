"""Random graph models against published and enumerated numbers; each planted bug is found."""

import itertools
import math

import numpy as np
import pytest

import approxmcmc as amc
from approxmcmc.contracts import COUNT_NAMES
from approxmcmc.datasets import florentine_business
from approxmcmc.targets.graphs import simulators as ergm_simulators
from approxmcmc.targets.graphs.elimination import elimination
from approxmcmc.targets.graphs.ergm import enumeration
from approxmcmc.targets.graphs.simulators import toggle_simulator, toggle_states
from approxmcmc.targets.graphs.statistics import find_statistics
from tests.coins import law
from tests.edited_source import edited
from tests.planting import plain

ALL = ("edges", "two_stars", "three_stars", "triangles")
GRAPHS = [np.array(bits) for bits in itertools.product([0, 1], repeat=6)]  # of 4 nodes, by dyads


def adjacency_of(bits, n=4):
    graph = np.zeros((n, n), np.int64)
    graph[np.triu_indices(n, 1)] = bits
    return graph + graph.T


def transition_matrix(theta, names, move, make=toggle_simulator):
    """Return the matrix over the 64 graphs of 4 nodes, by walking every path of one update of our chain."""
    statistics = find_statistics(names)
    simulate = plain(make(statistics))
    matrix = np.zeros((64, 64))
    numbers = {tuple(bits): k for k, bits in enumerate(np.array(GRAPHS).tolist())}
    for k, bits in enumerate(GRAPHS):
        state = toggle_states(adjacency_of(bits), statistics, amc.targets.AuxiliaryChain(1, "observed", move))()
        out, count = np.empty(len(names)), np.zeros(len(COUNT_NAMES), np.int64)

        def program(rng, state=state, out=out, count=count):
            simulate(rng, np.asarray(theta), state, out, count)
            return tuple(state.graph.adjacency[np.triu_indices(4, 1)].tolist())

        for outcome, probability in law(program).items():
            matrix[k, numbers[outcome]] += probability
    return matrix


def exact_law(theta, names):
    statistics = find_statistics(names)
    values = np.array([[s.value(adjacency_of(bits)) for s in statistics] for bits in GRAPHS])
    weights = np.exp(values @ np.asarray(theta))
    return weights / weights.sum()


CASES = [([0.0], ALL[:1]), ([-0.7], ALL[:1]), ([-0.7, 0.3], ALL[:2]), ([-0.5, 0.2, -0.1, 0.4], ALL)]


@pytest.mark.parametrize("move", ["tnt", "dyad"])
@pytest.mark.parametrize(("theta", "names"), CASES)
def test_toggles_leave_the_law_of_four_nodes_invariant(theta, names, move):
    matrix, exact = transition_matrix(theta, names, move), exact_law(theta, names)
    assert np.abs(matrix.sum(axis=1) - 1.0).max() < 1e-14
    flow = exact[:, np.newaxis] * matrix
    assert np.abs(exact @ matrix - exact).max() < 1e-14
    assert np.abs(flow - flow.T).max() < 1e-14  # detailed balance
    eigenvalues = np.sort(np.abs(np.linalg.eigvals(matrix)))
    assert eigenvalues[-2] < 1.0 - 1e-3  # and no other law is


def test_moves_differ():
    assert np.abs(transition_matrix([-0.7], ALL[:1], "tnt") - transition_matrix([-0.7], ALL[:1], "dyad")).max() > 0.05


def no_ratio(n_dyads, move):
    return np.zeros(n_dyads)


def empty_graph_forgotten(n_dyads, move):
    others = np.arange(n_dyads)
    return np.log(0.5 / (others + 1) + 0.5 / n_dyads) - np.log(0.5 / n_dyads)


@pytest.mark.parametrize("wrong", [no_ratio, empty_graph_forgotten])
def test_planted_proposal_ratios_are_found(wrong, monkeypatch):
    monkeypatch.setattr(ergm_simulators, "log_hastings_ratios", wrong)
    matrix, exact = transition_matrix([-0.7], ALL[:1], "tnt"), exact_law([-0.7], ALL[:1])
    assert np.abs(exact @ matrix - exact).max() > 1e-3


TOGGLE_BUGS = {
    "deletions with the ratio of additions": ("log_ratio = -log_ratio", "log_ratio = log_ratio"),
    "the ratio at one edge more": ("log_hastings[n_edges]", "log_hastings[min(n_edges + present, 5)]"),
}


@pytest.mark.parametrize("bug", TOGGLE_BUGS)
def test_planted_bugs_in_toggles_are_found(bug):
    broken = edited(toggle_simulator, *TOGGLE_BUGS[bug])
    matrix, exact = transition_matrix([-0.7], ALL[:1], "tnt", broken), exact_law([-0.7], ALL[:1])
    assert np.abs(exact @ matrix - exact).max() > 1e-3


# --- the elimination ---


def florentine(**prior):
    return amc.targets.ERGM(florentine_business().adjacency, ALL[:2], **prior)


def brute_force(n, theta, names=ALL[:2]):
    statistics = find_statistics(names)
    graphs = (adjacency_of(bits, n) for bits in itertools.product([0, 1], repeat=n * (n - 1) // 2))
    log_weights = [np.dot(theta, [s.value(graph) for s in statistics]) for graph in graphs]
    return float(np.logaddexp.reduce(log_weights))


def test_normaliser_of_five_nodes():
    target = elimination(5, find_statistics(ALL[:2]))
    found = target.log_normalizers(np.array([[-1.0, 0.2]]))[0]
    assert f"{found:.12f}" == "3.747685126711"
    assert found == pytest.approx(brute_force(5, [-1.0, 0.2]), abs=1e-12)


def test_normaliser_with_three_stars_and_isolates():
    names, theta = ("edges", "three_stars", "isolates"), np.array([-0.6, 0.3, 0.8])
    for n in (2, 4, 5):
        found = elimination(n, find_statistics(names)).log_normalizers(theta[np.newaxis])[0]
        assert found == pytest.approx(brute_force(n, theta, names), abs=1e-12)


@pytest.mark.thorough
def test_independent_edges_of_sixteen_nodes():
    assert florentine(prior_scale=1.0).log_normalizer([-1.0, 0.0]) == pytest.approx(120 * math.log1p(math.exp(-1)))


SIXTEEN = [
    ((-2.675, 0.188), "10.5424728710", (16.936, 60.505)),
    ((-2.0, 0.0), "15.2313613252", (14.304, 23.872)),
    ((-3.0, 0.18), "6.8627474186", (8.075, 9.219)),
]


@pytest.mark.thorough
@pytest.mark.parametrize(("theta", "printed", "means"), SIXTEEN)
def test_normalisers_and_means_of_sixteen_nodes(theta, printed, means):
    """Means by central differences of log Z, whose error is about 1e-6 here."""
    h = 1e-4
    points = np.array(theta) + h * np.array([[0, 0], [1, 0], [-1, 0], [0, 1], [0, -1]])
    log_z = elimination(16, find_statistics(ALL[:2])).log_normalizers(points)
    assert f"{log_z[0]:.10f}" == printed
    assert (log_z[1::2] - log_z[2::2]) / (2 * h) == pytest.approx(means, abs=6e-4)


@pytest.mark.thorough
def test_an_elimination_survives_extreme_parameters():
    """The complete graph has all the weight: log Z = 120 theta_1 + 1680 theta_2, far beyond the largest double."""
    assert florentine(prior_scale=1.0).log_normalizer([5.0, 2.0]) == pytest.approx(120 * 5 + 1680 * 2, abs=1e-6)
    assert florentine(prior_scale=1.0).log_normalizer([-50.0, 0.0]) == pytest.approx(0.0, abs=1e-9)


def law_of_exact_draws(simulator, theta):
    state, theta = simulator.make_state(), np.asarray(theta)
    statistics, count = np.empty(theta.size), np.zeros(len(COUNT_NAMES), np.int64)

    simulate = plain(simulator.simulate)

    def program(rng):
        simulate(rng, theta, state, statistics, count)
        return tuple(statistics.round(6).tolist())

    return law(program)


def distance_of_exact_draws(simulator, theta, n=4):
    statistics = find_statistics(ALL[:2])
    exact: dict[tuple[float, ...], float] = {}
    for bits in itertools.product([0, 1], repeat=n * (n - 1) // 2):
        value = tuple(float(s.value(adjacency_of(bits, n))) for s in statistics)
        exact[value] = exact.get(value, 0.0) + math.exp(np.dot(theta, value))
    total = sum(exact.values())
    found = law_of_exact_draws(simulator, theta)
    return 0.5 * sum(abs(found.get(s, 0.0) - exact.get(s, 0.0) / total) for s in found.keys() | exact.keys())


EXACT = {
    "elimination": lambda: elimination(4, find_statistics(ALL[:2])),
    "enumeration": lambda: enumeration(4, find_statistics(ALL[:2])),
}


@pytest.mark.parametrize("name", EXACT)
def test_the_law_of_exact_draws(name):
    assert distance_of_exact_draws(EXACT[name]().simulator(), [-0.6, 0.25]) < 1e-12


def test_planted_bugs_in_exact_draws_are_found():
    table = EXACT["elimination"]()
    single = table._replace(table=table.table._replace(ways=np.ones_like(table.table.ways)))
    assert distance_of_exact_draws(single.simulator(), [-0.6, 0.25]) > 1e-2
    levels = EXACT["enumeration"]()
    flat = levels._replace(log_counts=np.zeros_like(levels.log_counts))
    assert distance_of_exact_draws(flat.simulator(), [-0.6, 0.25]) > 1e-2


@pytest.mark.thorough
def test_the_posterior_of_a_small_graph_by_two_ways():
    """Enumeration and elimination give the same density: nothing of one is used by the other."""
    graph = florentine_business().adjacency[2:8, 2:8]
    target = amc.targets.ERGM(graph, ALL[:2], prior_scale=np.inf)
    thetas = np.random.default_rng(0).normal(size=(20, 2))
    other = thetas @ target.observed_statistics - elimination(6, target.statistics).log_normalizers(thetas)
    assert target.log_densities(thetas) == pytest.approx(other, abs=1e-11)
