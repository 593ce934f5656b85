"""Newton's method with a line search, to the mode of a log posterior.

A step is theta <- theta + t H^-1 g, with g and -H the gradient and Hessian of the log posterior; t is halved until the
density rises enough (Armijo). The decrement (g' H^-1 g)^(1/2) is the length of the step in posterior standard
deviations, so as a measure of convergence it does not depend on the units of parameters.
"""

from collections.abc import Callable

import numpy as np

from approxmcmc.errors import InvalidInputError, NotFiniteError
from approxmcmc.expansion.posterior import Posterior
from approxmcmc.expansion.quadratic import Quadratic, is_positive_definite

# The search has not ended while a step is longer than this, relative to 1 + abs(theta): with separable classes under a
# flat prior there is no mode, and the decrement tends to 0 while each step changes theta by a constant.
RUNAWAY = 1e-3
# The search is at a kink of the density, such as that of a Laplace prior, if the decrement is below `NEAR` and so many
# steps in turn are shortened to the share `SHORT` and leave the decrement unchanged. Where a density is smooth on this
# scale, whole steps are taken.
STALLED = 3
SHORT = 2.0**-4
NEAR = 1.0  # posterior standard deviations
UNCHANGED = 0.99
Progress = Callable[[int, float], None]


def newton(
    posterior: Posterior,
    theta: np.ndarray,
    tolerance: float,
    max_passes: int,
    progress: Progress | None,
    *,
    farthest: float = np.inf,
) -> tuple[np.ndarray, Quadratic, float]:
    """Climb by Newton steps until the decrement is below `tolerance`; return theta, the expansion and the decrement.

    Raise `InvalidInputError` if there is no mode, if the search takes more than `max_passes`, or if the decrement at
    the start is above `farthest`.
    """
    quadratic = posterior.at(theta)
    decrement = np.inf
    stalled = 0
    while posterior.expansion.passes <= max_passes:
        bends_down = is_positive_definite(-quadratic.hessian)
        step = _step(-quadratic.hessian, quadratic.gradient, bends_down)
        before = decrement
        decrement = float(np.sqrt(quadratic.gradient @ step))
        if progress is not None:
            progress(posterior.expansion.passes, decrement)
        arrived = np.max(np.abs(step) / (1.0 + np.abs(theta))) < RUNAWAY
        if decrement < tolerance and arrived:
            if bends_down:
                return theta, quadratic, decrement
            break
        moved = (
            _line_search(posterior, theta, quadratic, step, decrement, max_passes) if decrement <= farthest else None
        )
        if moved is None:
            break
        farthest = np.inf
        is_short = np.max(np.abs(moved[0] - theta)) <= SHORT * np.max(np.abs(step))
        stalled = stalled + 1 if is_short and UNCHANGED * before <= decrement < NEAR else 0
        if stalled == STALLED:
            break
        theta, quadratic = moved
    shape = "bends down" if is_positive_definite(-quadratic.hessian) else "is flat or bends up"
    raise InvalidInputError(
        f"find_mode: no mode of {posterior.target!r} after {posterior.expansion.passes} passes over the data: "
        f"{decrement:.3g} posterior standard deviations are left, the largest parameter is {np.abs(theta).max():.3g}, "
        f"and the log posterior {shape} there. Under a flat prior there is no mode if a plane separates the classes or "
        "columns are collinear, nor in a hierarchy with a scale that can go to 0, nor where the density has a kink, as "
        "under a Laplace prior at 0. Give a proper prior, drop "
        "the columns, write the hierarchy with standardised effects, or begin nearer to the mode with start="
    )


def _step(precision: np.ndarray, gradient: np.ndarray, bends_down: bool) -> np.ndarray:
    """Return the Newton step H^-1 g if `bends_down`, that is if H is positive definite; else another step that ascends.

    H is `precision`, g is `gradient`; the step is computed in units in which the diagonal of H is 1.
    """
    diagonal = np.abs(np.diag(precision))
    scale = 1.0 / np.sqrt(np.where(diagonal > 0.0, diagonal, 1.0))
    scaled = precision * np.outer(scale, scale)
    if bends_down:
        return np.asarray(scale * np.linalg.solve(scaled, scale * gradient))
    values, vectors = np.linalg.eigh(scaled)
    return np.asarray(scale * (vectors @ ((vectors.T @ (scale * gradient)) / np.maximum(np.abs(values), 1e-4))))


def _line_search(
    posterior: Posterior, theta: np.ndarray, quadratic: Quadratic, step: np.ndarray, decrement: float, max_passes: int
) -> tuple[np.ndarray, Quadratic] | None:
    """Return theta + t step, and the expansion there, for the first t of 1, 1/2, 1/4, ... that raises the density.

    The log density must rise by at least 1e-4 of what the slope predicts. None if it does not within 40 halvings or
    `max_passes`. Most whole steps are taken, so they are expanded at once; a shorter one only if its value may do.
    """
    rounding = 1e-13 * abs(quadratic.value)
    for halving in range(40):
        t = 0.5**halving
        height = quadratic.value + 1e-4 * t * decrement**2 - rounding
        if halving == 0 or posterior.may_reach(theta + t * step, height):
            try:
                there = posterior.at(theta + t * step)
            except NotFiniteError:
                continue  # over the edge of the support
            if there.value >= height:
                return theta + t * step, there
        if posterior.expansion.passes > max_passes:
            break
    return None
