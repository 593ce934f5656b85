"""The table that `choose_sampler` chooses from: one row for each method, with a lower bound of its cost.

A candidate says whether a target has what the method needs, makes its target and its sampler, and has a lower
bound of its run time, from counted work (for NUTS: an estimate). A candidate with a lower bound above the cost of
another one is neither made nor compiled.
"""

import dataclasses
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from approxmcmc.acceptance import ExactTest, SequentialTTest
from approxmcmc.contracts import (
    AcceptanceTest,
    DiscreteTarget,
    DoublyIntractableTarget,
    Target,
)
from approxmcmc.design import nuts
from approxmcmc.design.lower_bounds import (
    LowerBound,
    draws_to_the_mean,
    of_few_rows,
    of_few_rows_exactly,
    of_gradient_steps,
    of_trajectory,
    of_walks,
    seconds_of_trajectories,
    seconds_with_influential_rows,
    seconds_with_products,
    stretch,
)
from approxmcmc.design.normal_by_pilot import trajectories
from approxmcmc.design.target_profile import TargetProfile
from approxmcmc.design.work import Counted
from approxmcmc.numerics.sparse_normal import NormalFit
from approxmcmc.proposals import Langevin, Mixture, PreconditionedCrankNicolson, RandomWalk
from approxmcmc.samplers import Exchange, Gibbs, MetropolisHastings
from approxmcmc.surrogate import SurrogateTransition

SHARE_OF_WALKS = 0.1  # mixed with independent draws, which on their own may stick in a tail
# Standard deviations between 0 and the mode of a scale of either sign. Nearer, the two modes are one; farther, no chain
# crosses 0. With 3, in twelve hospitals, chains that crossed accepted .06 to .2 of the draws around the mode.
MIRRORED = 0.7, 4.5


class Pairing(NamedTuple):
    """A target and a sampler that are ready to run; the target may be another form of the user's target.

    Chains start at draws of `fit`; if it is None, the target or the sampler chooses their start. `sampler` is a
    `Sampler`, or NUTS, which has no trial.
    """

    target: Target
    sampler: Any
    fit: NormalFit | None = None


@dataclasses.dataclass(frozen=True)
class Candidate:
    """A method that may be chosen: a row of the table.

    Parameters
    ----------
    name
        Usual name of the method, for the table.
    exact
        Whether its stationary distribution is the posterior.
    make
        Function that makes target and sampler; raises if they do not fit together.
    lower_bound
        Function that returns the lower bound of the candidate's cost.
    why_not
        Function that returns why the candidate does not fit a target, or "". Called again when more is known.
    approximation
        Which normal approximation of the posterior `make` needs: at the ``"mode"``, by a ``"pilot"``, ``"fit"`` (at
        the mode, or by a pilot if there is no mode), or "" for none.
    parts
        The parts of a new model that are compiled in addition to the terms.
    seconds
        Function that converts counted work to seconds.
    is_counted
        Whether the output of `lower_bound` is taken as the cost, without a trial.
    """

    name: str
    exact: bool
    make: Callable[[TargetProfile], Pairing]
    lower_bound: Callable[[TargetProfile], LowerBound]
    why_not: Callable[[TargetProfile], str] = lambda profile: ""
    approximation: str = ""
    parts: frozenset[str] = frozenset()
    seconds: Callable[[TargetProfile, Counted], float] = lambda profile, counted: seconds_with_products(
        profile, counted, 0.0
    )
    is_counted: bool = False

    def compiles(self, profile: TargetProfile) -> frozenset[str]:
        """Return the parts of a model that the candidate and its approximation need compiled; none for NUTS."""
        return frozenset() if self.is_counted else self.parts | profile.parts_of(self.approximation) | {"terms"}


def candidates(target: Target) -> tuple[Candidate, ...]:
    """Return the candidates for a target, by its kind."""
    if isinstance(target, DiscreteTarget):
        return (GIBBS,)
    return (EXCHANGE,) if isinstance(target, DoublyIntractableTarget) else TALL


def _walk(profile: TargetProfile) -> RandomWalk:
    """Return a walk of 2.38 / sqrt(d) posterior standard deviations (Roberts, Gelman and Gilks 1997)."""
    return RandomWalk(2.38 / math.sqrt(profile.dim), preconditioner=profile.fit)


def _exact_walk(profile: TargetProfile) -> Pairing:
    return Pairing(profile.target, MetropolisHastings(_walk(profile), ExactTest()), profile.fit)


def _independent_draws(profile: TargetProfile) -> Pairing:
    independent = PreconditionedCrankNicolson(0.0, profile.mode)
    proposal = Mixture([independent, _walk(profile)], weights=[1.0 - SHARE_OF_WALKS, SHARE_OF_WALKS])
    return Pairing(profile.target, MetropolisHastings(proposal, ExactTest()), profile.mode)


