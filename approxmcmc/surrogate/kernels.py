"""Kernels that are reversible for a surrogate: one move of all directions, and slices along its walls.

    "hmc+walls"  a Hamiltonian trajectory     "mala+walls"  a Langevin step     "walk+walls"  a step of a random walk

in the complement of the wall directions, and a slice update along each of these; without "+walls" in all directions
alike. The moves come in a random order, afresh each time: each leaves S invariant, and so does their product; the
reverse order is as likely, which makes the kernel reversible.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numba import config
from numba import types as nb

from approxmcmc.contracts.records import COUNT_NAMES
from approxmcmc.engine.compiler.compile import INDICES, MATRIX, VECTOR, compiled, entry_point, kernel, type_of
from approxmcmc.engine.compiler.generators import ADDRESSES, addresses, generator_at
from approxmcmc.engine.compiler.identity import cached_by_content
from approxmcmc.engine.compiler.vectors import assign
from approxmcmc.surrogate.coupled_moves import make_move_both, move_both_by_trajectory, move_both_by_walk
from approxmcmc.surrogate.moves import (
    SurrogateState,
    move_along_wall,
    move_by_trajectory,
    move_by_walk,
    next_of,
    prepare_lines,
)

FASTEST = 0.3  # change of the log step in one step of tuning
WITH_WALLS = "+walls"


class SurrogateKernel(NamedTuple):
    """What moves in the complement of the walls, how far, at which acceptance rate, and whether walls have slices.

    ``move(rng, state, theta, count) -> acceptance`` moves theta in place, and what the state knows of S there; it
    returns the acceptance probability that its step is tuned by. ``move_both(rng, state, other, x, y, count)`` moves
    two chains together. `length` is that of a trajectory in posterior standard deviations, 0 for one step.
    """

    move: Callable[..., float]
    move_both: Callable[..., None]
    length: float
    acceptance: float
    along_walls: bool = False


MOVES = {  # acceptance rates: Beskos et al. (2013) and above, Roberts and Rosenthal (1998), Roberts et al. (1997)
    "hmc": SurrogateKernel(move_by_trajectory, move_both_by_trajectory, 2.2, 0.8),
    "mala": SurrogateKernel(move_by_trajectory, move_both_by_trajectory, 0.0, 0.574),
    "walk": SurrogateKernel(move_by_walk, move_both_by_walk, 0.0, 0.234),
}
KERNELS = tuple(f"{name}{walls}" for name in MOVES for walls in (WITH_WALLS, ""))
"""Names of the kernels."""


@cached_by_content(maxsize=8)
def make_move(move_elsewhere: Callable[..., float]) -> Callable[..., float]:
    """Return the product in a random order of a move in the complement of the walls and a slice along each wall."""

    def move(rng: np.random.Generator, state: SurrogateState, theta: np.ndarray, count: np.ndarray) -> float:
        order = state.order
        acceptance, predicted = 1.0, False
        for place in range(order.shape[0]):
            chosen = next_of(rng, order, place)
            if chosen < state.walls.shape[0]:
                if not predicted:
                    prepare_lines(state, theta, count)
                    predicted = True
                move_along_wall(rng, state, chosen, theta, count)
            else:
                acceptance = move_elsewhere(rng, state, theta, count)
                predicted = False
        return acceptance

    return compiled(move)


def kernel_named(name: str) -> SurrogateKernel:
    """Return one of `KERNELS`."""
    chosen = MOVES[name.removesuffix(WITH_WALLS)]
    move, move_both = make_move(chosen.move), make_move_both(chosen.move_both)
    return chosen._replace(move=move, move_both=move_both, along_walls=name.endswith(WITH_WALLS))


@compiled
def adapt(state: SurrogateState, acceptance: float, step: int, wanted: float) -> None:
    """Tune the step of the trajectories to the wanted acceptance rate."""
    state.log_step[0] += (acceptance - wanted) * min(FASTEST, 2.0 / (step + 1.0) ** 0.6)


def make_run(move: Callable[..., float]) -> Callable[..., None]:
    """Return a chain of transitions that tunes its step, for pilots; it reads nothing but the surrogate."""

    def run(
        rng: Any, state: SurrogateState, theta: np.ndarray, wanted: float, draws: np.ndarray, count: np.ndarray
    ) -> None:
        state.value[0] = state.log_density(theta)
        for step in range(draws.shape[0]):
            adapt(state, move(rng, state, theta, count), step, wanted)
            assign(draws[step], theta)

    return run


def make_entry(run: Callable[..., None]) -> Callable[..., None]:
    """Return the loop for a generator that arrives as addresses."""
    run = compiled(inline="always")(run)

    def enter(
        places: Any, state: SurrogateState, theta: np.ndarray, wanted: float, draws: np.ndarray, count: np.ndarray
    ) -> None:
        run(generator_at(places), state, theta, wanted, draws, count)

    return enter


def run(
    rng: np.random.Generator, moves: SurrogateKernel, state: SurrogateState, theta: np.ndarray, steps: int
) -> tuple[np.ndarray, np.ndarray]:
    """Make transitions from theta on, in place, and tune the step; return the draws (steps, dim), and what was read."""
    draws, count = np.empty((steps, theta.shape[0])), np.zeros(len(COUNT_NAMES), dtype=np.int64)
    loop: Any = make_run(moves.move)
    generator: Any = rng
    if not config.DISABLE_JIT:
        signature = nb.void(ADDRESSES, type_of(state), VECTOR, nb.float64, MATRIX, INDICES)
        loop, generator = entry_point(kernel(make_entry(loop), signature, allocates=False), signature), addresses(rng)
    loop(generator, state, theta, moves.acceptance, draws, count)
    return draws, count
