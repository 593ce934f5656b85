"""A mixture of proposals: choose one at random, then let it propose.

Component k is drawn with probability w_k, whatever theta is, and the ratio log q(theta|theta') - log q(theta'|theta) of
component k is used. The kernel is then the mixture of Metropolis-Hastings kernels sum_k w_k P_k. Each of them leaves
the posterior invariant, so the mixture does, too. The ratio of the *mixture* density is not needed.
"""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from approxmcmc.contracts import CompiledProposal, Component, Proposal, Target
from approxmcmc.engine.compiler.compile import compiled
from approxmcmc.engine.compiler.identity import cached_by_content
from approxmcmc.errors import IncompatibleError, InvalidInputError

FIRST = 0
SECOND = 1


class MixtureState(NamedTuple):
    """`share`, the probability of the first of two proposals, the states of both, and which proposed last."""

    share: float
    first: Any
    second: Any
    chosen: np.ndarray


@cached_by_content(maxsize=64)
def make_propose_either(first: Callable[..., float], second: Callable[..., float]) -> Callable[..., float]:
    """Return a proposal that uses one of two; one function for each pair, so that compiled kernels are reused."""

    def propose(
        rng: np.random.Generator, state: MixtureState, theta: np.ndarray, out: np.ndarray, count: np.ndarray
    ) -> float:
        if rng.random() < state.share:
            state.chosen[0] = FIRST
            return first(rng, state.first, theta, out, count)
        state.chosen[0] = SECOND
        return second(rng, state.second, theta, out, count)

    return compiled(propose)


@cached_by_content(maxsize=64)
def make_couple_either(first: Callable[..., Any], second: Callable[..., Any]) -> Callable[..., tuple[float, float]]:
    """Return the coupling of two mixtures: both chains use the same member."""

    def couple(
        rng: np.random.Generator,
        state: MixtureState,
        other: MixtureState,
        x: np.ndarray,
        y: np.ndarray,
        x_new: np.ndarray,
        y_new: np.ndarray,
        noise: np.ndarray,
        count: np.ndarray,
    ) -> tuple[float, float]:
        if rng.random() < state.share:
            state.chosen[0] = FIRST
            return first(rng, state.first, other.first, x, y, x_new, y_new, noise, count)  # type: ignore[no-any-return]
        state.chosen[0] = SECOND
        return second(rng, state.second, other.second, x, y, x_new, y_new, noise, count)  # type: ignore[no-any-return]

    return compiled(couple)


@cached_by_content(maxsize=64)
def make_adapt_either(first: Callable[..., None] | None, second: Callable[..., None] | None) -> Callable[..., None]:
    """Return the function that adapts the member that proposed last; a member that does not adapt gives None."""

    def adapt(state: MixtureState, acceptance: float, step: int) -> None:
        if state.chosen[0] == FIRST:
            if first is not None:
                first(state.first, acceptance, step)
        elif second is not None:
            second(state.second, acceptance, step)

    return compiled(adapt)


@cached_by_content(maxsize=64)
def make_settle_either(
    first: Callable[[Any, bool], None] | None, second: Callable[[Any, bool], None] | None
) -> Callable[[Any, bool], None]:
    """Return the function that reports to the member which proposed last whether its proposal was accepted."""

    def settle(state: MixtureState, accepted: bool) -> None:
        if state.chosen[0] == FIRST:
            if first is not None:
                first(state.first, accepted)
        elif second is not None:
            second(state.second, accepted)

    return compiled(settle)


