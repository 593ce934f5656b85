"""Bugs of each role, which the test of pairings must reject: right functions in wrappers that introduce an error.

Wrappers are compiled if the library is, so that each bug needs a chain compiled for it.
"""

import dataclasses
from typing import Any

import numpy as np

import approxmcmc as amc
from approxmcmc.contracts import AcceptanceTest, Component, Proposal
from approxmcmc.engine.compiler.compile import compiled
from approxmcmc.samplers.firefly.joint import make_dark
from approxmcmc.samplers.firefly.step import ZUpdate
from approxmcmc.samplers.metropolis_hastings.replication import propose_pinned
from tests.pairings.worlds import ROWS


def without_ratio(propose):
    """Return a proposal kernel that returns 0 instead of its log density ratio."""

    @compiled
    def forgetful(rng, state, theta, out, count):
        propose(rng, state, theta, out, count)
        return 0.0

    return forgetful


def softened(threshold):
    """Return a kernel that draws 9/10 of the right threshold."""

    @compiled
    def soft(rng):
        return 0.9 * threshold(rng)

    return soft


def lopsided(decide):
    """Return a decision that loses 3 % of the acceptances upwards."""

    @compiled
    def decide_lopsided(rng, evidence, threshold, log_rest, test, count, value):
        answer, log_ratio = decide(rng, evidence, threshold, log_rest, test, count, value)
        if answer == 1 and evidence.proposed[0] > evidence.theta[0] and rng.random() < 0.03:
            return 0, log_ratio
        return answer, log_ratio

    return decide_lopsided


@compiled
def propose_pinned_lopsided(rng, pair, theta, out, count):
    """Propose x' from x, but lose 3 % of the steps upwards."""
    log_q_ratio = propose_pinned(rng, pair, theta, out, count)
    return -np.inf if out[0] > theta[0] and log_q_ratio == 0.0 and rng.random() < 0.03 else log_q_ratio


def lopsided_move(move):
    """Return a move of the noisy family that drops 3 % of its upward moves."""

    @compiled
    def move_lopsided(streams, state, theta, proposed, count):
        log_q_ratio = move(streams, state, theta, proposed, count)
        return -np.inf if proposed[0] > theta[0] and streams.uniform.random() < 0.03 else log_q_ratio

    return move_lopsided


def late(plan):
    """Return a kernel that plans turns 3 % late while the first velocity is positive."""

    @compiled
    def plan_late(rng, flight):
        return plan(rng, flight) * (1.03 if flight.velocity[0] > 0.0 else 1.0)

    return plan_late


@dataclasses.dataclass(frozen=True, eq=False)
class LosingZ(Component, ZUpdate):
    """An update of z after which the last bright row becomes dark in one of ten steps."""

    right: Any

    def build_z_update(self):
        """Wrap it."""
        built = self.right.build_z_update()
        return built._replace(update=losing(built.update))


def losing(update):
    """Return an update that makes a bright row dark without asking, in one of ten steps."""

    @compiled
    def update_and_lose(rng, theta, joint, bright, state, count):
        fine = update(rng, theta, joint, bright, state, count)
        if bright.size[0] > 0 and rng.random() < 0.1:
            make_dark(bright, bright.size[0] - 1)
        return fine

    return update_and_lose


def always_accepted(settle):
    """Return a kernel that tells a proposal after every decision that its trajectory was accepted."""

    @compiled
    def settle_wrongly(state, accepted):
        settle(state, True)

    return settle_wrongly


@dataclasses.dataclass(frozen=True, eq=False)
class BuggyProposal(Component, Proposal):
    """A proposal with its kernel `name` wrapped by `wrap`."""

    proposal: Any
    name: str
    wrap: Any

    def build_proposal(self, target):
        """Wrap it."""
        built = self.proposal.build_proposal(target)
        return built._replace(**{self.name: self.wrap(getattr(built, self.name))})


@dataclasses.dataclass(frozen=True, eq=False)
class BuggyTest(AcceptanceTest):
    """A test with its kernel `name` wrapped by `wrap`; it claims to be exact, as the right one does."""

    test: Any
    name: str
    wrap: Any

    order = "memory"

    @property
    def only_compares(self):
        """As the right one."""
        return self.test.only_compares

    def why_not_invariant(self, n_obs):
        """Return ""."""
        return ""

    def build_test(self, target):
        """Wrap it."""
        built = self.test.build_test(target)
        return built._replace(**{self.name: self.wrap(getattr(built, self.name))})


def buggy_proposal(proposal, name, wrap, test=None):
    """Return Metropolis-Hastings with a wrapped proposal."""
    return amc.MetropolisHastings(BuggyProposal(proposal, name, wrap), test or amc.ExactTest())


def buggy_test(test, name, wrap):
    """Return Metropolis-Hastings with a wrapped test."""
    return amc.MetropolisHastings(amc.RandomWalk(0.5), BuggyTest(test, name, wrap))


VELOCITY = amc.proposals.StochasticGradientHamiltonian(0.3, 0.05, ROWS, steps=2, preconditioner=np.ones(2))
BUGS = {  # world and sampler
    "a proposal without its density ratio": (
        "LogisticRegression",
        buggy_proposal(amc.Langevin(0.3), "propose", without_ratio),
    ),
    "a proposal that moves towards a normal law without saying so": (
        "LogisticRegression",
        buggy_proposal(
            amc.proposals.PreconditionedCrankNicolson(0.5, np.zeros(2), 0.1 * np.eye(2)), "propose", without_ratio
        ),
    ),
    "a threshold of 9/10": ("LogisticRegression", buggy_test(amc.ExactTest(), "threshold", softened)),
    "a threshold of 9/10 of a test that reads few rows": (
        "ControlVariate",
        buggy_test(amc.acceptance.PoissonTest(), "threshold", softened),
    ),
    "a slice of another height": (
        "LogisticRegression",
        amc.samplers.SliceSampler(amc.samplers.Slice(0.5), BuggyTest(amc.ExactTest(), "threshold", softened)),
    ),
    "a mixture that takes trajectories for accepted": (
        "LogisticRegression",
        buggy_proposal(amc.proposals.Mixture([VELOCITY, amc.RandomWalk(0.3)]), "settle", always_accepted),
    ),
    "an estimate that is drawn anew": (
        "EstimatedLikelihood",
        amc.samplers.PseudoMarginal(amc.RandomWalk(0.5), refresh=True),
    ),
    "3 % of the acceptances upwards": ("LogisticRegression", buggy_test(amc.ExactTest(), "decide", lopsided)),
}
