"""What `choose_sampler` can choose from: one entry for each lever, with what it can cost at best.

A candidate says whether a target has what it needs, makes its target and its sampler, and knows a *floor*: no run of it
is faster than that. A floor is a bound from below of counted work, so that a candidate whose floor is above what
another one needs is neither made nor compiled.
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
from approxmcmc.design import nuts
from approxmcmc.design.normal_by_pilot import trajectories
from approxmcmc.design.survey import Situation
from approxmcmc.design.work import (
    NUMBER,
    PRODUCT,
    RESIDUAL,
    STEP,
    TRANSITION_STEP,
    Counted,
    seconds_of_steps,
    seconds_of_transitions,
)
from approxmcmc.proposals import Langevin, Mixture, PreconditionedCrankNicolson, RandomWalk
from approxmcmc.samplers import Exchange, Gibbs, MetropolisHastings
from approxmcmc.surrogate import SurrogateTransition
from approxmcmc.targets import Laplace
from approxmcmc.targets.linear import LinearTarget

TRIAL_STEPS = 400  # of four chains, half of them to burn in
SHARE_OF_WALKS = 0.1  # beside independent draws, which alone may stick in a tail
FEWEST_READ = 64.0  # residuals, in a decision of a t-test


class Floor(NamedTuple):
    """Seconds of set-up, and seconds for an effective draw, that a candidate cannot get below.

    Laws that are shared, such as the mode, and compilation are not in it. `foretold` says that the set-up will hardly
    take longer. `per_step` are the seconds of a step, of which a trial makes some hundred.
    """

    set_up: float
    per_draw: float
    foretold: bool = True
    per_step: float = 0.0

    @property
    def trial(self) -> float:
        """Seconds of the shortest trial, after which an answer is so much later."""
        return TRIAL_STEPS * self.per_step


class Pairing(NamedTuple):
    """A target and a sampler that are ready to run; the target may be another form of the user's.

    `law` is where chains start; None where the target knows better.
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
        Says why a target cannot have it, or nothing. Asked anew as more becomes known.
    law
        Which law of the posterior it needs: the ``"mode"``, a ``"pilot"``, ``"fit"`` (the mode, or a pilot where there
        is none), or none.
    parts
        What it compiles for a new model, beside the terms.
    seconds
        What so much counted work takes.
    is_counted
        Whether its price is that of its floor, and no trial is made.
    """

    name: str
    exact: bool
    make: Callable[[Situation], Pairing]
    floor: Callable[[Situation], Floor]
    why_not: Callable[[Situation], str] = lambda known: ""
    law: str = ""
    parts: frozenset[str] = frozenset()
    seconds: Callable[[Situation, Counted], float] = lambda known, counted: _seconds(known, counted, 0.0)
    is_counted: bool = False


def candidates(target: Target) -> tuple[Candidate, ...]:
    """Return the candidates for a target, by its kind."""
    if isinstance(target, DiscreteTarget):
        return (GIBBS,)
    return (EXCHANGE,) if isinstance(target, DoublyIntractableTarget) else TALL


def _walk(known: Situation) -> RandomWalk:
    """Return a walk of 2.38 / sqrt(d) posterior standard deviations (Roberts, Gelman and Gilks 1997)."""
    return RandomWalk(2.38 / math.sqrt(known.dim), preconditioner=known.fit)


def _exact_walk(known: Situation) -> Pairing:
    return Pairing(known.target, MetropolisHastings(_walk(known), ExactTest()), known.fit)


def _independent_draws(known: Situation) -> Pairing:
    independent = PreconditionedCrankNicolson(0.0, known.mode)
    proposal = Mixture([independent, _walk(known)], weights=[1.0 - SHARE_OF_WALKS, SHARE_OF_WALKS])
    return Pairing(known.target, MetropolisHastings(proposal, ExactTest()), known.mode)


def _langevin(known: Situation) -> Pairing:
    # 1.65^2 d^(-1/3) and .574 are best in high dimension (Roberts and Rosenthal 1998).
    step = Langevin(1.65**2 / known.dim ** (1 / 3), preconditioner=known.mode, target_acceptance=0.574)
    return Pairing(known.target, MetropolisHastings(step, ExactTest()), known.mode)


def _trajectories(known: Situation) -> Pairing:
    return Pairing(known.target, MetropolisHastings(trajectories(known.pilot), ExactTest()), known.pilot)


def _surrogate(test: AcceptanceTest | None) -> Callable[[Situation], Pairing]:
    return lambda known: Pairing(known.core_rows, MetropolisHastings(SurrogateTransition(), test), known.mode)


# --- what a target cannot have ---


def _no_covariance(known: Situation) -> str:
    return known.why_no_covariance


def _no_gradient(known: Situation) -> str:
    return known.why_no_covariance if known.has_gradient else "the target has no gradient"


def _no_mode_or_gradient(known: Situation) -> str:
    """Say why there are no Langevin steps; in the metric of a pilot trajectories forget faster."""
    return _no_gradient(known) or known.why_no_expansion


def _no_mode(known: Situation) -> str:
    return known.why_no_expansion or known.why_no_covariance


def _no_expansion(known: Situation) -> str:
    return known.why_no_expansion or known.why_no_rows


# --- what a step and an effective draw take at best ---


def _step(known: Situation, products: float, alone: float = STEP) -> float:
    """Return the seconds of a step beside the rows that it reads."""
    return alone + NUMBER * known.dim + products * PRODUCT * known.dim**2


def _walks(draws: Callable[[int], float]) -> Callable[[Situation], Floor]:
    """Return the floor of steps that read all data once, `draws(dim)` of them for an effective draw."""

    def floor(known: Situation) -> Floor:
        step = known.pass_seconds + _step(known, 1.0)
        return Floor(0.0, step * draws(known.dim), per_step=step)

    return floor


def _gradient_steps(known: Situation) -> Floor:
    """Return the floor of Langevin steps: one forgets at most half its variance, and d^(1/3) as steps get shorter."""
    step = known.pass_seconds + known.gradient_seconds + _step(known, 3.0)
    return Floor(0.0, 0.75 * known.dim ** (1 / 3) * step, per_step=step)


def _trajectory(known: Situation) -> Floor:
    """Return the floor of trajectories: d^(1/4) gradients and a density for each effective draw."""
    leapfrogs = known.dim**0.25
    step = known.pass_seconds + leapfrogs * (known.gradient_seconds + 2.0 * PRODUCT * known.dim**2) + _step(known, 1.0)
    return Floor(0.0, step, per_step=step)


def _few_rows(known: Situation) -> Floor:
    """Return the floor of core rows: their set-up, and for a draw the rows that decide it."""
    step = _step(known, 1.5, TRANSITION_STEP) + FEWEST_READ * known.rates.residual
    set_up = 0.0 if known.has("core rows") else known.expansion_seconds
    return Floor(set_up, step, foretold=known.has("core rows"), per_step=step)


def _few_rows_exactly(known: Situation) -> Floor:
    """Return the floor with an exact test, which reads all rows where nothing bounds the single terms."""
    floor = _few_rows(known)
    if isinstance(known.target, LinearTarget):
        return floor
    step = floor.per_draw + RESIDUAL * known.pass_seconds
    return floor._replace(per_draw=step, per_step=step)


# --- what counted work takes ---


def _seconds(known: Situation, counted: Counted, products: float) -> float:
    return seconds_of_steps(known.rates, known.dim, counted, products)


def _of_trajectories(known: Situation, counted: Counted) -> float:
    """Return the seconds with two products for each gradient of all rows, and one for the momentum."""
    return _seconds(known, counted, counted.steps + 2.0 * counted.gradients / known.target.n_obs)


def _of_transitions(known: Situation, counted: Counted) -> float:
    return seconds_of_transitions(known.rates, known.dim, counted, len(known.core_rows.core))


# Of candidates that could answer soon the first is tried first: those with less to set up and to compile.
TALL = (
    Candidate(
        "independent draws and a walk, exact test",
        True,
        _independent_draws,
        _walks(lambda dim: 1.0),
        _no_mode,
        law="mode",
        seconds=lambda known, counted: _seconds(known, counted, counted.steps),
    ),
    Candidate(
        "Langevin steps, exact test",
        True,
        _langevin,
        _gradient_steps,
        _no_mode_or_gradient,
        law="mode",
        parts=frozenset({"gradient"}),
        seconds=lambda known, counted: _seconds(known, counted, 3.0 * counted.steps),
    ),
    Candidate(
        "Hamiltonian trajectories, exact test",
        True,
        _trajectories,
        _trajectory,
        _no_gradient,
        law="pilot",
        parts=frozenset({"gradient"}),
        seconds=_of_trajectories,
    ),
    # Best efficiencies of walks are near .33 / d.
    Candidate(
        "random walk, exact test",
        True,
        _exact_walk,
        _walks(lambda dim: max(1.0, float(dim))),
        _no_covariance,
        law="fit",
        seconds=lambda known, counted: _seconds(known, counted, counted.steps),
    ),
    Candidate(
        "core rows, surrogate transitions, exact test",
        True,
        _surrogate(None),
        _few_rows_exactly,
        _no_expansion,
        law="mode",
        parts=frozenset({"gradient", "expansion"}),
        seconds=_of_transitions,
    ),
    Candidate(
        "core rows, surrogate transitions, t-test",
        False,
        _surrogate(SequentialTTest(epsilon=0.01, batch_size=64, growth=2.0, tol=0.05)),
        _few_rows,
        _no_expansion,
        law="mode",
        parts=frozenset({"gradient", "expansion"}),
        seconds=_of_transitions,
    ),
    Candidate(
        nuts.name(),
        True,
        lambda known: Pairing(known.target, nuts.sampler(known.target)),
        lambda known: Floor(nuts.set_up_seconds(known), step := nuts.seconds_per_draw(known), per_step=step),
        nuts.why_not,
        is_counted=True,
    ),
)
GIBBS = Candidate(
    "Gibbs, exact", True, lambda known: Pairing(known.target, Gibbs(ExactTest())), lambda known: Floor(0.0, 0.0)
)
EXCHANGE = Candidate(
    "exchange",
    True,
    lambda known: Pairing(known.target, Exchange(RandomWalk(1.0, target_acceptance=0.234))),
    lambda known: Floor(0.0, 0.0),
)
