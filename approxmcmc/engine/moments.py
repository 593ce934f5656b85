"""Running moments of a sample that arrives in batches (Chan, Golub and LeVeque 1983).

A moments vector holds n, mean, M2 = sum (l - mean)^2 and the extremes. Sums of squares are never formed from raw
values:
differences of log-likelihoods may share a large mean, and mean-of-squares minus square-of-mean would cancel.
"""

import math

import numpy as np

from approxmcmc.engine.bind import compiled

N, MEAN, M2, SMALLEST, LARGEST = 0, 1, 2, 3, 4
SIZE = 5


@compiled
def reset(moments: np.ndarray) -> None:
    """Forget the sample."""
    moments[N] = 0.0
    moments[MEAN] = 0.0
    moments[M2] = 0.0
    moments[SMALLEST] = math.inf
    moments[LARGEST] = -math.inf


@compiled
def merge(moments: np.ndarray, values: np.ndarray, count: int) -> None:
    """Add ``values[:count]``, count >= 1: mean and M2 of the batch in two passes, then Chan's pairwise update."""
    total = 0.0
    for i in range(count):
        total += values[i]
    mean = total / count
    m2 = 0.0
    smallest, largest = moments[SMALLEST], moments[LARGEST]
    for i in range(count):
        value = values[i]
        m2 += (value - mean) * (value - mean)
        smallest = value if value < smallest else smallest
        largest = value if value > largest else largest
    before = moments[N]
    after = before + count
    shift = mean - moments[MEAN]
    moments[N] = after
    moments[MEAN] += shift * count / after
    moments[M2] += m2 + shift * shift * before * count / after
    moments[SMALLEST] = smallest
    moments[LARGEST] = largest


@compiled
def standard_deviation(moments: np.ndarray) -> float:
    """Return the standard deviation with divisor n - 1; 0 for a single value."""
    return math.sqrt(moments[M2] / (moments[N] - 1.0)) if moments[N] > 1.0 else 0.0


@compiled
def largest_deviation(moments: np.ndarray) -> float:
    """Return max |l - mean|."""
    return max(moments[LARGEST] - moments[MEAN], moments[MEAN] - moments[SMALLEST])