def _langevin(profile: TargetProfile) -> Pairing:
    # 1.65^2 d^(-1/3) and .574 are best in high dimension (Roberts and Rosenthal 1998).
    step = Langevin(1.65**2 / profile.dim ** (1 / 3), preconditioner=profile.mode, target_acceptance=0.574)
    return Pairing(profile.target, MetropolisHastings(step, ExactTest()), profile.mode)


def _trajectories(profile: TargetProfile) -> Pairing:
    return Pairing(profile.target, MetropolisHastings(trajectories(profile.pilot), ExactTest()), profile.pilot)


def _surrogate(test: AcceptanceTest | None) -> Callable[[TargetProfile], Pairing]:
    return lambda profile: Pairing(profile.influential_rows, MetropolisHastings(SurrogateTransition(), test))


# --- reasons why a candidate does not fit a target ---


def _no_covariance(profile: TargetProfile) -> str:
    return profile.why_no_covariance


def _no_gradient(profile: TargetProfile) -> str:
    return profile.why_no_covariance if profile.has_gradient else "the target has no gradient"


def _no_mode_or_gradient(profile: TargetProfile) -> str:
    """Return why Langevin steps are not possible, or ""; without a mode to expand at, trajectories are better."""
    return _no_gradient(profile) or profile.why_no_expansion


def _no_mode(profile: TargetProfile) -> str:
    return profile.why_no_expansion or profile.why_no_covariance


def _no_single_mode(profile: TargetProfile) -> str:
    """Return why draws around the mode do not fit, or ""; a mirrored second mode is noticed once the first is found."""
    why = _no_mode(profile)
    if why or not profile.has("mode"):
        return why
    deviations_from_0 = np.abs(profile.mode.mode / profile.mode.sd)[list(profile.target.mirrored)]
    nearest, farthest = MIRRORED
    misses_one = ((deviations_from_0 > nearest) & (deviations_from_0 < farthest)).any()
    return "a scale may have either sign, and draws around one of the two modes miss the other" if misses_one else ""


def _no_expansion(profile: TargetProfile) -> str:
    return profile.why_no_expansion or profile.why_no_rows


# Of candidates that could finish soon the first in the table is tried first: those with less to set up and compile.
TALL = (
    Candidate(
        "independent draws and a walk, exact test",
        True,
        _independent_draws,
        of_walks(draws_to_the_mean),
        _no_single_mode,
        approximation="mode",
        seconds=lambda profile, counted: seconds_with_products(profile, counted, counted.steps),
    ),
    Candidate(
        "Langevin steps, exact test",
        True,
        _langevin,
        of_gradient_steps,
        _no_mode_or_gradient,
        approximation="mode",
        parts=frozenset({"gradient"}),
        seconds=lambda profile, counted: seconds_with_products(profile, counted, 3.0 * counted.steps),
    ),
    Candidate(
        "Hamiltonian trajectories, exact test",
        True,
        _trajectories,
        of_trajectory,
        _no_gradient,
        approximation="pilot",
        parts=frozenset({"gradient", "trajectory"}),
        seconds=seconds_of_trajectories,
    ),
    # The best walks give about .33 / d effective draws per step.
    Candidate(
        "random walk, exact test",
        True,
        _exact_walk,
        of_walks(lambda profile: max(1.0, profile.dim * stretch(profile))),
        _no_covariance,
        approximation="fit",
        seconds=lambda profile, counted: seconds_with_products(profile, counted, counted.steps),
    ),
    Candidate(
        "influential rows, surrogate transitions, exact test",
        True,
        _surrogate(None),
        of_few_rows_exactly,
        _no_expansion,
        approximation="mode",
        parts=frozenset({"gradient", "expansion"}),
        seconds=seconds_with_influential_rows,
    ),
    Candidate(
        "influential rows, surrogate transitions, t-test",
        False,
        _surrogate(SequentialTTest(epsilon=0.01, batch_size=64, growth=2.0, tol=0.05)),
        of_few_rows,
        _no_expansion,
        approximation="mode",
        parts=frozenset({"gradient", "expansion"}),
        seconds=seconds_with_influential_rows,
    ),
    Candidate(
        nuts.name(),
        True,
        lambda profile: Pairing(profile.target, nuts.sampler(profile.target)),
        nuts.lower_bound,
        nuts.why_not,
        is_counted=True,
    ),
)
GIBBS = Candidate(
    "Gibbs, exact",
    True,
    lambda profile: Pairing(profile.target, Gibbs(ExactTest())),
    lambda profile: LowerBound(0.0, 0.0),
)
EXCHANGE = Candidate(
    "exchange",
    True,
    lambda profile: Pairing(profile.target, Exchange(RandomWalk(1.0, target_acceptance=0.234))),
    lambda profile: LowerBound(0.0, 0.0),
)
