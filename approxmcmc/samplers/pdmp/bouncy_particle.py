r"""The bouncy particle sampler on few rows: a particle that bounces off the quadratic, and off single rows.

Reference: Bouchard-Cote, Vollmer and Doucet (2018), The bouncy particle sampler: a nonreversible rejection-free Markov
chain Monte Carlo method, section 3 (the local form, whose factors here are Q and the rows).
"""

import math

import numpy as np

from approxmcmc.engine.compiler.compile import compiled
from approxmcmc.samplers.pdmp.rows import LENGTH
from approxmcmc.samplers.pdmp.step import Dynamics, Flight, arrival, set_change

BOUNCE = 0
REFRESH = 1


@compiled
def start(rng: np.random.Generator, flight: Flight) -> None:
    """Draw the velocity from N(0, I); ``flight.gain``, the factor of the rows' bounds, becomes its length."""
    squared = 0.0
    for j in range(flight.velocity.shape[0]):
        flight.velocity[j] = rng.standard_normal()
        squared += flight.velocity[j] * flight.velocity[j]
    flight.gain[0] = math.sqrt(squared)


@compiled
def plan(rng: np.random.Generator, flight: Flight) -> float:
    """Return the time to a bounce off Q, at the rate max(0, v'grad Q), or to a redraw of the velocity if that is first.

    The kind of the event is stored in ``flight.next_turn``.
    """
    rate = growth = 0.0
    for j in range(flight.velocity.shape[0]):
        rate += flight.velocity[j] * flight.force[j]
        growth += flight.velocity[j] * flight.change[j]
    bounce = arrival(rate, growth, rng.standard_exponential())
    refresh = rng.standard_exponential() / flight.setting
    flight.next_turn[0] = BOUNCE if bounce < refresh else REFRESH
    return min(bounce, refresh)


@compiled
def turn(rng: np.random.Generator, flight: Flight) -> None:
    """Bounce off Q, or draw a new velocity."""
    if flight.next_turn[0] == REFRESH:
        start(rng, flight)
    else:
        reflect(flight, flight.force)
    set_change(flight)


@compiled
def reflect(flight: Flight, normal: np.ndarray) -> None:
    """Reflect the velocity at the plane with this normal; its length, which `gain` holds, remains the same."""
    along = squared = 0.0
    for j in range(normal.shape[0]):
        along += flight.velocity[j] * normal[j]
        squared += normal[j] * normal[j]
    for j in range(normal.shape[0]):
        flight.velocity[j] -= 2.0 * along / squared * normal[j]


@compiled
def turn_by_row(
    rng: np.random.Generator, flight: Flight, record: np.ndarray, direction: np.ndarray, slope: float, ceiling: float
) -> bool:
    """Bounce off a row, with probability max(0, -slope v'direction) / (`ceiling` LENGTH |v|); return whether it did.

    The arguments are those of `turn_by_row` in `zigzag`.
    """
    along = 0.0
    for j in range(direction.shape[0]):
        along += flight.velocity[j] * direction[j]
    if rng.random() * ceiling * record[LENGTH] * flight.gain[0] < -slope * along:
        reflect(flight, direction)
        set_change(flight)
        return True
    return False


BOUNCY = Dynamics(start, plan, turn, turn_by_row, norm=2)
