"""The balance of a test at a pair of states, by its own decisions: a(x, x') / a(x', x) = exp(Lambda).

Decisions at a pinned pair are independent, so that far fewer of them see a share of the acceptances that is lost in one
direction than steps of a chain, and they see it whatever proposal leads there.
"""

import itertools
import math
from typing import Any, NamedTuple

import numpy as np

from approxmcmc.engine.streams import seed_sequences, streams
from approxmcmc.samplers.metropolis_hastings.law import PinnedDecisions
from approxmcmc.targets.all_rows import AllRows
from tests.pairings.law import SEEN, data_sets

LOST = 0.03  # of the acceptances in one direction: seen with power .999
FIRST = 20_000  # decisions that say how many are needed
REACH = np.array([[0.2], [0.9], [1.5]])  # posterior standard deviations from the mean to the states


class Balance(NamedTuple):
    """log a(x, x') - log a(x', x) - Lambda of a pair of states, and its standard error."""

    excess: float
    error: float


def balances(world: str, test: Any, seed: int) -> list[Balance]:
    """Return the balance of a test at all pairs of three states of a world."""
    target, posterior = data_sets(world, seed)[0]
    decisions, own = PinnedDecisions(target, test), streams(seed_sequences(seed, 1)[0][0])
    sd = np.linalg.inv(posterior.whiten)
    angles = 0.4 + 2.0 * math.pi / 3.0 * np.arange(3)
    states = posterior.mean + REACH * np.column_stack([np.cos(angles), np.sin(angles)]) @ sd.T
    log_density, found = AllRows(target).log_densities(states), []
    for one, other in itertools.combinations(range(3), 2):
        accepted, made, wanted = np.zeros(2), 0, FIRST
        while made < wanted:
            for way, (here, there) in enumerate(((one, other), (other, one))):
                accepted[way] += decisions(states[here], states[there], 0.0, wanted - made, own)[0]
            made = wanted
            error = math.sqrt(((1.0 + 1.0 / made - accepted / made) / accepted).sum())  # where all accept it is not 0
            wanted = max(made, math.ceil(1.1 * made * (error * SEEN / LOST) ** 2))
        excess = math.log(accepted[0] / accepted[1]) - float(log_density[other] - log_density[one])
        found.append(Balance(excess, error))
    return found
