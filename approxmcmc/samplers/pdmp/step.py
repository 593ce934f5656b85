"""One draw of a piecewise deterministic process: fly for a fixed time, and turn at events.

The times of events without data, which are events of Q and refreshments, are drawn exactly. The times of events of rows
are drawn by thinning (Lewis and Shedler 1979). Over a short span each bound of a rate is largest at an end of the span,
because abs(phi) is convex in time. Rows are proposed at the constant rate of this largest bound and read one at a time;
a row turns the particle with probability (the row's rate) / (the bound). Bounds hold within the shell in which a span
begins, so a span ends at its edge.
"""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from approxmcmc.contracts import Streams
from approxmcmc.contracts.records import DECISIONS, EVENTS, EXPECTED_READS, GRADIENTS, ROW_EVENTS, TOUCHED
from approxmcmc.engine.compiler.compile import compiled
from approxmcmc.engine.compiler.identity import cached_by_content
from approxmcmc.engine.compiler.vectors import assign
from approxmcmc.engine.terms.alias_table import draw_rows
from approxmcmc.samplers.pdmp.rows import ORDERS, RATE, Scratch, read_one
from approxmcmc.samplers.pdmp.split import ROUNDING, Split
from approxmcmc.sampling.chain import FAILED, MOVED, Clock


class Flight(NamedTuple):
    """The position of a particle, and the force on it.

    `position` is phi, `velocity` v; `force` is g + H phi and `change` H v, by which it changes; shapes (dim,).
    `curvature` is H. `next_turn` holds the coordinate, or the kind, of the next turn that needs no data, and `gain` the
    factor of the rows' bounds. ``setting`` is a number that the dynamics use.
    """

    position: np.ndarray
    velocity: np.ndarray
    force: np.ndarray
    change: np.ndarray
    curvature: np.ndarray
    next_turn: np.ndarray
    gain: np.ndarray
    setting: float


class Dynamics(NamedTuple):
    """The definition of a process: functions that draw a velocity, plan a turn, and make a turn.

    ``start(rng, flight)`` draws a velocity from its distribution. ``plan(rng, flight) -> time`` draws the time to the
    next turn by the quadratic, or another turn without data, and stores its kind; ``turn(rng, flight)`` makes this
    turn. ``turn_by_row(rng, flight, record, direction, slope, ceiling) -> bool`` makes the turn of a row with
    probability (rate of the row) / (bound of this rate): the gradient of its residual is slope times direction, and
    abs(slope) <= ceiling. `norm` is the order of the norm of the shares in the bound, 1 or 2.
    """

    start: Callable[..., None]
    plan: Callable[..., float]
    turn: Callable[..., None]
    turn_by_row: Callable[..., bool]
    norm: int


@compiled
def arrival(rate: float, growth: float, exponential: float) -> float:
    """Return the t with integral_0^t max(0, rate + growth s) ds = exponential; inf if no t solves it."""
    waiting = 0.0
    if rate < 0.0:  # nothing happens until the rate has grown to 0
        if not growth > 0.0:
            return math.inf
        waiting = -rate / growth
        rate = 0.0
    # rate t + growth t^2 / 2 = exponential, solved in the form of the root that does not cancel.
    squared = rate * rate + 2.0 * growth * exponential
    if squared < 0.0:  # the rate falls to 0 before the integral is reached
        return math.inf
    denominator = rate + math.sqrt(squared)
    return waiting + 2.0 * exponential / denominator if denominator > 0.0 else math.inf


@compiled
def fly(flight: Flight, time: float) -> float:
    """Move position and force along the velocity for a time; return abs(phi)^2 of the new position phi."""
    squared = 0.0
    for j in range(flight.position.shape[0]):
        flight.position[j] += time * flight.velocity[j]
        flight.force[j] += time * flight.change[j]
        squared += flight.position[j] * flight.position[j]
    return squared


