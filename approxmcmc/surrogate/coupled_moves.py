"""Two chains that move together by one surrogate: the same momentum, the same slices in the same order.

Trajectories with one momentum contract: on a normal law the distance of two chains shrinks by cos(length) in each.
Along a wall both intervals begin on one lattice, so that near chains search the same slice at the same places, and
forget where they were. Each chain moves as `move` does, in law; both come near each other and never meet exactly.
"""

import math
from collections.abc import Callable

import numpy as np

from approxmcmc.contracts.records import EVALUATIONS
from approxmcmc.engine.compiler.compile import compiled
from approxmcmc.engine.compiler.identity import cached_by_content
from approxmcmc.engine.compiler.vectors import assign
from approxmcmc.surrogate.moves import (
    MOST_INTERVALS,
    WIDTH,
    SurrogateState,
    follow_trajectory,
    follow_walk,
    go_along_wall,
    line_along,
    log_density_along,
    move_or_stay,
    next_of,
    prepare_lines,
    step_of_walk,
    step_out,
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
    """Make a trajectory from both states, with one momentum and one u."""
    step, steps = trajectory_of(rng, state)
    assign(other.momentum, state.momentum)
    there, log_ratio = follow_trajectory(state, x, step, steps, count)
    there_y, log_ratio_y = follow_trajectory(other, y, step, steps, count)
    u = rng.random()
    move_or_stay(state, x, there, log_ratio, u)
    move_or_stay(other, y, there_y, log_ratio_y, u)


@compiled
def move_both_by_walk(
    rng: np.random.Generator,
    state: SurrogateState,
    other: SurrogateState,
    x: np.ndarray,
    y: np.ndarray,
    count: np.ndarray,
) -> None:
    """Make a step of a walk from both states, with one direction and one u."""
    step = step_of_walk(rng, state)
    assign(other.momentum, state.momentum)
    there, log_ratio = follow_walk(state, x, step, count)
    there_y, log_ratio_y = follow_walk(other, y, step, count)
    u = rng.random()
    move_or_stay(state, x, there, log_ratio, u)
    move_or_stay(other, y, there_y, log_ratio_y, u)


@compiled
def distance_along(direction: np.ndarray, x: np.ndarray, y: np.ndarray) -> float:
    """Return how far x lies ahead of y along a direction, in its units."""
    product = square = 0.0
    for j in range(direction.shape[0]):
        product += direction[j] * (x[j] - y[j])
        square += direction[j] * direction[j]
    return product / square


@compiled
def move_both_along_wall(
    rng: np.random.Generator,
    state: SurrogateState,
    other: SurrogateState,
    wall: int,
    x: np.ndarray,
    y: np.ndarray,
    count: np.ndarray,
) -> None:
    """Make a slice update of both along a wall, with one u for each decision; where x was is where y's lattice is."""
    log_u = math.log1p(-rng.random())
    line_x, line_y = line_along(state, wall, x, log_u), line_along(other, wall, y, log_u)
    begin = -WIDTH * rng.random()
    ahead = begin + distance_along(state.walls[wall], x, y)
    to_the_left = int(MOST_INTERVALS * rng.random())
    left, right = step_out(state, wall, x, line_x, begin, to_the_left, count)
    begin = ahead - WIDTH * math.ceil(ahead / WIDTH)  # the point of the lattice just left of y
    left_y, right_y = step_out(other, wall, y, line_y, begin, to_the_left, count)
    t, there = 0.0, line_x.here
    t_y, there_y = 0.0, line_y.here
    searching, searching_y = True, True
    while searching or searching_y:
        u = rng.random()
        if searching:
            t = left + (right - left) * u
            count[EVALUATIONS] += state.n_core
            there = log_density_along(state, wall, x, line_x, t)
            searching = not there > line_x.level
            if searching:
                left, right, t, there = (t, right, 0.0, line_x.here) if t < 0.0 else (left, t, 0.0, line_x.here)
                searching = right - left > 1e-12
        if searching_y:
            t_y = left_y + (right_y - left_y) * u
            count[EVALUATIONS] += other.n_core
            there_y = log_density_along(other, wall, y, line_y, t_y)
            searching_y = not there_y > line_y.level
            if searching_y:
                left_y, right_y, t_y, there_y = (
                    (t_y, right_y, 0.0, line_y.here) if t_y < 0.0 else (left_y, t_y, 0.0, line_y.here)
                )
                searching_y = right_y - left_y > 1e-12
    go_along_wall(state, wall, x, line_x, t, there)
    go_along_wall(other, wall, y, line_y, t_y, there_y)


@cached_by_content(maxsize=8)
def make_move_both(move_both_elsewhere: Callable[..., None]) -> Callable[..., None]:
    """Return one transition of both chains in place; see `approxmcmc.surrogate.kernels.make_move`."""

    def move_both(
        rng: np.random.Generator,
        state: SurrogateState,
        other: SurrogateState,
        x: np.ndarray,
        y: np.ndarray,
        count: np.ndarray,
    ) -> None:
        order, predicted = state.order, False
        for place in range(order.shape[0]):
            chosen = next_of(rng, order, place)
            if chosen < state.walls.shape[0]:
                if not predicted:
                    prepare_lines(state, x, count)
                    prepare_lines(other, y, count)
                    predicted = True
                move_both_along_wall(rng, state, other, chosen, x, y, count)
            else:
                move_both_elsewhere(rng, state, other, x, y, count)
                predicted = False

    return compiled(move_both)
