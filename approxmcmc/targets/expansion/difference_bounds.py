r"""Bounds of single differences: how much one term can change between two states, for exact subsampling.

    |l_i(theta, theta')| <= c_i M(theta, theta'),    M symmetric.

*What an expansion leaves.* With rho = |L^-1 (theta - c)|, h_i = |L' x_i|^2 and delta = x_i' (theta - c), Cauchy and
Schwarz give |delta| <= h_i^(1/2) rho. The residual of a Taylor polynomial of order 2 whose slope and half bend were
changed by a_i and b_i is at most

    |r_i| <= K_i |delta|^3 / 6 + |a_i delta| + |b_i delta^2| <= c_i (rho^3 + rho^2 + 3 rho),
    c_i = max(K_i h_i^(3/2) / 6, |b_i| h_i, |a_i| h_i^(1/2) / 3),

K_i >= |f'''| wherever predictor i lies within h_i^(1/2) rho of its place at c: for a fixed K_i that is all rho up to
`farthest`. The weights 3 and 1 are free; a_i is about f''' h_i / 2, so that 3 makes the first and the last alike.
Taylor's own polynomial has a = b = 0, and rho^3 is enough. M adds the polynomial in rho up over both states. Of order
1, |r_i| <= K_i h_i rho^2 / 2 with K_i >= |f''|.
"""

import itertools
import math
from typing import Any

import numpy as np

from approxmcmc.contracts import CompiledDifferenceBound
from approxmcmc.engine.term_range import reach_around
from approxmcmc.targets.linear import LinearTarget

SLOPE_WEIGHT = 3.0
# Of the pilot's largest radius: at 1.15 the sampler left for the exact sum in 1.5 % of the decisions, which made two
# thirds of all reads; at 1.6 in .1 %.
MARGIN = 1.6
# Residuals are differences of numbers of size 1 and more, and wrong by some 1e-15: no bound may be smaller than that.
ROUNDING = 1e-13


def farthest_place(center: np.ndarray, cholesky: np.ndarray, draws: np.ndarray) -> float:
    """Return the radius up to which bounds hold, from draws of a pilot; in its standard deviations."""
    whitened = np.linalg.solve(cholesky, (draws - center).T)
    return MARGIN * float(np.sqrt(np.square(whitened).sum(axis=0)).max())


def residual_rates(third: np.ndarray, leverages: np.ndarray, shifts: np.ndarray) -> np.ndarray:
    """Return the c_i of residuals of second order: K_i, h_i, shape (rows,), and (a_i, b_i), shape (rows, 2)."""
    spread, moved = np.sqrt(leverages), np.abs(shifts)
    of_slope, of_bend = moved[:, 0] * spread / SLOPE_WEIGHT, moved[:, 1] * leverages
    return np.maximum(np.maximum(third * spread**3 / 6.0, of_bend), of_slope) + ROUNDING


def second_order_bound(
    target: LinearTarget,
    places: tuple[np.ndarray, np.ndarray],
    leverages: np.ndarray,
    shifts: np.ndarray,
    center: np.ndarray,
    cholesky: np.ndarray,
    draws: np.ndarray,
) -> CompiledDifferenceBound:
    """Return the bound of residuals of second order; `places` are the predictors at the centre and the responses."""
    farthest = farthest_place(center, cholesky, draws)
    third = target.third_derivative_within(*places, np.sqrt(leverages) * farthest)
    weights = (SLOPE_WEIGHT, 1.0, 1.0) if shifts.any() else (0.0, 0.0, 1.0)
    reach = reach_around(weights, farthest, center, cholesky)
    return _with_reaches(reach, residual_rates(third, leverages, shifts), draws)


def first_order_bound(
    second: float, leverages: np.ndarray, center: np.ndarray, cholesky: np.ndarray, draws: np.ndarray
) -> CompiledDifferenceBound:
    """Return the bound of residuals of first order, `second` a bound of |f''|."""
    reach = reach_around((0.0, 1.0, 0.0), math.inf, center, cholesky)
    return _with_reaches(reach, 0.5 * second * leverages + ROUNDING, draws)


def _with_reaches(reach: tuple[Any, np.ndarray], rates: np.ndarray, draws: np.ndarray) -> CompiledDifferenceBound:
    kernel, numbers = reach
    pairs = itertools.pairwise(draws)
    reaches = np.array([kernel(np.array(one), np.array(other), numbers) for one, other in pairs])
    return CompiledDifferenceBound(kernel, numbers, rates, reaches)
