"""The trivial test: accept every proposal and read no data.

With a stochastic-gradient Langevin proposal the chain is SGLD (Welling and Teh 2011); with a random walk proposal the
chain is a plain random walk.
"""

import dataclasses
from typing import NamedTuple

import numpy as np

from approxmcmc.contracts import AcceptanceTest, CompiledTest, Population, Target
from approxmcmc.engine.compiler.compile import compiled
from approxmcmc.engine.terms.evidence import Evidence


class NoState(NamedTuple):
    """An empty state; a kernel's tuple must have at least one entry."""

    nothing: int = 0


@compiled
def accept(
    rng: np.random.Generator,
    evidence: Evidence,
    threshold: float,
    log_rest: float,
    test: NoState,
    count: np.ndarray,
    value: np.ndarray,
) -> tuple[int, float]:
    """Accept without reading data: return 1, for accepted, and 0 in place of the log ratio."""
    return 1, 0.0


@compiled
def no_threshold(rng: np.random.Generator) -> float:
    """Return 0 without a random draw: the test has no threshold."""
    return 0.0


@compiled
def certainty(log_ratio: float) -> float:
    """Return the acceptance probability, 1."""
    return 1.0


@dataclasses.dataclass(frozen=True, eq=False)
class AlwaysAccept(AcceptanceTest):
    """Accept every proposal.

    Notes
    -----
    Guarantee: none beyond the proposal's guarantee. In the trace `accepted` is always True, `acceptance_rate` is 1,
    and no decisions are counted.

    Examples
    --------
    >>> import approxmcmc as amc
    >>> amc.AlwaysAccept()
    AlwaysAccept()
    """

    @property
    def uses_ratio(self) -> bool:
        """False: no ratio is used."""
        return False

    def why_not_invariant(self, n_obs: int) -> str:
        """Return why the chain may be biased: no step is tested."""
        return f"{self!r} tests nothing"

    def looks(self, n_obs: int) -> np.ndarray:
        """Return an empty array: no data are read."""
        return np.empty(0, dtype=np.int64)

    def build_test(self, target: Target | Population) -> CompiledTest:
        """Compile the test."""
        return CompiledTest(accept, NoState, no_threshold, certainty, uses_ratio=False, is_audited=False)
