"""The implicit update of z: Metropolis-Hastings on every indicator; dark data that propose nothing are not read."""

import dataclasses
import math
from collections.abc import Mapping
from typing import Any, NamedTuple

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

MOST_Q = 0.1  # largest q that is chosen automatically
MOST_GAP = 700.0  # exp(700) = 1e304; any larger gap makes the same decisions


class ImplicitState(NamedTuple):
    """The probabilities `q` and `q_bright`, and the running mean of the bright count; the rest is scratch."""

    q: np.ndarray
    q_bright: float
    mean_bright: np.ndarray
    candidates: np.ndarray
    gaps: np.ndarray


@compiled
def update_implicit(
    rng: np.random.Generator,
    theta: np.ndarray,
    joint: JointDensity,
    bright: Bright,
    state: ImplicitState,
    count: np.ndarray,
) -> bool:
    """Update the indicators of bright data, and of dark data chosen by geometric jumps.

    Return False if a gap is NaN or below LEAST_GAP.
    """
    first_dark = bright.size[0]  # the snapshot: darkening only moves data within order[:first_dark]
    darken(rng, bright, state)
    n = choose_dark(rng, bright, first_dark, state)
    count[TOUCHED] += first_dark + n
    count[EVALUATIONS] += n
    count[DARK] += n
    return brighten(rng, theta, joint, bright, state, n)


@compiled
def darken(rng: np.random.Generator, bright: Bright, state: ImplicitState) -> None:
    """Update the indicator of each bright datum, with probability q_bright, from its cached odds."""
    q = state.q[0]
    q_bright = state.q_bright
    for place in range(bright.size[0] - 1, -1, -1):  # downwards: the datum that fills a place has already been updated
        if q_bright < 1.0 and rng.random() >= q_bright:
            continue
        if rng.random() < go_dark_probability(bright.log_odds[place], q, q_bright):
            make_dark(bright, place)


@compiled
def choose_dark(rng: np.random.Generator, bright: Bright, first_dark: int, state: ImplicitState) -> int:
    """Write the indices of the dark data that propose to go bright to `state.candidates`, and return how many.

    Each datum from position `first_dark` on proposes with probability q; jumps of geometric length skip the others.
    """
    q = state.q[0]
    n_obs = bright.order.shape[0]
    rate = -math.log1p(-q) if q < 1.0 else math.inf
    n = 0
    place = first_dark - 1
    while True:
        jump = rng.standard_exponential() / rate  # its whole part is geometric on 0, 1, 2, ...
        if jump >= n_obs - 1 - place:
            return n
        place += 1 + int(jump)
        state.candidates[n] = bright.order[place]
        n += 1


@compiled
def brighten(
    rng: np.random.Generator, theta: np.ndarray, joint: JointDensity, bright: Bright, state: ImplicitState, n: int
) -> bool:
    """Update the indicators of the dark data ``state.candidates[:n]``; return False if a gap is NaN or < LEAST_GAP."""
    q = state.q[0]
    q_bright = state.q_bright
    write_gaps(joint, theta, state.candidates, n, state.gaps)
    for k in range(n):
        gap = state.gaps[k]
        u = rng.random()
        if not gap >= LEAST_GAP:
            return False
        # exp(gap) - 1 <= gap / (1 - gap): if even that is too small, as usual, no exponential is needed.
        if gap < 1.0 and u >= q_bright * gap / (q * (1.0 - gap)):
            continue
        if u < go_bright_probability(gap, q, q_bright):
            make_bright(bright, state.candidates[k], log_odds_of(gap))
    return True


@compiled
def go_dark_probability(log_odds: float, q: float, q_bright: float) -> float:
    """Return min(1, q r / (q_bright (1 - r))), r = B / L, from the log odds of brightness, log((1 - r) / r)."""
    return math.exp(min(0.0, math.log(q / q_bright) - log_odds))


