"""A pilot chain simulated on the grid of the canonical known-answer case."""

import numpy as np

from studies.tools.canonical import GRID, law, log_ratios, proposals


def pilot_steps(steps: int, rng: np.random.Generator):
    """Return log ratio and scale, states and proposals of an exact chain that starts in the posterior.

    A proposal outside the grid has log ratio -inf and is put at the chain's state.
    """
    asked, place = np.cumsum(proposals(), axis=1), int(rng.choice(201, p=law()))
    log_ratio, tau = np.full(steps, -np.inf), np.zeros(steps)
    at, to = np.empty(steps, dtype=np.int64), np.empty(steps, dtype=np.int64)
    for step in range(steps):
        other = int(np.searchsorted(asked[place], rng.random()))
        at[step], to[step] = place, other if other < 201 else place
        if other < 201:
            log_ratio[step], tau[step] = log_ratios()[place, other], abs(GRID[other] - GRID[place])
            if np.log(rng.random()) < log_ratio[step]:
                place = other
    return log_ratio, tau, GRID[at], GRID[to]
