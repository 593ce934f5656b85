import numpy as np
import pytest

import approxmcmc as amc
from approxmcmc import datasets
from approxmcmc.contracts import DoublyIntractableTarget, Target
from approxmcmc.errors import CompilationError, IncompatibleError, InvalidInputError
from approxmcmc.targets import GraphStatistic, degree_statistic, register_statistic
from approxmcmc.targets.graphs import statistics as graph_statistics
from tests.simulation import counted, draw_many

ALL = ("edges", "two_stars", "three_stars", "triangles")
PATH = np.array([[0, 1, 0, 0], [1, 0, 1, 0], [0, 1, 0, 1], [0, 0, 1, 0]])


def ergm(graph=PATH, statistics=("edges", "two_stars"), **prior):
    return amc.targets.ERGM(graph, statistics, **(prior or {"prior_scale": 1.0}))


def random_graph(n, rng):
    upper = np.triu(rng.random((n, n)) < 0.4, 1).astype(int)
    return upper + upper.T


class Graph:
    """The part of a `networkx.Graph` that the target uses."""

    def __init__(self, nodes, edges, directed=False, several=False):
        self.nodes, self._edges, self._directed, self._several = nodes, edges, directed, several

    def is_directed(self):
        return self._directed

    def is_multigraph(self):
        return self._several

    def edges(self, data, default):
        assert data == "weight"
        return [(*edge, default) if len(edge) == 2 else edge for edge in self._edges]


def test_it_plays_its_roles():
    assert isinstance(ergm(), DoublyIntractableTarget)
    assert isinstance(ergm(), Target)
    assert repr(ergm()) == "ERGM(4 nodes, 3 edges; edges, two_stars; prior_scale=1)"
    assert ergm().variables.coords == {"statistic": ["edges", "two_stars"]}
    assert np.array_equal(ergm().observed_data["adjacency"], PATH)


@pytest.mark.parametrize(
    ("load", "n_nodes", "statistics"),
    [(datasets.florentine_business, 16, [15, 36, 24, 5]), (datasets.molecule, 20, [28, 60, 32, 6])],
)
def test_published_networks(load, n_nodes, statistics):
    network = load()
    assert network.adjacency.shape == (n_nodes, n_nodes)
    assert len(network.labels) == n_nodes
    assert ergm(network.adjacency, ALL).observed_statistics.tolist() == statistics


def test_isolated_families():
    ties = datasets.florentine_business()
    alone = {name for name, degree in zip(ties.labels, ties.adjacency.sum(axis=0), strict=True) if degree == 0}
    assert alone == {"Acciaiuoli", "Albizzi", "Pucci", "Ridolfi", "Strozzi"}


@pytest.mark.parametrize(
    ("graph", "message"),
    [
        (np.triu(PATH), "directed"),
        (PATH + np.eye(4), "loops, at nodes"),
        (PATH * 2.5, "weights"),
        (np.where(PATH, np.nan, 0.0), "weights or missing"),
        (PATH[:3], "shape"),
        ([[0, 1], [1, 2], [2, 3]], "list of edges"),
        (np.zeros((1, 1)), "2 nodes"),
        ([["a", "b"], ["b", "a"]], "dtype"),
        (Graph("ab", [("a", "b")], directed=True), "is directed"),
        (Graph("ab", [("a", "b")], several=True), "multigraph"),
        (Graph("ab", [("a", "b", 0.5)]), "weights, 0.5 between a and b"),
        (Graph("ab", [("a", "a")]), "loops"),
    ],
)
def test_bad_graphs_are_refused(graph, message):
    with pytest.raises(InvalidInputError, match=message):
        ergm(graph)


def test_graph_objects_are_read():
    graph = Graph("abcd", [("a", "b"), ("b", "c"), ("c", "d", 1)])
    assert ergm(graph).content_hash() == ergm().content_hash() == ergm(PATH.astype(bool)).content_hash()
    networkx = pytest.importorskip("networkx")
    assert ergm(networkx.path_graph(4)).content_hash() == ergm().content_hash()


@pytest.mark.parametrize(
    ("statistics", "message"),
    [
        ((), "sequence of names"),
        ("edges", "sequence of names"),
        (("edge",), "unknown statistic 'edge'; known are edges"),
        (("edges", "edges"), "every statistic only once"),
    ],
)
def test_bad_statistics_are_refused(statistics, message):
    with pytest.raises(InvalidInputError, match=message):
        ergm(PATH, statistics)


def test_content_hashes_tell_statistics_priors_and_graphs_apart():
    targets = [
        ergm(),
        ergm(PATH, ("edges", "three_stars")),
        ergm(prior_scale=2.0),
        ergm(1 - PATH - np.eye(4, dtype=int)),
    ]
    assert len({target.content_hash() for target in targets}) == 4


@pytest.mark.parametrize("method", ["compile", "to_pymc"])
def test_what_it_cannot_do_it_refuses(method):
    with pytest.raises(IncompatibleError, match="exchange"):
        getattr(ergm(), method)()


@pytest.mark.parametrize("name", [*ALL, "isolates"])
def test_known_statistics_pass_their_own_check(name):
    graph_statistics.check_statistic(graph_statistics.find_statistics([name])[0])


def forgetful_change(adjacency, degrees, i, j):
    return float(degrees[i])  # two-stars, of which those at j are forgotten


def uncompilable_change(adjacency, degrees, i, j):
    return {"a": [degrees, None, "b"]}[str(i)]


