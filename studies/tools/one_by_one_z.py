"""The implicit update of z without skips: a uniform random number for every dark datum.

Draves, Exact MCMC with Firefly Monte Carlo: A Review, algorithm 4. It has the same distribution and number of
likelihood evaluations as :class:`approxmcmc.samplers.ImplicitResampling`, which jumps from one chosen datum to the next
(algorithm 5), but draws a uniform for each dark datum in every step. Only studies that measure this cost need it.
"""

import dataclasses

import numpy as np

import approxmcmc as amc
from approxmcmc.contracts import Component
from approxmcmc.contracts.records import DARK, EVALUATIONS, TOUCHED
from approxmcmc.engine.compiler.compile import compiled
from approxmcmc.samplers.firefly.implicit_resampling import ImplicitState, brighten, darken
from approxmcmc.samplers.firefly.joint import Bright, JointDensity
from approxmcmc.samplers.firefly.step import CompiledZUpdate, ZUpdate


@compiled
def ask_each(rng: np.random.Generator, bright: Bright, first_dark: int, state: ImplicitState) -> int:
    """Write each index in ``bright.order[first_dark:]`` to `state.candidates` with probability q; return how many."""
    n = 0
    for index in range(first_dark, bright.order.shape[0]):
        if rng.random() < state.q[0]:
            state.candidates[n] = bright.order[index]
            n += 1
    return n


@compiled
def update_one_by_one(
    rng: np.random.Generator,
    theta: np.ndarray,
    joint: JointDensity,
    bright: Bright,
    state: ImplicitState,
    count: np.ndarray,
) -> bool:
    """Update every bright datum, then the chosen dark data; return False if a gap is NaN or below LEAST_GAP."""
    first_dark = bright.size[0]
    darken(rng, bright, state)
    n = ask_each(rng, bright, first_dark, state)
    count[TOUCHED] += first_dark + n
    count[EVALUATIONS] += n
    count[DARK] += n
    return brighten(rng, theta, joint, bright, state, n)


@dataclasses.dataclass(frozen=True, eq=False)
class OneByOneZ(Component, ZUpdate):
    """Update each dark datum with probability `q`, in (0, 1], and all bright data."""

    q: float = 0.01

    def build_z_update(self) -> CompiledZUpdate:
        """Compile the update; its state is that of :class:`approxmcmc.samplers.ImplicitResampling`."""
        return CompiledZUpdate(update_one_by_one, amc.samplers.ImplicitResampling(self.q).build_z_update().make_state)
