"""The trivial test: every proposal is accepted, and no datum is read.

With a stochastic-gradient Langevin proposal this is SGLD (Welling and Teh 2011); with a random walk it is a random
walk. As a member of its role it spares every sampler an ``if``.
"""

import dataclasses

import numpy as np

from approxmcmc.contracts import AcceptanceTest, Part, Target


def _decide(  # type: ignore[no-untyped-def]  # bound into a chain template, which fixes the types
    rng, log_terms, data, n_obs, theta, proposed, threshold, log_rest, order, work, params, state, count, value
):
    return 1, 0.0


def _no_threshold(rng: np.random.Generator) -> float:
    return 0.0


def _certain(log_ratio: float) -> float:
    return 1.0


@dataclasses.dataclass(frozen=True, eq=False)
class AlwaysAccept(AcceptanceTest):
    """Accept whatever is proposed.

    Notes
    -----
    Guarantee: none of its own; the chain is the proposal's. `accepted` is always True, `acceptance_rate` 1, and no
    decisions are counted.

    Examples
    --------
    >>> import approxmcmc as amc
    >>> amc.AlwaysAccept()
    AlwaysAccept()
    """

    @property
    def uses_ratio(self) -> bool:
        """It does not."""
        return False

    def looks(self, n_obs: int) -> np.ndarray:
        """Return no look at all."""
        return np.empty(0, dtype=np.int64)

    def build_test(self, target: Target) -> Part:
        """Return the part that accepts."""
        constants = {"USES_RATIO": False, "CACHES_LIKELIHOOD": False, "AUDITED": False}
        rules = {"TEST": _decide, "THRESHOLD": _no_threshold, "ACCEPTANCE_PROBABILITY": _certain}
        return Part({**rules, **constants}, (0.0,), lambda: np.full(1, np.nan))