def test_wrong_changes_are_found():
    wrong = GraphStatistic("wrong", forgetful_change, lambda a: float((a.sum(axis=0) * (a.sum(axis=0) - 1)).sum() / 2))
    with pytest.raises(InvalidInputError, match="changes the value by"):
        register_statistic(wrong)
    with pytest.raises(InvalidInputError, match="changes the value by"):
        ergm(PATH, ("edges", wrong))


@pytest.mark.needs_jit
def test_changes_that_do_not_compile_are_refused():
    with pytest.raises(CompilationError, match="expected signature: change"):
        register_statistic(GraphStatistic("odd", uncompilable_change, np.sum))


def test_own_statistics_are_found_by_name_and_names_are_not_taken_twice(monkeypatch):
    monkeypatch.setattr(graph_statistics, "_REGISTERED", dict(graph_statistics._REGISTERED))
    pendants = degree_statistic("pendants", lambda degree: 1.0 if degree == 1 else 0.0)
    register_statistic(pendants)
    register_statistic(pendants)
    assert ergm(PATH, ("edges", "pendants")).observed_statistics.tolist() == [3, 2]
    with pytest.raises(InvalidInputError, match="taken"):
        register_statistic(degree_statistic("pendants", lambda degree: 1.0 if degree == 2 else 0.0))


def test_change_statistics_are_those_of_a_toggle(rng):
    graph = random_graph(6, rng)
    response, design = ergm(graph, ALL).change_statistics()
    for (i, j), y, change in zip(zip(*np.triu_indices(6, 1), strict=True), response, design, strict=True):
        values = []
        for present in (1, 0):
            graph[i, j] = graph[j, i] = present
            values.append(ergm(graph, ALL).observed_statistics)
        graph[i, j] = graph[j, i] = y
        assert change.tolist() == (values[0] - values[1]).tolist()


@pytest.mark.thorough
def test_auto_is_exact_where_it_can_be(rng):
    six, seven, large = random_graph(6, rng), random_graph(7, rng), random_graph(17, rng)
    assert ergm(six, ALL).build_simulator("auto").exact
    assert ergm(seven).build_simulator("auto").exact
    assert ergm(seven, ("edges", "three_stars", "isolates")).build_simulator("exact").exact
    for graph, statistics, n_updates in ((seven, ALL, 1000), (large, ALL[:2], 20 * 136)):
        simulator = ergm(graph, statistics).build_simulator("auto")
        assert not simulator.exact
        assert simulator.make_state().n_updates == n_updates
        assert ergm(graph, statistics).log_normalizer(np.zeros(len(statistics))) is None
        with pytest.raises(IncompatibleError, match="6 nodes"):
            ergm(graph, statistics).build_simulator("exact")
        with pytest.raises(IncompatibleError, match="normaliser"):
            ergm(graph, statistics).log_density(np.zeros(len(statistics)))


@pytest.mark.parametrize("move", ["dyad", "tnt"])
@pytest.mark.parametrize("start", ["empty", "full", "observed", "both"])
def test_statistics_are_kept_while_dyads_are_toggled(move, start, rng):
    target = ergm(random_graph(7, rng), ALL)
    simulator = target.build_simulator(amc.targets.AuxiliaryChain(40, start, move, thin=3))
    state = simulator.make_state()
    for n_draws in (1, 2, 3):
        theta = np.array([-0.4, 0.1, 0.0, 0.2]) * n_draws
        out, count = draw_many(simulator, theta, n_draws, rng, state=state)
        _, adjacency, degrees, edges, places, [n_edges] = state.graph
        assert out[-1].tolist() == ergm(adjacency, ALL).observed_statistics.tolist()
        assert degrees.tolist() == adjacency.sum(axis=0).tolist()
        listed = edges[:n_edges]
        assert sorted(listed.tolist()) == np.flatnonzero(adjacency[np.triu_indices(7, 1)]).tolist()
        assert places[listed].tolist() == list(range(n_edges))
        assert counted(count, "auxiliary_updates") == counted(count, "statistic_evaluations") == 40 + 3 * (n_draws - 1)


@pytest.mark.parametrize(
    ("start", "edges"), [("empty", [0, 0]), ("full", [6, 6]), ("both", [0, 6]), ("observed", [3, 3])]
)
def test_chains_start_where_they_are_told(start, edges):
    simulator = ergm(PATH, ("edges",)).build_simulator(amc.targets.AuxiliaryChain(1, start, "dyad"))
    draws, _ = draw_many(simulator, 0.0, 2, np.random.default_rng(0))
    assert np.abs(draws[:, 0] - edges).max() <= 1


SIMULATORS = {
    "dyad": (PATH, amc.targets.AuxiliaryChain(30, "both", "dyad")),
    "tnt": (PATH, amc.targets.AuxiliaryChain(30, "both")),
    "enumeration": (PATH, "exact"),
    "elimination": (np.pad(PATH, (0, 3)), "exact"),
}
# Of generator 3 at theta = (-0.3, 0.2); found with compilation, and the same without.
DRAWS = {
    "dyad": [[4, 4], [3, 3], [3, 3], [1, 0], [2, 1], [2, 0]],
    "tnt": [[2, 1], [3, 2], [4, 5], [4, 5], [2, 0], [4, 5]],
    "enumeration": [[1, 0], [2, 1], [4, 5], [3, 3], [1, 0], [3, 2]],
    "elimination": [[20, 95], [19, 85], [13, 39], [12, 34], [19, 85], [16, 61]],
}


@pytest.mark.parametrize("name", SIMULATORS)
def test_draws_are_the_same_with_and_without_compilation(name):
    graph, auxiliary = SIMULATORS[name]
    draws, _ = draw_many(ergm(graph).build_simulator(auxiliary), [-0.3, 0.2], 6, np.random.default_rng(3))
    assert draws.tolist() == DRAWS[name]
