"""The explicit update of z: Gibbs steps on some of the indicators."""

import dataclasses
import math
from typing import NamedTuple

import numpy as np

from approxmcmc.contracts import Component
from approxmcmc.contracts.records import DARK, EVALUATIONS, TOUCHED
from approxmcmc.engine.compiler.compile import compiled
from approxmcmc.errors import InvalidInputError
from approxmcmc.samplers.firefly.joint import (
    LEAST_GAP,
    Bright,
    JointDensity,
    log_odds_of,
    make_bright,
    make_dark,
    write_gaps,
)
from approxmcmc.samplers.firefly.step import CompiledZUpdate, ZUpdate

MOST_LOG_ODDS = 700.0  # exp(700) = 1e304; any larger odds make the same decisions


class ExplicitState(NamedTuple):
    """The number of picks in a step, with replacement; scratch for the indices and gaps of the picked data.

    ``is_picked`` (N,) is 1 for data picked in this step.
    """

    n_picks: int
    picked: np.ndarray
    gaps: np.ndarray
    is_picked: np.ndarray


@compiled
def update_explicit(
    rng: np.random.Generator,
    theta: np.ndarray,
    joint: JointDensity,
    bright: Bright,
    state: ExplicitState,
    count: np.ndarray,
) -> bool:
    """Draw z_i anew for some data, once for each even if picked twice; return False if a gap is NaN or < LEAST_GAP."""
    n_bright, n_dark = pick(rng, bright, state)
    redraw_bright(rng, bright, state, n_bright)
    count[TOUCHED] += n_dark + n_bright
    count[EVALUATIONS] += n_dark
    count[DARK] += n_dark
    return redraw_dark(rng, theta, joint, bright, state, n_dark)


@compiled
def pick(rng: np.random.Generator, bright: Bright, state: ExplicitState) -> tuple[int, int]:
    """Pick data, and write their indices to `state.picked`, dark ones at its front, bright ones at its end.

    Return how many bright and how many dark data were picked.
    """
    picked = state.picked
    is_picked = state.is_picked
    n_obs = picked.shape[0]
    n_bright = 0
    n_dark = 0
    for _ in range(state.n_picks):
        datum = int(rng.random() * n_obs)
        if is_picked[datum]:
            continue
        is_picked[datum] = 1
        if bright.position[datum] < bright.size[0]:
            n_bright += 1
            picked[n_obs - n_bright] = datum
        else:
            picked[n_dark] = datum
            n_dark += 1
    return n_bright, n_dark


@compiled
def redraw_bright(rng: np.random.Generator, bright: Bright, state: ExplicitState, n: int) -> None:
    """Redraw the indicators of the bright data ``state.picked[-n:]`` from their cached odds."""
    n_obs = state.picked.shape[0]
    for k in range(n_obs - n, n_obs):
        datum = state.picked[k]
        state.is_picked[datum] = 0
        place = bright.position[datum]
        # P(z_i = 0) = 1 / (1 + odds)
        if rng.random() < 1.0 / (1.0 + math.exp(min(MOST_LOG_ODDS, bright.log_odds[place]))):
            make_dark(bright, place)


@compiled
def redraw_dark(
    rng: np.random.Generator, theta: np.ndarray, joint: JointDensity, bright: Bright, state: ExplicitState, n: int
) -> bool:
    """Redraw the indicators of the dark data ``state.picked[:n]``; return False if a gap is NaN or below LEAST_GAP."""
    write_gaps(joint, theta, state.picked, n, state.gaps)
    for k in range(n):
        datum = state.picked[k]
        gap = state.gaps[k]
        state.is_picked[datum] = 0
        if not gap >= LEAST_GAP:
            return False
        if rng.random() < -math.expm1(-gap):  # P(z_i = 1) = (L_i - B_i) / L_i = 1 - exp(-gap)
            make_bright(bright, datum, log_odds_of(gap))
    return True


@dataclasses.dataclass(frozen=True, eq=False)
class ExplicitResampling(Component, ZUpdate):
    """Draw z_i from its conditional given theta, for some of the data.

    Parameters
    ----------
    fraction
        In (0, 1]: ceil(fraction N) data are picked with replacement in every step; every dark datum among them costs a
        likelihood evaluation. z mixes about 1 / fraction times more slowly than if all are redrawn.

    Raises
    ------
    InvalidInputError
        When the fraction is out of range.

    References
    ----------
    Maclaurin and Adams (2014), section 3.2 and algorithm 1.

    Examples
    --------
    >>> import approxmcmc as amc
    >>> amc.samplers.ExplicitResampling(0.05)
    ExplicitResampling(fraction=0.05)
    """

    fraction: float = 0.1

    def __post_init__(self) -> None:
        """Check the range."""
        if isinstance(self.fraction, str) or not 0.0 < self.fraction <= 1.0:
            raise InvalidInputError(f"ExplicitResampling: fraction must lie in (0, 1], found {self.fraction!r}")

    def build_z_update(self) -> CompiledZUpdate:
        """Compile the update; there is nothing to tune."""
        return CompiledZUpdate(update_explicit, self._make_state)

    def _make_state(self, expected_bright: float, n_obs: int) -> ExplicitState:
        scratch = np.empty(n_obs, dtype=np.int64), np.empty(n_obs), np.zeros(n_obs, dtype=np.int64)
        return ExplicitState(math.ceil(self.fraction * n_obs), *scratch)
