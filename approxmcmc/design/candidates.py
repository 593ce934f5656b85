"""What `choose_sampler` can choose from: one entry for each lever, with what it can cost at best.

A candidate says whether a target has what it needs, makes its target and its sampler, and knows a *floor*: no run of it
is faster than that. A floor is a bound from below, counted in passes over the data, so that a candidate whose floor is
above what another one was measured to need is never compiled.
"""

import dataclasses
import math
from collections.abc import Callable
from typing import NamedTuple

from approxmcmc.acceptance import ExactTest, SequentialTTest
from approxmcmc.contracts import (
    AcceptanceTest,
    DiscreteTarget,
    DoublyIntractableTarget,
    Sampler,
    Target,
)
from approxmcmc.design.normal_by_pilot import trajectories, why_no_gradient
from approxmcmc.design.survey import Situation
from approxmcmc.proposals import Langevin, Mixture, PreconditionedCrankNicolson, RandomWalk
from approxmcmc.samplers import Exchange, Gibbs, MetropolisHastings
from approxmcmc.surrogate import SurrogateTransition
from approxmcmc.targets import Laplace
from approxmcmc.targets.linear import LinearTarget

SURROGATE_STEP = 5e-6  # seconds; no measured transition with its decision was faster
PILOT_PASSES = 6000  # 750 trajectories, each of some 8 gradients
TRIAL_STEPS = 400  # of four chains, half of them to burn in
SHARE_OF_WALKS = 0.1  # beside independent draws, which alone may stick in a tail


class Floor(NamedTuple):
    """Seconds of set-up, and seconds for an effective draw, that a candidate cannot get below.

    `foretold` says that the set-up will hardly take longer, being nothing but passes over the data. `trial` are the
    seconds of the shortest trial, after which an answer is so much later.
    """

    set_up: float
    per_draw: float
    foretold: bool = False
    trial: float = 0.0


class Pairing(NamedTuple):
    """A target and a sampler that are ready to run; the target may be another form of the user's.

    `law` is where chains start, where that is not the normal law that all candidates know.
    """

    target: Target
    sampler: Sampler
    law: Laplace | None = None


@dataclasses.dataclass(frozen=True)
class Candidate:
    """One entry of the table.

    Parameters
    ----------
    name
        In the field's words, for the table.
    exact
        Whether its stationary law is the posterior.
    make
        Makes the setting; it may raise what the pieces raise where they do not fit.
    floor
        What it costs at best.
    why_not
        Says why a target cannot have it, or nothing.
    """

    name: str
    exact: bool
    make: Callable[[Situation], Pairing]
    floor: Callable[[Situation], Floor]
    why_not: Callable[[Situation], str] = lambda known: ""


def candidates(target: Target) -> tuple[Candidate, ...]:
    """Return the candidates for a target, by its kind."""
    if isinstance(target, DiscreteTarget):
        return (GIBBS,)
    return (EXCHANGE,) if isinstance(target, DoublyIntractableTarget) else TALL


def _walk(known: Situation) -> RandomWalk:
    """Return a walk of 2.38 / sqrt(d) posterior standard deviations (Roberts, Gelman and Gilks 1997)."""
    return RandomWalk(2.38 / math.sqrt(known.dim), preconditioner=known.fit)


def _exact_walk(known: Situation) -> Pairing:
    return Pairing(known.target, MetropolisHastings(_walk(known), ExactTest()))


def _independent_draws(known: Situation) -> Pairing:
    independent = PreconditionedCrankNicolson(0.0, known.law)
    proposal = Mixture([independent, _walk(known)], weights=[1.0 - SHARE_OF_WALKS, SHARE_OF_WALKS])
    return Pairing(known.target, MetropolisHastings(proposal, ExactTest()))


def _langevin(known: Situation) -> Pairing:
    # 1.65^2 d^(-1/3) and .574 are best in high dimension (Roberts and Rosenthal 1998).
    step = Langevin(1.65**2 / known.dim ** (1 / 3), preconditioner=known.fit, target_acceptance=0.574)
    return Pairing(known.target, MetropolisHastings(step, ExactTest()))


def _trajectories(known: Situation) -> Pairing:
    return Pairing(known.target, MetropolisHastings(trajectories(known.pilot), ExactTest()), known.pilot)


def _surrogate(test: AcceptanceTest | None) -> Callable[[Situation], Pairing]:
    return lambda known: Pairing(known.core_rows, MetropolisHastings(SurrogateTransition(), test))


def _no_gradient(known: Situation) -> str:
    """Say why a target has no gradient steps, or nothing."""
    return why_no_gradient(known.target)


def _no_mode(known: Situation) -> str:
    """Say why there is no expansion, or nothing."""
    return "" if known.has_mode else "the posterior has no mode to expand at"


def _passes(count: Callable[[int], float], step: int = 1) -> Callable[[Situation], Floor]:
    """Return the floor of who reads all data `count(dim)` times for an effective draw, and `step` times in a step."""

    def floor(known: Situation) -> Floor:
        return Floor(0.0, known.pass_seconds * count(known.dim), trial=known.pass_seconds * TRIAL_STEPS * step)

    return floor


def _pilot(known: Situation) -> Floor:
    """Return the floor of trajectories: a pilot, unless there was one, and d^(1/4) gradients and a density for each."""
    set_up = PILOT_PASSES * known.pass_seconds if known.has_mode else 0.0
    step = known.pass_seconds * (1.0 + known.dim**0.25)
    return Floor(set_up, step, foretold=True, trial=TRIAL_STEPS * step)


def _expansion(known: Situation) -> Floor:
    """Return the floor of core rows: passes for first and second derivatives, and next to nothing for a draw."""
    if known.has_core_rows:
        return Floor(0.0, SURROGATE_STEP)
    return Floor(known.expansion_seconds, SURROGATE_STEP)


def _exact_expansion(known: Situation) -> Floor:
    """Return the floor with an exact test, which reads all rows where nothing bounds the single terms."""
    floor = _expansion(known)
    if isinstance(known.target, LinearTarget):
        return floor
    return floor._replace(per_draw=known.pass_seconds, trial=TRIAL_STEPS * known.pass_seconds)


# Of candidates that could answer soon the first is tried first: those with less to set up and to compile.
TALL = (
    Candidate("independent draws and a walk, exact test", True, _independent_draws, _passes(lambda dim: 1.0)),
    # A step reads the data twice, for gradient and density, and forgets at most half its variance.
    Candidate(
        "Langevin steps, exact test", True, _langevin, _passes(lambda dim: 1.5 * dim ** (1 / 3), 2), _no_gradient
    ),
    Candidate("Hamiltonian trajectories, exact test", True, _trajectories, _pilot, _no_gradient),
    # Best efficiencies of walks are near .33 / d.
    Candidate("random walk, exact test", True, _exact_walk, _passes(lambda dim: max(1.0, float(dim)))),
    Candidate("core rows, surrogate transitions, exact test", True, _surrogate(None), _exact_expansion, _no_mode),
    Candidate(
        "core rows, surrogate transitions, t-test",
        False,
        _surrogate(SequentialTTest(epsilon=0.01, batch_size=64, growth=2.0, tol=0.05)),
        _expansion,
        _no_mode,
    ),
)
GIBBS = Candidate(
    "Gibbs, exact", True, lambda known: Pairing(known.target, Gibbs(ExactTest())), _passes(lambda dim: 0.0)
)
EXCHANGE = Candidate(
    "exchange",
    True,
    lambda known: Pairing(known.target, Exchange(RandomWalk(1.0, target_acceptance=0.234))),
    _passes(lambda dim: 0.0),
)
