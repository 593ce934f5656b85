"""Statistics of an undirected simple graph, each with its change when an edge is added.

A statistic is defined by two small functions: its value on a whole graph, and its *change statistic*, the difference
that adding the edge (i, j) makes. Simulation needs only the change, once for every proposed toggle. A statistic that
sums a function of the degrees, s(y) = sum_v f(d_v), is defined by f alone, and has exact answers, see
`approxmcmc.targets.graphs.elimination`:

    >>> pendants = degree_statistic("pendants", lambda degree: 1.0 if degree == 1 else 0.0)
    >>> register_statistic(pendants)

Any other statistic is written out:

    >>> def four_cycles_change(adjacency, degrees, i, j):
    ...     total = 0.0
    ...     for k in range(adjacency.shape[0]):
    ...         if adjacency[i, k]:
    ...             for m in range(adjacency.shape[0]):
    ...                 if m != i and m != j and k != j and adjacency[k, m] and adjacency[m, j]:
    ...                     total += 1.0
    ...     return total
    >>> def four_cycles_value(adjacency):
    ...     paths = adjacency @ adjacency
    ...     np.fill_diagonal(paths, 0)
    ...     return (paths * (paths - 1)).sum() / 8
    >>> register_statistic(GraphStatistic("four_cycles", four_cycles_change, four_cycles_value))

Registration toggles random dyads of random graphs, and compares the change with the difference of the values.
"""

import dataclasses
from collections.abc import Callable, Sequence

import numpy as np
from numba import types as nb

from approxmcmc.contracts.arguments import check_settings, naming_the_arguments
from approxmcmc.contracts.speaker import speaking
from approxmcmc.engine.compiler.compile import INDICES, VECTOR, allocating, compiled, kernel
from approxmcmc.engine.compiler.identity import cached_by_content, content_id
from approxmcmc.errors import CompilationError, InvalidInputError
from approxmcmc.targets.checks import compiler_says, plain_function

CHANGE_ARGUMENTS = nb.Array(nb.uint8, 2, "C"), INDICES, nb.int64, nb.int64
CHECKED_SIZES = (3, 5, 8)
TOGGLES = 40
TOLERANCE = 1e-9


@dataclasses.dataclass(frozen=True)
class GraphStatistic:
    """A statistic by name, value and change.

    Parameters
    ----------
    name
        What to call it in ``ERGM(statistics=...)`` and in the trace.
    change
        ``change(adjacency, degrees, i, j) -> float``: value with the edge (i, j) minus value without. `adjacency`
        (uint8, n x n) and `degrees` (int64) are those of the graph *without* the edge. Plain Python, which is compiled.
    value
        ``value(adjacency) -> float`` of a whole graph; int64, n x n. Plain NumPy, not compiled.
    of_degree
        ``of_degree(degree) -> float`` if the value is its sum over nodes; see :func:`degree_statistic`.
    """

    name: str
    change: Callable[..., float]
    value: Callable[..., float]
    of_degree: Callable[..., float] | None = None

    def __post_init__(self) -> None:
        """Check the types of the settings."""
        check_settings(self)


@naming_the_arguments
def degree_statistic(name: str, of_degree: Callable[..., float]) -> GraphStatistic:
    """Return the statistic `name`, s(y) = sum_v of_degree(d_v), d_v the degree of node v."""
    term = allocating(plain_function(of_degree, f"of_degree of {name!r}"))

    def change(adjacency: np.ndarray, degrees: np.ndarray, i: int, j: int) -> float:
        return term(degrees[i] + 1) - term(degrees[i]) + term(degrees[j] + 1) - term(degrees[j])

    def value(adjacency: np.ndarray) -> float:
        return float(sum(of_degree(int(degree)) for degree in adjacency.sum(axis=0)))

    return GraphStatistic(name, change, value, of_degree)


def common_neighbours(adjacency: np.ndarray, degrees: np.ndarray, i: int, j: int) -> float:
    """Return the number of triangles that the edge (i, j) closes."""
    total = 0
    for k in range(adjacency.shape[0]):
        total += adjacency[i, k] & adjacency[j, k]
    return float(total)


_REGISTERED = {
    statistic.name: statistic
    for statistic in (
        degree_statistic("edges", lambda degree: 0.5 * degree),
        degree_statistic("two_stars", lambda degree: degree * (degree - 1) / 2.0),
        degree_statistic("three_stars", lambda degree: degree * (degree - 1) * (degree - 2) / 6.0),
        degree_statistic("isolates", lambda degree: 1.0 if degree == 0 else 0.0),
        GraphStatistic(
            "triangles", common_neighbours, lambda adjacency: np.trace(adjacency @ adjacency @ adjacency) / 6
        ),
    )
}