@compiled
def set_force(flight: Flight, origin: np.ndarray) -> None:
    """Recompute the force g + H phi, with `origin` as g, and its change."""
    for j in range(origin.shape[0]):
        row = flight.curvature[j]
        total = origin[j]
        for k in range(origin.shape[0]):
            total += row[k] * flight.position[k]
        flight.force[j] = total
    set_change(flight)


@compiled
def set_change(flight: Flight) -> None:
    """Compute H v, the change of the force along the velocity."""
    for j in range(flight.velocity.shape[0]):
        row = flight.curvature[j]
        total = 0.0
        for k in range(flight.velocity.shape[0]):
            total += row[k] * flight.velocity[k]
        flight.change[j] = total


def new_flight(position: np.ndarray, curvature: np.ndarray, setting: float) -> Flight:
    """Return a flight at `position` before its start: velocity and force are 0."""
    dim = position.size
    return Flight(
        position=position,
        velocity=np.zeros(dim),
        force=np.zeros(dim),
        change=np.zeros(dim),
        curvature=np.ascontiguousarray(curvature),
        next_turn=np.zeros(1, dtype=np.int64),
        gain=np.ones(1),
        setting=float(setting),
    )


EDGE = 1e-9  # relative distance from the edge of a shell at which a particle counts as beyond it
PROPOSALS = 2.0  # expected in a span of constant bound: longer spans have looser bounds, shorter ones are more numerous


class PDMPState(NamedTuple):
    """A chain: theta as the loop writes it, the flight in whitened coordinates, the energy, and scratch."""

    theta: np.ndarray
    proposed: np.ndarray
    log_density: np.ndarray
    clock: Clock
    flight: Flight
    split: Split
    spacing: float
    row: np.ndarray
    weight: np.ndarray
    scratch: Scratch


@compiled
def shell_of(limits: np.ndarray, squared: float) -> int:
    """Return the first shell whose squared radius exceeds abs(phi)^2 = `squared`; outside all, the number of shells."""
    shell = 0
    while shell < limits.shape[0] and squared >= limits[shell] * (1.0 - EDGE):
        shell += 1
    return shell


@compiled
def time_to_leave(flight: Flight, squared: float, limit: float) -> float:
    """Return the time until abs(phi)^2, now `squared`, is `limit`."""
    if limit == math.inf:
        return math.inf
    along = speed = 0.0
    for j in range(flight.position.shape[0]):
        along += flight.position[j] * flight.velocity[j]
        speed += flight.velocity[j] * flight.velocity[j]
    root = math.sqrt(along * along + speed * (limit - squared))
    # The larger root of squared + 2 along t + speed t^2 = limit, in the form that does not cancel.
    return (limit - squared) / (along + root) if along > 0.0 else (root - along) / speed


@compiled
def row_rate(totals: np.ndarray, squared: float) -> float:
    """Return the sum of the bounds of all rows at abs(phi)^2 = `squared`, for a flight with gain 1.

    `totals` (3,) are those of the shell.
    """
    return totals[0] + totals[1] * math.sqrt(squared) + totals[2] * squared


@compiled
def radius_after(flight: Flight, squared: float, time: float) -> float:
    """Return abs(phi + time v)^2; `squared` is abs(phi)^2."""
    along = speed = 0.0
    for j in range(flight.position.shape[0]):
        along += flight.position[j] * flight.velocity[j]
        speed += flight.velocity[j] * flight.velocity[j]
    return max(0.0, squared + time * (2.0 * along + time * speed))


@compiled
def draw_row(rng: np.random.Generator, state: PDMPState, totals: np.ndarray, squared: float) -> tuple[int, int]:
    """Draw a row in proportion to its bound at abs(phi)^2 = `squared`; return its order and index in the records."""
    split = state.split
    order = 0
    left = rng.random() * row_rate(totals, squared)
    share = totals[0]
    while order < ORDERS - 1 and (left >= share or totals[order] == 0.0):
        left -= share
        order += 1
        share = totals[order] * (math.sqrt(squared) if order == 1 else squared)
    while totals[order] == 0.0:  # rounding has passed the last class
        order -= 1
    start = split.first[order]
    draw_rows(rng, split.table[start : split.first[order + 1]], 1, state.row, state.weight)
    return order, start + state.row[0]


