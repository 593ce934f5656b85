"""Two chains that move together by one surrogate: the same momentum, the same slices in the same order.

Trajectories with one momentum contract: on a normal law the distance of two chains shrinks by cos(length) in each.
Along a wall both intervals begin on one lattice, so that near chains search the same slice at the same places, and
forget where they were. Each chain moves as `move` does, in law; both come near each other and never meet exactly.
"""

import math

import numpy as np

from approxmcmc.contracts.records import EVALUATIONS
from approxmcmc.engine.compile import compiled
from approxmcmc.engine.surrogate_transition import (
    MOST_INTERVALS,
    WIDTH,
    SurrogateState,
    follow_trajectory,
    go_along_wall,
    lies_inside,
    line_along,
    next_of,
    step_out,
    trajectory_of,
)
from approxmcmc.engine.vectors import assign


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
    acceptance = follow_trajectory(state, x, step, steps, count)
    acceptance_of_y = follow_trajectory(other, y, step, steps, count)
    u = rng.random()
    if u < acceptance:
        assign(x, state.position)
    if u < acceptance_of_y:
        assign(y, other.position)


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
    t = t_y = 0.0
    searching, searching_y = True, True
    while searching or searching_y:
        u = rng.random()
        if searching:
            t = left + (right - left) * u
            count[EVALUATIONS] += state.n_core
            searching = not lies_inside(state, wall, x, line_x, t)
            if searching:
                left, right, t = (t, right, 0.0) if t < 0.0 else (left, t, 0.0)
                searching = right - left > 1e-12
        if searching_y:
            t_y = left_y + (right_y - left_y) * u
            count[EVALUATIONS] += other.n_core
            searching_y = not lies_inside(other, wall, y, line_y, t_y)
            if searching_y:
                left_y, right_y, t_y = (t_y, right_y, 0.0) if t_y < 0.0 else (left_y, t_y, 0.0)
                searching_y = right_y - left_y > 1e-12
    go_along_wall(state, wall, x, t)
    go_along_wall(other, wall, y, t_y)


@compiled
def move_both(
    rng: np.random.Generator,
    state: SurrogateState,
    other: SurrogateState,
    x: np.ndarray,
    y: np.ndarray,
    count: np.ndarray,
) -> None:
    """Make one transition of both chains in place; see `approxmcmc.engine.surrogate_transition.move`."""
    order, predicted = state.order, False
    for place in range(order.shape[0]):
        chosen = next_of(rng, order, place)
        if chosen < state.walls.shape[0]:
            if not predicted:
                state.predict(x, state.eta)
                other.predict(y, other.eta)
                count[EVALUATIONS] += 2 * state.n_core
                predicted = True
            move_both_along_wall(rng, state, other, chosen, x, y, count)
        else:
            move_both_by_trajectory(rng, state, other, x, y, count)
            predicted = False
