"""Bayesian networks over discrete variables: p(x) = prod_v P(x_v | parents of v), given what was observed.

Evidence cuts the tables down to the unobserved variables: the target is p(unobserved, evidence) as a function of the
unobserved, without the factors that contain no unobserved variable. Its normalising constant times these factors is
P(evidence), see `log_evidence`.

Reference: Pearl (1988), Probabilistic Reasoning in Intelligent Systems, chapters 3 and 4 (stochastic simulation).
"""

import graphlib
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from approxmcmc.contracts import Variables, content_hash
from approxmcmc.contracts.arguments import naming_the_arguments
from approxmcmc.errors import InvalidInputError
from approxmcmc.targets.discrete.factor_graph import FactorGraph, FactorGroup

MOST_STATES = 10
SUM_TOLERANCE = 1e-9


class BayesianNetwork(FactorGraph):
    """A Bayesian network of discrete variables with up to 10 states each, conditioned on evidence.

    Parameters
    ----------
    tables
        For each variable, by name, the conditional probabilities P(x_v | parents): one axis for each parent, in the
        order of `parents`, and the last axis for the variable itself, summing to 1 along it.
    parents
        Names of the parents, for the variables that have any.
    evidence
        Observed states by name.

    Raises
    ------
    InvalidInputError
        When names are unknown, the graph has a cycle, shapes do not fit, a table does not sum to 1, a variable has
        fewer than 2 or more than 10 states, or nothing is left unobserved.

    Notes
    -----
    The trace holds one scalar variable for each unobserved variable, int64 states 0, 1, ... Exact answers come by
    enumeration, up to 2^22 states of the unobserved. Tables may hold zeros; but if zeros cut the states into parts
    that no single change connects, Gibbs stays in one part.

    Examples
    --------
    >>> import approxmcmc as amc
    >>> network = amc.targets.BayesianNetwork(
    ...     {"rain": [0.8, 0.2], "wet": [[0.9, 0.1], [0.2, 0.8]]}, {"wet": ["rain"]}, evidence={"wet": 1}
    ... )
    >>> round(network.probability({"rain": 1}), 6)
    0.666667
    """

    @naming_the_arguments
    def __init__(
        self,
        tables: Mapping[str, Any],
        parents: Mapping[str, Sequence[str]] | None = None,
        evidence: Mapping[str, int] | None = None,
    ) -> None:
        _check_names(tables, parents or {})
        parents = {name: tuple((parents or {}).get(name, ())) for name in tables}
        self.order = _topological_order(parents)
        self.tables = {name: np.array(tables[name], dtype=np.float64) for name in tables}
        self.parents = parents
        self.evidence = {name: _state(name, state, self.tables) for name, state in (evidence or {}).items()}
        for name in tables:
            self._check_table(name)
        self.names = tuple(name for name in tables if name not in self.evidence)
        if not self.names:
            raise InvalidInputError("BayesianNetwork: nothing is left to sample, every variable is in the evidence")
        index = {name: i for i, name in enumerate(self.names)}
        groups = []
        self._log_constant = 0.0
        with np.errstate(divide="ignore"):
            for name in tables:
                nodes = (*parents[name], name)
                left = [member for member in nodes if member in index]
                table = np.log(self.tables[name][tuple(self.evidence.get(member, slice(None)) for member in nodes)])
                if left:
                    groups.append(FactorGroup(np.array([[index[member] for member in left]]), table[None]))
                else:
                    self._log_constant += float(table)
        variables = Variables(dict.fromkeys(self.names, ()), dtype="int64")
        super().__init__([self.tables[name].shape[-1] for name in self.names], groups, variables)

    def given(self, **evidence: int) -> "BayesianNetwork":
        """Return the network with further observed states, by the names of variables, such as ``given(wet=1)``."""
        return BayesianNetwork(self.tables, self.parents, {**self.evidence, **evidence})

    def log_evidence(self) -> float:
        """Return log P(evidence), by enumeration."""
        return self.log_normalizer() + self._log_constant

    def probability(self, event: Mapping[str, int]) -> float:
        """Return P(event | evidence), by enumeration.

        Parameters
        ----------
        event
            States of unobserved variables, by name.

        Raises
        ------
        InvalidInputError
            When the event names an observed or unknown variable or an impossible state, or the evidence has probability
            0.
        """
        unknown = [name for name in event if name not in self.names]
        if unknown:
            raise InvalidInputError(
                f"BayesianNetwork: the event names {unknown}, not among the unobserved {self.names}"
            )
        if self.log_evidence() == -math.inf:
            raise InvalidInputError(
                f"BayesianNetwork: the evidence {self.evidence} must be possible, and its probability is 0"
            )
        states = tuple(_state(name, state, self.tables) for name, state in event.items())
        return float(self.joint([self.names.index(name) for name in event])[states])

    def ancestral(self) -> "AncestralLaw":
        """Return the distribution that draws unobserved variables from their tables, parents first, evidence fixed.

        `importance_sampling` with this proposal is likelihood weighting.
        """
        return AncestralLaw(self)

    def draw_start(self, rng: np.random.Generator) -> np.ndarray:
        """Return one draw of :meth:`ancestral`; shape (dim,)."""
        return np.asarray(self.ancestral().rvs(1, random_state=rng)[0], dtype=np.float64)

    @property
    def observed_data(self) -> Mapping[str, np.ndarray]:
        """The evidence: the states of the observed variables, by name."""
        return {name: np.array(state) for name, state in self.evidence.items()}

    def content_hash(self) -> str:
        """Return a hash of names, tables, parents and evidence."""
        described = [list(self.tables), {name: list(above) for name, above in self.parents.items()}, self.evidence]
        return content_hash("BayesianNetwork", described, *self.tables.values())

    def __repr__(self) -> str:
        """Show the variables."""
        evidence = (
            f" | {', '.join(f'{name}={state}' for name, state in self.evidence.items())}" if self.evidence else ""
        )
        return f"BayesianNetwork({', '.join(self.names)}{evidence})"

    def _check_table(self, name: str) -> None:
        table = self.tables[name]
        above = self.parents[name]
        shape = tuple(self.tables[parent].shape[-1] for parent in above)
        if table.ndim != len(above) + 1 or table.shape[:-1] != shape:
            raise InvalidInputError(
                f"BayesianNetwork: the table of {name!r} needs shape {(*shape, 'states')} for its parents {above}, "
                f"found {table.shape}"
            )
        if not 2 <= table.shape[-1] <= MOST_STATES:
            raise InvalidInputError(
                f"BayesianNetwork: {name!r} has {table.shape[-1]} states; 2 to {MOST_STATES} are possible"
            )
        if not ((table >= 0.0).all() and np.allclose(table.sum(axis=-1), 1.0, rtol=0.0, atol=SUM_TOLERANCE)):
            raise InvalidInputError(
                f"BayesianNetwork: the table of {name!r} must hold probabilities that sum to 1 along its last axis; "
                f"found sums {table.sum(axis=-1).ravel().tolist()}"
            )