@dataclasses.dataclass(frozen=True, eq=False)
class Mixture(Component, Proposal):
    """Propose by one of several proposals, chosen at random at every step.

    Parameters
    ----------
    proposals
        Two proposals or more.
    weights
        Positive weights, scaled to probabilities that add up to 1. None: equal probabilities.

    Raises
    ------
    InvalidInputError
        When there are fewer than two proposals, or there is not one positive weight for each.
    IncompatibleError
        When a member is not a proposal, or its draws carry weights (:class:`DecreasingStep`).

    Notes
    -----
    The mixture is valid because the choice does not depend on theta and each member uses its own density ratio, so each
    member is reversible by itself (Tierney 1994, section 2.4). A member adapts from the steps that it proposed. A
    member with a velocity learns whether its own proposal was accepted. The pair (theta, velocity) keeps its
    distribution, because the other members leave the distribution of theta invariant, whatever the velocity.

    References
    ----------
    Tierney (1994), section 2.4.

    Examples
    --------
    >>> import approxmcmc as amc
    >>> amc.proposals.Mixture([amc.RandomWalk(0.1), amc.RandomWalk(2.0)], weights=[3, 1]).weights
    (0.75, 0.25)
    """

    proposals: Sequence[Any]
    weights: Any = None

    def __post_init__(self) -> None:
        """Check members and weights."""
        proposals = tuple(self.proposals)
        if len(proposals) < 2:
            raise InvalidInputError(f"Mixture: needs two proposals or more, found {len(proposals)}")
        for member in proposals:
            if not isinstance(member, Proposal):
                raise IncompatibleError(f"Mixture: members must be proposals such as RandomWalk(0.1), found {member!r}")
        weights = np.ones(len(proposals)) if self.weights is None else np.array(self.weights, dtype=np.float64)
        if weights.shape != (len(proposals),) or not (np.isfinite(weights).all() and (weights > 0.0).all()):
            raise InvalidInputError(
                f"Mixture: {len(proposals)} proposals need as many positive weights, found {self.weights!r}"
            )
        object.__setattr__(self, "proposals", proposals)
        object.__setattr__(self, "weights", tuple(float(weight) for weight in weights / weights.sum()))

    @property
    def members(self) -> Sequence[Proposal]:
        """The proposals of the mixture, one of which moves at every step."""
        return tuple(member for proposal in self.proposals for member in proposal.members)

    @property
    def error_untested(self) -> str:  # type: ignore[override]  # a constant of other proposals
        """Return the sentences on the bias that steps of the members have without a test."""
        return "; ".join(dict.fromkeys(member.error_untested for member in self.members if member.error_untested))

    def build_proposal(self, target: Target) -> CompiledProposal:
        """Compile the mixture; its state holds the choice and the members' states."""
        members = [member.build_proposal(target) for member in self.proposals]
        for settings, member in zip(self.proposals, members, strict=True):
            if member.weight is not None:
                raise IncompatibleError(f"Mixture: draws of {settings!r} carry weights, draws of other members do not")

        def describe(state: MixtureState) -> Mapping[str, float]:
            own = [m.describe(each) for m, each in zip(members, _own_states(state, len(members)), strict=True)]
            return {f"{name}_{k}": value for k, names in enumerate(own) for name, value in names.items()}

        def restore(state: MixtureState, described: Mapping[str, float]) -> None:
            for k, (member, each) in enumerate(zip(members, _own_states(state, len(members)), strict=True)):
                if member.restore is not None:
                    own = {n.removesuffix(f"_{k}"): value for n, value in described.items() if n.endswith(f"_{k}")}
                    member.restore(each, own)

        def refresh(state: MixtureState) -> None:
            for member, each in zip(members, _own_states(state, len(members)), strict=True):
                member.refresh(each)

        joined = _join(members, np.array(self.weights))
        return joined._replace(describe=describe, restore=restore, refresh=refresh)

    def draw_start(self, rng: np.random.Generator) -> np.ndarray | None:
        """Return the start that the first member with one offers, shape (dim,), or None."""
        offers = (member.draw_start(rng) for member in self.proposals)
        return next((theta for theta in offers if theta is not None), None)


def _join(members: Sequence[CompiledProposal], weights: np.ndarray) -> CompiledProposal:
    """Return the first member, or the mixture of it and all others: a chain of choices between two.

    The result has no `forget`, so samplers that change the density between proposals reject it if it uses gradients.
    """
    if len(members) == 1:
        return members[0]
    first = members[0]
    second = _join(members[1:], weights[1:])
    share = float(weights[0] / weights.sum())

    def make_state() -> MixtureState:
        return MixtureState(share, first.make_state(), second.make_state(), np.zeros(1, dtype=np.int64))

    tunes = first.adapt is not None or second.adapt is not None
    settles = first.settle is not None or second.settle is not None
    return CompiledProposal(
        make_propose_either(first.propose, second.propose),
        make_state,
        make_adapt_either(first.adapt, second.adapt) if tunes else None,
        couple=make_couple_either(first.couple, second.couple) if first.couple and second.couple else None,
        settle=make_settle_either(first.settle, second.settle) if settles else None,
        records=tuple(dict.fromkeys((*first.records, *second.records))),
        attrs={**first.attrs, **second.attrs},
    )


def _own_states(state: Any, n_members: int) -> list[Any]:
    """Return the members' states, in their order, from the state of a mixture, which nests as `_join` does."""
    return [state] if n_members == 1 else [state.first, *_own_states(state.second, n_members - 1)]
