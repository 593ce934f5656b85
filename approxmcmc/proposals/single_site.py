"""Change one site of a discrete state: a site drawn uniformly, and one of its other states drawn uniformly.

Symmetric, so log q(x|x') - log q(x'|x) = 0.
"""

import dataclasses

import numpy as np

from approxmcmc.contracts import Component, DiscreteTarget, Part, Proposal, Target
from approxmcmc.engine.vectors import assign
from approxmcmc.errors import IncompatibleError
from approxmcmc.proposals.random_walk import keep


def _propose(rng, params, state, theta, out, count):  # type: ignore[no-untyped-def]  # bound into a template
    n_states = params[0]
    assign(out, theta)
    site = int(rng.random() * theta.shape[0])
    other = int(rng.random() * (n_states[site] - 1))  # among the states that are left
    out[site] = other if other < theta[site] else other + 1
    return 0.0


@dataclasses.dataclass(frozen=True, eq=False)
class SingleSite(Component, Proposal):
    """Propose another state of one site, both drawn uniformly.

    Raises
    ------
    IncompatibleError
        When the target is not discrete.

    Notes
    -----
    Metropolis et al. (1953) for spins. One step changes at most one site; a Gibbs sweep draws all D of them.

    Examples
    --------
    >>> import approxmcmc as amc
    >>> amc.MetropolisHastings(amc.SingleSite(), amc.ExactTest())
    MetropolisHastings(proposal=SingleSite(), test=ExactTest(rule='metropolis'))
    """

    proposes_states = True

    def build_proposal(self, target: Target) -> Part:
        """Return the part that proposes; it has nothing to learn."""
        if not isinstance(target, DiscreteTarget):
            raise IncompatibleError(
                f"SingleSite proposes states of a discrete target, found {target!r}; use RandomWalk"
            )
        return Part({"PROPOSE": _propose, "ADAPT": keep}, (target.n_states.copy(),), lambda: np.zeros(1))
