"""Running moments of a sample that arrives in batches (Chan, Golub and LeVeque 1983; Pebay 2008 for M3 and M4).

A moments vector holds n, mean, M_k = sum (l - mean)^k for k = 2, 3, 4, and the extremes. Sums of powers are never
formed from raw values: differences of log-likelihoods may share a large mean, and mean-of-squares minus square-of-mean
would cancel.
"""

import math

import numpy as np

from approxmcmc.engine.compiler.compile import BATCH_FASTMATH, compiled

N = 0
MEAN = 1
M2 = 2
SMALLEST = 3
LARGEST = 4
M3 = 5
M4 = 6
SIZE = 7


@compiled
def reset(moments: np.ndarray) -> None:
    """Set the moments to those of an empty sample."""
    moments[N] = 0.0
    moments[MEAN] = 0.0
    moments[M2] = 0.0
    moments[SMALLEST] = math.inf
    moments[LARGEST] = -math.inf
    moments[M3] = 0.0
    moments[M4] = 0.0


@compiled(fastmath=set(BATCH_FASTMATH))
def total(values: np.ndarray, count: int) -> float:
    """Return the sum of ``values[:count]``, in parallel lanes: a strict sum waits 4 cycles for every addition."""
    all_values = 0.0
    for i in range(count):
        all_values += values[i]
    return all_values


@compiled(fastmath=set(BATCH_FASTMATH))
def _powers(values: np.ndarray, count: int, mean: float) -> tuple[float, float, float]:
    """Return the sums of (value - mean)^k over ``values[:count]``, k = 2, 3, 4."""
    m2 = m3 = m4 = 0.0
    for i in range(count):
        deviation = values[i] - mean
        square = deviation * deviation
        m2 += square
        m3 += square * deviation
        m4 += square * square
    return m2, m3, m4


@compiled
def merge(moments: np.ndarray, values: np.ndarray, count: int) -> None:
    """Update the moments by the sample ``values[:count]``, count >= 1."""
    # With n_a values so far, n_b new ones, n = n_a + n_b and d the new mean minus the old one (Pebay 2008):
    #   M2 = M2_a + M2_b + d^2 n_a n_b / n
    #   M3 = M3_a + M3_b + d^3 n_a n_b (n_a - n_b) / n^2 + 3 d (n_a M2_b - n_b M2_a) / n
    #   M4 = M4_a + M4_b + d^4 n_a n_b (n_a^2 - n_a n_b + n_b^2) / n^3
    #        + 6 d^2 (n_a^2 M2_b + n_b^2 M2_a) / n^2 + 4 d (n_a M3_b - n_b M3_a) / n
    mean = total(values, count) / count
    m2, m3, m4 = _powers(values, count, mean)
    smallest = moments[SMALLEST]
    largest = moments[LARGEST]
    for i in range(count):
        smallest = values[i] if values[i] < smallest else smallest
        largest = values[i] if values[i] > largest else largest
    before = moments[N]
    after = before + count
    shift = mean - moments[MEAN]
    a = before / after
    b = count / after
    shift_squared = shift * shift
    # The highest power first: it needs the lower ones of the values so far.
    moments[M4] += (
        m4
        + shift_squared * shift_squared * before * b * (a * a - a * b + b * b)
        + 6.0 * shift_squared * (a * a * m2 + b * b * moments[M2])
        + 4.0 * shift * (a * m3 - b * moments[M3])
    )
    moments[M3] += m3 + shift_squared * shift * before * b * (a - b) + 3.0 * shift * (a * m2 - b * moments[M2])
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
def standard_error(moments: np.ndarray, n: int, n_obs: int) -> float:
    """Return the standard error of the mean of n values with these moments, drawn without replacement from `n_obs`."""
    return standard_deviation(moments) / math.sqrt(n) * math.sqrt(1.0 - n / n_obs)


@compiled
def largest_deviation(moments: np.ndarray) -> float:
    """Return max |l - mean|."""
    return max(moments[LARGEST] - moments[MEAN], moments[MEAN] - moments[SMALLEST])


@compiled
def skewness(moments: np.ndarray) -> float:
    """Return sqrt(n) M3 / M2^1.5, the third standardised moment; 0 if all values are equal."""
    m2 = moments[M2]
    return math.sqrt(moments[N]) * (moments[M3] / m2) / math.sqrt(m2) if m2 > 0.0 else 0.0


@compiled
def kurtosis(moments: np.ndarray) -> float:
    """Return n M4 / M2^2, the fourth standardised moment (3 for normal values); 0 if all values are equal."""
    return moments[N] * (moments[M4] / moments[M2]) / moments[M2] if moments[M2] > 0.0 else 0.0
