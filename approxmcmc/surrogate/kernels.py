"""Kernels that are reversible for a surrogate: one move of all directions, and slices in its wall directions.

    "hmc+walls"  a Hamiltonian trajectory     "mala+walls"  a Langevin step     "walk+walls"  a step of a random walk

in the complement of the wall directions, and a slice update in each wall direction; without "+walls" the move is made
in all directions. Every transition makes the moves in a new random order. Each move leaves S invariant, so their
product does, too. The kernel is reversible, because each order is as likely as its reverse.

Two coupled chains use the same momentum, and the same slices in the same order. Trajectories with one momentum
contract: on a normal distribution each trajectory multiplies the distance of the chains by cos(length). In a wall
direction both search intervals begin at points of one lattice, so that close chains search at the same places. Each of
the two chains has the distribution of a single chain; they come close to each other but never meet exactly.
"""

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from approxmcmc.acceptance.out_of_reach import evaluations_to_reject
from approxmcmc.contracts import Streams
from approxmcmc.contracts.records import EVALUATIONS
from approxmcmc.engine.checks import show
from approxmcmc.engine.compiler.compile import compiled
from approxmcmc.engine.compiler.identity import cached_by_content
from approxmcmc.engine.compiler.python_call import PythonCall
from approxmcmc.engine.compiler.vectors import assign
from approxmcmc.sampling.assembly import Steps, make_steps
from approxmcmc.sampling.chain import FAILED, MOVED, Clock, CompiledChain, compile_chain, new_clock
from approxmcmc.surrogate.moves import (
    WIDTH,
    SurrogateState,
    follow_trajectory,
    follow_walk,
    go_across_wall,
    line_along,
    log_density_along,
    move_across_wall,
    move_by_trajectory,
    move_by_walk,
    move_or_stay,
    next_of,
    prepare_lines,
    stay_if_out_of_reach,
    step_of_walk,
    trajectory_of,
)


@compiled
def move_both_by_trajectory(
    rng: np.random.Generator,
    state: SurrogateState,
    other: SurrogateState,
    x: np.ndarray,
    y: np.ndarray,
    count: np.ndarray,
) -> None:
    """Make one trajectory from x and one from y, in place, with the same momentum and the same u."""
    step, steps = trajectory_of(rng, state)
    assign(other.momentum, state.momentum)
    there, log_ratio = follow_trajectory(state, x, step, steps, count)
    there_y, log_ratio_y = follow_trajectory(other, y, step, steps, count)
    u = rng.random()
    move_or_stay(state.value, x, state.position, there, log_ratio, u)
    move_or_stay(other.value, y, other.position, there_y, log_ratio_y, u)


@compiled
def move_both_by_walk(
    rng: np.random.Generator,
    state: SurrogateState,
    other: SurrogateState,
    x: np.ndarray,
    y: np.ndarray,
    count: np.ndarray,
) -> None:
    """Make one step of a random walk from x and one from y, in place, with the same direction and the same u."""
    step = step_of_walk(rng, state)
    assign(other.momentum, state.momentum)
    there, log_ratio = follow_walk(state, x, step, count)
    there_y, log_ratio_y = follow_walk(other, y, step, count)
    u = rng.random()
    move_or_stay(state.value, x, state.position, there, log_ratio, u)
    move_or_stay(other.value, y, other.position, there_y, log_ratio_y, u)


@compiled
def distance_along(direction: np.ndarray, x: np.ndarray, y: np.ndarray) -> float:
    """Return the coordinate of x - y in a direction, in units of the direction's length."""
    product = square = 0.0
    for j in range(direction.shape[0]):
        product += direction[j] * (x[j] - y[j])
        square += direction[j] * direction[j]
    return product / square