@compiled
def go_bright_probability(gap: float, q: float, q_bright: float) -> float:
    """Return the probability to accept that a datum goes bright: min(1, q_bright (1 - r) / (q r)), r = exp(-gap)."""
    return min(1.0, q_bright * math.expm1(min(gap, MOST_GAP)) / q)


@compiled
def follow_bright_count(state: ImplicitState, n_bright: int, step: int) -> None:
    """Update the running mean of the bright count, and compute q from it by `automatic_q`."""
    mean = state.mean_bright
    mean[0] += (n_bright - mean[0]) / (step + 1.0) ** 0.6
    state.q[0] = automatic_q(mean[0], state.candidates.shape[0])


@compiled
def automatic_q(expected_bright: float, n_obs: int) -> float:
    """Return the expected bright count over N, raised to 1/N if it is smaller, lowered to 0.1 if it is larger."""
    return min(MOST_Q, max(expected_bright, 1.0) / n_obs)


def describe_q(state: ImplicitState) -> Mapping[str, float]:
    """Return the tuned q."""
    return {"q": float(state.q[0])}


@dataclasses.dataclass(frozen=True, eq=False)
class ImplicitResampling(Component, ZUpdate):
    """Metropolis-Hastings on every z_i: bright data propose to go dark, dark data to go bright with probability q.

    Parameters
    ----------
    q
        Probability that a dark datum proposes to go bright, in (0, 1]; each such proposal costs a likelihood
        evaluation. "auto": the expected bright count over N, kept in [1/N, 0.1]; estimated at the start, adapted during
        tuning, and frozen afterwards.
    q_bright
        Probability that a bright datum proposes to go dark, in (0, 1]. This costs nothing: the likelihoods are cached.

    Raises
    ------
    InvalidInputError
        When a probability is out of range.

    Notes
    -----
    With r = B / L a bright datum goes dark with probability min(1, q r / (q_bright (1 - r))), a dark one goes bright
    with probability min(1, q_bright (1 - r) / (q r)): detailed balance with P(z = 1) = 1 - r. Bright and dark data are
    those of one snapshot: a datum that has just gone dark is not proposed again. Proposing dark data are reached by
    jumps of geometric length, in time proportional to q N.

    References
    ----------
    Maclaurin and Adams (2014), section 3.2. Draves, Exact MCMC with Firefly Monte Carlo: A Review, algorithm 4, has
    these ratios; line 17 of algorithm 5 prints (1 - r) / q for a dark datum, which does not leave P(z | theta)
    invariant.

    Examples
    --------
    >>> import approxmcmc as amc
    >>> amc.samplers.ImplicitResampling(q=0.01)
    ImplicitResampling(q=0.01, q_bright=1.0)
    """

    q: Any = "auto"
    q_bright: float = 1.0

    def __post_init__(self) -> None:
        """Check ranges."""
        probabilities = {"q_bright": self.q_bright, **({} if self.q == "auto" else {"q": self.q})}
        for name, value in probabilities.items():
            if isinstance(value, str) or not 0.0 < value <= 1.0:
                also = ' or "auto"' if name == "q" else ""
                raise InvalidInputError(f"ImplicitResampling: {name} must lie in (0, 1]{also}, found {value!r}")

    def build_z_update(self) -> CompiledZUpdate:
        """Compile the update; an automatic q is tuned."""
        if self.q == "auto":
            return CompiledZUpdate(update_implicit, self._make_state, follow_bright_count, describe_q)
        return CompiledZUpdate(update_implicit, self._make_state)

    def _make_state(self, expected_bright: float, n_obs: int) -> ImplicitState:
        q = automatic_q(expected_bright, n_obs) if self.q == "auto" else self.q
        scratch = np.empty(n_obs, dtype=np.int64), np.empty(n_obs)
        return ImplicitState(np.array([float(q)]), float(self.q_bright), np.array([expected_bright]), *scratch)
