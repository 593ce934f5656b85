"""The role of a proposal, and what it becomes for a target: compiled functions, and the state that they read and write.

The functions of every compiled form are compiled by `approxmcmc.engine.compiler.compile.compiled`, or plain Python
where no compiler is used. The state is a named tuple. It holds the results of set-up (numbers, arrays, function
pointers) and the arrays of one chain, all by name: ``state.upper``, ``state.log_factor[0]``. Values that change from
step to step are in arrays, of one element for a single number.
"""

import abc
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from approxmcmc.contracts.target import Target


class CompiledProposal(NamedTuple):
    """A proposal built for a target.

    ``propose(rng, state, theta, out, count) -> float`` writes theta' to `out` and returns ``log q(theta|theta') - log
    q(theta'|theta)``. ``move`` writes the same theta' and returns 0, for steps without a test; None if the ratio costs
    nothing. ``adapt(state, acceptance, step)`` learns from a tuning step; None without tuning. `make_state` returns the
    state of a new chain, `describe` the tuned values of a state, ``restore(state, described)`` writes them to another
    one, and `explain` says why a proposal is NaN if its gradient is not the reason. A proposal with `adapt` must have
    both `describe` and `restore`: stored draws are audited with the steps that made them. ``weight(state) -> float`` is
    the weight of the last draw; None if all draws weigh the same. ``forget(state)`` clears cached values, for samplers
    with a density that changes between proposals; None if nothing is cached, or if the cache cannot be cleared.
    ``settle(state, accepted)`` is called after each decision, for a proposal that needs more than
    theta, such as a velocity that an accepted trajectory continues; None otherwise. theta alone does not tell whether
    the proposal was accepted, because another member of a mixture may have moved it since. A sampler with decisions
    calls it, or raises an error on a proposal that needs it. After `refresh`, the next proposal first redraws what a
    chain holds besides theta, such as a velocity. It is used for steps that do not follow one another. `records` names
    the members of `OPTIONAL_COUNTS` and `VALUE_NAMES` that it fills, `attrs` holds costs of set-up, as ``setup_*``.

    ``couple(rng, state, other, x, y, x_new, y_new, noise, count) -> (log q ratio of X, of Y)`` proposes for two chains
    together so that they meet: X as `propose` does, with the same numbers of `rng`; Y from the same proposal given y;
    the same point for both as often as it can, and always once x = y. `other` is the state of Y, `noise` (2, dim)
    scratch. None if no coupling is known.
    """

    propose: Callable[..., float]
    make_state: Callable[[], Any]
    adapt: Callable[..., None] | None = None
    describe: Callable[[Any], Mapping[str, float]] = lambda state: {}
    restore: Callable[[Any, Mapping[str, float]], None] | None = None
    explain: Callable[[Any], str] = lambda state: ""
    weight: Callable[..., float] | None = None
    forget: Callable[..., None] | None = None
    settle: Callable[[Any, bool], None] | None = None
    couple: Callable[..., tuple[float, float]] | None = None
    refresh: Callable[[Any], None] = lambda state: None
    move: Callable[..., float] | None = None
    records: tuple[str, ...] = ()
    attrs: Mapping[str, Any] = {}


class Proposal(abc.ABC):
    """Draw theta' from ``q(.|theta)``, and return ``log q(theta|theta') - log q(theta'|theta)``.

    A proposal derives from this class and writes :meth:`build_proposal`; everything else has a default.
    """

    proposes_states: bool = False
    """Whether the proposal moves between the states of a discrete target instead of real numbers."""

    target_acceptance: float | None = None
    """The acceptance rate that tuning of the step size aims at; None: no tuning."""

    leaves_little: bool = False
    """Whether the log q-ratio cancels nearly all of the log posterior ratio, so that an exact test needs few rows."""

    error_untested: str = "the distribution of its untested steps is unknown"
    """The error of the proposal's steps without a test; "" if untested steps leave the target invariant.

    With a test they are as exact as the test, because `propose` returns the log q-ratio of the steps.
    """

    @property
    def members(self) -> "Sequence[Proposal]":
        """The proposals that take turns: this one, or the members of a mixture."""
        return (self,)

    @abc.abstractmethod
    def build_proposal(self, target: Target) -> CompiledProposal:
        """Compile the proposal, after a check that the target has what it needs; called at set-up, not in steps."""

    def build_unadjusted(self, target: Target) -> CompiledProposal:
        """Compile the proposal for tests that do not use the ratio; override it if the ratio costs gradients."""
        return self.build_proposal(target)

    def with_meetings(self, target: Target) -> "Proposal":
        """Return a proposal by which two coupled chains can meet exactly: this one, or a mixture with such steps.

        Used for the exact kernel of a coupling, which may be any kernel of the posterior.
        """
        return self

    def probabilities(self, target: Target, states: np.ndarray) -> np.ndarray | None:
        """Return the probability of proposing ``states[j]`` from ``states[i]``, shape (n, n); None if unknown.

        Zero on the diagonal; rows sum to at most 1. On a grid of real numbers the entries are densities of the
        proposal times one factor, with which the largest row sum is 1.
        """
        return None

    def draw_start(self, rng: np.random.Generator) -> np.ndarray | None:
        """Return a random theta at which a chain may start, shape (dim,), or None if the proposal offers none."""
        return None
