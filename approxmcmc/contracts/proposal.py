"""The role of a proposal."""

import abc
from collections.abc import Sequence

import numpy as np

from approxmcmc.contracts.compiled import CompiledProposal
from approxmcmc.contracts.target import Target


class Proposal(abc.ABC):
    """Where to go: draws theta' from ``q(.|theta)`` and knows ``log q(theta|theta') - log q(theta'|theta)``.

    A proposal derives from this class and writes :meth:`build_proposal`; everything else has a default.
    """

    proposes_states: bool = False
    """Whether it moves between the states of a discrete target, and not over real numbers."""

    target_acceptance: float | None = None
    """The acceptance rate to which its steps are tuned; None: they are not."""

    leaves_little: bool = False
    """Whether its density ratio cancels all of the posterior but little, so that an exact test is cheap."""

    error_untested: str = "nothing is known of the law of its untested steps"
    """What its steps are off by where no test corrects them; "" where they leave the target's law invariant untested.

    With a test they are as exact as the test: the density ratio is that of the steps.
    """

    @property
    def members(self) -> "Sequence[Proposal]":
        """The proposals of which one moves at every step: this one, or those of a mixture."""
        return (self,)

    @abc.abstractmethod
    def build_proposal(self, target: Target) -> CompiledProposal:
        """Check that the target has what this proposal needs, and compile it; once per `sample`."""

    def build_unadjusted(self, target: Target) -> CompiledProposal:
        """Compile what serves a test that asks for no density ratio; write it where the ratio costs gradients."""
        return self.build_proposal(target)

    def with_meetings(self, target: Target) -> "Proposal":
        """Return a proposal by which two coupled chains can meet in one point: this one, or a mixture with such steps.

        Asked for the exact kernel that a coupling follows, which may be any kernel of the posterior.
        """
        return self

    def probabilities(self, target: Target, states: np.ndarray) -> np.ndarray | None:
        """Return the probability to propose each of some states from each, shape (n, n); None where it is not known.

        Zero on the diagonal; rows sum to at most 1. On a grid it is the density, scaled to a largest row sum of 1.
        """
        return None

    def draw_start(self, rng: np.random.Generator) -> np.ndarray | None:
        """Return a random theta where a chain may start, shape (dim,), or None: the proposal knows of none."""
        return None
