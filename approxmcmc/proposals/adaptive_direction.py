"""Parallel adaptive direction sampling: a population of chains that propose along each other's differences.

The members theta_1 ... theta_H take turns. Member h proposes

    theta' = theta_h + gamma (theta_h1 - theta_h2) + e,    e ~ N(0, scale^2 I),

with h1 and h2 drawn from the others. The move is symmetric given the others, so the log q ratio is 0, and the target
of the population is the product of H posteriors: each member has the posterior as its distribution (Gilks, Roberts and
George 1994; Caimo and Friel 2011).
"""

import dataclasses
import math
from typing import Any, NamedTuple

import numpy as np

from approxmcmc.contracts import CompiledProposal, Component, DoublyIntractableTarget, Proposal, Target
from approxmcmc.engine.checks import checked_integer
from approxmcmc.engine.compiler.compile import compiled
from approxmcmc.engine.compiler.vectors import assign
from approxmcmc.errors import IncompatibleError, InvalidInputError

LEAST_MEMBERS = 3
NOBODY = -1  # no member has moved yet
TRIES = 100  # random starts tried for a member


@compiled
def _scatter(rng: np.random.Generator, log_prior: Any, spread: float, theta: np.ndarray, members: np.ndarray) -> None:
    """Write the members' starts: theta for the first, random points around theta in the prior's support for the others.

    A member outside of the support could hardly enter it; after 100 tries a member starts at theta.
    """
    assign(members[0], theta)
    for h in range(1, members.shape[0]):
        for _ in range(TRIES):
            for j in range(theta.shape[0]):
                members[h, j] = theta[j] + spread * (2.0 * rng.random() - 1.0)
            if log_prior(members[h]) > -math.inf:
                break
        if log_prior(members[h]) == -math.inf:
            assign(members[h], theta)


class PopulationState(NamedTuple):
    """The settings; the members, shape (H, dim); and `turn` (1,), the index of the member moved last, or NOBODY."""

    gamma: float
    scale: float
    spread: float
    log_prior: Any
    members: np.ndarray
    turn: np.ndarray


@compiled
def propose(
    rng: np.random.Generator, state: PopulationState, theta: np.ndarray, out: np.ndarray, count: np.ndarray
) -> float:
    """Store theta in the population, write the next member to `theta`, and propose for it to `out`; return 0."""
    members = state.members
    turn = state.turn
    n_members = members.shape[0]
    if turn[0] == NOBODY:
        _scatter(rng, state.log_prior, state.spread, theta, members)
        current = 0
    else:
        assign(members[turn[0]], theta)
        current = (turn[0] + 1) % n_members
    turn[0] = current
    assign(theta, members[current])
    first = int(rng.random() * (n_members - 1))
    first += 1 if first >= current else 0
    second = int(rng.random() * (n_members - 2))
    low = min(current, first)
    high = max(current, first)
    second += 1 if second >= low else 0
    second += 1 if second >= high else 0
    for j in range(theta.shape[0]):
        step = state.gamma * (members[first, j] - members[second, j])
        out[j] = theta[j] + step + state.scale * rng.standard_normal()
    return 0.0


@dataclasses.dataclass(frozen=True, eq=False)
class AdaptiveDirection(Component, Proposal):
    """Propose along the difference of two other members of a population; BERGM's proposal, for :class:`Exchange`.

    Parameters
    ----------
    gamma
        Factor on the difference.
    scale
        Standard deviation of the added noise, in the units of theta.
    n_members
        Size H of the population, at least 3; None: 2 dim, and at least 3.
    spread
        Members start at the chain's starting point plus U(-spread, spread) in each coordinate, the first at the point
        itself. A start with prior density 0 is drawn again; after 100 such draws the member starts at the
        point itself.

    Raises
    ------
    InvalidInputError
        When a number is out of range.
    IncompatibleError
        When the sampler is not of the exchange family: other samplers cache values at theta from step to step, but this
        proposal replaces theta by the next member.

    Notes
    -----
    One chain of the trace is one population. Each step moves one member, and the members take turns; the draw is the
    member that moved. Without thinning draws t and t + H belong to the same member: the draws of a chain cycle through
    the population. All H members have the posterior as their distribution, and a chain's average uses all of them.
    Neighbouring draws belong to different members, so R-hat, ESS and MCSE of the draws in order are far too optimistic:
    use ``diagnostics.split_population(trace)``, where every member is a chain. A ``thin`` that shares a factor with H
    keeps only some members; ``thin=H`` keeps a single one.

    Guarantee: the guarantee of the sampler. The differences adapt the moves to the shape of the posterior, without a
    tuning phase.

    References
    ----------
    Gilks, Roberts and George (1994); Caimo and Friel (2011), section 4.1.

    Examples
    --------
    >>> import approxmcmc as amc
    >>> amc.Exchange(amc.proposals.AdaptiveDirection(gamma=0.5, scale=0.05)).proposal.gamma
    0.5
    """

    gamma: float = 0.5
    scale: float = 0.05
    n_members: int | None = None
    spread: float = 1.0

    def __post_init__(self) -> None:
        """Check ranges."""
        for name in ("gamma", "scale", "spread"):
            value = getattr(self, name)
            if not (np.ndim(value) == 0 and 0.0 < value < np.inf):
                raise InvalidInputError(f"AdaptiveDirection: {name} must be positive and finite, found {value!r}")
        if self.n_members is not None:
            needed = f"an integer >= {LEAST_MEMBERS}, or None"
            checked_integer(self.n_members, "n_members", LEAST_MEMBERS, needed=needed)

    def build_proposal(self, target: Target) -> CompiledProposal:
        """Compile the proposal; its state is the population and the index of the member that moved last."""
        if not isinstance(target, DoublyIntractableTarget):
            raise IncompatibleError(
                f"AdaptiveDirection moves a population, which only Exchange on a doubly intractable target supports; "
                f"found {target!r}: use RandomWalk"
            )
        dim = target.variables.size
        n_members = self.n_members or max(LEAST_MEMBERS, 2 * dim)

        log_prior = target.compile_log_prior()
        scale = float(self.scale)

        def make_state() -> PopulationState:
            members = np.zeros((n_members, dim))
            turn = np.full(1, NOBODY)
            return PopulationState(float(self.gamma), scale, float(self.spread), log_prior, members, turn)

        return CompiledProposal(propose, make_state, describe=lambda state: {"n_members": n_members})