def register_statistic(statistic: GraphStatistic) -> None:
    """Make a statistic known by its name to `ERGM`, in this process.

    Raises
    ------
    InvalidInputError
        When the name belongs to a different statistic, or the change is not the difference of the values.
    CompilationError
        When the change does not compile.
    """
    check_statistic(statistic)
    registered = _REGISTERED.get(statistic.name)
    if registered is not None and content_id(registered.change) != content_id(statistic.change):
        raise InvalidInputError(f"register_statistic: the name {statistic.name!r} is taken by another statistic")
    _REGISTERED[statistic.name] = statistic


def find_statistics(statistics: Sequence[str | GraphStatistic]) -> tuple[GraphStatistic, ...]:
    """Return the statistics with these names; check given objects, and return them unchanged."""
    if isinstance(statistics, (str, GraphStatistic)) or not (isinstance(statistics, Sequence) and statistics):
        raise InvalidInputError(
            f"ERGM: statistics must be a sequence of names, such as ('edges', 'two_stars'); found {statistics!r}"
        )
    chosen = []
    for statistic in statistics:
        if not isinstance(statistic, (str, GraphStatistic)):
            raise InvalidInputError(f"ERGM: statistics must hold names and GraphStatistic(...), found {statistic!r}")
        if isinstance(statistic, str) and statistic not in _REGISTERED:
            raise InvalidInputError(
                f"ERGM: unknown statistic {statistic!r}; known are {', '.join(_REGISTERED)}; add yours with "
                "register_statistic(GraphStatistic(name, change, value))"
            )
        chosen.append(_REGISTERED[statistic] if isinstance(statistic, str) else statistic)
        if not isinstance(statistic, str):
            check_statistic(statistic)
    names = [statistic.name for statistic in chosen]
    if len(set(names)) < len(names):
        raise InvalidInputError(f"ERGM: name every statistic only once; found {names}")
    return tuple(chosen)


@cached_by_content(maxsize=64)
def check_statistic(statistic: GraphStatistic) -> None:
    """Compile `statistic.change`, and compare it with differences of `statistic.value` at toggles in random graphs.

    Raises `CompilationError` if it does not compile, and `InvalidInputError` if they differ.
    """
    name = f"statistic {statistic.name!r}"
    signature = "change(adjacency, degrees, i, j) -> float"
    try:
        with speaking(name):
            function = plain_function(statistic.change, "change")
        change = kernel(function, nb.float64(*CHANGE_ARGUMENTS))
    except InvalidInputError:
        raise
    except Exception as error:  # numba's errors, and others that its internals raise
        raise CompilationError(
            f"{name}: change does not compile: {compiler_says(error)}\n  expected signature: {signature}"
        ) from error
    rng = np.random.default_rng(0)
    for n in CHECKED_SIZES:
        graph = np.triu(rng.random((n, n)) < 0.5, 1).astype(np.int64)
        graph += graph.T
        for _ in range(TOGGLES):
            i, j = rng.choice(n, 2, replace=False)
            graph[i, j] = graph[j, i] = 0
            got = change(graph.astype(np.uint8), graph.sum(axis=0), i, j)
            without = statistic.value(graph.copy())
            graph[i, j] = graph[j, i] = 1
            difference = statistic.value(graph.copy()) - without
            if not abs(got - difference) <= TOLERANCE * max(1.0, abs(difference)):
                graph[i, j] = graph[j, i] = 0
                raise InvalidInputError(
                    f"{name}: adding the edge ({i}, {j}) changes the value by {difference}, change returns {got}; "
                    f"the graph without the edge is\n{graph}\n  expected: {signature}, "
                    "value with the edge minus without"
                )
            if rng.random() < 0.5:
                graph[i, j] = graph[j, i] = 0


@cached_by_content(maxsize=64)
def change_kernel(statistics: tuple[GraphStatistic, ...]) -> Callable[..., None]:
    """Return ``write(adjacency, degrees, i, j, out)``, for kernels to call: it writes the changes of all statistics."""
    return compiled(make_write_changes(statistics))


@cached_by_content(maxsize=64)
def write_changes(statistics: tuple[GraphStatistic, ...]) -> Callable[..., None]:
    """Return the kernel of `change_kernel` as a function that Python can call."""
    return kernel(make_write_changes(statistics), nb.void(*CHANGE_ARGUMENTS, VECTOR))


def make_write_changes(statistics: tuple[GraphStatistic, ...]) -> Callable[..., None]:
    """Return the function that writes the changes of all statistics; it calls `change_kernel` of all but the last."""
    last = len(statistics) - 1
    with speaking(statistics[-1].name):
        change = allocating(plain_function(statistics[-1].change, "change"))
    if last == 0:

        def write(adjacency: np.ndarray, degrees: np.ndarray, i: int, j: int, out: np.ndarray) -> None:
            out[0] = change(adjacency, degrees, i, j)

        return write
    write_others = change_kernel(statistics[:-1])

    def write_all(adjacency: np.ndarray, degrees: np.ndarray, i: int, j: int, out: np.ndarray) -> None:
        write_others(adjacency, degrees, i, j, out)
        out[last] = change(adjacency, degrees, i, j)

    return write_all
