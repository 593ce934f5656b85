"""Where chains of NUTS start: in pairs that mirror each other about the model's initial point.

PyMC and nutpie start each chain at the initial point c plus U(-1, 1), on the unconstrained scale. With two modes that
mirror each other about c, as of a factor whose sign is free, all of n chains then start on the side of the same mode
with probability 2^(1 - n), so one run of four chains in eight shows R-hat one mode only. Here chain 0 starts at c + j
and chain 1 at c - j, chains 2 and 3 at another pair: each mode has a chain. The same holds for two labels that can be
exchanged, because -j has the reverse order of j.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

JITTER = 1.0  # largest distance from the initial point in each coordinate, as in PyMC


def mirrored_starts(
    model: Any, seeds: Sequence[int], first_seeds: Sequence[int] = (), restarted: Sequence[int] = ()
) -> list[dict[str, np.ndarray]]:
    """Return a start for each chain: unconstrained values, by the names of the model's value variables.

    Chains 2 m and 2 m + 1 start at c + j and at c - j, with j ~ U(-1, 1)^d; c and j depend on the seed of chain 2 m.
    Discrete variables start at the initial point. A chain among `restarted` starts at c + j of its own seed; the others
    start where they started with `first_seeds`.
    """
    seeds_of_pairs = first_seeds or seeds
    starts = []
    for k in range(len(seeds)):
        if k in restarted:
            starts.append(_start(model, seeds[k], side=1.0))
        else:
            first_of_pair = k - k % 2
            starts.append(_start(model, seeds_of_pairs[first_of_pair], side=1.0 if k == first_of_pair else -1.0))
    return starts


def _start(model: Any, seed: int, side: float) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    discrete = {variable.name for variable in model.discrete_value_vars}
    start = {}
    for name, centre in model.initial_point(random_seed=seed).items():
        jitter = 0.0 if name in discrete else side * rng.uniform(-JITTER, JITTER, size=np.shape(centre))
        start[name] = np.asarray(centre + jitter, dtype=np.asarray(centre).dtype)
    return start


def flat(model: Any, start: Mapping[str, np.ndarray]) -> np.ndarray:
    """Return unconstrained values as one vector, in the order in which nutpie takes them."""
    names = [model.rvs_to_values[variable].name for variable in model.free_RVs]
    return np.concatenate([np.ravel(start[name]) for name in names]).astype(np.float64)


def constrained(model: Any, starts: Sequence[Mapping[str, np.ndarray]]) -> list[dict[str, np.ndarray]]:
    """Return starts by the names of the free variables, on the scale of the model, as PyMC takes them."""
    names = [variable.name for variable in model.free_RVs]
    of_values = model.replace_rvs_by_values(model.free_RVs)
    transform = model.compile_fn(of_values, inputs=model.value_vars, mode="FAST_COMPILE", on_unused_input="ignore")
    return [dict(zip(names, transform(start), strict=True)) for start in starts]
