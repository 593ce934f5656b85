"""Compute the sizes of a sequential test's looks, and the critical value that stops the test at each look.

Both tables are computed once per test, before the chain starts, so the compiled kernels evaluate no Student
distribution.
Reference: Korattikara, Chen and Welling, *Austerity in MCMC Land* (2014), algorithm 1.
"""

import math

import numpy as np
from scipy.special import ndtri, stdtrit

from approxmcmc.engine.checks import checked_integer
from approxmcmc.errors import InvalidInputError

THRESHOLDS = ("student", "normal")


def look_sizes(n_obs: int, batch_size: int, growth: float = 1.0) -> np.ndarray:
    """Return how many terms have been read at each look: n_1 < n_2 < ... < n_J = N.

    Look j adds ``round(batch_size * growth**(j - 1))`` terms; the last look adds what is left.

    Parameters
    ----------
    n_obs
        Number of terms N in the whole sum; at least 1.
    batch_size
        Terms that the first look reads; at least 2, because one term has no standard deviation. With a batch of `n_obs`
        terms or more there is a single look, at all terms.
    growth
        Factor from one look to the next; at least 1. At 1 all looks but the last are of one size.

    Returns
    -------
    np.ndarray
        Cumulative numbers of terms; int64, shape (J,), strictly increasing, last entry `n_obs`.

    Raises
    ------
    InvalidInputError
        When an argument is outside its range.

    Examples
    --------
    >>> look_sizes(2000, 500).tolist()
    [500, 1000, 1500, 2000]
    >>> look_sizes(2000, 500, growth=2.0).tolist()
    [500, 1500, 2000]
    """
    checked_integer(n_obs, "n_obs")
    checked_integer(batch_size, "batch_size", 2)
    if not (math.isfinite(growth) and growth >= 1.0):
        raise InvalidInputError(f"growth must be finite and at least 1, found {growth!r}; use 1.0 for equal looks.")
    if growth == 1.0:
        early = np.arange(batch_size, n_obs, batch_size, dtype=np.int64)
        return np.append(early, np.int64(n_obs))
    sizes: list[int] = []
    total = batch_size
    while total < n_obs:
        sizes.append(total)
        total += round(batch_size * growth ** len(sizes))
    return np.array([*sizes, n_obs], dtype=np.int64)


def critical_values(looks: np.ndarray, epsilon: float, thresholds: str = "student", shape: float = 0.5) -> np.ndarray:
    """Return G_j, the value that |t| must exceed at each look before the last for the test to stop there.

    G_j = F^{-1}_{n_j - 1}(1 - epsilon), n_j the terms read, F_v the Student distribution of v degrees of freedom. One
    tail has probability `epsilon`, so each look is a two-sided test of level 2 epsilon. This is Pocock's (1977)
    boundary. The family of Wang and Tsiatis (1987) multiplies it by (n_j / N)^(shape - 1/2).

    Parameters
    ----------
    looks
        Cumulative numbers of terms from `look_sizes`; shape (J,).
    epsilon
        Probability of a wrong decision at one look at a tie (the mean of all terms is the threshold); from 0 (never
        stop early, exact) to 0.5 (always stop at the first look).
    thresholds
        "student", or "normal" for quantiles of the normal distribution at every look.
    shape
        0 (the boundary of O'Brien and Fleming 1979, strictest early) to 1/2 (Pocock's).

    Returns
    -------
    np.ndarray
        Critical values; float64, shape (J - 1,); infinite for ``epsilon=0``, zero for ``epsilon=0.5``.

    Raises
    ------
    InvalidInputError
        When `epsilon`, `thresholds` or `shape` is outside its range.

    Examples
    --------
    >>> critical_values(look_sizes(2000, 500), 0.05).round(4).tolist()
    [1.6479, 1.6464, 1.6459]
    >>> critical_values(look_sizes(2000, 500), 0.05, shape=0.0).round(4).tolist()
    [3.2958, 2.3283, 1.9005]
    """
    if not 0.0 <= epsilon <= 0.5:
        raise InvalidInputError(f"epsilon must lie between 0 (exact) and 0.5 (one look), found {epsilon!r}.")
    if thresholds not in THRESHOLDS:
        raise InvalidInputError(f"thresholds must be one of {THRESHOLDS}, found {thresholds!r}.")
    if not 0.0 <= shape <= 0.5:
        raise InvalidInputError(
            f"boundary_shape must lie between 0 (strict early looks) and 0.5 (all looks alike), found {shape!r}."
        )
    degrees = np.asarray(looks[:-1], dtype=np.float64) - 1.0
    # Epsilon 0 and 0.5 are handled explicitly, because the quantile functions return NaN or rounding noise there.
    if epsilon == 0.0:
        return np.full_like(degrees, np.inf)
    if epsilon == 0.5:
        return np.zeros_like(degrees)
    # The lower tail keeps the digits that 1 - epsilon would lose. With one degree of freedom a quantile beyond the
    # largest double is returned as +inf, so the absolute value is needed.
    critical = np.full_like(degrees, -ndtri(epsilon))
    if thresholds == "student":
        critical = np.abs(stdtrit(degrees, epsilon))
    return critical if shape == 0.5 else critical * (looks[:-1] / looks[-1]) ** (shape - 0.5)