@compiled
def move_both_across_wall(
    rng: np.random.Generator,
    state: SurrogateState,
    other: SurrogateState,
    wall: int,
    x: np.ndarray,
    y: np.ndarray,
    count: np.ndarray,
) -> None:
    """Make a slice update of x and of y in direction ``state.walls[wall]``, in place, with the same random numbers.

    Both intervals begin at points of one lattice, which is placed at random around x.
    """
    log_u = math.log1p(-rng.random())
    line_x = line_along(state, wall, x, log_u)
    line_y = line_along(other, wall, y, log_u)
    begin = -WIDTH * rng.random()
    ahead = begin + distance_along(state.walls[wall], x, y)
    left = begin
    right = begin + WIDTH
    begin = ahead - WIDTH * math.ceil(ahead / WIDTH)  # the point of the lattice just left of y
    left_y = begin
    right_y = begin + WIDTH
    t = 0.0
    there = line_x.here
    t_y = 0.0
    there_y = line_y.here
    searching = not math.isnan(state.value[0])  # a chain at an undefined point stays there
    searching_y = not math.isnan(other.value[0])
    while searching or searching_y:
        u = rng.random()
        if searching:
            t = left + (right - left) * u
            count[EVALUATIONS] += state.n_rows
            there = log_density_along(state, wall, x, line_x, t)
            searching = there <= line_x.level
            if searching:
                left, right, t, there = (t, right, 0.0, line_x.here) if t < 0.0 else (left, t, 0.0, line_x.here)
                searching = right - left > 1e-12
        if searching_y:
            t_y = left_y + (right_y - left_y) * u
            count[EVALUATIONS] += other.n_rows
            there_y = log_density_along(other, wall, y, line_y, t_y)
            searching_y = there_y <= line_y.level
            if searching_y:
                left_y, right_y, t_y, there_y = (
                    (t_y, right_y, 0.0, line_y.here) if t_y < 0.0 else (left_y, t_y, 0.0, line_y.here)
                )
                searching_y = right_y - left_y > 1e-12
    go_across_wall(state, wall, x, line_x, t, there)
    go_across_wall(other, wall, y, line_y, t_y, there_y)


@cached_by_content(maxsize=8)
def make_move_both(move_both_elsewhere: Callable[..., None]) -> Callable[..., None]:
    """Return the function that makes one transition of both chains in place.

    `move_both_elsewhere` makes the move in the complement of the walls; see `make_move`.
    """

    def move_both(
        rng: np.random.Generator,
        state: SurrogateState,
        other: SurrogateState,
        x: np.ndarray,
        y: np.ndarray,
        count: np.ndarray,
    ) -> None:
        order = state.order
        predicted = False
        for place in range(order.shape[0]):
            chosen = next_of(rng, order, place)
            if chosen < state.walls.shape[0]:
                if not predicted:
                    prepare_lines(state, x, count)
                    prepare_lines(other, y, count)
                    predicted = True
                move_both_across_wall(rng, state, other, chosen, x, y, count)
            else:
                move_both_elsewhere(rng, state, other, x, y, count)
                predicted = False

    return compiled(move_both)


FASTEST = 0.3  # largest factor of (acceptance - target) in the change of the log step
WITH_WALLS = "+walls"


class SurrogateKernel(NamedTuple):
    """A transition on the surrogate, alone and for two coupled chains, and its settings.

    ``move(rng, state, theta, count) -> acceptance`` moves theta in place and updates the values of S in the state; it
    returns the acceptance probability by which the step is tuned. ``move_both(rng, state, other, x, y, count)`` moves
    two chains together. `length` is that of a trajectory in posterior standard deviations, 0 for one step; `acceptance`
    is the target acceptance rate. `across_walls`: whether the move leaves out wall directions, which slice updates move
    instead.
    """

    move: Callable[..., float]
    move_both: Callable[..., None]
    length: float
    acceptance: float
    across_walls: bool = False


# Target rates: above the .651 of Beskos et al. (2013); Roberts and Rosenthal (1998); Roberts et al. (1997).
MOVES = {
    "hmc": SurrogateKernel(move_by_trajectory, move_both_by_trajectory, 2.2, 0.8),
    "mala": SurrogateKernel(move_by_trajectory, move_both_by_trajectory, 0.0, 0.574),
    "walk": SurrogateKernel(move_by_walk, move_both_by_walk, 0.0, 0.234),
}
KERNELS = tuple(f"{name}{walls}" for name in MOVES for walls in (WITH_WALLS, ""))
"""Names of the kernels."""