@compiled
def write_theta(state: PDMPState, out: np.ndarray) -> None:
    """Write theta = c + L phi to `out`."""
    split = state.split
    position = state.flight.position
    for j in range(out.shape[0]):
        row = split.cholesky[j]
        total = split.center[j]
        for k in range(j + 1):
            total += row[k] * position[k]
        out[j] = total


def pdmp_step(dynamics: Dynamics, read: Callable[..., Any] = read_one) -> Callable[..., int]:
    """Return the compiled step of a process, which makes one draw; `read` reads a row, see `rows`."""
    return make_step(dynamics.plan, dynamics.turn, dynamics.turn_by_row, read)


@cached_by_content(maxsize=16)
def make_step(
    plan: Callable[..., float],
    turn: Callable[..., None],
    turn_by_row: Callable[..., bool],
    read: Callable[..., Any] = read_one,
) -> Callable[..., int]:
    """Return the compiled step, ``step(streams, state, count, value) -> status``; see the module."""

    def step(streams: Streams, state: PDMPState, count: np.ndarray, value: np.ndarray) -> int:
        rng = streams.proposal
        flight = state.flight
        split = state.split
        set_force(flight, split.force)  # recomputed at each draw, so that rounding does not accumulate
        squared = fly(flight, 0.0)
        left = state.spacing
        to_turn = plan(rng, flight)
        # At the current position phi, `squared` is abs(phi)^2, `left` the time to the draw, and `to_turn` the time to
        # the next turn without data.
        while left > 0.0:
            shell = shell_of(split.limits, squared)
            if shell == split.limits.shape[0]:  # no bound is known so far away
                write_theta(state, state.proposed)
                return FAILED
            totals = split.totals[shell]
            here = flight.gain[0] * row_rate(totals, squared)
            span = min(left, to_turn, time_to_leave(flight, squared, split.limits[shell]))
            if here * span > PROPOSALS:
                span = PROPOSALS / here
            widest = max(squared, radius_after(flight, squared, span))
            most = flight.gain[0] * row_rate(totals, widest)
            time = rng.standard_exponential() / most if most > 0.0 else math.inf
            value[EXPECTED_READS] += most * min(time, span)
            if time < span:  # a row is proposed
                squared = fly(flight, time)
                left -= time
                to_turn -= time
                order, place = draw_row(streams.order, state, totals, widest)
                record = split.records[place]
                slope, direction = read(split, place, flight.position, state.scratch)
                rate = split.factors[shell, order] * record[RATE]
                ceiling = rate * math.sqrt(widest) ** order
                count[TOUCHED] += 1
                count[GRADIENTS] += 1
                count[DECISIONS] += 1
                bound = rate * math.sqrt(squared) ** order  # at this point; the ceiling is for the whole span
                if not abs(slope) <= bound + ROUNDING:  # the bound is false, or the slope NaN
                    write_theta(state, state.proposed)
                    return FAILED
                if turn_by_row(streams.uniform, flight, record, direction, slope, ceiling):
                    count[EVENTS] += 1
                    count[ROW_EVENTS] += 1
                    to_turn = plan(rng, flight)
            else:  # no row in this span; exponential times have no memory, so the next span draws a new one
                turns = span == to_turn
                squared = fly(flight, span)
                left = 0.0 if span == left else left - span
                to_turn -= span
                if turns:
                    turn(rng, flight)
                    count[EVENTS] += 1
                    to_turn = plan(rng, flight)
        write_theta(state, state.theta)
        assign(state.proposed, state.theta)
        return MOVED

    return compiled(inline="always")(step)
