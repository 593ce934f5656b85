"""A mixture of proposals: choose one at random, then let it propose.

Component k is drawn with probability w_k, whatever theta is, and its own log q(theta|theta') - log q(theta'|theta) is
used. The kernel is then the mixture of Metropolis-Hastings kernels sum_k w_k P_k, each of which leaves the posterior
invariant, and so do they together. The ratio of the *mixture* density is not needed.
"""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from approxmcmc.contracts import Component, Part, Proposal, Target
from approxmcmc.engine.bind import compiled
from approxmcmc.engine.identity import cached_by_content
from approxmcmc.errors import IncompatibleError, InvalidInputError

CHOSEN = 0  # place of the state that holds which of the two proposed last


@cached_by_content(maxsize=64)
def _propose_either(first: Callable[..., float], second: Callable[..., float]) -> Callable[..., float]:
    """Return a proposal that lets one of two propose. One function for each pair, so that kernels are found again."""
    first, second = compiled(first), compiled(second)

    def propose(rng, params, state, theta, out, count):  # type: ignore[no-untyped-def]  # bound into a template
        share, split, first_params, second_params = params
        if rng.random() < share:
            state[CHOSEN] = 0.0
            return first(rng, first_params, state[1 : 1 + split], theta, out, count)
        state[CHOSEN] = 1.0
        return second(rng, second_params, state[1 + split :], theta, out, count)

    return propose


@cached_by_content(maxsize=64)
def _adapt_either(first: Callable[..., None], second: Callable[..., None]) -> Callable[..., None]:
    """Return the adaptation of the one that proposed last."""
    first, second = compiled(first), compiled(second)

    def adapt(params, state, acceptance, step):  # type: ignore[no-untyped-def]  # bound into a template
        _, split, first_params, second_params = params
        if state[CHOSEN] == 0.0:
            first(first_params, state[1 : 1 + split], acceptance, step)
        else:
            second(second_params, state[1 + split :], acceptance, step)

    return adapt


@dataclasses.dataclass(frozen=True, eq=False)
class Mixture(Component, Proposal):
    """Let one of several proposals propose, drawn afresh at every step.

    Parameters
    ----------
    proposals
        Two proposals or more.
    weights
        Their probabilities, positive; scaled to add up to 1. None: equal.

    Raises
    ------
    InvalidInputError
        When there are fewer than two proposals, or the weights do not fit them.
    IncompatibleError
        When a member is no proposal, or cannot be one of several.

    Notes
    -----
    Valid because the choice does not look at theta and each member uses its own density ratio, so that each is
    reversible by itself (Tierney 1994, section 2.4). Members adapt from the steps that they proposed.

    References
    ----------
    Tierney (1994), section 2.4.

    Examples
    --------
    >>> import approxmcmc as amc
    >>> amc.Mixture([amc.RandomWalk(0.1), amc.RandomWalk(2.0)], weights=[3, 1]).weights
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
        """The proposals of which one moves at every step."""
        return tuple(member for proposal in self.proposals for member in proposal.members)

    def build_proposal(self, target: Target) -> Part:
        """Return the part that chooses; its state holds the choice and the members' states."""
        parts = [member.build_proposal(target) for member in self.proposals]
        for member, part in zip(self.proposals, parts, strict=True):
            # FORGET is for samplers whose density changes between proposals; a mixture leaves it out, and they refuse.
            extra = sorted(set(part.functions) - {"PROPOSE", "ADAPT", "FORGET"})
            if extra:
                raise IncompatibleError(f"Mixture: {member!r} needs more of the sampler ({extra}) than a member gets")
        return _join(parts, np.array(self.weights))

    def draw_start(self, rng: np.random.Generator) -> np.ndarray | None:
        """Return a start that a member offers, or None; shape (dim,)."""
        offers = (member.draw_start(rng) for member in self.proposals)
        return next((theta for theta in offers if theta is not None), None)


def _join(parts: Sequence[Part], weights: np.ndarray) -> Part:
    """Return the first part, or the mixture of all others: a chain of choices between two."""
    if len(parts) == 1:
        return parts[0]
    first, second = parts[0], _join(parts[1:], weights[1:])
    split = first.make_state().size

    def describe(state: np.ndarray) -> Mapping[str, float]:
        found = first.describe(state[1 : 1 + split])
        others = second.describe(state[1 + split :])
        return {**{f"{name}_0": value for name, value in found.items()}, **_count_up(others, nested=len(parts) > 2)}

    return Part(
        {
            "PROPOSE": _propose_either(first.functions["PROPOSE"], second.functions["PROPOSE"]),
            "ADAPT": _adapt_either(first.functions["ADAPT"], second.functions["ADAPT"]),
        },
        (float(weights[0] / weights.sum()), split, first.params, second.params),
        lambda: np.concatenate([np.zeros(1), first.make_state(), second.make_state()]),
        describe,
        tuple(dict.fromkeys((*first.records, *second.records))),
        {**first.attrs, **second.attrs},
    )


def _count_up(described: Mapping[str, float], *, nested: bool) -> dict[str, float]:
    """Return descriptions whose names end in the member's number: 1 for a last member, one more for the others."""
    if not nested:
        return {f"{name}_1": value for name, value in described.items()}
    names = [(name.rpartition("_"), value) for name, value in described.items()]
    return {f"{stem}_{int(number) + 1}": value for (stem, _, number), value in names}
