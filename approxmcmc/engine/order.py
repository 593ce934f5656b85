"""Which data a decision reads, and in which order.

A persistent permutation of 0..N-1 belongs to each chain. A decision that reads n data shuffles the first n places by
partial Fisher-Yates steps: whatever permutation the last decision left behind, the first n entries are a simple
random sample without replacement. Nothing of size N is touched in a step that reads fewer.
"""

import numpy as np

from approxmcmc.engine.bind import compiled


@compiled
def draw_next(rng: np.random.Generator, order: np.ndarray, start: int, stop: int) -> None:
    """Put a uniform sample of the places not yet drawn, ``order[start:]``, into ``order[start:stop]``."""
    n = order.shape[0]
    for place in range(start, stop):
        # floor(U (n - place)) instead of Generator.integers: 4 ns against 25 ns; its bias is below n 2^-53.
        other = place + int(rng.random() * (n - place))
        chosen = order[other]
        order[other] = order[place]
        order[place] = chosen
