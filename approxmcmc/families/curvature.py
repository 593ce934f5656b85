r"""The minorant of terms with a bounded second derivative: Taylor's polynomial with the largest curvature.

If abs(f'') <= M everywhere, then for every eta

.. math:: f(\eta) \ge f(\eta_0) + f'(\eta_0) (\eta - \eta_0) - M (\eta - \eta_0)^2 / 2,

with equality at eta_0. It is looser than a minorant that is made for a family, and needs nothing but M.

Reference: Boehning and Lindsay (1988), Monotonicity of quadratic-approximation algorithms.
"""

from collections.abc import Callable

import numpy as np

from approxmcmc.engine.compiler.compile import BATCH_FASTMATH, closure
from approxmcmc.families.family import Minorant

KINDS = "tuned", "untuned"  # touching at the predictors of a mode, and at 0


def make_gap(
    term: Callable[[float, float], float], derivatives: Callable[..., tuple[float, ...]]
) -> Callable[[float, float, float, float], float]:
    """Return the term of a response y minus its minorant that touches at eta_0 with the curvature M."""

    def gap(eta: float, y: float, eta_0: float, M: float) -> float:
        distance = eta - eta_0
        return term(eta, y) - term(eta_0, y) - distance * (derivatives(eta_0, y)[0] - 0.5 * M * distance)

    return gap


def make_slope(
    derivatives: Callable[..., tuple[float, ...]],
) -> Callable[[float, float, float, float], float]:
    """Return the derivative of the gap in eta."""

    def slope(eta: float, y: float, eta_0: float, M: float) -> float:
        return derivatives(eta, y)[0] - derivatives(eta_0, y)[0] + M * (eta - eta_0)

    return slope


def curvature_minorant(
    term: Callable[[float, float], float],
    derivatives: Callable[..., tuple[float, ...]],
    y: np.ndarray,
    eta_0: np.ndarray,
    largest: np.ndarray,
    at_touch: tuple[np.ndarray, np.ndarray],
) -> Minorant:
    """Return the minorants of n rows.

    Parameters
    ----------
    term, derivatives
        The term and its two derivatives as functions of (eta, y).
    y, eta_0, largest
        Responses, predictors where the minorants touch, and bounds M of the second derivatives; shape (n,).
    at_touch
        Terms and slopes at eta_0; shape (n,) each.
    """
    value, slope = at_touch
    quadratic = -0.5 * largest
    linear = slope + largest * eta_0
    constant = value - (slope + 0.5 * largest * eta_0) * eta_0
    gap = closure(make_gap, term, derivatives, fastmath=BATCH_FASTMATH)
    slope_of_gap = closure(make_slope, derivatives, fastmath=BATCH_FASTMATH)
    return Minorant(gap, slope_of_gap, (y, eta_0, largest), (quadratic, linear, constant))
