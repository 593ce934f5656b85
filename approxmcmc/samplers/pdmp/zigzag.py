r"""The zig-zag process on few rows: every coordinate moves at speed 1, and reverses at random times.

References: Bierkens, Fearnhead and Roberts (2019), The zig-zag process and super-efficient sampling for Bayesian
analysis of big data, sections 2 and 4.
"""

import numpy as np

from approxmcmc.engine.compiler.compile import compiled
from approxmcmc.samplers.pdmp.rows import LENGTH, N_SCALARS
from approxmcmc.samplers.pdmp.step import Dynamics, Flight, arrival


@compiled
def start(rng: np.random.Generator, flight: Flight) -> None:
    """Draw the velocity of each coordinate, 1 or -1."""
    for j in range(flight.velocity.shape[0]):
        flight.velocity[j] = 1.0 if rng.random() < 0.5 else -1.0


@compiled
def plan(rng: np.random.Generator, flight: Flight) -> float:
    """Return the time until Q reverses some coordinate; it reverses j at the rate max(0, v_j dQ/dphi_j).

    The index of the coordinate that is reversed first is stored in ``flight.next_turn``.
    """
    soonest = np.inf
    for j in range(flight.velocity.shape[0]):
        v = flight.velocity[j]
        time = arrival(v * flight.force[j], v * flight.change[j], rng.standard_exponential())
        if time < soonest:
            soonest = time
            flight.next_turn[0] = j
    return soonest


@compiled
def turn_round(flight: Flight, j: int) -> None:
    """Reverse the velocity of coordinate j, and update H v."""
    flight.velocity[j] = -flight.velocity[j]
    row = flight.curvature[j]  # H is symmetric: its column j
    twice = 2.0 * flight.velocity[j]  # the change of v_j
    for k in range(row.shape[0]):
        flight.change[k] += twice * row[k]


@compiled
def turn(rng: np.random.Generator, flight: Flight) -> None:
    """Reverse the velocity of the coordinate that `plan` stored."""
    turn_round(flight, flight.next_turn[0])


@compiled
def turn_by_row(
    rng: np.random.Generator, flight: Flight, record: np.ndarray, direction: np.ndarray, slope: float, ceiling: float
) -> bool:
    """Draw a coordinate j in proportion to its share, and reverse it or not; return whether it was reversed.

    The row's `record` holds the shares, with one predictor but for their signs. The derivative of the row's remainder
    in coordinate j is `slope` times direction_j. Coordinate j is reversed with probability
    max(0, -v_j slope direction_j) / (`ceiling` share_j).
    """
    last = flight.velocity.shape[0] - 1
    left = rng.random() * record[LENGTH]
    j = 0
    while j < last and left >= abs(record[N_SCALARS + j]):
        left -= abs(record[N_SCALARS + j])
        j += 1
    share = abs(record[N_SCALARS + j])
    push = -slope * flight.velocity[j] * (direction[j] / share if share > 0.0 else 0.0)
    if rng.random() * ceiling < push:
        turn_round(flight, j)
        return True
    return False


ZIGZAG = Dynamics(start, plan, turn, turn_by_row, norm=1)
