"""Exponential random graph models: f(y | theta) = exp(theta's(y)) / Z(theta), y an undirected simple graph.

s(y) counts parts of the graph: edges, stars, triangles. Z(theta) sums over 2^(n (n - 1) / 2) graphs.

References: Alquier, Friel, Everitt and Boland (2016), Noisy Monte Carlo, section 4.2; Caimo and Friel (2011).
"""

import functools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from approxmcmc.contracts import Simulator, Variables
from approxmcmc.contracts.arguments import naming_the_arguments
from approxmcmc.engine.compiler.identity import content_id
from approxmcmc.errors import IncompatibleError, InvalidInputError
from approxmcmc.targets.discrete.level_table import LevelTable
from approxmcmc.targets.exponential_family import AuxiliaryChain, ExponentialFamily, FamilyPrior, checked_auxiliary
from approxmcmc.targets.graphs.elimination import MOST_NODES, Elimination, elimination
from approxmcmc.targets.graphs.simulators import toggle_simulator, toggle_states
from approxmcmc.targets.graphs.statistics import GraphStatistic, find_statistics, write_changes

LEAST_UPDATES = 1000
UPDATES_PER_DYAD = 20
MOST_NODES_ENUMERATED = 6  # 2^15 graphs


class ERGM(ExponentialFamily):
    """The posterior of an exponential random graph model's parameters, given one graph.

    Parameters
    ----------
    graph
        The observed graph, undirected, without loops and weights: an adjacency array of zeros and ones, shape (n, n),
        or a `networkx.Graph`.
    statistics
        Names of statistics, or `GraphStatistic` objects. Known names: "edges", "two_stars", "three_stars",
        "triangles", "isolates", and names added by `register_statistic`.
    prior_scale
        Standard deviation of the independent normal priors with mean 0; inf = flat.
    prior_bounds
        (low, high) of a uniform prior for all parameters, instead of `prior_scale`.

    Raises
    ------
    InvalidInputError
        If the graph is directed, weighted, has loops or the wrong shape, or a statistic is unknown.

    Notes
    -----
    The trace holds ``theta`` with the dim ``statistic``.

    ``log_normalizer(theta)`` and ``log_density(theta)`` are exact: up to 6 nodes by enumeration, and up to 16 nodes if
    every statistic is a sum over degrees (edges, stars, isolates), see `approxmcmc.targets.graphs.elimination`.

    Simulators: ``auxiliary="exact"`` draws from the tables of these exact answers; `AuxiliaryChain` is a chain of
    toggles, "tnt" or "dyad"; "auto" is exact if that is possible, else
    ``AuxiliaryChain(max(1000, 20 n_dyads), "both")``.

    Examples
    --------
    >>> import numpy as np, approxmcmc as amc
    >>> path = np.array([[0, 1, 0, 0], [1, 0, 1, 0], [0, 1, 0, 1], [0, 0, 1, 0]])
    >>> target = amc.targets.ERGM(path, statistics=("edges", "two_stars"), prior_scale=5.0)
    >>> target.observed_statistics
    array([3., 2.])
    """

    @naming_the_arguments
    def __init__(
        self,
        graph: Any,
        statistics: Sequence[str | GraphStatistic],
        *,
        prior_scale: float | None = None,
        prior_bounds: Any = None,
    ) -> None:
        self.adjacency = checked_graph(graph)
        self.statistics = find_statistics(statistics)
        self.prior = FamilyPrior(prior_scale, prior_bounds)
        names = [statistic.name for statistic in self.statistics]
        self.variables = Variables({"theta": (len(names),)}, {"theta": ("statistic",)}, {"statistic": names})
        self._observed_statistics = np.array([float(statistic.value(self.adjacency)) for statistic in self.statistics])

    @property
    def n_nodes(self) -> int:
        """Number of nodes n."""
        return len(self.adjacency)

    @property
    def observed_data(self) -> Mapping[str, np.ndarray]:
        """The adjacency matrix of the graph, under the name "adjacency"."""
        return {"adjacency": self.adjacency}

    def _identity(self) -> str:
        return " ".join(f"{statistic.name} {content_id(statistic.change)}" for statistic in self.statistics)

    def initial_point(self) -> np.ndarray:
        """Return the middle of `prior_bounds` if given; else log odds of an edge for "edges", 0 for the rest."""
        point = np.zeros(self.variables.size)
        names = list(self.variables.coords["statistic"])
        if "edges" in names and self.prior.bounds is None:
            n_dyads = self.n_nodes * (self.n_nodes - 1) // 2
            n_edges = self.adjacency.sum() / 2
            point[names.index("edges")] = np.log((n_edges + 0.5) / (n_dyads - n_edges + 0.5))
        if self.prior.bounds is not None:
            point[:] = 0.5 * (self.prior.bounds[0] + self.prior.bounds[1])
        return point

    def change_statistics(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the pseudo-likelihood's responses y_ij and change statistics; shapes (M,) and (M, dim)."""
        write = write_changes(self.statistics)
        rows, columns = np.triu_indices(self.n_nodes, 1)
        design = np.empty((len(rows), self.variables.size))
        for out, i, j in zip(design, rows, columns, strict=True):
            without = self.adjacency.astype(np.uint8)
            without[i, j] = without[j, i] = 0
            write(without, without.sum(axis=0, dtype=np.int64), i, j, out)
        return self.adjacency[rows, columns], design

    @functools.cached_property
    def _exact(self) -> Elimination | LevelTable | None:
        """The object that computes the normaliser and draws exactly; None if the model has none."""
        if self.n_nodes <= MOST_NODES_ENUMERATED:
            return enumeration(self.n_nodes, self.statistics)
        return elimination(self.n_nodes, self.statistics)

    def _log_normalizers(self, thetas: np.ndarray) -> np.ndarray | None:
        """Return log Z at each row of `thetas`, by enumeration or elimination; None if neither is possible."""
        return None if self._exact is None else self._exact.log_normalizers(thetas)

    def build_simulator(self, auxiliary: Any) -> Simulator:
        """Return the simulator for the setting `auxiliary`."""
        auxiliary = checked_auxiliary(auxiliary)
        if auxiliary in ("auto", "exact") and self._exact is not None:
            return self._exact.simulator()
        if auxiliary == "exact":
            raise IncompatibleError(
                f"{self!r} has no exact draws: they need at most {MOST_NODES_ENUMERATED} nodes, or statistics that are "
                f"sums over degrees (edges, stars, isolates) and at most {MOST_NODES} nodes; "
                "use AuxiliaryChain(n_updates)"
            )
        if auxiliary == "auto":
            n_dyads = self.n_nodes * (self.n_nodes - 1) // 2
            auxiliary = AuxiliaryChain(max(LEAST_UPDATES, UPDATES_PER_DYAD * n_dyads), "both")
        make_state = toggle_states(self.adjacency, self.statistics, auxiliary)
        return Simulator(toggle_simulator(self.statistics), make_state, exact=False)

    def __repr__(self) -> str:
        """Show size, statistics and prior."""
        names = ", ".join(self.variables.coords["statistic"])
        return f"ERGM({self.n_nodes} nodes, {int(self.adjacency.sum()) // 2} edges; {names}; {self.prior})"


@functools.lru_cache(maxsize=16)
def enumeration(n_nodes: int, statistics: tuple[GraphStatistic, ...]) -> LevelTable:
    """Return the levels of all graphs on `n_nodes` nodes, at most 6; one toggle leads to the next (Gray code)."""
    write = write_changes(statistics)
    rows, columns = np.triu_indices(n_nodes, 1)
    graph = np.zeros((n_nodes, n_nodes), np.uint8)
    change = np.empty(len(statistics))
    values = np.empty((1 << len(rows), len(statistics)))
    values[0] = [float(statistic.value(graph.astype(np.int64))) for statistic in statistics]
    for step in range(1, len(values)):
        dyad = (step & -step).bit_length() - 1
        i = rows[dyad]
        j = columns[dyad]
        present = graph[i, j]
        graph[i, j] = graph[j, i] = 0
        write(graph, graph.sum(axis=0, dtype=np.int64), i, j, change)
        graph[i, j] = graph[j, i] = 1 - present
        values[step] = values[step - 1] + (-change if present else change)
    levels, counts = np.unique(values.round(9), axis=0, return_counts=True)
    return LevelTable(np.ascontiguousarray(levels), np.log(counts), len(rows))


def checked_graph(graph: Any) -> np.ndarray:
    """Return the adjacency matrix of an undirected simple graph, int64 of zeros and ones; raise if it is not one."""
    if hasattr(graph, "is_directed"):  # a networkx graph, or an object like one
        if graph.is_directed() or graph.is_multigraph():
            kind = "directed" if graph.is_directed() else "a multigraph"
            raise InvalidInputError(f"ERGM: the graph is {kind}; give an undirected simple one, networkx.Graph(graph)")
        index = {node: k for k, node in enumerate(graph.nodes)}
        adjacency = np.zeros((len(index), len(index)))
        for a, b, weight in graph.edges(data="weight", default=1):
            if weight != 1:
                raise InvalidInputError(f"ERGM: the graph has weights, {weight} between {a} and {b}; drop them")
            adjacency[index[a], index[b]] = adjacency[index[b], index[a]] = 1
    else:
        adjacency = np.asarray(graph.toarray() if hasattr(graph, "toarray") else graph)
    if adjacency.dtype.kind not in "fiub" or adjacency.ndim != 2 or adjacency.shape[0] != adjacency.shape[1]:
        raise InvalidInputError(
            "ERGM: graph must be an adjacency array of shape (n, n) or a networkx.Graph, found "
            f"{type(graph).__name__} of dtype {adjacency.dtype} and shape {adjacency.shape}; "
            "turn a list of edges into networkx.Graph(edges), and add the isolated nodes"
        )
    if len(adjacency) < 2:
        raise InvalidInputError(f"ERGM: a graph needs at least 2 nodes, found {len(adjacency)}")
    if not np.isin(adjacency, (0, 1)).all():
        values = adjacency[~np.isin(adjacency, (0, 1))]
        raise InvalidInputError(
            f"ERGM: the graph has weights or missing values, the first {values[0]}; give zeros and ones, for instance "
            "graph > threshold"
        )
    if np.diagonal(adjacency).any():
        nodes = np.flatnonzero(np.diagonal(adjacency))
        raise InvalidInputError(f"ERGM: the graph has loops, at nodes {nodes[:5].tolist()}; remove them")
    if not np.array_equal(adjacency, adjacency.T):
        i, j = np.argwhere(adjacency != adjacency.T)[0].tolist()
        raise InvalidInputError(
            f"ERGM: the graph is directed: ({i}, {j}) is {adjacency[i, j]}, ({j}, {i}) is {adjacency[j, i]}; give a "
            "symmetric matrix, for instance np.maximum(graph, np.transpose(graph))"
        )
    return np.ascontiguousarray(adjacency, dtype=np.int64)