class AncestralLaw:
    """The distribution of unobserved variables drawn parents first from their tables, with the evidence fixed.

    Its methods `rvs` and `logpmf` are those of a frozen distribution of `scipy.stats`.
    """

    def __init__(self, network: BayesianNetwork) -> None:
        self.network = network

    def rvs(self, size: int = 1, random_state: Any = None) -> np.ndarray:
        """Return `size` draws of the unobserved variables, int64, shape (size, dim).

        `random_state` is a seed or a generator.
        """
        rng = np.random.default_rng(random_state)
        network = self.network
        drawn = {name: np.full(size, state) for name, state in network.evidence.items()}
        for name in network.order:
            if name not in drawn:
                table = network.tables[name][tuple(drawn[parent] for parent in network.parents[name])]
                below = np.cumsum(np.broadcast_to(table, (size, table.shape[-1])), axis=1)[:, :-1]
                drawn[name] = (rng.random((size, 1)) >= below).sum(axis=1)
        return np.stack([drawn[name] for name in network.names], axis=1)

    def logpmf(self, states: Any) -> np.ndarray:
        """Return the log probabilities of states of the unobserved variables; `states` has shape (n, dim)."""
        network = self.network
        states = np.asarray(states, dtype=np.int64)
        values: dict[str, Any] = {name: states[:, i] for i, name in enumerate(network.names)} | network.evidence
        total = np.zeros(len(states))
        with np.errstate(divide="ignore"):
            for name in network.names:
                nodes = (*network.parents[name], name)
                total += np.log(network.tables[name][tuple(values[member] for member in nodes)])
        return total


@naming_the_arguments
def alarm_network(**evidence: int) -> BayesianNetwork:
    """Return the burglary alarm: burglary B and earthquake E ring the alarm A, on which John J and Mary M call.

    Parameters
    ----------
    **evidence
        Observed states, such as ``J=1, M=1``.

    References
    ----------
    Pearl (1988), chapter 2; the numbers are those of Russell and Norvig, Artificial Intelligence, figure 14.2.

    Examples
    --------
    >>> import approxmcmc as amc
    >>> round(amc.targets.alarm_network(J=1, M=1).probability({"B": 1}), 6)
    0.284172
    """

    def rows(probabilities: Any) -> np.ndarray:
        return np.stack([1.0 - np.array(probabilities), np.array(probabilities)], axis=-1)

    tables = {
        "B": rows(0.001),
        "E": rows(0.002),
        "A": rows([[0.001, 0.29], [0.94, 0.95]]),  # axes B, E
        "J": rows([0.05, 0.90]),
        "M": rows([0.01, 0.70]),
    }
    return BayesianNetwork(tables, {"A": ("B", "E"), "J": ("A",), "M": ("A",)}, evidence)


def _check_names(tables: Mapping[str, Any], parents: Mapping[str, Sequence[str]]) -> None:
    if not tables:
        raise InvalidInputError("BayesianNetwork: tables must hold a table for each name, found none")
    for name, above in parents.items():
        unknown = [member for member in (name, *above) if member not in tables]
        if unknown or isinstance(above, str):
            raise InvalidInputError(
                f"BayesianNetwork: parents of {name!r} must be a sequence of names that have tables; found {above!r}, "
                f"the tables are {list(tables)}"
            )


def _topological_order(parents: Mapping[str, Sequence[str]]) -> tuple[str, ...]:
    try:
        return tuple(graphlib.TopologicalSorter(parents).static_order())
    except graphlib.CycleError as error:
        raise InvalidInputError(
            f"BayesianNetwork: the parents form a cycle: {' -> '.join(error.args[1])}; remove one of these parents"
        ) from None


def _state(name: str, state: Any, tables: Mapping[str, np.ndarray]) -> int:
    if name not in tables:
        raise InvalidInputError(
            f"BayesianNetwork: {name!r} is not a variable of the network; its variables are {list(tables)}"
        )
    n_states = tables[name].shape[-1]
    if isinstance(state, (bool, np.bool_)):
        state = int(state)
    if not isinstance(state, (int, np.integer)) or not 0 <= state < n_states:
        raise InvalidInputError(
            f"BayesianNetwork: the state of {name!r} must be an integer in 0 ... {n_states - 1}, found {state!r}"
        )
    return int(state)
