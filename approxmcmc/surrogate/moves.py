"""Moves that leave a density of few rows invariant: a trajectory, a random walk, a slice in a wall direction.

The surrogate S(theta) is a log density: prior, a quadratic for the light rows of the data, exact terms for the few
rows that are always read. If all responses of a rare category are equal, exp(S) has a wall: on one side it follows the
prior, and it falls to 0 within one logit on the other. A trajectory in all directions would need steps as short as the
wall is thick. So the momentum has no component in a wall direction, which is the direction that crosses a wall. Each
wall direction has a slice update instead, on a line on which the linear predictors of these rows change by stored
numbers.

A trajectory of one step is a Langevin step: the two kinetic energies give the proposal densities of the step and of its
reverse.

A move that meets a point where S is undefined goes there, with S = NaN, and no later move of the transition leaves this
point. At the end of the transition `stay_if_out_of_reach` decides: a point out of reach of S is rejected; otherwise the
ratio of proposal densities is NaN, and the chain ends. The transition remains reversible, because it is rejected as a
whole.

References: Duane, Kennedy, Pendleton and Roweth (1987); Neal (2003), figures 3 and 5; Neal (2011), sections 3.2, 5.2.
"""

import math
from typing import Any, NamedTuple

import numpy as np

from approxmcmc.acceptance.metropolis import ACCEPT, UNDECIDED, decision_on, log_ratio_of
from approxmcmc.acceptance.out_of_reach import is_out_of_reach
from approxmcmc.acceptance.rules import metropolis_probability
from approxmcmc.contracts.records import EVALUATIONS, GRADIENTS
from approxmcmc.engine.compiler.compile import compiled
from approxmcmc.engine.compiler.vectors import assign
from approxmcmc.proposals.hamiltonian import FARTHEST, JITTER, LONGEST, SHORTEST
from approxmcmc.proposals.hamiltonian_step import draw_velocity

MOST_STEPS = 80  # largest number of steps of a trajectory
# Length of the interval in which a slice is searched, in standard deviations along the direction. On KDD99, one-hot, a
# transition evaluates the influential rows 266 times; with length 8, 203 times, but slices wider than 8 mix at two
# thirds of the rate; with length 2 and stepping out (Neal 2003), 372 times.
WIDTH = 16.0


class SurrogateState(NamedTuple):
    """A surrogate, the directions in which it is moved, and scratch.

    ``log_density(theta)`` returns S, ``add_gradient(theta, out)`` adds its gradient to `out`. ``predict(theta, out,
    rows)`` writes the linear predictors of the influential rows, ``on_line(eta, slopes, t, rows)`` the sum of their
    terms at the predictors eta + t slopes, and ``log_prior(theta)`` the log prior. `center` and `slope` (dim,) are the
    centre of the quadratic of the light rows, and its gradient there.

    The rows of `basis` (m, dim) span the directions of the momentum, the rows of `walls` (q, dim) are the wall
    directions; each is one posterior standard deviation long. `wall_slopes` (q, n_rows) holds the change of each
    predictor of these rows over one wall direction, `wall_bends` (q, dim) wall directions times the quadratic's
    Hessian. `log_step` (1,) is the log of the step; `length` is the length of a trajectory, 0 for a single step.
    `value` (1,) is S at theta: every move uses and updates it. `exact` (1,) is log prior and influential rows at theta,
    which is S without the quadratic, and `eta` (n_rows,) the predictors of these rows there; only slices keep these two
    up to date.
    """

    log_density: Any
    add_gradient: Any
    predict: Any
    on_line: Any
    rows: Any
    log_prior: Any
    n_rows: int
    center: np.ndarray
    slope: np.ndarray
    basis: np.ndarray
    walls: np.ndarray
    wall_slopes: np.ndarray
    wall_bends: np.ndarray
    log_step: np.ndarray
    length: float
    value: np.ndarray
    exact: np.ndarray
    position: np.ndarray
    gradient: np.ndarray
    momentum: np.ndarray
    eta: np.ndarray
    order: np.ndarray


@compiled
def push(state: SurrogateState, theta: np.ndarray, step: float, count: np.ndarray) -> None:
    """Change ``state.momentum`` by the force at theta: p <- p + step B grad S(theta), B = ``state.basis``."""
    gradient = state.gradient
    basis = state.basis
    momentum = state.momentum
    for j in range(gradient.shape[0]):
        gradient[j] = 0.0
    state.add_gradient(theta, gradient)
    count[GRADIENTS] += state.n_rows
    for k in range(momentum.shape[0]):
        row = basis[k]
        force = 0.0
        for j in range(gradient.shape[0]):
            force += row[j] * gradient[j]
        momentum[k] += step * force


@compiled
def drift(momentum: np.ndarray, basis: np.ndarray, theta: np.ndarray, step: float) -> None:
    """Move theta in place along the momentum: theta <- theta + step B' p, B = `basis`."""
    for k in range(momentum.shape[0]):
        row = basis[k]
        distance = step * momentum[k]
        for j in range(theta.shape[0]):
            theta[j] += distance * row[j]


