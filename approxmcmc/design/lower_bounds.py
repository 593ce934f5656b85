"""Costs of candidates by counted work: lower bounds before any trial, and the seconds of the work that trials count."""

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from approxmcmc.design.target_profile import TargetProfile
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
from approxmcmc.targets.regression import with_bounded_residuals

TRIAL_STEPS = 400  # length of the shortest trial: 50 steps to burn in and 50 more, in each of four chains
FEWEST_READ = 64.0  # residuals that a decision of a t-test reads at least
FARTHEST = 8.0  # largest distance of mode and mean used, in standard deviations; it corresponds to 1e15 draws


class LowerBound(NamedTuple):
    """Lower bounds of the seconds that a candidate needs: `set_up`, `per_draw` (one effective draw) and `per_step`.

    Parts that candidates share, such as the mode, and compilation are not included. For NUTS the numbers are estimates,
    with compilation. `foretold` says whether the set-up will hardly take longer than `set_up`.
    """

    set_up: float
    per_draw: float
    is_predictable: bool = True
    per_step: float = 0.0

    @property
    def trial(self) -> float:
        """Seconds of the shortest trial, which delays the answer."""
        return TRIAL_STEPS * self.per_step


# --- lower bounds for a step and an effective draw ---


def _step(profile: TargetProfile, products: float, alone: float = STEP) -> float:
    """Return the seconds of a step without the rows that it reads: `alone`, and `products` of a matrix and a vector."""
    return alone + NUMBER * profile.dim + products * PRODUCT * profile.dim**2


def draws_to_the_mean(profile: TargetProfile) -> float:
    """Return half of the independent draws that it takes until one lies beyond the posterior's mean.

    Draws are from the normal approximation at the mode; the coordinate whose mean is farthest from it counts. Half of
    the posterior lies beyond its mean, and draws must reach that half before they represent it.
    """
    off = (
        0.0 if profile.seen is None else float(np.max(np.abs(profile.seen.mode - profile.mode.mode) / profile.mode.sd))
    )
    return 1.0 / math.erfc(min(off, FARTHEST) / math.sqrt(2.0))


def stretch(profile: TargetProfile) -> float:
    """Return the largest variance of a coordinate over the smallest, in units of the normal approximation at the mode.

    Steps in the metric of the mode are as short as the narrowest coordinate requires, so they need this many times as
    many steps to cross the widest one.
    """
    variances = np.ones(1) if profile.seen is None else np.square(profile.seen.sd / profile.mode.sd)
    return float(variances.max() / variances.min())


def of_walks(draws: Callable[[TargetProfile], float]) -> Callable[[TargetProfile], LowerBound]:
    """Return the lower bound of steps that read all data once, `draws(profile)` of them for an effective draw."""

    def lower_bound(profile: TargetProfile) -> LowerBound:
        step = profile.pass_seconds + _step(profile, 1.0)
        return LowerBound(0.0, step * draws(profile), per_step=step)

    return lower_bound


def of_gradient_steps(profile: TargetProfile) -> LowerBound:
    """Return the lower bound of Langevin steps: at least 0.75 d^(1/3) steps for an effective draw, times `stretch`."""
    step = profile.pass_seconds + profile.gradient_seconds + _step(profile, 3.0)
    return LowerBound(0.0, 0.75 * profile.dim ** (1 / 3) * stretch(profile) * step, per_step=step)


def of_trajectory(profile: TargetProfile) -> LowerBound:
    """Return the lower bound of trajectories: d^(1/4) gradients and a density for each effective draw."""
    leapfrogs = profile.dim**0.25
    product = PRODUCT * profile.metric_numbers
    step = profile.pass_seconds + leapfrogs * (profile.gradient_seconds + 2.0 * product) + _step(profile, 0.0) + product
    return LowerBound(0.0, step, per_step=step)


def of_few_rows(profile: TargetProfile) -> LowerBound:
    """Return the lower bound of influential rows: their set-up, and the rows that decide a draw."""
    step = _step(profile, 1.5, TRANSITION_STEP) + FEWEST_READ * profile.rates.residual
    set_up = 0.0 if profile.has("influential rows") else profile.expansion_seconds
    draw = max([step, *profile.transitions])
    return LowerBound(set_up, draw, is_predictable=profile.has("influential rows"), per_step=step)


def of_few_rows_exactly(profile: TargetProfile) -> LowerBound:
    """Return the lower bound of surrogate transitions on influential rows with an exact test.

    `CheapestExactTest` reads all light rows if their residuals have no bounds one by one, and may read few if they do.
    """
    lower_bound = of_few_rows(profile)
    if with_bounded_residuals(profile.target) is not None:
        return lower_bound
    step = lower_bound.per_draw + RESIDUAL * profile.pass_seconds
    return lower_bound._replace(per_draw=step, per_step=step)


# --- seconds of counted work ---


def seconds_with_products(profile: TargetProfile, counted: Counted, products: float) -> float:
    """Return the seconds of the steps in `counted`, with so many `products` of a (dim, dim) matrix and a vector."""
    return seconds_of_steps(profile.rates, profile.dim, counted, products)


def seconds_of_trajectories(profile: TargetProfile, counted: Counted) -> float:
    """Return the seconds of trajectories: two products for each gradient of all rows, and one for the momentum."""
    products = counted.steps + 2.0 * counted.gradients / profile.target.n_obs
    return seconds_with_products(profile, counted, 0.0) + products * PRODUCT * profile.metric_numbers


def seconds_with_influential_rows(profile: TargetProfile, counted: Counted) -> float:
    """Return the seconds of surrogate transitions with the influential rows of the target."""
    return seconds_of_transitions(
        profile.rates, profile.dim, counted, len(profile.influential_rows.always_read), profile.light
    )


def seconds_without_light_rows(profile: TargetProfile, seconds: float, read: float) -> float:
    """Return the seconds of a surrogate transition without its decision, which reads light rows too.

    The whole transition takes `seconds`, and reads `read` rows.
    """
    return seconds - profile.light.seconds(
        profile.rates, max(read - len(profile.influential_rows.always_read), 0.0), 1.0
    )
