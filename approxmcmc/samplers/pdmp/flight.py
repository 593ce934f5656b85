"""The flight of a particle: position and velocity, the force on it, and its turns without data."""

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from approxmcmc.engine.compiler.compile import compiled


class Flight(NamedTuple):
    """The position of a particle, and the force on it.

    `position` is phi, `velocity` v; `force` is g + H phi and `change` H v, by which it changes; shapes (dim,).
    `curvature` is H. `next_turn` holds the coordinate, or the kind, of the next turn that needs no data, and `gain` the
    factor of the rates of the rows. ``setting`` is the dynamics' own number.
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
    """The definition of a process: how its velocity is drawn, and how it turns.

    ``start(rng, velocity)`` draws a velocity from its distribution. ``plan(rng, flight) -> time`` draws the time to the
    next turn by the quadratic, or another turn without data, and stores which it is; ``turn(rng, flight)`` makes it.
    ``turn_by_row(rng, flight, record, slope, ceiling) -> bool`` makes the turn of a row with probability (its rate) /
    (its bound), where abs(slope) <= ceiling. `norm` is that of the a_i in the bound.
    """

    start: Callable[..., None]
    plan: Callable[..., float]
    turn: Callable[..., None]
    turn_by_row: Callable[..., bool]
    norm: int


@compiled
def arrival(rate: float, growth: float, exponential: float) -> float:
    """Return the t with integral_0^t max(0, rate + growth s) ds = exponential; inf if there is none."""
    waiting = 0.0
    if rate < 0.0:
        if not growth > 0.0:
            return math.inf
        waiting, rate = -rate / growth, 0.0
    squared = rate * rate + 2.0 * growth * exponential
    if squared < 0.0:
        return math.inf
    denominator = rate + math.sqrt(squared)
    return waiting + 2.0 * exponential / denominator if denominator > 0.0 else math.inf


@compiled
def fly(flight: Flight, time: float) -> float:
    """Move on by a time; return abs(phi)^2."""
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
        row, total = flight.curvature[j], origin[j]
        for k in range(origin.shape[0]):
            total += row[k] * flight.position[k]
        flight.force[j] = total
    set_change(flight)


@compiled
def set_change(flight: Flight) -> None:
    """Compute H v."""
    for j in range(flight.velocity.shape[0]):
        row, total = flight.curvature[j], 0.0
        for k in range(flight.velocity.shape[0]):
            total += row[k] * flight.velocity[k]
        flight.change[j] = total


def new_flight(position: np.ndarray, curvature: np.ndarray, setting: float) -> Flight:
    """Return a flight before its start."""
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