@compiled
def kinetic_energy(momentum: np.ndarray) -> float:
    """Return |p|^2 / 2."""
    energy = 0.0
    for k in range(momentum.shape[0]):
        energy += 0.5 * momentum[k] * momentum[k]
    return energy


@compiled
def jittered_step(rng: np.random.Generator, log_step: np.ndarray) -> float:
    """Return the tuned step times a random factor between 0.9 and 1.1."""
    return math.exp(log_step[0]) * (1.0 + JITTER * (2.0 * rng.random() - 1.0))


@compiled
def move_or_stay(
    value: np.ndarray, theta: np.ndarray, position: np.ndarray, there: float, log_ratio: float, u: float
) -> float:
    """Move theta, and S there in `value`, to `position` with S = `there` if u < a = min(1, exp(log_ratio)); return a.

    If `log_ratio` is NaN, theta moves there with S = NaN, unless it has met such a point before, and a is 0.
    """
    acceptance = metropolis_probability(log_ratio)
    decision = decision_on(u, acceptance)
    if decision == ACCEPT:
        assign(theta, position)
        value[0] = there
    elif decision == UNDECIDED:
        acceptance = 0.0
        if not math.isnan(value[0]):
            assign(theta, position)
            value[0] = math.nan
    return acceptance


@compiled
def stay_if_out_of_reach(
    value: np.ndarray,
    to_reject: Any,
    n_rows: int,
    theta: np.ndarray,
    proposed: np.ndarray,
    before: float,
    count: np.ndarray,
) -> None:
    """End a transition from theta, where S is `before`, to `proposed`: go back if S is undefined out of reach.

    `value` (1,) is S at `proposed`, which reads `n_rows` rows; ``to_reject()`` is `evaluations_to_reject` for the two
    points.
    """
    if math.isnan(value[0]) and is_out_of_reach(to_reject, n_rows, 0, count):
        assign(proposed, theta)
        value[0] = before


@compiled
def trajectory_of(rng: np.random.Generator, state: SurrogateState) -> tuple[float, int]:
    """Draw ``state.momentum``, and return the length of each step and the number of steps of a trajectory."""
    draw_velocity(rng, state.momentum)
    step = jittered_step(rng, state.log_step)
    length = state.length * (SHORTEST + (LONGEST - SHORTEST) * rng.random())
    return step, min(MOST_STEPS, max(1, int(length / step + 0.5)))


@compiled
def follow_trajectory(
    state: SurrogateState, theta: np.ndarray, step: float, steps: int, count: np.ndarray
) -> tuple[float, float]:
    """Write the end of the trajectory from theta with ``state.momentum`` to ``state.position``.

    Return S there, and the log acceptance ratio, -inf if the momentum diverges. A trajectory ends where the gradient is
    NaN.
    """
    position = state.position
    momentum = state.momentum
    assign(position, theta)
    energy = kinetic_energy(momentum) - state.value[0]
    push(state, position, 0.5 * step, count)
    kinetic = kinetic_energy(momentum)
    for k in range(steps):
        if not kinetic < FARTHEST:
            break
        drift(momentum, state.basis, position, step)
        push(state, position, step if k < steps - 1 else 0.5 * step, count)
        kinetic = kinetic_energy(momentum)
    if kinetic >= FARTHEST:
        return -math.inf, -math.inf
    there = state.log_density(position)
    count[EVALUATIONS] += state.n_rows
    if not math.isfinite(there):  # 0 or undefined, whatever the kinetic energy
        return there, log_ratio_of(0.0, 0.0, there)
    return there, energy - (kinetic - there)


@compiled
def move_by_trajectory(rng: np.random.Generator, state: SurrogateState, theta: np.ndarray, count: np.ndarray) -> float:
    """Make one Hamiltonian trajectory, and accept its end or stay; return the acceptance probability."""
    step, steps = trajectory_of(rng, state)
    there, log_ratio = follow_trajectory(state, theta, step, steps, count)
    return move_or_stay(state.value, theta, state.position, there, log_ratio, rng.random())


@compiled
def step_of_walk(rng: np.random.Generator, state: SurrogateState) -> float:
    """Draw a direction into ``state.momentum``, and return the length of the step of a random walk."""
    draw_velocity(rng, state.momentum)
    return jittered_step(rng, state.log_step)


@compiled
def follow_walk(state: SurrogateState, theta: np.ndarray, step: float, count: np.ndarray) -> tuple[float, float]:
    """Write theta plus `step` times the drawn direction to ``state.position``; return S there, and the log ratio."""
    assign(state.position, theta)
    drift(state.momentum, state.basis, state.position, step)
    there = state.log_density(state.position)
    count[EVALUATIONS] += state.n_rows
    return there, log_ratio_of(0.0, state.value[0], there)


