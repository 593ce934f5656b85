"""Settings of auxiliary data, which are the last state of a Markov chain of given length from a given start."""

import dataclasses
from typing import Any

from approxmcmc.contracts import Component
from approxmcmc.engine.checks import checked_integer
from approxmcmc.errors import InvalidInputError

STARTS = ("empty", "full", "observed", "both")
MOVES = ("auto", "dyad", "tnt")


@dataclasses.dataclass(frozen=True, eq=False)
class Auxiliary(Component):
    """Auxiliary data y' ~ f(.|theta) as the end of a Markov chain that leaves f(.|theta) invariant.

    Parameters
    ----------
    n_updates
        Length of the chain: site updates of a lattice, proposed toggles of a graph.
    start
        Where the chain starts: "empty" (no edge; all spins down), "full" (all edges; all spins up), "observed" (the
        data), or "both": empty and full in turn, from draw to draw. If f(.|theta) has a sparse and a dense phase,
        a chain from one of them does not see the other in any affordable time; "both" shows it.
    move
        How a graph's chain moves: "dyad" (toggle a random dyad) or "tnt" (with probability 1/2 a random edge, else a
        random dyad). "auto" is the heat bath of a lattice, and "tnt" of a graph.
    thin
        None: every draw is a new chain. A number: further draws at one theta continue the last chain by `thin`
        updates. These draws are dependent but cheaper: Alquier et al. (2016) take 1000 updates, then a draw every 4.

    Notes
    -----
    Guarantee: none at any finite length. The distribution of y' tends to f(.|theta) as `n_updates` grows. The remaining
    difference biases samplers that would be exact with exact draws of y'.

    Examples
    --------
    >>> Auxiliary(1000, "both")
    Auxiliary(n_updates=1000, start='both', move='auto', thin=None)
    """

    n_updates: int
    start: str = "both"
    move: str = "auto"
    thin: int | None = None

    def __post_init__(self) -> None:
        """Check ranges and names."""
        for name in ("n_updates", "thin"):
            value = getattr(self, name)
            if name == "n_updates" or value is not None:
                checked_integer(value, name, who="Auxiliary", needed="a positive integer")
        for name, allowed in (("start", STARTS), ("move", MOVES)):
            if getattr(self, name) not in allowed:
                raise InvalidInputError(f"Auxiliary: {name} must be one of {allowed}, found {getattr(self, name)!r}")


def checked_auxiliary(auxiliary: Any, who: str) -> Any:
    """Return "auto", "exact" or an `Auxiliary`; raise on anything else."""
    if isinstance(auxiliary, Auxiliary) or auxiliary in ("auto", "exact"):
        return auxiliary
    raise InvalidInputError(
        f'{who}: auxiliary must be "auto", "exact" or Auxiliary(n_updates, start), found {auxiliary!r}'
    )
