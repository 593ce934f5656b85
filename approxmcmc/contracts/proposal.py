"""The role of a proposal."""

import abc
from collections.abc import Sequence

import numpy as np

from approxmcmc.contracts.compiled import CompiledProposal
from approxmcmc.contracts.target import Target


class Proposal(abc.ABC):
    """Draw theta' from ``q(.|theta)``, and return ``log q(theta|theta') - log q(theta'|theta)``.

    A proposal derives from this class and writes :meth:`build_proposal`; everything else has a default.
    """

    proposes_states: bool = False
    """Whether it moves between the states of a discrete target instead of real numbers."""

    target_acceptance: float | None = None
    """The acceptance rate to which its steps are tuned; None: no tuning."""

    leaves_little: bool = False
    """Whether its density ratio cancels nearly all of the posterior, so that an exact test is cheap."""

    error_untested: str = "the distribution of its untested steps is unknown"
    """The error of its steps without a test; "" if untested steps leave the target invariant.

    With a test they are as exact as the test, because the density ratio is that of the steps.
    """

    @property
    def members(self) -> "Sequence[Proposal]":
        """The proposals that take turns: this one, or the members of a mixture."""
        return (self,)

    @abc.abstractmethod
    def build_proposal(self, target: Target) -> CompiledProposal:
        """Check that the target has what this proposal needs, and compile the proposal; once per `sample`."""

    def build_unadjusted(self, target: Target) -> CompiledProposal:
        """Compile the proposal for tests that do not use the ratio; override it if the ratio costs gradients."""
        return self.build_proposal(target)

    def with_meetings(self, target: Target) -> "Proposal":
        """Return a proposal by which two coupled chains can meet exactly: this one, or a mixture with such steps.

        Used for the exact kernel of a coupling, which may be any kernel of the posterior.
        """
        return self

    def probabilities(self, target: Target, states: np.ndarray) -> np.ndarray | None:
        """Return the probability of proposing each of some states from each, shape (n, n); None if unknown.

        Zero on the diagonal; rows sum to at most 1. On a grid it is the density, scaled to a largest row sum of 1.
        """
        return None

    def draw_start(self, rng: np.random.Generator) -> np.ndarray | None:
        """Return a random theta at which a chain may start, shape (dim,), or None if the proposal offers none."""
        return None