@cached_by_content(maxsize=8)
def make_move(move_elsewhere: Callable[..., float]) -> Callable[..., float]:
    """Return the transition made of `move_elsewhere` and a slice in each wall direction, in a new random order.

    It moves theta in place and returns the acceptance probability of `move_elsewhere`.
    """

    def move(rng: np.random.Generator, state: SurrogateState, theta: np.ndarray, count: np.ndarray) -> float:
        order = state.order
        acceptance = 1.0
        predicted = False
        for place in range(order.shape[0]):
            chosen = next_of(rng, order, place)
            if chosen < state.walls.shape[0]:
                if not predicted:
                    prepare_lines(state, theta, count)
                    predicted = True
                move_across_wall(rng, state, chosen, theta, count)
            else:
                acceptance = move_elsewhere(rng, state, theta, count)
                predicted = False
        return acceptance

    return compiled(move)


def kernel_named(name: str) -> SurrogateKernel:
    """Return the kernel with this name, one of `KERNELS`."""
    chosen = MOVES[name.removesuffix(WITH_WALLS)]
    move = make_move(chosen.move)
    move_both = make_move_both(chosen.move_both)
    return chosen._replace(move=move, move_both=move_both, across_walls=name.endswith(WITH_WALLS))


@compiled
def adapt(log_step: np.ndarray, acceptance: float, step: int, wanted: float) -> None:
    """Change the log step towards the target rate `wanted`, less with each `step`, which counts from 0."""
    log_step[0] += (acceptance - wanted) * min(FASTEST, 2.0 / (step + 1.0) ** 0.6)


class TunedState(NamedTuple):
    """The state of a pilot's chain, which reads S only and tunes its step size to the acceptance rate `wanted`.

    `evaluations_to_reject` searches the way to `proposed`, see `approxmcmc.acceptance.out_of_reach`.
    """

    theta: np.ndarray
    proposed: np.ndarray
    log_density: np.ndarray
    clock: Clock
    surrogate: SurrogateState
    evaluations_to_reject: Callable[[], int]
    wanted: float


@cached_by_content(maxsize=8)
def make_tuned_step(move: Callable[..., float]) -> Callable[..., int]:
    """Return the compiled step of a chain, which makes one transition `move` and then tunes the step size."""

    def step(streams: Streams, state: TunedState, count: np.ndarray, value: np.ndarray) -> int:
        surrogate = state.surrogate
        before = surrogate.value[0]
        assign(state.proposed, state.theta)
        acceptance = move(streams.proposal, surrogate, state.proposed, count)
        adapt(surrogate.log_step, acceptance, state.clock.steps[0], state.wanted)
        stay_if_out_of_reach(
            surrogate.value, state.evaluations_to_reject, surrogate.n_rows, state.theta, state.proposed, before, count
        )
        if math.isnan(surrogate.value[0]):
            return FAILED
        assign(state.theta, state.proposed)
        return MOVED

    return compiled(inline="always")(step)


def run(
    rng: np.random.Generator, moves: SurrogateKernel, state: SurrogateState, theta: np.ndarray, steps: int
) -> Steps:
    """Make `steps` transitions from theta, and return their draws and counts; theta is unchanged.

    ``state.log_step`` is tuned after each transition, and holds the tuned step at the end.

    Raises
    ------
    NotFiniteError
        When S is undefined within reach of the chain.
    """
    state.value[0] = state.log_density(theta)
    here = theta.copy()
    proposed = theta.copy()
    to_reject = PythonCall(lambda: evaluations_to_reject(state.log_density, here, proposed))
    tuned = TunedState(here, proposed, state.value, new_clock(steps), state, to_reject, moves.acceptance)
    loop = compile_chain(make_tuned_step(moves.move), tuned)

    def explain() -> str:
        return f"log prior, terms or gradients are NaN or +inf at theta = {show(proposed)}; evaluate the model there"

    chain = CompiledChain(loop, Streams(*[rng] * len(Streams._fields)), tuned, explain=explain)
    return make_steps(chain, steps, len(theta), message="a chain on the surrogate")