@compiled
def move_by_walk(rng: np.random.Generator, state: SurrogateState, theta: np.ndarray, count: np.ndarray) -> float:
    """Make one step of a random walk, and accept it or stay; return the acceptance probability."""
    there, log_ratio = follow_walk(state, theta, step_of_walk(rng, state), count)
    return move_or_stay(state.value, theta, state.position, there, log_ratio, rng.random())


@compiled
def prepare_lines(state: SurrogateState, theta: np.ndarray, count: np.ndarray) -> None:
    """Write the influential rows' predictors at theta to ``state.eta``, log prior plus terms to ``state.exact``.

    Call it before a slice in a wall direction if another move has changed theta since the last slice.
    """
    state.predict(theta, state.eta, state.rows)
    state.exact[0] = state.log_prior(theta) + state.on_line(state.eta, state.wall_slopes[0], 0.0, state.rows)
    count[EVALUATIONS] += state.n_rows


class Line(NamedTuple):
    """The surrogate on the line through theta in a wall direction, which crosses the wall.

    `tilt` and `curvature` are slope and second derivative of the quadratic at theta, by the distance t on the line;
    `here` is log prior and influential rows at theta, which is S up to a constant of the line; `level`, in the same
    units, is the log density above which a point lies in the slice.
    """

    tilt: float
    curvature: float
    here: float
    level: float


@compiled
def log_density_on_line(
    state: SurrogateState, wall: int, theta: np.ndarray, tilt: float, curvature: float, t: float
) -> float:
    """Return S(theta + t w), up to a constant of the line; w is ``state.walls[wall]``.

    `tilt` and `curvature` are the derivatives of the quadratic in direction w at theta.
    """
    position = state.position
    direction = state.walls[wall]
    for j in range(theta.shape[0]):
        position[j] = theta[j] + t * direction[j]
    quadratic = t * (tilt + 0.5 * curvature * t)
    return quadratic + state.log_prior(position) + state.on_line(state.eta, state.wall_slopes[wall], t, state.rows)


@compiled
def line_along(state: SurrogateState, wall: int, theta: np.ndarray, log_u: float) -> Line:
    """Return the line through theta in direction ``state.walls[wall]``, with the slice at S(theta) + log_u."""
    direction = state.walls[wall]
    bend = state.wall_bends[wall]
    tilt = curvature = 0.0
    for j in range(theta.shape[0]):
        tilt += direction[j] * state.slope[j] + bend[j] * (theta[j] - state.center[j])
        curvature += direction[j] * bend[j]
    here = state.exact[0]
    return Line(tilt, curvature, here, here + log_u)


@compiled
def log_density_along(state: SurrogateState, wall: int, theta: np.ndarray, line: Line, t: float) -> float:
    """Return S(theta + t w), up to the constant of ``line.here``."""
    return log_density_on_line(state, wall, theta, line.tilt, line.curvature, t)


@compiled
def go_across_wall(state: SurrogateState, wall: int, theta: np.ndarray, line: Line, t: float, there: float) -> None:
    """Move theta by t w, w = ``state.walls[wall]``, and update `value`, `exact` and `eta` of the state.

    `there` is S at the new theta, up to the constant of the line.
    """
    state.value[0] = log_ratio_of(state.value[0], line.here, there)
    state.exact[0] = there - t * (line.tilt + 0.5 * line.curvature * t)
    direction = state.walls[wall]
    slopes = state.wall_slopes[wall]
    for j in range(theta.shape[0]):
        theta[j] += t * direction[j]
    for i in range(slopes.shape[0]):
        state.eta[i] += t * slopes[i]


@compiled
def move_across_wall(
    rng: np.random.Generator, state: SurrogateState, wall: int, theta: np.ndarray, count: np.ndarray
) -> None:
    """Update theta in direction ``state.walls[wall]`` by slice sampling, in an interval that shrinks (Neal 2003).

    `value`, `exact` and `eta` of the state are updated, too. The search ends at a point where S is undefined.
    """
    if math.isnan(state.value[0]):
        return
    line = line_along(state, wall, theta, math.log1p(-rng.random()))
    left = -WIDTH * rng.random()
    right = left + WIDTH
    t = 0.0
    there = line.here
    while right - left > 1e-12:  # the interval shrinks towards theta itself, which lies in the slice
        t = left + (right - left) * rng.random()
        count[EVALUATIONS] += state.n_rows
        there = log_density_along(state, wall, theta, line, t)
        if not there <= line.level:  # in the slice, or NaN
            break
        left, right, t, there = (t, right, 0.0, line.here) if t < 0.0 else (left, t, 0.0, line.here)
    go_across_wall(state, wall, theta, line, t, there)


@compiled
def next_of(rng: np.random.Generator, order: np.ndarray, place: int) -> int:
    """Draw one of the moves ``order[place:]``, swap it to ``order[place]``, and return it."""
    other = place + int(rng.random() * (order.shape[0] - place))
    chosen = order[other]
    order[other] = order[place]
    order[place] = chosen
    return chosen
