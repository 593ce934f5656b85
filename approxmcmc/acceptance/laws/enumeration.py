"""All ways to draw the looks of a test, for data so few that they can be listed.

Looks at n_1 < ... < n_J = N of N data, drawn without replacement, fall out in N! / prod_j (n_j - n_{j-1})! ways, each
equally likely. A law that is known given the way it fell out is averaged over them.
"""

import itertools
import math
from collections.abc import Callable, Iterator

import numpy as np

Order = tuple[tuple[int, ...], ...]  # the data that are new at each look


def number_of_orders(looks: np.ndarray) -> float:
    """Return in how many ways the data fall into the looks: N! / prod (size of look)!."""
    sizes = np.diff(looks, prepend=0)
    log_count = math.lgamma(int(looks[-1]) + 1) - sum(math.lgamma(int(size) + 1) for size in sizes)
    return math.exp(log_count) if log_count < 700.0 else math.inf


def orders(looks: np.ndarray) -> Iterator[Order]:
    """Yield every way to draw the looks."""
    sizes = np.diff(looks, prepend=0).tolist()

    def draw(left: tuple[int, ...], sizes: list[int]) -> Iterator[Order]:
        if len(sizes) == 1:
            yield (left,)
            return
        for chosen in itertools.combinations(left, sizes[0]):
            rest = tuple(i for i in left if i not in chosen)
            for later in draw(rest, sizes[1:]):
                yield (chosen, *later)

    return draw(tuple(range(int(looks[-1]))), sizes)


def mean_over_orders(looks: np.ndarray, given: Callable[[Order], np.ndarray]) -> np.ndarray:
    """Return the mean of ``given(order)`` over every way to draw the looks."""
    total, count = np.zeros(()), 0
    for order in orders(looks):
        total, count = total + given(order), count + 1
    return np.asarray(total / count)
