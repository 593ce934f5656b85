"""Change one site of a discrete state: draw a site uniformly, then one of its other states uniformly.

The proposal is symmetric, so log q(x|x') - log q(x'|x) = 0.

Two coupled chains change the same site, to the same state if both can. If X goes to Y's state, Y goes to X's state.
This is the maximal coupling of the two proposals.
"""

import dataclasses
from typing import Any, NamedTuple

import numpy as np

from approxmcmc.contracts import CompiledProposal, Component, DiscreteTarget, Proposal, Target
from approxmcmc.engine.compiler.compile import compiled
from approxmcmc.engine.compiler.vectors import assign
from approxmcmc.errors import IncompatibleError


class SiteState(NamedTuple):
    """Number of states of every site; shape (dim,)."""

    n_states: np.ndarray


@compiled
def propose(rng: np.random.Generator, state: SiteState, theta: np.ndarray, out: np.ndarray, count: np.ndarray) -> float:
    """Write theta with another state of one site, both drawn uniformly, to `out`; return 0, the log q ratio."""
    assign(out, theta)
    site = int(rng.random() * theta.shape[0])
    other = int(rng.random() * (state.n_states[site] - 1))  # among the other states
    out[site] = other if other < theta[site] else other + 1
    return 0.0


@compiled
def couple(
    rng: np.random.Generator,
    state: SiteState,
    other: SiteState,
    x: np.ndarray,
    y: np.ndarray,
    x_new: np.ndarray,
    y_new: np.ndarray,
    noise: np.ndarray,
    count: np.ndarray,
) -> tuple[float, float]:
    """Propose the same state of one site for both chains, or for each chain the state of the other."""
    log_q_ratio = propose(rng, state, x, x_new, count)
    assign(y_new, y)
    for site in range(x.shape[0]):
        if x_new[site] != x[site]:
            y_new[site] = x[site] if x_new[site] == y[site] else x_new[site]
    return log_q_ratio, log_q_ratio


@dataclasses.dataclass(frozen=True, eq=False)
class SingleSite(Component, Proposal):
    """Propose another state of one site, both drawn uniformly.

    Raises
    ------
    IncompatibleError
        When the target is not discrete.

    Notes
    -----
    Metropolis et al. (1953) for spins. One step changes at most one site; a Gibbs sweep draws every site.

    Examples
    --------
    >>> import approxmcmc as amc
    >>> amc.MetropolisHastings(amc.proposals.SingleSite(), amc.ExactTest())
    MetropolisHastings(proposal=SingleSite(), test=ExactTest(rule='metropolis'))
    """

    proposes_states = True

    def build_proposal(self, target: Target) -> CompiledProposal:
        """Compile the proposal; it has nothing to tune."""
        if not isinstance(target, DiscreteTarget):
            raise IncompatibleError(
                f"SingleSite proposes states of a discrete target, found {target!r}; use RandomWalk"
            )
        state = SiteState(target.n_states.copy())
        return CompiledProposal(propose, lambda: state, couple=couple)

    def probabilities(self, target: Any, states: np.ndarray) -> np.ndarray:
        """Return the probability of each step between `states`, (n, n): 1 / (D (n_states - 1)) if one site differs.

        D is the number of sites, `n_states` the number of states of this site. Other steps have probability 0.
        """
        different = states[:, None, :] != states[None, :, :]
        chance = different / (target.n_states - 1.0) / states.shape[1]
        return np.where(different.sum(axis=2) == 1, chance.sum(axis=2), 0.0)
